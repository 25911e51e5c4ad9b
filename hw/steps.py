"""From GEMM and ALU instructions to steps: two hardware loops around a range of micro-ops, one step a cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import COMMAND, layout, sram_read
from vtakit.hw.isa.config import UOP_BITS, VTAConfig
from vtakit.hw.isa.insns import ALU, GEMM, UOP, Opcode

LOAD_COUNT_BITS = 4  # loads of the compute stage are numbered modulo this; fewer are ever in flight


def guard(index_bits: int) -> wiring.Signature:
    """What an unfinished load has yet to write: elements from `next` up to `end`; and how many loads are done."""
    return wiring.Signature({
        "loads_done": Out(LOAD_COUNT_BITS), "next": Out(index_bits + 1), "end": Out(index_bits + 1),
    })


def ordered_command() -> data.StructLayout:
    """An instruction with the number of loads that were issued before it."""
    return data.StructLayout({"command": COMMAND, "loads_before": LOAD_COUNT_BITS})


def step(cfg: VTAConfig) -> data.StructLayout:
    """One step of an arithmetic instruction.

    fault   an index that the step uses lies outside its scratchpad
    last    the instruction has no further step
    """
    return data.StructLayout({
        "dst": cfg.acc_depth_log2, "src": cfg.src_depth_log2, "wgt": cfg.wgt_depth_log2,
        "is_alu": 1, "reset": 1, "alu_opcode": 3, "use_imm": 1, "imm": 16,
        "last": 1, "fault": 1, "index": COMMAND["index"].shape, "loads_before": LOAD_COUNT_BITS,
    })


class StepGenerator(wiring.Component):
    """Runs the loops of one instruction after the other without a gap.

    Members
    -------
    commands : ``In(stream)``      GEMM and ALU instructions that have at least one step
    uop : ``Out(sram_read)``       the UOP scratchpad, data one cycle after the index
    pending : ``In(guard)``        micro-ops that an older load has yet to write: the loops wait for them
    steps : ``Out(stream)``        what to do, one a cycle
    issued : ``Out(1)``            the last micro-op of an instruction has been read
    """

    def __init__(self, cfg: VTAConfig) -> None:
        self._cfg = cfg
        super().__init__({
            "commands": In(stream.Signature(ordered_command())),
            "uop": Out(sram_read(UOP_BITS, cfg.uop_depth_log2)),
            "pending": In(guard(cfg.uop_depth_log2)),
            "steps": Out(stream.Signature(step(cfg))),
            "issued": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        current, active = Signal(ordered_command()), Signal()
        gemm, alu = (data.View(layout(fmt, cfg), current.command.word) for fmt in (GEMM, ALU))
        is_alu = Signal()
        m.d.comb += is_alu.eq(gemm.opcode == Opcode.ALU)

        advance, issue, turn, row, end = (Signal(name=name) for name in ("advance", "issue", "turn", "row", "end"))
        at, inner, outer = Signal(cfg.uop_depth_log2), Signal(14), Signal(14)
        # Known a cycle ahead: is this the last micro-op of its turn, the last turn of the inner loop, the last of the outer?
        last_uop, last_turn, last_row = Signal(), Signal(), Signal()
        one_uop, one_turn = Signal(), Signal()
        unwritten = (current.loads_before != self.pending.loads_done) & (at >= self.pending.next) & (at < self.pending.end)
        m.d.comb += [
            advance.eq(~self.steps.valid | self.steps.ready),
            issue.eq(active & advance & ~unwritten),
            turn.eq(last_uop), row.eq(turn & last_turn), end.eq(row & last_row),
            self.issued.eq(issue & end),
            self.commands.ready.eq(~active | (issue & end)),
            self.uop.enable.eq(advance), self.uop.index.eq(at),
        ]
        with m.If(issue):
            m.d.sync += [at.eq(Mux(turn, gemm.uop_bgn, at + 1)), last_uop.eq(Mux(turn, one_uop, at + 2 == gemm.uop_end))]
            with m.If(turn):
                m.d.sync += [inner.eq(Mux(row, 0, inner + 1)), last_turn.eq(Mux(row, one_turn, inner + 2 == gemm.iter_in))]
            with m.If(row):
                m.d.sync += [outer.eq(outer + 1), last_row.eq(outer + 2 == gemm.iter_out)]
        with m.If(self.commands.ready):
            first = data.View(layout(GEMM, cfg), self.commands.payload.command.word)
            m.d.sync += [
                active.eq(self.commands.valid), current.eq(self.commands.payload), at.eq(first.uop_bgn), inner.eq(0), outer.eq(0),
                last_row.eq(first.iter_out == 1),
                *(flag.eq(first.iter_in == 1) for flag in (one_turn, last_turn)),
                *(flag.eq(first.uop_bgn + 1 == first.uop_end) for flag in (one_uop, last_uop)),
            ]

        offsets = {
            "dst": self._offset(m, "dst", cfg.acc_depth_log2, gemm.dst_in, gemm.dst_out, issue, turn, row),
            "src": self._offset(m, "src", cfg.src_depth_log2, Mux(is_alu, alu.src_in, gemm.src_in),
                                Mux(is_alu, alu.src_out, gemm.src_out), issue, turn, row),
            "wgt": self._offset(m, "wgt", cfg.wgt_depth_log2, gemm.wgt_in, gemm.wgt_out, issue, turn, row),
        }

        # The micro-op is being read: keep what it will be added to.
        reading, control = Signal(), Signal(step(cfg))
        held = {name: Signal.like(offset, name=f"{name}_held") for name, offset in offsets.items()}
        with m.If(advance):
            m.d.sync += [
                reading.eq(issue), control.is_alu.eq(is_alu), control.last.eq(end), control.reset.eq(gemm.reset & ~is_alu),
                control.alu_opcode.eq(alu.alu_opcode), control.use_imm.eq(alu.use_imm), control.imm.eq(alu.imm),
                control.index.eq(current.command.index), control.loads_before.eq(current.loads_before),
                *(held[name].eq(offset) for name, offset in offsets.items()),
            ]

        # The micro-op has come; block RAM is slow, so it is kept for a cycle.
        has_come, coming = Signal(), control
        control = Signal.like(coming, name="kept_control")
        kept = {name: Signal.like(offset, name=f"{name}_kept") for name, offset in held.items()}
        uop = data.View(layout(UOP, cfg), Signal(UOP_BITS, name="kept_uop"))
        with m.If(advance):
            m.d.sync += [
                has_come.eq(reading), control.eq(coming), uop.as_value().eq(self.uop.data),
                *(kept[name].eq(offset) for name, offset in held.items()),
            ]

        # Add.
        sums = {}
        for name, offset in kept.items():
            bits = len(offset) - 1
            total = Signal(bits + 2, name=f"{name}_sum")
            m.d.comb += total.eq(offset[:bits] + uop[name] + (offset[bits] << bits))
            sums[name] = total
        uses_src = Mux(control.is_alu, ~control.use_imm, ~control.reset)
        src_out = Mux(control.is_alu, sums["src"] >> cfg.acc_depth_log2, sums["src"] >> cfg.inp_depth_log2).any()
        fault = (
            (sums["dst"] >> cfg.acc_depth_log2).any() | (uses_src & src_out)
            | (~control.is_alu & ~control.reset & (sums["wgt"] >> cfg.wgt_depth_log2).any())
        )
        with m.If(advance):
            m.d.sync += [
                self.steps.valid.eq(has_come), self.steps.payload.eq(control), self.steps.payload.fault.eq(fault),
                *(self.steps.payload[name].eq(total) for name, total in sums.items()),
            ]
        return m

    def _offset(
        self, m: Module, name: str, bits: int, inner: Value, outer: Value, issue: Signal, turn: Signal, row: Signal
    ) -> Signal:
        """What the loops have added to an index so far; bit `bits` says that it no longer fits, and stays."""
        offset, start = Signal(bits + 1, name=f"{name}_offset"), Signal(bits + 1, name=f"{name}_row")

        def plus(value: Value, factor: Value) -> Value:
            total = value[:bits] + factor
            return Cat(total[:bits], total[bits] | value[bits])

        with m.If(issue & turn):
            m.d.sync += offset.eq(Mux(row, plus(start, outer), plus(offset, inner)))
        with m.If(issue & row):
            m.d.sync += start.eq(plus(start, outer))
        with m.If(self.commands.ready):
            m.d.sync += [offset.eq(0), start.eq(0)]
        return offset
