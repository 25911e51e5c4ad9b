"""The arithmetic pipeline: steps in, accumulator elements read, changed and written, one a cycle.

Stages count cycles from the acceptance of a step; `last` depends on the depth of the adder tree:

    0            indices to INP and WGT; a step on an element that is not yet there waits here
    2            tiles out of the scratchpads' registers, into the multipliers; 3 where a window has factors of its own
    last - 3     indices to ACC
    last - 2     elements out of ACC
    last         the product sum is there: GEMM adds; the ALU takes its operands
    last + 1     GEMM: the result is written; ALU: the operation
    last + 3     ALU: the result is written

A result is on its way for some steps before a read finds it in ACC. At the ends of the stages last - 2 and last - 1, and in
the stage last, an operand is exchanged for a newer result of the same element, so neighbouring GEMM steps on one element need
no pause. After an ALU step, one that needs its result, and any GEMM step, waits two cycles.

A step may take several passes, which go through the stages like steps; the last one writes. MUL takes one for each part of the
lanes that has the multipliers in turn, GEMM and DWCONV one for each part that a smaller matrix core forms. With one copy of ACC,
an operation on two elements of one bank reads src in one pass and dst in the next.
"""

from collections.abc import Sequence
from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.compute.acc_memory import acc_banks, bank_of
from vtakit.hw.compute.alu import IMM_BITS, Alu, is_product
from vtakit.hw.compute.mac_array import MacArray
from vtakit.hw.compute.passes import next_pass
from vtakit.hw.compute.steps import guard, step
from vtakit.hw.compute.window import Window
from vtakit.hw.interfaces import INDEX_BITS, sram_read, sram_write
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import ALU
from vtakit.hw.timing import ALU_STAGES, factors_at, mac_latency


