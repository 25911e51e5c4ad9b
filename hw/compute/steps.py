"""From GEMM and ALU instructions to steps: two hardware loops around a range of micro-ops, one step a cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.compute.window import COLUMN_BITS
from vtakit.hw.interfaces import COMMAND, layout, sram_read
from vtakit.hw.isa.config import UOP_BITS, VTAConfig
from vtakit.hw.isa.insns import ALU, DWCONV, GEMM, UOP, Opcode
from vtakit.hw.timing import LOAD_COUNT_BITS, STEPS_AHEAD


def guard(index_bits: int) -> wiring.Signature:
    """Return the signature of an unfinished load.

    Elements from `next` up to `end` are yet to be written; `loads_done` counts the finished loads.
    """
    return wiring.Signature({
        "loads_done": Out(LOAD_COUNT_BITS), "next": Out(index_bits + 1), "end": Out(index_bits + 1),
    })


def ordered_command() -> data.StructLayout:
    """An instruction with the number of loads that were issued before it."""
    return data.StructLayout({"command": COMMAND, "loads_before": LOAD_COUNT_BITS})


def step(cfg: VTAConfig, *, windows: bool = False) -> data.StructLayout:
    """One step of an arithmetic instruction.

    fault   an index that the step uses lies outside its scratchpad
    last    the instruction has no further step
    window  of a DWCONV: the tile enters the window; with an output if `emits`; `first`, `column` and `row` are `Window`'s
    """
    own = {"window": 1, "emits": 1, "first": 1, "column": COLUMN_BITS, "row": range(max(2, cfg.window[0]))} if windows else {}
    return data.StructLayout({
        "dst": cfg.acc_depth_log2, "src": cfg.src_depth_log2, "wgt": cfg.wgt_depth_log2,
        "is_alu": 1, "reset": 1, "overwrite": 1, "alu_opcode": ALU.width("alu_opcode"),
        "use_imm": 1, "imm": ALU.width("imm"),
        "last": 1, "fault": 1, "index": COMMAND["index"].shape, "loads_before": LOAD_COUNT_BITS, **own,
    })


class StepGenerator(wiring.Component):
    """Runs the loops of one instruction after the other without a gap.

    Members
    -------
    commands : ``In(stream)``      GEMM, ALU and DWCONV instructions that have at least one step
    uop : ``Out(sram_read)``       the UOP scratchpad, data one cycle after the index
    pending : ``In(guard)``        micro-ops that an older load has yet to write: the loops wait for them
    steps : ``Out(stream)``        what to do, one a cycle; behind a short queue, so that nothing here has to stand still
    issued : ``Out(1)``            the last micro-op of an instruction has been read
    """

    def __init__(self, cfg: VTAConfig, *, windows: bool = False) -> None:
        self._cfg, self._windows, self._step = cfg, windows, step(cfg, windows=windows)
        super().__init__({
            "commands": In(stream.Signature(ordered_command())),
            "uop": Out(sram_read(UOP_BITS, cfg.uop_depth_log2)),
            "pending": In(guard(cfg.uop_depth_log2)),
            "steps": Out(stream.Signature(self._step)),
            "issued": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=self._step.size, depth=STEPS_AHEAD)
        room = Signal(range(STEPS_AHEAD + 1), init=STEPS_AHEAD)  # in the queue, for steps that are not yet issued
        new_room = Signal.like(room)
        has_room = Signal(init=1)
        current = Signal(ordered_command(), reset_less=True)
        active = Signal()
        gemm, alu, window = (data.View(layout(fmt, cfg), current.command.word) for fmt in (GEMM, ALU, DWCONV))
        is_alu = Signal()
        is_window = Signal()
        m.d.comb += is_alu.eq(gemm.opcode == Opcode.ALU)
        if self._windows:
            m.d.comb += is_window.eq(gemm.opcode == Opcode.DWCONV)

        issue, turn, row, end = (Signal(name=name) for name in ("issue", "turn", "row", "end"))
        at = Signal(cfg.uop_depth_log2)
        inner = Signal(GEMM.width("iter_in"))
        outer = Signal(GEMM.width("iter_out"))
        # Known a cycle ahead: is this the last micro-op of its turn, the last turn of the inner loop, the last of the outer?
        last_uop = Signal()
        last_turn = Signal()
        last_row = Signal()
        one_uop = Signal()
        one_turn = Signal()
        ready = Signal()
        older = current.loads_before != self.pending.loads_done
        bgn = gemm.uop_bgn

        def written(index: Value) -> Value:
            return ~older | (index < self.pending.next) | (index >= self.pending.end)

        # Whether the micro-op at `at` is written, as of the cycle before: loads write upwards, so that errs only towards waiting.
        m.d.sync += ready.eq(is_window | Mux(issue, Mux(turn, written(bgn), written(at + 1)), written(at)))
        turns, rows = Mux(is_window, window.columns + 1, gemm.iter_in), Mux(is_window, window.rows, gemm.iter_out)
        m.d.comb += [
            issue.eq(active & has_room & ready),
            turn.eq(last_uop), row.eq(turn & last_turn), end.eq(row & last_row),
            self.issued.eq(issue & end),
            self.commands.ready.eq(~active | (issue & end)),
            self.uop.enable.eq(1), self.uop.index.eq(at),
        ]
        with m.If(issue):
            m.d.sync += [at.eq(Mux(turn, gemm.uop_bgn, at + 1)), last_uop.eq(Mux(turn, one_uop, at + 2 == gemm.uop_end))]
            with m.If(turn):
                m.d.sync += [inner.eq(Mux(row, 0, inner + 1)), last_turn.eq(Mux(row, one_turn, inner + 2 == turns))]
            with m.If(row):
                m.d.sync += [outer.eq(outer + 1), last_row.eq(outer + 2 == rows)]
        with m.If(self.commands.ready):
            first, new = (data.View(layout(fmt, cfg), self.commands.payload.command.word) for fmt in (GEMM, DWCONV))
            new_window = (first.opcode == Opcode.DWCONV) & self._windows
            m.d.sync += [
                active.eq(self.commands.valid), current.eq(self.commands.payload), at.eq(first.uop_bgn), inner.eq(0), outer.eq(0),
                last_row.eq(Mux(new_window, new.rows, first.iter_out) == 1),
                ready.eq(new_window | (self.commands.payload.loads_before == self.pending.loads_done)),
                *(flag.eq(Mux(new_window, new.columns == 0, first.iter_in == 1)) for flag in (one_turn, last_turn)),
                *(flag.eq(new_window | (first.uop_bgn + 1 == first.uop_end)) for flag in (one_uop, last_uop)),
            ]
        emits: Value = Const(1, 1)
        row_emits: Value = Const(1, 1)
        if self._windows:
            emits, row_emits = self._outputs(m, window, is_window, issue, issue & row)

        # The micro-op is being read: keep what it will be added to, and go on to what the next one will be.
        reading, turned, rowed, ended = (Signal(name=name) for name in ("reading", "turned", "rowed", "ended"))
        coming, control, found = (Signal(self._step, name=name, reset_less=True) for name in ("coming", "control", "found"))
        emitted = Signal()  # an output is behind: dst goes on
        row_emitted = Signal()  # likewise a row with outputs
        base = Signal(layout(UOP, cfg), reset_less=True)  # of a DWCONV, in the place of a micro-op
        if self._windows:
            m.d.sync += [
                base.dst.eq(window.dst), base.src.eq(window.src), base.wgt.eq(window.wgt), coming.window.eq(is_window),
                coming.emits.eq(emits), coming.first.eq((inner == 0) & (outer == 0)), coming.column.eq(inner),
                coming.row.eq(Mux(outer < cfg.window[0], outer, cfg.window[0] - 1)),
            ]
        m.d.sync += [
            emitted.eq(issue & turn & emits), row_emitted.eq(row_emits),
            reading.eq(issue), turned.eq(issue & turn), rowed.eq(issue & row), ended.eq(issue & end),
            coming.is_alu.eq(is_alu), coming.last.eq(end), coming.reset.eq(gemm.reset & ~is_alu & ~is_window),
            coming.overwrite.eq(Mux(is_window, window.overwrite, gemm.overwrite & ~is_alu)),
            coming.alu_opcode.eq(alu.alu_opcode), coming.use_imm.eq(alu.use_imm), coming.imm.eq(alu.imm),
            coming.index.eq(current.command.index), coming.loads_before.eq(current.loads_before),
        ]
        factors = {
            "dst": (cfg.acc_depth_log2, Mux(is_window, window.dst_column, gemm.dst_in),
                    Mux(is_window, window.dst_row, gemm.dst_out)),
            "src": (cfg.src_depth_log2, Mux(is_window, window.src_column, Mux(is_alu, alu.src_in, gemm.src_in)),
                    Mux(is_window, window.src_row, Mux(is_alu, alu.src_out, gemm.src_out))),
            "wgt": (cfg.wgt_depth_log2, Mux(is_window, 0, gemm.wgt_in), Mux(is_window, 0, gemm.wgt_out)),
        }
        kept = {}
        for name, (bits, inner_factor, outer_factor) in factors.items():
            moves = (emitted, row_emitted) if name == "dst" else (turned, Const(1, 1))
            offset = self._offset(m, name, bits, inner_factor, outer_factor, moves, rowed, ended)
            kept[name] = Signal.like(offset, name=f"{name}_kept")
            m.d.sync += kept[name].eq(offset)

        # The micro-op has come: add.
        uop = Signal(layout(UOP, cfg), name="kept_uop", reset_less=True)
        has_come = Signal()
        m.d.sync += [has_come.eq(reading), control.eq(coming), uop.as_value().eq(self.uop.data)]
        if self._windows:
            with m.If(coming.window):
                m.d.sync += uop.eq(base)
        sums = {}
        for name, offset in kept.items():
            bits = len(offset) - 1
            total = Signal(bits + 2, name=f"{name}_sum")
            m.d.comb += total.eq(offset[:bits] + uop[name] + (offset[bits] << bits))
            sums[name] = total
        uses_src = Mux(control.is_alu, ~control.use_imm, ~control.reset)
        src_out = Mux(control.is_alu, sums["src"] >> cfg.acc_depth_log2, sums["src"] >> cfg.inp_depth_log2).any()
        writes = control.emits if self._windows else Const(1, 1)
        fault = (
            (writes & (sums["dst"] >> cfg.acc_depth_log2).any()) | (uses_src & src_out)
            | (~control.is_alu & ~control.reset & (sums["wgt"] >> cfg.wgt_depth_log2).any())
        )
        m.d.sync += [
            queue.w_en.eq(has_come), found.eq(control), found.fault.eq(fault),
            *(found[name].eq(total) for name, total in sums.items()),
        ]

        taken = Signal()
        m.d.comb += [
            queue.w_data.eq(found), self.steps.valid.eq(queue.r_rdy), self.steps.payload.eq(queue.r_data),
            queue.r_en.eq(self.steps.ready), taken.eq(self.steps.valid & self.steps.ready),
        ]
        m.d.comb += new_room.eq(room + taken - issue)
        m.d.sync += [room.eq(new_room), has_room.eq(new_room != 0)]
        return m

    def _outputs(
        self, m: Module, window: data.View, is_window: Value, issue: Value, row: Value,
    ) -> tuple[Value, Value]:
        """Whether a step of a DWCONV has an output, and whether its row has any; of other steps each has."""
        begins = self.commands.ready
        new = data.View(layout(DWCONV, self._cfg), self.commands.payload.command.word)
        found = []
        for name, moves, restarts in (("y", row, Const(0, 1)), ("x", issue, row)):
            wait, phase = Signal(3, name=f"{name}_wait"), Signal(2, name=f"{name}_phase")
            first, step_size = window[f"{name}_first"], window[f"{name}_step"]
            with m.If(begins | restarts):
                m.d.sync += [wait.eq(Mux(begins, new[f"{name}_first"], first)), phase.eq(0)]
            with m.Elif(moves):
                with m.If(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
                with m.Else():
                    m.d.sync += phase.eq(Mux(phase == step_size, 0, phase + 1))
            found.append((wait == 0) & (phase == 0))
        row_emits = ~is_window | found[0]
        return row_emits & (~is_window | found[1]), row_emits

    def _offset(
        self, m: Module, name: str, bits: int, inner: Value, outer: Value, moves: tuple[Value, Value], rowed: Signal,
        ended: Signal,
    ) -> Signal:
        """Return the offset that the loops add to an index. Bit `bits` is set, and stays set, once the offset overflows.

        moves : after a turn of the inner loop, and whether the outer loop's factor is added after a row
        """
        offset, start = Signal(bits + 1, name=f"{name}_offset"), Signal(bits + 1, name=f"{name}_row")

        def plus(value: Value, factor: Value) -> Value:
            total = value[:bits] + factor
            return Cat(total[:bits], total[bits] | value[bits])

        with m.If(ended):
            m.d.sync += [offset.eq(0), start.eq(0)]
        with m.Elif(rowed):
            after = Mux(moves[1], plus(start, outer), start)
            m.d.sync += [offset.eq(after), start.eq(after)]
        with m.Elif(moves[0]):
            m.d.sync += offset.eq(plus(offset, inner))
        return offset
