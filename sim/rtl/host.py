"""The Verilated accelerator as a host sees it: a list of register accesses, beside a memory, simulated to its end."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import needs
from vtakit.base.writing import written_whole
from vtakit.hw.isa.insns import MEMORIES
from vtakit.hw.isa.regs import REGISTER_BYTES, REGISTERS, mask_of, offset_of
from vtakit.hw.params import CoreParams
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.library import Library
from vtakit.sim.rtl.model import Kind, Model, Op
from vtakit.sim.rtl.surroundings import Surroundings
from vtakit.sim.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Results of a host's list of accesses: its answers, the raw accumulator, the cycles simulated, the beats moved, a trace."""

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


def library(params: CoreParams, wave: str = "") -> Library:
    """Return the library of `vtakit.sim.rtl.build.library`."""
    with needs("device 'rtl'", "sim"):
        build = import_module("vtakit.sim.rtl.build")  # here, since Amaranth takes a quarter of a second to import
    found: Library = build.library(params, wave)
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
    params: CoreParams, dram: bytearray, ops: list[Op], around: Surroundings, model: Library | None = None
) -> Session:
    """Reset the accelerator and work off `ops`; the memory is `dram`, and `model` a library to use instead of the kept one.

    Raises `DeviceError` if that takes more than `around.max_cycles`, or the accelerator breaks the AXI protocol; there is then a
    waveform up to there, and a trace with the error. Raises `VtakitError` if the waveform cannot be written, which leaves no part
    of it.
    """
    failed: DeviceError | None = None  # raised behind the block, so that the waveform stands
    with nullcontext() if around.wave is None else written_whole(around.wave, "the waveform") as wave:
        used = model or library(params, around.wave.suffix[1:] if around.wave else "")
        with Model(used, dram, around, ops, wave) as running:
            try:
                while not running.advance():
                    pass
            except DeviceError as error:
                failed = error
            counts, acc, answers = running.counts(), running.accumulator(params.cfg), running.answers()
            trace = running.trace() if around.trace else None
    if failed is not None:
        failed.trace = trace
        raise failed
    return Session(
        answers=answers, acc=acc, cycles=counts.cycles, read_beats=counts.read_beats, write_beats=counts.write_beats, trace=trace,
    )
