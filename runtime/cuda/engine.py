"""A compiled model on a GPU: parameters and arena in its memory, and one CUDA graph for all launches."""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from vtakit.compiler.codegen.nvptx.network import Copy, PlacedLaunch, Scalar
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.cpu.packed import numpy_dtype
from vtakit.runtime.cuda.arrays import DeviceArray, Memory
from vtakit.runtime.cuda.device import Device, Graph
from vtakit.runtime.cuda.devices import find
from vtakit.runtime.cuda.function import c_type
from vtakit.runtime.cuda.part import CudaPart
from vtakit.runtime.target import Engine, Image, Opening, Values
from vtakit.runtime.timed import Timed


class Resident:
    """A part on a device: its code, its parameters, its arena, and arrays for its inputs and outputs.

    inputs, outputs : in the device's memory, in the order of the part's values
    graph           : all its launches
    """

    def __init__(self, part: CudaPart, image: Image, device: Device) -> None:
        self.part, self.device = part, device
        names = dict.fromkeys(each.kernel for step in part.steps for each in step if isinstance(each, PlacedLaunch))
        self._handles = device.load(part.kernels, [*names])
        self._params = Memory(device, part.params.nbytes, f"parameters of {part.name}")
        device.write(self._params.address, part.params)
        self._arena = Memory(device, part.device_bytes, f"memory between the layers of {part.name}")
        ports = [image.values[at] for at in (*part.reads, *part.writes)]
        arrays = [DeviceArray(port.shape, numpy_dtype(port.dtype), device) for port in ports]
        self.inputs, self.outputs = arrays[:len(part.reads)], arrays[len(part.reads):]
        self._launches = [[self._bound(each) for each in step] for step in part.steps]
        self.graph: Graph = device.captured(self._all)

    def layer(self, number: int, stream: int = 0) -> None:
        """Begin one layer."""
        for begin in self._launches[number]:
            begin(stream=stream)

    def _all(self, stream: int) -> None:
        for number in range(len(self._launches)):
            self.layer(number, stream)

    def _bound(self, each: PlacedLaunch | Copy) -> Any:
        if isinstance(each, Copy):
            return partial(self.device.copy, self._address(each.to), self._address(each.source), each.size)
        args = [c_type(dtype(arg.kind))(arg.value) if isinstance(arg, Scalar) else ctypes.c_void_p(self._address(arg))
                for arg in each.args]
        return partial(self.device.launch, self._handles[each.kernel], each.grid, each.block,
                       self.part.kernels.dynamic.get(each.kernel, 0), args)

    def _address(self, place: Place) -> int:
        match place.region:
            case Region.INPUT:
                return self.inputs[place.at].address
            case Region.OUTPUT:
                return self.outputs[place.at].address
            case Region.PARAMS:
                return self._params.address + place.at
            case Region.ARENA:
                return self._arena.address + place.at


class CudaEngine(Engine):
    """The parts of a model that are kernels of a GPU; the first run opens the device."""

    exclusive = True

    def __init__(self, image: Image, opening: Opening, default: str) -> None:
        self.image = image
        self.timeout_s = opening.timeout_s
        self._device = default if opening.device is None else opening.device
        self._resident: dict[CudaPart, Resident] = {}

    def resident(self, part: CudaPart) -> Resident:
        """Return a part on the device. Raises CudaError if there is none, or it cannot run the code."""
        found = self._resident.get(part)
        if found is None:
            found = self._resident[part] = Resident(part, self.image, find(self._device))
        return found

    def run(self, part: CudaPart, values: Values) -> None:
        """Copy inputs to the device, launch, and copy outputs back."""
        on = self.resident(part)
        self._fill(on, part, values)
        on.graph.launch()
        on.device.finish(0, self.timeout_s)
        for at, array in zip(part.writes, on.outputs, strict=True):
            on.device.read(array.address, _bytes(values[at][0]))

    def profile(self, part: CudaPart, values: Values, repeat: int) -> tuple[Sequence[Timed], None]:
        """Run each layer by itself, by the device's clock; of `repeat` runs the quickest counts."""
        on = self.resident(part)
        self._fill(on, part, values)
        seconds = [float("inf")] * len(part.layers)
        for _ in range(repeat + 1):
            for number in range(len(seconds)):
                seconds[number] = min(seconds[number], on.device.timed(partial(on.layer, number)))
        return [Timed(*each) for each in zip(part.layers, seconds, strict=True)], None

    def _fill(self, on: Resident, part: CudaPart, values: Values) -> None:
        for at, array in zip(part.reads, on.inputs, strict=True):
            on.device.write(array.address, _bytes(values[at][0]))

    def close(self) -> None:
        """Give the device's memory back; a later run takes it again."""
        self._resident.clear()


def _bytes(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)