class Arithmetic(wiring.Component):
    """GEMM, ALU and DWCONV steps; the latter are GEMM steps whose factors are a `Window`'s, and some of which have no output.

    Members
    -------
    steps : ``In(stream)``            what to do
    pending : ``In(guard)``           accumulator elements that an older load has yet to write: steps on them wait
    hold : ``In(1)``                  accept no step in this cycle
    inp, wgt : ``Out(sram_read)``     tiles, two cycles after the index; inp one cycle, with windows
    acc, src : ``Out(sram_read)``     accumulator elements dst and src, one cycle after the index
    result : ``Out(sram_write)``      an accumulator element to write; it cannot wait
    writes : ``Out(banks)``           bit n: the result is to be written to bank n of ACC; none if the next cycle's is of the same
                                      element
    retired : ``Out(1)``              the last result of an instruction is in ACC
    fault, fault_index : ``Out``      a step's index lies outside its scratchpad: number of its instruction
    works : ``Out(1)``                a step is at hand that waits for no load
    """

    def __init__(
        self, cfg: VTAConfig, *, windows: bool = False, dsp_products: int | None = None, gemm_passes: int = 1,
        mul_passes: int = 1, acc_copies: int = 2,
    ) -> None:
        self._cfg, self._windows, self._dsp_products, acc = cfg, windows, dsp_products, 8 * cfg.acc_bytes
        self._gemm_passes, self._mul_passes, self._one_copy = gemm_passes, mul_passes, acc_copies == 1
        self._factors_at = factors_at(windows=windows, gemm_passes=gemm_passes)
        self._step = step(cfg, windows=windows)
        # Cycles after which a step has been written, whatever it is.
        self.latency = self._factors_at + mac_latency(cfg) + 2 + ALU_STAGES
        super().__init__({
            "steps": In(stream.Signature(self._step)), "pending": In(guard(cfg.acc_depth_log2)), "hold": In(1),
            "inp": Out(sram_read(8 * cfg.inp_bytes, cfg.inp_depth_log2)),
            "wgt": Out(sram_read(8 * cfg.wgt_bytes // gemm_passes, cfg.wgt_depth_log2 + gemm_passes.bit_length() - 1)),
            "acc": Out(sram_read(acc, cfg.acc_depth_log2)), "src": Out(sram_read(acc, cfg.acc_depth_log2)),
            "result": Out(sram_write(acc, cfg.acc_depth_log2)), "writes": Out(acc_banks(cfg)),
            "retired": Out(1), "fault": Out(1), "fault_index": Out(INDEX_BITS), "works": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        m.submodules.macs = macs = MacArray(
            cfg, windows=self._windows, dsp_products=self._dsp_products, passes=self._gemm_passes)
        m.submodules.alu = alu = Alu(cfg, mul_passes=self._mul_passes)
        last, word = self._factors_at + mac_latency(cfg), 8 * cfg.acc_bytes

        # The step at each stage, and whether it is a GEMM or ALU step that is to be done.
        control = data.StructLayout({
            "dst": cfg.acc_depth_log2, "src": cfg.acc_depth_log2, "reset": 1, "overwrite": 1,
            "alu_opcode": ALU.width("alu_opcode"), "use_imm": 1, "imm": signed(IMM_BITS),
            "part": range(max(self._gemm_passes, self._mul_passes)),
        })
        at = [Signal(control, name=f"stage{n}", reset_less=True) for n in range(last + ALU_STAGES + 1)]
        gemms, alus, ends = (
            [Signal(name=f"{name}{n}") for n in range(last + extra + 1)]
            for name, extra in (("gemm", 0), ("alu", ALU_STAGES), ("ends", 1 + ALU_STAGES))
        )
        # ALU passes that read dst and those that read src: where every step has one pass, these are the steps.
        reads_dst, reads_src = alus, alus
        if self._mul_passes > 1 or self._one_copy:
            reads_dst, reads_src = ([Signal(name=f"alu_{name}{n}") for n in range(last + 2)] for name in ("dst", "src"))
        accepts = Signal()
        passes = next_pass(
            m, self.steps.payload, takes=self.steps.ready, accepts=accepts, windows=self._windows, one_copy=self._one_copy,
            gemm_passes=self._gemm_passes, mul_passes=self._mul_passes,
        )
        now, has, unwritten, delay = self._check(m, at[1], alus[1], accepts, passes.last)
        m.d.comb += [
            self.works.eq(has & ~unwritten), accepts.eq(self.works & (delay == 0) & ~self.hold),
            self.fault.eq(accepts & now.fault), self.fault_index.eq(now.index),
            gemms[0].eq(accepts & ~now.fault & ~now.is_alu & (now.emits if self._windows else 1) & passes.last),
            alus[0].eq(accepts & ~now.fault & now.is_alu & passes.last),
            ends[0].eq(accepts & now.last & passes.last),
            *(at[0][name].eq(now[name]) for name in control.members if name != "part"), at[0].part.eq(passes.part),
        ]
        lines: list[list[Signal]] = [at, gemms, alus, ends]
        if reads_dst is not alus:
            m.d.comb += [
                line[0].eq(accepts & ~now.fault & now.is_alu & reads)
                for line, reads in ((reads_dst, passes.reads_dst), (reads_src, passes.reads_src))
            ]
            lines += [reads_dst, reads_src]
        for line in lines:
            m.d.sync += [after.eq(before) for before, after in pairwise(line)]
        # A GEMM instruction could retire earlier; retiring all at one stage keeps them in order.
        m.d.sync += self.retired.eq(ends[-1])
        m.d.comb += [
            self.inp.index.eq(now.src), self.inp.enable.eq(1), self.wgt.enable.eq(1),
            macs.wgt.eq(self.wgt.data),
            self.acc.index.eq(at[last - 3].dst), self.acc.enable.eq(gemms[last - 3] | reads_dst[last - 3]),
            self.src.index.eq(at[last - 3].src), self.src.enable.eq(reads_src[last - 3] & ~at[last - 3].use_imm),
        ]

        weights = Cat(passes.part[: self._gemm_passes.bit_length() - 1], now.wgt)
        if self._factors_at == 3:
            m.d.sync += self.wgt.index.eq(weights)
        else:
            m.d.comb += self.wgt.index.eq(weights)
        if self._windows:
            m.submodules.window = window = Window(cfg, passes=self._gemm_passes)
            forms = Signal()  # sums
            m.d.comb += forms.eq(accepts & ~now.fault & ~now.is_alu & now.emits)
            m.d.sync += [
                window.shifts.eq(accepts & ~now.fault & now.window & (passes.part == 0)), window.spreads.eq(forms & ~now.window),
                window.takes.eq(forms & now.window), window.part.eq(passes.part),
                window.first.eq(now.first), window.column.eq(now.column), window.row.eq(now.row),
            ]
            m.d.comb += [window.tile.eq(self.inp.data), macs.inp.eq(window.factors)]
        else:
            m.d.comb += macs.inp.eq(self.inp.data)

        # What is written in the next cycle: the GEMM step at the stage last, or the ALU step two stages on. Never both: a GEMM
        # step waits for the ALU steps before it.
        write = Signal()
        written = Signal(cfg.acc_depth_log2)
        bank = Signal(acc_banks(cfg) - 1)
        replaced = Signal()
        m.d.comb += [
            write.eq(gemms[last] | alus[last + ALU_STAGES]),
            written.eq(Mux(alus[last + ALU_STAGES], at[last + ALU_STAGES].dst, at[last].dst)),
            bank.eq(bank_of(written)), replaced.eq(gemms[last - 1] & (at[last - 1].dst == written)),
        ]
        m.d.sync += [
            self.result.valid.eq(write), self.result.index.eq(written),
            self.writes.eq(Cat(write & ~replaced & (bank == n) for n in range(len(self.writes)))),
        ]

        # Operands: what the scratchpad holds, unless a result on its way to it is newer.
        result, older = (Signal(word, name=n, reset_less=True) for n in ("result", "older"))  # of this cycle, and of the last
        m.d.sync += older.eq(result)

        def operand(name: str, read: Value, uses: Sequence[Value]) -> Signal:
            """dst or src of the step at the stage `last`, whatever was written to its element since it was read.

            The registers move for the steps that use it.
            Which result meets which step is decided a cycle ahead, by comparing indices one stage earlier.
            """
            def meets(stage: int, valid: Value, index: Value) -> Signal:
                """In the next cycle: is what `valid` and `index` write now the operand of the step that is now at `stage`?"""
                flag = Signal(name=f"{name}_{stage}_meets_{'next' if valid is write else 'this'}")
                m.d.sync += flag.eq(valid & (at[stage][name] == index))
                return flag

            newest, newer = meets(last - 3, write, written), meets(last - 3, self.result.valid, self.result.index)
            first, second = (Signal(word, name=f"{name}_{n}", reset_less=True) for n in ("first", "second"))
            meets_first = meets(last - 2, write, written)
            with m.If(uses[last - 2]):
                m.d.sync += first.eq(Mux(newest, result, Mux(newer, older, read)))
            with m.If(uses[last - 1]):
                m.d.sync += second.eq(Mux(meets_first, result, first))
            chosen = Signal(word, name=f"{name}_chosen")  # lanes take parts of it: they would each make an expression anew
            value = Mux(meets(last - 1, write, written), result, second)
            m.d.comb += chosen.eq(Mux(at[last].overwrite, 0, value) if name == "dst" else value)
            return chosen

        works = [gemm | alu for gemm, alu in zip(gemms, reads_dst, strict=False)]  # where both are
        a, b = operand("dst", self.acc.data, works), operand("src", self.src.data, reads_src)
        multiplies = [Signal(name=f"multiplies_{name}") for name in ("dst", "src")]  # reads of MUL at stage `last`
        m.d.sync += [
            flag.eq(line[last - 1] & is_product(at[last - 1].alu_opcode))
            for flag, line in zip(multiplies, (reads_dst, reads_src), strict=True)
        ]
        self._alu_operands(m, alu, (a, b), at[last], (reads_dst[last], reads_src[last]), multiplies)
        m.d.comb += [alu.runs.eq(reads_dst[last + 1]), alu.part.eq(at[last + 1].part)]
        total = Signal(word)
        for lane, found in enumerate(self._sums(m, macs, at[last].part)):
            part = slice(lane * cfg.acc_bits, (lane + 1) * cfg.acc_bits)
            m.d.comb += total[part].eq(a[part] + found)
        with m.If(alus[last + ALU_STAGES]):
            m.d.sync += result.eq(alu.result)
        with m.Else():
            m.d.sync += result.eq(Mux(at[last].reset, 0, total))
        m.d.comb += [self.result.count.eq(1), self.result.mask.eq(1), self.result.data[0].eq(result)]
        return m

    def _sums(self, m: Module, macs: MacArray, part: Value) -> list[Value]:
        """Return the sum of each lane. Those of all passes but the last are kept in registers until the last one is there."""
        rows, outs = self._cfg.batch, self._cfg.block // self._gemm_passes
        sums = [[macs.sums[row * outs + out] for out in range(outs)] for row in range(rows)]
        found: list[list[Value]] = [[] for _ in range(rows)]
        for number in range(self._gemm_passes - 1):
            for row in range(rows):
                kept = [Signal.like(each, name=f"sum{number}_{row}_{n}", reset_less=True) for n, each in enumerate(sums[row])]
                with m.If(part == number):
                    m.d.sync += [register.eq(each) for register, each in zip(kept, sums[row], strict=True)]
                found[row] += kept
        return [each for row in range(rows) for each in found[row] + sums[row]]

    def _check(
        self, m: Module, before: data.View, before_is_alu: Signal, accepts: Signal, last_pass: Value,
    ) -> tuple[data.View, Signal, Signal, Signal]:
        """A register before the pipeline: the step in it, whether there is one, and why it must wait.

        unwritten   for an older load. As of the cycle before, and it may err only towards waiting: loads write upwards, and a
                    step is here only when the last load before it has begun
        delay       so many cycles for one of the two steps before it: an ALU step's result comes ALU_STAGES later than a GEMM
                    step's, so that a step which needs it, and any GEMM step, must keep further behind
        """
        now = Signal(self._step, reset_less=True)
        has = Signal()
        unwritten = Signal()
        delay = Signal(range(ALU_STAGES + 1))
        new = self.steps.payload

        def behind(older: data.View) -> Value:
            return ~new.is_alu | (older.dst == new.dst) | (~new.use_imm & (older.dst == new.src))

        m.d.comb += self.steps.ready.eq(~has | (accepts & last_pass))
        m.d.sync += unwritten.eq(Mux(self.steps.ready, self._unwritten(new), self._unwritten(now)))
        with m.If(self.steps.ready):
            m.d.sync += [now.eq(new), has.eq(self.steps.valid)]
            with m.If(has & now.is_alu & behind(now)):
                m.d.sync += delay.eq(ALU_STAGES)
            with m.Else():
                m.d.sync += delay.eq(before_is_alu & behind(before))
        with m.Elif(delay != 0):
            m.d.sync += delay.eq(delay - 1)
        return now, has, unwritten, delay

    def _unwritten(self, now: data.View) -> Value:
        """Return whether the step needs an element that an older load has yet to write."""
        def within(index: Value) -> Value:
            return (index >= self.pending.next) & (index < self.pending.end)

        reads_src = now.is_alu & ~now.use_imm
        older = now.loads_before != self.pending.loads_done
        return older & (within(now.dst) | (reads_src & within(now.src)))

    def _alu_operands(
        self, m: Module, alu: Alu, operands: tuple[Value, Value], step: data.View, runs: Sequence[Value],
        multiplies: Sequence[Value],
    ) -> None:
        """Registers of dst and src before the ALU.

        They hold still while no ALU step runs, and then neither switch nor cost simulation time.
        Its multipliers have their own, which hold still while no MUL runs: with one set for all, the wires to the DSP blocks
        were the slowest of the core.
        """
        bits = self._cfg.acc_bits
        with m.If(runs[0]):
            m.d.sync += [bit.eq(step.alu_opcode == op) for op, bit in enumerate(alu.chosen)]
        for name, moves in (("", runs), ("factor_", multiplies)):
            into_a, into_b = getattr(alu, f"{name}a"), getattr(alu, f"{name}b")
            first, second = (Signal.like(into, name=into.name, reset_less=True) for into in (into_a, into_b))
            m.d.comb += [into_a.eq(first), into_b.eq(second)]
            a, b = operands if len(first) == len(operands[0]) else (each.word_select(step.part, len(first)) for each in operands)
            lane_bits = len(second) // (len(a) // bits)
            with m.If(moves[0]):
                m.d.sync += first.eq(a)
            with m.If(moves[1]):
                for lane in range(len(a) // bits):
                    value = b[lane * bits : (lane + 1) * bits].as_signed()
                    m.d.sync += second.word_select(lane, lane_bits).eq(Mux(step.use_imm, step.imm, value))
