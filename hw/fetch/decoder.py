"""Decoder of instruction words: the stage of a word, and whether the instruction set has it, before anything runs."""

from collections.abc import Iterable

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import FAULT_BITS, layout
from vtakit.hw.isa.config import INSN_BITS
from vtakit.hw.isa.exhaustive import covers
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FLAG_QUEUES, FLAGS, FORMATS, LOAD, LOADS, MEMORIES, STAGES, AluOp, Feature, MemType, Opcode, Stage
from vtakit.hw.isa.published import FINISH_FLAG
from vtakit.hw.params import CoreParams

# What the rules below, and the stages behind them, know.
covers(Opcode, (
    Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.FINISH, Opcode.ALU, Opcode.REQUANT, Opcode.PAD_LOAD,
    Opcode.DWCONV), __name__)
covers(MemType, (MemType.UOP, MemType.WGT, MemType.INP, MemType.ACC, MemType.OUT, MemType.ACC_8BIT), __name__)
# What not every device has.
OF_FEATURES = {Opcode.REQUANT: Feature.REQUANT, Opcode.PAD_LOAD: Feature.PAD_VALUE, Opcode.DWCONV: Feature.DWCONV}


class Decoder(wiring.Component):
    """The rules that need nothing but the word and its place in the program; without a register.

    Of a core for published programs it lets pass what those may have: see `CoreParams.published`.

    Members
    -------
    word : ``In(128)``
    is_last : ``In(1)``      no instruction follows
    stage : ``Out(2)``       who runs it
    works : ``Out(1)``       it moves or computes something
    fault : ``Out(8)``       a `Fault`, or 0
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({"word": In(INSN_BITS), "is_last": In(1), "stage": Out(2), "works": Out(1), "fault": Out(FAULT_BITS)})

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._params.cfg
        f = data.View(layout(LOAD, cfg), self.word)
        a = data.View(layout(FORMATS[Opcode.ALU], cfg), self.word)
        published = self._params.published
        absent = {op for op, feature in OF_FEATURES.items() if feature not in self._params.features}
        formats = {op: fmt for op, fmt in FORMATS.items() if op not in absent}
        is_op = {op: f.opcode == op for op in formats}
        stores = _any(is_op[op] for op in formats if STAGES[op] is Stage.STORE)
        loads = _any(is_op[op] for op in formats if op in LOADS)
        transfer = loads | stores

        kinds = [kind for kind in MemType if kind is not MemType.ACC_8BIT or cfg.has_acc8]
        of_kind = {
            kind: _any(is_op[op] for op in MEMORIES[kind].opcodes if op in formats) & (f.memory_type == kind) for kind in kinds
        }
        on_load = _any(of_kind[kind] for kind in kinds if MEMORIES[kind].stage is Stage.LOAD)
        on_load |= _any(is_op[op] for op in formats if STAGES[op] is Stage.LOAD)
        m.d.comb += self.stage.eq(Mux(stores, Stage.STORE, Mux(on_load, Stage.LOAD, Stage.COMPUTE)))

        reserved = _any(is_op[op] & (self.word & Const(fmt.reserved_bits(cfg), INSN_BITS)).any() for op, fmt in formats.items())
        if Opcode.REQUANT in formats:
            r = data.View(layout(FORMATS[Opcode.REQUANT], cfg), self.word)
            illegal = (r.pool_above | r.pool_left) & (r.pool == 0)
            if Feature.POOL not in self._params.features:
                illegal = illegal | r.pool.any() | r.pool_step
            if Feature.LOOKUP not in self._params.features:
                illegal = illegal | r.lookup
            reserved |= is_op[Opcode.REQUANT] & illegal
        reserved = Const(0, 1) if published else reserved
        moves = (f.x_size != 0) | ~stores | ~Const(published, 1)
        missing = _any(
            (self.stage == stage) & f[flag] for stage in Stage for flag in FLAGS if (stage, flag) not in FLAG_QUEUES
        )
        on_finish = is_op[Opcode.FINISH] & _any(f[flag] for flag in FLAGS if not (published and flag == FINISH_FLAG))
        pads = (f.y_pad_0 | f.y_pad_1 | f.x_pad_0 | f.x_pad_1).any()
        steps = (a.iter_out != 0) & (a.iter_in != 0) & (a.uop_bgn < a.uop_end)
        loops = Signal()
        windows: Value = Const(0, 1)
        if Opcode.DWCONV in formats:
            windows = is_op[Opcode.DWCONV] & (data.View(layout(FORMATS[Opcode.DWCONV], cfg), self.word).rows != 0)
        computes = Signal()
        reads = Signal()
        writes = Signal()
        m.d.comb += [
            loops.eq((is_op[Opcode.GEMM] | is_op[Opcode.ALU]) & steps), computes.eq(loops | windows),
            reads.eq(loads & (f.x_size != 0) & ((f.y_size | f.y_pad_0 | f.y_pad_1) != 0)),
            writes.eq(stores & (f.x_size != 0) & (f.y_size != 0)), self.works.eq(computes | reads | writes),
        ]
        broken = {  # the most basic first
            Fault.UNKNOWN_OPCODE: ~_any(is_op.values()),
            Fault.RESERVED_BITS: reserved,
            Fault.UNKNOWN_MEMORY_TYPE: transfer & moves & ~_any(of_kind.values()),
            Fault.UNKNOWN_ALU_OPCODE: is_op[Opcode.ALU] & (a.alu_opcode > max(AluOp)),
            Fault.FINISH_NOT_LAST: is_op[Opcode.FINISH] & ~self.is_last,
            Fault.ILLEGAL_FLAG: missing | on_finish,
            Fault.STORE_PAD: is_op[Opcode.STORE] & pads,
            Fault.UOP_RANGE: loops & (a.uop_end > cfg.uop_depth),
            Fault.NO_FINISH: self.is_last & ~is_op[Opcode.FINISH],
        }
        fault: Value = Const(0, FAULT_BITS)
        for code, found in reversed(broken.items()):
            fault = Mux(found, code, fault)
        m.d.comb += self.fault.eq(fault)
        return m


def _any(bits: Iterable[Value]) -> Value:
    found: Value = Const(0, 1)
    for bit in bits:
        found = found | bit
    return found
