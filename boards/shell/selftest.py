"""The test of a board behind power-up: memory, then a GEMM with a known answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.boards.shell.known_answer import KnownAnswer, known_answer
from vtakit.boards.shell.memory_pass import ERROR_BITS, MemoryPass
from vtakit.hw.interfaces import axi_lite, axi_read, axi_write
from vtakit.hw.isa.regs import ADDRESS_BITS, mask_of, offset_of
from vtakit.hw.params import CoreParams

MOST_POLLS = 1 << 16  # of the core's status; the program takes some hundred cycles
_REGISTER_BITS = 32


class Do(IntEnum):
    """Kind of a step: a pass over memory; a write to a register of the core; reads of `status` until it is not busy; one read of
    `status` or `error`, which is kept; the note that memory or the GEMM was tested.
    """

    PASS = 0
    WRITE = 1
    POLL = 2
    KEEP_STATUS = 3
    KEEP_ERROR = 4
    MARK_MEMORY = 5
    MARK_GEMM = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. `first` and `last` are beats of a pass; of a register they are address and value."""

    do: Do
    first: int = 0
    last: int = 0
    compares: int = 0
    inverts: int = 0
    from_rom: int = 0
    second: int = 0


def steps_of(params: CoreParams, program: KnownAnswer, memory_bytes: int, test_bytes: int) -> Iterator[Step]:
    """Yield the steps of the test."""
    size = params.bus_bytes
    if test_bytes:
        for inverts in (0, 1):
            for compares in (0, 1):
                yield Step(do=Do.PASS, last=test_bytes // size - 1, compares=compares, inverts=inverts)
        yield Step(do=Do.MARK_MEMORY)
    yield Step(do=Do.PASS, last=-(-len(program.data) // size) - 1, from_rom=1)
    settings = {"insn_addr": 0, "insn_count": program.insn_count, "window_low": 0, "window_high": memory_bytes}
    for name, value in settings.items():
        yield Step(do=Do.WRITE, first=offset_of(name), last=value)
    yield Step(do=Do.WRITE, first=offset_of("control"), last=mask_of("control", "start"))
    yield Step(do=Do.POLL, first=offset_of("status"))
    yield Step(do=Do.KEEP_STATUS, first=offset_of("status"))
    yield Step(do=Do.KEEP_ERROR, first=offset_of("error"))
    begin, end = program.result.start // size, -(-program.result.stop // size)
    yield Step(do=Do.PASS, first=begin, last=end - 1, compares=1, from_rom=1, second=1)
    yield Step(do=Do.MARK_GEMM)


def _beats(data: bytes, size: int) -> list[int]:
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


class SelfTest(wiring.Component):
    """Writes the first `test_bytes` of memory and compares them, twice; then runs a program. It ends where one of the two fails.

    `test_bytes` of 0 leaves the memory's test out.

    Members
    -------
    start : ``In(1)``            memory can be accessed
    registers : ``Out``          AXI4-Lite, the core's
    read, write : ``Out``        AXI4
    testing : ``Out(1)``         it runs, or has not begun
    memory_tested, memory_good, gemm_tested, gemm_good : ``Out(1)``
    errors, address, want, got, core : ``Out``   as in `vtakit.boards.host_map`
    """

    def __init__(self, params: CoreParams, memory_bytes: int, test_bytes: int) -> None:
        self._params, self._memory_bytes, self._test_bytes = params, memory_bytes, test_bytes
        super().__init__({
            "start": In(1), "registers": Out(axi_lite(ADDRESS_BITS)), "read": Out(axi_read(params)),
            "write": Out(axi_write(params)), "testing": Out(1, init=1), "memory_tested": Out(1), "memory_good": Out(1),
            "gemm_tested": Out(1), "gemm_good": Out(1), "errors": Out(ERROR_BITS), "address": Out(32), "want": Out(32),
            "got": Out(32), "core": Out(32),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        program = known_answer(params.cfg)
        after = bytearray(program.data)
        after[program.result.start : program.result.stop] = program.wanted
        images = _beats(program.data, params.bus_bytes), _beats(bytes(after), params.bus_bytes)
        beat_bits = (self._memory_bytes // params.bus_bytes - 1).bit_length()
        m.submodules.memory = memory = MemoryPass(params, images, beat_bits)
        connect(m, memory.read, flipped(self.read))
        connect(m, memory.write, flipped(self.write))
        steps = list(steps_of(params, program, self._memory_bytes, self._test_bytes))
        at = Signal(range(len(steps) + 1))
        widths = {"do": 3, "first": _REGISTER_BITS, "last": _REGISTER_BITS}
        widths |= dict.fromkeys(("compares", "inverts", "from_rom", "second"), 1)
        fields = {name: Signal(width, name=name) for name, width in widths.items()}
        do, first, last = (fields[name] for name in ("do", "first", "last"))
        bus = self.registers
        m.d.comb += [
            memory.first.eq(first), memory.last.eq(last),
            *(getattr(memory, name).eq(fields[name]) for name in ("compares", "inverts", "from_rom", "second")),
            bus.aw.payload.addr.eq(first), bus.ar.payload.addr.eq(first), bus.w.payload.data.eq(last), bus.w.payload.strb.eq(15),
            *(getattr(self, name).eq(getattr(memory, name)) for name in ("errors", "address", "want", "got")),
        ]
        polls, has_address, has_data, good = Signal(range(MOST_POLLS)), Signal(), Signal(), Signal()
        m.d.comb += good.eq(memory.good)
        is_busy = mask_of("status", "busy")
        with m.FSM():
            with m.State("WAIT"), m.If(self.start):
                m.next = "STEP"
            with m.State("STEP"):  # the fields of the step are there in the next cycle
                m.d.sync += at.eq(at + 1)
                for name, field in fields.items():
                    m.d.sync += field.eq(Array(int(getattr(step, name)) for step in steps)[at])
                m.next = "DO"
                with m.If(at == len(steps)):
                    m.d.sync += self.testing.eq(0)
                    m.next = "END"
            with m.State("DO"):
                m.d.sync += [has_address.eq(1), has_data.eq(1)]
                with m.Switch(do):
                    with m.Case(Do.PASS):
                        m.d.comb += memory.go.eq(1)
                        m.next = "PASS"
                    with m.Case(Do.WRITE):
                        m.next = "WRITE"
                    with m.Case(Do.POLL, Do.KEEP_STATUS, Do.KEEP_ERROR):
                        m.next = "READ"
                    with m.Case(Do.MARK_MEMORY):
                        m.d.sync += [self.memory_tested.eq(1), self.memory_good.eq(good)]
                        m.next = "STEP"
                        with m.If(~good):
                            m.d.sync += self.testing.eq(0)
                            m.next = "END"
                    with m.Default():
                        m.d.sync += [self.gemm_tested.eq(1), self.gemm_good.eq(good)]
                        m.next = "STEP"
            with m.State("PASS"), m.If(memory.done):
                m.next = "STEP"
            with m.State("WRITE"):
                m.d.comb += [bus.aw.valid.eq(has_address), bus.w.valid.eq(has_data), bus.b.ready.eq(1)]
                with m.If(bus.aw.ready):
                    m.d.sync += has_address.eq(0)
                with m.If(bus.w.ready):
                    m.d.sync += has_data.eq(0)
                with m.If(bus.b.valid):
                    m.next = "STEP"
            with m.State("READ"):
                m.d.comb += [bus.ar.valid.eq(has_address), bus.r.ready.eq(1)]
                with m.If(bus.ar.ready):
                    m.d.sync += has_address.eq(0)
                with m.If(bus.r.valid):
                    m.next = "STEP"
                    with m.Switch(do):
                        with m.Case(Do.POLL):
                            m.d.sync += polls.eq(polls + 1)
                            with m.If((bus.r.payload.data & is_busy).any() & ~polls.all()):
                                m.next = "DO"
                        with m.Case(Do.KEEP_STATUS):
                            m.d.sync += self.core[:16].eq(bus.r.payload.data)
                        with m.Default():
                            m.d.sync += self.core[16:].eq(bus.r.payload.data)
            with m.State("END"):
                pass
        return m
