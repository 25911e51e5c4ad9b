"""The Verilated accelerator as a host sees it: a list of register accesses, beside a memory, simulated to its end."""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.file import written_whole
from vtakit.hw.isa.insns import MEMORIES
from vtakit.hw.isa.regs import REGISTER_BYTES, REGISTERS, mask_of, offset_of
from vtakit.hw.params import CoreParams
from vtakit.sim.api import integer
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.build import library
from vtakit.sim.trace import Trace

NOWHERE = 2**64 - 1  # an address at which no error is injected
_SLICE_CYCLES = 10_000  # after which Ctrl-C is seen: a hundredth of a second, of the largest models some seconds
_RUNNING, _ENDED, _TIMEOUT = 0, 1, 2
_PROTOCOL = {
    4: "a burst crosses 4 KiB", 5: "WLAST is wrong", 6: "an offer changes before it is taken",
    7: "a burst is not one of whole, aligned, incrementing beats",
}


class Kind(IntEnum):
    """What an `Op` does."""

    WRITE = 0
    READ = 1
    POLL = 2
    WAIT = 3


class _COp(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("kind", "address", "value", "response")]


class _CSettings(ctypes.Structure):
    _fields_ = [
        ("dram", ctypes.c_void_p), ("dram_size", ctypes.c_uint64), ("ops", ctypes.POINTER(_COp)), ("op_count", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in (
            "latency", "outstanding", "bandwidth", "stall", "seed", "read_error", "write_error", "max_cycles", "trace")),
        ("wave", ctypes.c_char_p),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One step of the host.

    WRITE   `value` to the register at byte `address`
    READ    the register there; the answer's value is what it held
    POLL    read it until none of the bits of `value` is set
    WAIT    `value` cycles
    response    AXI response, in the answer: 0 OKAY, 2 SLVERR
    """

    kind: Kind
    address: int = 0
    value: int = 0
    response: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The memory's behaviour and what is recorded; see `vtakit.sim.rtl.simulate`."""

    latency: int = 40
    outstanding: int = 16
    bandwidth: int = 100
    stall: int = 0
    seed: int = 0
    read_error: int = NOWHERE
    write_error: int = NOWHERE
    max_cycles: int = 1_000_000_000
    trace: bool = False
    wave: Path | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("latency", 0, 100_000), ("outstanding", 1, 256), ("bandwidth", 1, 100), ("stall", 0, 99), ("seed", 0, 2**63),
            ("read_error", 0, NOWHERE), ("write_error", 0, NOWHERE), ("max_cycles", 1, 2**62),
        ):
            value = integer(name, getattr(self, name))
            if not low <= value <= high:
                raise VtakitError(f"{name} is {value} and must be from {low} to {high}")
        if not isinstance(self.trace, bool):
            raise VtakitError(f"trace must be True or False, not {self.trace!r:.40}")
        if self.wave is not None and self.wave.suffix not in (".vcd", ".fst"):
            raise VtakitError(f"wave must be the name of a .vcd or .fst file, got {str(self.wave)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a host's list of accesses left: its answers, the raw accumulator, the cycles simulated, the beats moved, a trace."""

    answers: tuple[Op, ...]
    acc: npt.NDArray[np.uint8]
    cycles: int
    read_beats: int
    write_beats: int
    trace: Trace | None

    def registers(self) -> dict[str, int]:
        """The registers that were read, by name; the words of a 64-bit one as one number."""
        words = {op.address: op.value for op in self.answers if op.kind is Kind.READ}
        found = {}
        for register in REGISTERS:
            at = offset_of(register.name)
            if at in words:
                found[register.name] = sum(words[at + REGISTER_BYTES * n] << 32 * n for n in range(register.words))
        return found


def write_register(name: str, value: int) -> Iterator[Op]:
    """Write all words of a register."""
    register = next(r for r in REGISTERS if r.name == name)
    for n in range(register.words):
        yield Op(kind=Kind.WRITE, address=offset_of(name) + REGISTER_BYTES * n, value=value >> 32 * n & 0xFFFF_FFFF)


def read_register(name: str) -> Iterator[Op]:
    """Read all words of a register, low half first."""
    register = next(r for r in REGISTERS if r.name == name)
    for n in range(register.words):
        yield Op(kind=Kind.READ, address=offset_of(name) + REGISTER_BYTES * n)


def command(field: str) -> Op:
    """Write a 1 to a field of `control`."""
    return Op(kind=Kind.WRITE, address=offset_of("control"), value=mask_of("control", field))


def until_idle() -> Op:
    """Wait until no program runs."""
    return Op(kind=Kind.POLL, address=offset_of("status"), value=mask_of("status", "busy"))


def program_settings(
    insn_addr: int, insn_count: int, bases: Mapping[Any, int], window: tuple[int, int]
) -> Iterator[Op]:
    """Write all that a start needs; `bases` by memory type."""
    values = {
        "insn_addr": insn_addr, "insn_count": insn_count, "window_low": window[0], "window_high": window[1],
        **{f"base_{kind.name.lower()}": bases[kind] for kind in MEMORIES},
    }
    for name, value in values.items():
        yield from write_register(name, value)


def session(
    params: CoreParams, dram: bytearray, ops: list[Op], around: Surroundings, model: Path | None = None
) -> Session:
    """Reset the accelerator and work off `ops`; the memory is `dram`, and `model` a library to use instead of the kept one.

    Raises `DeviceError` if that takes more than `around.max_cycles`, or the accelerator breaks the AXI protocol; there is then a
    waveform up to there. Raises `VtakitError` if the waveform cannot be written, which leaves no part of it.
    """
    with nullcontext() if around.wave is None else written_whole(around.wave, "the waveform") as wave:
        functions = _functions(model or library(params, around.wave.suffix[1:] if around.wave else ""))
        c_ops = (_COp * len(ops))(*(_COp(op.kind, op.address, op.value, 0) for op in ops))
        memory = (ctypes.c_char * len(dram)).from_buffer(dram)
        settings = _CSettings(
            ctypes.cast(memory, ctypes.c_void_p), len(dram), c_ops, len(ops), around.latency, around.outstanding,
            around.bandwidth, around.stall, around.seed, around.read_error, around.write_error, around.max_cycles, around.trace,
            None if wave is None else bytes(wave),
        )
        acc = np.zeros(params.cfg.acc_depth * params.cfg.acc_bytes, np.uint8)
        counts = (ctypes.c_uint64 * 3)()
        wave_error = 0
        running = functions.vta_open(ctypes.byref(settings))
        try:
            ending = _RUNNING
            while ending == _RUNNING:
                ending = functions.vta_advance(running, _SLICE_CYCLES)
            functions.vta_report(running, acc.ctypes.data_as(ctypes.c_void_p), acc.nbytes, counts)
            trace = _trace(functions, running) if around.trace and ending == _ENDED else None
        finally:
            wave_error = functions.vta_close(running)
        if wave_error:
            raise VtakitError(f"cannot write the waveform {str(around.wave)!r}: {os.strerror(wave_error)}")
    if ending == _TIMEOUT:
        raise DeviceError(f"the RTL has not finished within {around.max_cycles} cycles")
    if ending in _PROTOCOL:
        raise DeviceError(f"the RTL broke the AXI protocol in cycle {counts[0]}: {_PROTOCOL[ending]}")
    answers = tuple(Op(kind=Kind(op.kind), address=op.address, value=op.value, response=op.response) for op in c_ops)
    return Session(
        answers=answers, acc=acc, cycles=counts[0], read_beats=counts[1], write_beats=counts[2], trace=trace,
    )


def _trace(functions: Any, model: int) -> Trace:
    pointer = ctypes.c_void_p()
    count = functions.vta_events(model, ctypes.byref(pointer))
    dtype = np.dtype([("cycle", "<u8"), ("index", "<u4"), ("stage", "<u2"), ("kind", "<u2")])
    events = ctypes.string_at(pointer, count * dtype.itemsize) if count else b""
    return Trace.from_events(np.frombuffer(events, dtype))


def _functions(path: Path) -> Any:
    try:
        functions = ctypes.CDLL(str(path))
    except OSError as error:
        raise VtakitError(f"cannot load the RTL model: {error}") from None
    functions.vta_open.restype = ctypes.c_void_p
    functions.vta_advance.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    functions.vta_advance.restype = ctypes.c_uint64
    functions.vta_report.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    functions.vta_report.restype = None
    functions.vta_events.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    functions.vta_events.restype = ctypes.c_uint64
    functions.vta_close.argtypes = [ctypes.c_void_p]
    functions.vta_close.restype = ctypes.c_int
    return functions
