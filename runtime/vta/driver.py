"""The driver: what a host does with an accelerator."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Self, SupportsBytes

import numpy.typing as npt

from vtakit.base.process import TIMEOUT_S
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.runtime.vta.buffer import DeviceBuffer
from vtakit.runtime.vta.connection import Connection
from vtakit.runtime.vta.device import Device
from vtakit.runtime.vta.loaded import LaunchResult, LoadedProgram
from vtakit.runtime.vta.registry import open_device
from vtakit.sim.api import ConfigLike, as_bytes, named

Contents = SupportsBytes | bytes | npt.NDArray[Any]


class Driver:
    """An accelerator to work with, from one thread at a time; `connect` opens one.

    Memory keeps its contents from launch to launch, and through a reset. What cannot be done is a `DeviceError` or
    `ProgramError` of one sentence, and the device can be used on.
    """

    def __init__(self, device: Device) -> None:
        self._connection = Connection(device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def device(self) -> Device:
        """Return the device that is driven."""
        return self._connection.device

    @property
    def config(self) -> VTAConfig:
        """The device's configuration."""
        return self.device.config

    @property
    def free_bytes(self) -> int:
        """Memory that is not given out."""
        return self._connection.allocator.free_bytes

    def allocate(self, size_bytes: int, align: int | None = None) -> DeviceBuffer:
        """A buffer whose contents are what was there before.

        align   what its address is a multiple of, a power of two; None for what programs need

        Raises `DeviceMemoryError` if no piece of memory is large enough.
        """
        return DeviceBuffer(self._connection, size_bytes, self._connection.alignment if align is None else align)

    def upload(self, data: Contents) -> DeviceBuffer:
        """A buffer with these bytes, or an array's in C order."""
        given = as_bytes("what is uploaded", data)
        buffer = self.allocate(len(given))
        buffer.write(given)
        return buffer

    def load(self, program: Program) -> LoadedProgram:
        """Place a program in memory, to be launched as often as one likes.

        Raises `ProgramError` if the device cannot run it, `DeviceMemoryError` if it does not fit.
        """
        return LoadedProgram(self._connection, program)

    def run(self, program: Program, inputs: Mapping[str, Contents] | None = None, timeout_s: float = TIMEOUT_S) -> LaunchResult:
        """Load a program, fill its buffers by name, launch it, wait, read all its buffers, and free everything.

        inputs   bytes or arrays; buffers without keep the program's contents, or are zero

        Raises what `load`, `LoadedProgram.launch` and `Launch.wait` raise; `ProgramError` if an input is missing or too long. A
        program that has not ended in time is stopped.
        """
        with ExitStack() as stack:
            loaded = stack.enter_context(self.load(program))
            given = {program.buffer(name).name: as_bytes(f"the contents of buffer {name!r}", data)
                     for name, data in named("inputs", inputs).items()}
            buffers = dict(loaded.buffers)
            for wanted in program.buffers:
                data = given.get(wanted.name)
                if data is None and wanted.kind is BufferKind.INPUT and wanted.data is None:
                    raise ProgramError(f"input buffer {wanted.name!r} ({wanted.size_bytes} bytes) is not given")
                if data is not None and len(data) > wanted.size_bytes:
                    raise ProgramError(f"buffer {wanted.name!r} holds {wanted.size_bytes} bytes, got {len(data)}")
                if wanted.name not in buffers:
                    buffers[wanted.name] = stack.enter_context(self.allocate(wanted.size_bytes))
                if data is not None or wanted.data is None:
                    buffers[wanted.name].write((data or b"").ljust(wanted.size_bytes, b"\0"))
            result = loaded.launch(buffers).wait(timeout_s)
            contents = {wanted.name: buffers[wanted.name].read(wanted.size_bytes) for wanted in program.buffers}
        return replace(result, buffers=contents)

    def reset(self) -> None:
        """Stop what runs; buffers, loaded programs and their contents stay.

        Raises `DeviceError` if the device does not answer; it is then lost.
        """
        self._connection.reset()

    def close(self) -> None:
        """Let go of the device and all that lies in its memory."""
        self._connection.close()


def connect(device: str = "fsim", config: ConfigLike = "default", **options: Any) -> Driver:
    """Open a device.

    device    "fsim"; "rtl", the hardware in Verilator; "cycle", which has the cycles of "rtl" and the results of "fsim";
              "sim:ulx3s", a whole board in Verilator; "board:/dev/ttyUSB0", a board at a serial port; "uio:/dev/uio0" or
              "pynq:vta.bit", the FPGA of a Zynq on which this runs
    config    a VTAConfig, a name, a mapping of LOG_… keys or the path of a JSON file of them
    options   of the device: see `open_device` of `vtakit.runtime.vta.fsim`, `….cycle` and `….rtl`, and
              `vtakit.sim.rtl.surroundings`

    Raises `VtakitError` for an unknown device, configuration or option, and what keeps the device from being opened.
    """
    return Driver(open_device(device, config, **options))
