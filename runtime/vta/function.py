"""Functions of NumPy arrays that run a program on the accelerator."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vtakit.base.process import TIMEOUT_S
from vtakit.base.text import counted
from vtakit.compiler.codegen.vta.compile import Progress, compile_for
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.hw.isa.program import Buffer as ProgramBuffer
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.hw.values import pack, unpack
from vtakit.runtime.report.report import Report
from vtakit.runtime.report.sections import layers_of
from vtakit.runtime.vta.connection import check_timeout
from vtakit.runtime.vta.driver import Driver, connect
from vtakit.runtime.vta.loaded import LaunchResult
from vtakit.runtime.vta.proven import prove
from vtakit.runtime.vta.registry import options_of
from vtakit.runtime.vta.session import Session, needed_bytes
from vtakit.sim.api import check_options


class Accelerated:
    """A program with a parameter for each of its tensors. Calling it runs it on arrays, in place.

    The device is opened by the first call and kept, the program loaded, until `close`, the end of a `with` block, or nothing
    refers to it.

    program   : the instructions, to be saved or read
    device    : the name of the device
    timeout_s : seconds that a run may take
    result    : of the last run: its counters, and the trace if the device was asked for one; None before
    """

    def __init__(
        self, function: Function, target: Target, device: str | Driver = "fsim", timeout_s: float = TIMEOUT_S,
        check: bool | None = None, progress: Progress | None = None, **options: Any,
    ) -> None:
        if isinstance(device, Driver):
            if options:
                raise VtaError(f"{min(options)} is an option of a device to be opened, and a driver was given: open it with that")
            self.device = device.device.name
        else:
            check_options(device, options_of(device), options)
            self.device = device
        check_timeout(timeout_s)
        if not (check is None or isinstance(check, bool)):
            raise VtaError(f"check is {check!r:.40} and must be True or False, or None to look at short programs only")
        if not (progress is None or callable(progress)):
            raise VtaError(f"progress is {progress!r:.40} and must be a function of how much is done, and of how much")
        self.program: Program = compile_for(function, target, progress)
        prove(self.program, function.name, check)
        self.name, self.timeout_s = function.name, timeout_s
        self.result: LaunchResult | None = None
        self._given = device if isinstance(device, Driver) else None
        self._options = options
        if self._given is None:
            known = options_of(self.device)
            self._options = {name: value for name, value in target.simulated.items() if name in known} | options
        self._params: Sequence[Buffer] = [param for param in function.params if isinstance(param, Buffer)]
        self._session: Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(int_value(extent) or 0 for extent in param.shape) for param in self._params]

    @property
    def _buffers(self) -> list[ProgramBuffer]:
        """The program's buffer of each parameter."""
        return [buffer for buffer in self.program.buffers if buffer.kind in (BufferKind.INPUT, BufferKind.OUTPUT)]

    @property
    def counters(self) -> dict[str, int]:
        """Return the counters of the last run: bytes by memory, steps, instructions; cycles by cause if the device has them."""
        return {} if self.result is None else self.result.counters

    def __call__(self, *arrays: npt.NDArray[Any]) -> None:
        """Run on one array for each parameter, in their order; integers of less than 8 bits are int8 arrays.

        Raises VtaError if an array does not fit its parameter, DeviceTimeout if the device has not finished in time, and
        whatever else the device raises.
        """
        inputs = self._inputs(arrays)
        if self._session is None:
            self._session = Session(self.program, self._driver())
        try:
            self.result = self._session.run(inputs, self.timeout_s)
        except BaseException:
            self.close()  # the next call begins with a device that is in order
            raise
        self._leave(self._session, arrays)

    def profile(self, *arrays: npt.NDArray[Any], macs: Mapping[str, int] | None = None) -> Report:
        """Run as a call does, and say for each layer of the program where cycles, multiplications and bytes went.

        macs : multiplications that a layer is for, by its name; without, all that its steps do, those with padding too

        Devices "cycle" and "rtl" are opened anew, with a trace, so that each layer has its own cycles. A driver that was given is
        used as it is: without a trace the whole program is one layer. "fsim" has no cycles.

        Raises what a call raises, and VtakitError if `macs` names no layer.
        """
        inputs = self._inputs(arrays)
        with ExitStack() as stack:
            driver = self._driver(trace=True)
            if self._given is None:
                stack.enter_context(driver)
            session = Session(self.program, driver)
            stack.callback(session.close)
            result = self.result = session.run(inputs, self.timeout_s)
            self._leave(session, arrays)
        layers = layers_of(self.name, self.program, result.counters, result.trace, bus_bytes=result.bus_bytes, macs=macs)
        return Report(self.device, tuple(layers), result.trace)

    def close(self) -> None:
        """Let go of the device; a later call opens it again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            if self._given is None:
                session.driver.close()

    def __repr__(self) -> str:
        return f"<program {self.name}, {counted(len(self.program.insns), 'instruction')}, on {self.device}>"

    def _driver(self, **more: Any) -> Driver:
        if self._given is not None:
            return self._given
        known = options_of(self.device)
        options = {name: value for name, value in more.items() if name in known} | self._options
        if "memory_bytes" in known:
            options = {"memory_bytes": needed_bytes([self.program])} | options
        return connect(self.device, self.program.config, **options)

    def _inputs(self, arrays: tuple[npt.NDArray[Any], ...]) -> dict[str, bytes]:
        """The bytes of each input; all arrays fit their parameters."""
        if len(arrays) != len(self._params):
            names = ", ".join(param.name for param in self._params)
            raise VtaError(f"{self.name} takes {counted(len(self._params), 'array')} ({names}), got {len(arrays)}")
        given: dict[str, bytes] = {}
        for param, shape, buffer, array in zip(self._params, self._shapes, self._buffers, arrays, strict=True):
            bits = param.dtype.bits
            kind, what = f"int{max(8, bits)}", f"argument {param.name} of {self.name}"
            if not isinstance(array, np.ndarray) or str(array.dtype) != kind or array.shape != shape:
                got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise VtaError(f"{what} is {kind}{list(shape)}, got {got}")
            if buffer.kind is BufferKind.OUTPUT:
                if not array.flags.writeable:
                    raise VtaError(f"{what} is written, and the array is read-only: give a copy")
                continue
            if bits < 8 and array.size and not -(1 << bits - 1) <= array.min() <= array.max() < 1 << bits - 1:
                raise VtaError(f"{what} holds integers of {bits} bits, {-(1 << bits - 1)} to {(1 << bits - 1) - 1}, and the "
                               f"array has {array.min()} to {array.max()}")
            given[buffer.name] = pack(array.astype(np.int64), bits).tobytes()
        return given

    def _leave(self, session: "Session", arrays: tuple[npt.NDArray[Any], ...]) -> None:
        """Write the outputs into their arrays."""
        for param, buffer, array in zip(self._params, self._buffers, arrays, strict=True):
            if buffer.kind is BufferKind.OUTPUT:
                data = session.buffers[buffer.name].read(buffer.size_bytes)
                array[...] = unpack(np.frombuffer(data, np.uint8), param.dtype.bits).reshape(array.shape)
