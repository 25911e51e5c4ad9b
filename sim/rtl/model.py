"""A Verilated accelerator that runs: what its harness takes, and one list of register accesses after another."""

import ctypes
import os
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.hw.dram import CONTROLLER
from vtakit.hw.isa.config import VTAConfig
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.library import Library
from vtakit.sim.rtl.surroundings import Surroundings
from vtakit.sim.trace import Trace

SLICE_CYCLES = 10_000  # after which Ctrl-C is seen: a hundredth of a second, of the largest models some seconds
_RUNNING, _ENDED, _TIMEOUT = 0, 1, 2
_PROTOCOL = {
    4: "a burst crosses 4 KiB", 5: "WLAST is wrong", 6: "an offer changes before it is taken",
    7: "a burst is not one of whole, aligned, incrementing beats",
}


class Kind(IntEnum):
    """Kind of an `Op`."""

    WRITE = 0
    READ = 1
    POLL = 2
    WAIT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One step of the host.

    WRITE   `value` to the register at byte `address`
    READ    the register there; the answer's value is what it held
    POLL    read it until none of the bits of `value` is set, `limit` times at most (0: as often as it takes); as READ
    WAIT    `value` cycles
    response    AXI response, in the answer: 0 OKAY, 2 SLVERR
    """

    kind: Kind
    address: int = 0
    value: int = 0
    response: int = 0
    limit: int = 0


class _COp(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("kind", "address", "value", "response", "limit")]


class _CDram(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in CONTROLLER]


class _CSettings(ctypes.Structure):
    _fields_ = [
        ("dram", ctypes.c_void_p), ("dram_size", ctypes.c_uint64), ("ops", ctypes.POINTER(_COp)), ("op_count", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in (
            "latency", "outstanding", "bandwidth", "stall", "seed", "read_error", "write_error", "max_cycles", "trace")),
        ("dram_chip", _CDram), ("wave", ctypes.c_char_p),
    ]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a model since its reset: cycles, and beats that its memory moved."""

    cycles: int
    read_beats: int
    write_beats: int


class Model:
    """The accelerator of a library, from its reset on, beside the memory `dram`, which it changes.

    The host works off `ops`, and then whatever `give` gives it, while `advance` simulates. A model is closed by `close`, at the
    end of a `with` block, or when nothing refers to it; nothing is called behind that.
    """

    def __init__(
        self, library: Library, dram: bytearray, around: Surroundings, ops: Iterable[Op] = (), wave: Path | None = None
    ) -> None:
        self._functions = library.functions
        self._wave = around.wave
        self._memory = (ctypes.c_char * len(dram)).from_buffer(dram)  # as long as this lives, `dram` cannot change its size
        self._ops = _c_ops(ops)
        settings = _CSettings(
            ctypes.cast(self._memory, ctypes.c_void_p), len(dram), self._ops, len(self._ops), around.latency, around.outstanding,
            around.bandwidth, around.stall, around.seed, around.read_error, around.write_error, around.max_cycles, around.trace,
            _CDram(**around.chip.controller) if around.chip else _CDram(), None if wave is None else bytes(wave),
        )
        self._max_cycles = around.max_cycles
        self._model: int = self._functions.vta_open(ctypes.byref(settings))
        self._close = weakref.finalize(self, self._functions.vta_close, self._model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def give(self, ops: Iterable[Op]) -> None:
        """A further list for the host, once it is through with the one before."""
        self._ops = _c_ops(ops)
        self._functions.vta_give(self._model, self._ops, len(self._ops))

    def advance(self, cycles: int = SLICE_CYCLES) -> bool:
        """Simulate until the host is through with its list, or so many cycles; whether it is through.

        Raises `DeviceError` if the model is past its `max_cycles`, or the accelerator breaks the AXI protocol.
        """
        ending = self._functions.vta_advance(self._model, cycles)
        if ending == _TIMEOUT:
            raise DeviceError(f"the RTL has not finished within {self._max_cycles} cycles")
        if ending in _PROTOCOL:
            raise DeviceError(f"the RTL broke the AXI protocol in cycle {self.counts().cycles}: {_PROTOCOL[ending]}")
        return bool(ending != _RUNNING)

    def answers(self) -> tuple[Op, ...]:
        """The host's list with what it read."""
        return tuple(
            Op(kind=Kind(op.kind), address=op.address, value=op.value, response=op.response, limit=op.limit) for op in self._ops
        )

    def counts(self) -> Counts:
        """Cycles and beats."""
        counts = (ctypes.c_uint64 * 3)()
        self._functions.vta_report(self._model, None, 0, counts)
        return Counts(*counts)

    def accumulator(self, cfg: VTAConfig) -> npt.NDArray[np.uint8]:
        """The bytes of the ACC scratchpad."""
        acc = np.zeros(cfg.acc_depth * cfg.acc_bytes, np.uint8)
        self._functions.vta_report(self._model, acc.ctypes.data_as(ctypes.c_void_p), acc.nbytes, (ctypes.c_uint64 * 3)())
        return acc

    def forget(self) -> None:
        """Drop what is recorded, so that `trace` shows the next run; no program may run."""
        self._functions.vta_forget(self._model)

    def trace(self) -> Trace:
        """Return the events recorded since the model was opened or its trace was cleared; of a run in progress, those so far."""
        pointer = ctypes.c_void_p()
        count = self._functions.vta_events(self._model, ctypes.byref(pointer))
        dtype = np.dtype([("cycle", "<u8"), ("index", "<u4"), ("stage", "<u2"), ("kind", "<u2")])
        events = ctypes.string_at(pointer, count * dtype.itemsize) if count else b""
        return Trace.from_events(np.frombuffer(events, dtype))

    def close(self) -> None:
        """End the simulation; raises `VtakitError` if the waveform could not be written."""
        wave_error = self._close()
        if wave_error:
            raise VtakitError(f"cannot write the waveform {str(self._wave)!r}: {os.strerror(wave_error)}")


def _c_ops(ops: Iterable[Op]) -> Any:
    given = [_COp(op.kind, op.address, op.value, 0, op.limit) for op in ops]
    return (_COp * len(given))(*given)
