"""A compiled model on an OpenCL device: parameters and arena are one buffer each in its memory."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from vtakit.compiler.codegen.gpu.placed import Copy, PlacedLaunch, Scalar
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.opencl.devices import Device, OpenClError, failing, find, pyopencl
from vtakit.runtime.opencl.part import OpenClPart
from vtakit.runtime.opencl.program import Kernels, scalar
from vtakit.runtime.target import Engine, Image, Opening, Values
from vtakit.runtime.timed import Timed

ALIGN = 512  # bytes, of a place in the arena or the parameters: the most that a device asks for (NVIDIA's)


class Resident:
    """A part on a device: its kernels, its parameters, its arena, and memory for its inputs and outputs."""

    def __init__(self, part: OpenClPart, image: Image, device: Device) -> None:
        self.part, self.device = part, device
        if ALIGN * 8 % device.handle.mem_base_addr_align:
            raise OpenClError(f"{device.title} wants memory at multiples of {device.handle.mem_base_addr_align // 8} bytes, and "
                              f"models are laid out for {ALIGN}")
        self.kernels = Kernels(part.source, part.facts, device)
        self._number = {name: at for at, name in enumerate(part.source.kernels)}
        cl = pyopencl()
        sizes = [image.values[at].bytes for at in (*part.reads, *part.writes)]

        def memory(size: int, what: str) -> Any:
            with failing(f"{what} of {part.name}, {size} bytes on {device.title}"):
                return cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(1, size))
        self._params = memory(part.params.nbytes, "parameters")
        self._arena = memory(part.device_bytes, "the arena")
        self._ports = [memory(size, "an input or output") for size in sizes]
        if part.params.nbytes:
            with failing(f"parameters of {part.name}"):
                cl.enqueue_copy(device.queue, self._params, part.params)
        self._regions: dict[tuple[Place, int], Any] = {}
        self._steps = [[self._bound(each) for each in step] for step in part.steps]

    def layer(self, number: int) -> list[Any]:
        """Begin one layer; return the events of its launches and copies."""
        return [event for begin in self._steps[number] if (event := begin()) is not None]

    def write(self, number: int, array: Any) -> None:
        """Begin the copy of an input."""
        if array.nbytes:
            pyopencl().enqueue_copy(self.device.queue, self._ports[number], _bytes(array), is_blocking=False)

    def read(self, number: int, array: Any) -> None:
        """Begin the copy of an output."""
        if array.nbytes:
            source = self._ports[len(self.part.reads) + number]
            pyopencl().enqueue_copy(self.device.queue, _bytes(array), source, is_blocking=False)

    def _bound(self, each: PlacedLaunch | Copy) -> Any:
        cl = pyopencl()
        if isinstance(each, Copy):
            if not each.size:
                return lambda: None
            source, to = self._region(each.source, each.size), self._region(each.to, each.size)
            return partial(cl.enqueue_copy, self.device.queue, to, source, byte_count=each.size)
        at = self._number[each.kernel]
        spans = iter(self.part.facts[at].spans)
        args = [scalar(arg.value, dtype(arg.kind)) if isinstance(arg, Scalar) else self._region(arg, next(spans))
                for arg in each.args]
        return partial(self.kernels.launch, at, each.grid, args)

    def _region(self, place: Place, size: int) -> Any:
        """Return the memory of a place, as a buffer of its own."""
        match place.region:
            case Region.INPUT:
                return self._ports[place.at]
            case Region.OUTPUT:
                return self._ports[len(self.part.reads) + place.at]
        found = self._regions.get((place, size))
        if found is None:
            whole = self._params if place.region is Region.PARAMS else self._arena
            with failing(f"{size} bytes at {place.at} of {self.part.name}"):
                found = self._regions[place, size] = whole.get_sub_region(place.at, size)
        return found


class OpenClEngine(Engine):
    """The parts of a model that are kernels in OpenCL C; the first run opens the device and compiles them."""

    exclusive = True

    def __init__(self, image: Image, opening: Opening, default: str) -> None:
        self.image = image
        self._given = default if opening.device is None else opening.device
        self._resident: dict[OpenClPart, Resident] = {}

    def resident(self, part: OpenClPart) -> Resident:
        """Return a part on the device. Raises OpenClError if there is none, or it cannot compile the kernels."""
        found = self._resident.get(part)
        if found is None:
            device = self._given if isinstance(self._given, Device) else find(self._given)
            found = self._resident[part] = Resident(part, self.image, device)
        return found

    def run(self, part: OpenClPart, values: Values) -> None:
        """Copy inputs to the device, launch, and copy outputs back."""
        on = self.resident(part)
        with on.device.lock, failing(f"{part.name} on {on.device.title}"):
            self._fill(on, part, values)
            for number in range(len(part.layers)):
                on.layer(number)
            for number, at in enumerate(part.writes):
                on.read(number, values[at][0])
            on.device.queue.finish()

    def profile(self, part: OpenClPart, values: Values, repeat: int) -> tuple[Sequence[Timed], None]:
        """Run each layer by itself, by the device's clock; of `repeat` runs the quickest counts."""
        on = self.resident(part)
        seconds = [float("inf")] * len(part.layers)
        with on.device.lock, failing(f"{part.name} on {on.device.title}"):
            self._fill(on, part, values)
            for _ in range(repeat + 1):
                runs = [on.layer(number) for number in range(len(seconds))]
                on.device.queue.finish()
                for number, events in enumerate(runs):
                    spent = sum(event.profile.end - event.profile.start for event in events) * 1e-9
                    seconds[number] = min(seconds[number], spent)
        return [Timed(*each) for each in zip(part.layers, seconds, strict=True)], None

    def _fill(self, on: Resident, part: OpenClPart, values: Values) -> None:
        for number, at in enumerate(part.reads):
            on.write(number, values[at][0])

    def close(self) -> None:
        """Give the device's memory back; a later run takes it again."""
        self._resident.clear()


def _bytes(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)
