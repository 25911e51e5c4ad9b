"""The arithmetic pipeline: steps in, accumulator elements read, changed and written, one a cycle.

Stages count cycles from the acceptance of a step; `last` depends on the depth of the adder tree:

    0            indices to INP and WGT; a step on an element that is not yet there waits here
    2            tiles out of the scratchpads' registers, into the multipliers
    last - 3     indices to ACC
    last - 2     elements out of ACC
    last         the product sum is there: add, or do the ALU operation
    last + 1     the result is written

So a result is on its way for four steps before a read finds it in ACC. At the ends of the stages last - 2 and last - 1, and in
the stage last, an operand is exchanged for a newer result of the same element, and neighbouring steps on one element need no
pause. Only MUL, which takes longer, makes steps wait.
"""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.alu import Alu, operand_bits
from vtakit.hw.interfaces import INDEX_BITS, sram_read, sram_write
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import AluOp
from vtakit.hw.mac_array import MacArray
from vtakit.hw.steps import guard, step

MUL_STAGES = 2  # stages that a multiplication takes beyond the others
MUL_WAIT_CYCLES = 4 + MUL_STAGES  # after a MUL is accepted, reads of its element would be too early


class Arithmetic(wiring.Component):
    """GEMM and ALU steps.

    Members
    -------
    steps : ``In(stream)``            what to do
    pending : ``In(guard)``           accumulator elements that an older load has yet to write: steps on them wait
    hold : ``In(1)``                  accept no step in this cycle
    inp, wgt : ``Out(sram_read)``     tiles, two cycles after the index
    acc, src : ``Out(sram_read)``     accumulator elements dst and src, one cycle after the index
    result : ``Out(sram_write)``      an accumulator element to write; it cannot wait
    retired : ``Out(1)``              the last result of an instruction is in ACC
    fault, fault_index : ``Out``      a step's index lies outside its scratchpad: number of its instruction
    accepts : ``Out(1)``              a step was accepted
    """

    def __init__(self, cfg: VTAConfig) -> None:
        self._cfg = cfg
        acc = 8 * cfg.acc_bytes
        super().__init__({
            "steps": In(stream.Signature(step(cfg))), "pending": In(guard(cfg.acc_depth_log2)), "hold": In(1),
            "inp": Out(sram_read(8 * cfg.inp_bytes, cfg.inp_depth_log2)),
            "wgt": Out(sram_read(8 * cfg.wgt_bytes, cfg.wgt_depth_log2)),
            "acc": Out(sram_read(acc, cfg.acc_depth_log2)), "src": Out(sram_read(acc, cfg.acc_depth_log2)),
            "result": Out(sram_write(acc, cfg.acc_depth_log2)),
            "retired": Out(1), "fault": Out(1), "fault_index": Out(INDEX_BITS), "accepts": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        m.submodules.macs = macs = MacArray(cfg)
        m.submodules.alu = alu = Alu(cfg)
        last, word = 2 + macs.latency, 8 * cfg.acc_bytes

        # The step at each stage, and whether it is one that writes at the usual time, or multiplies.
        control = data.StructLayout({
            "dst": cfg.acc_depth_log2, "src": cfg.acc_depth_log2, "is_alu": 1, "reset": 1, "alu_opcode": 3, "use_imm": 1,
            "imm": signed(16), "last": 1,
        })
        now = self.steps.payload
        is_mul = now.is_alu & (now.alu_opcode == AluOp.MUL)
        at = [Signal(control, name=f"stage{n}") for n in range(last + 1)]
        writes, multiplies, ends = (
            [Signal(name=f"{name}{n}") for n in range(last + extra + 1)]
            for name, extra in (("writes", 1), ("multiplies", 0), ("ends", 1 + MUL_STAGES))
        )
        hazard = Signal()
        m.d.comb += [
            self.steps.ready.eq(~hazard & ~self.hold), self.accepts.eq(self.steps.valid & self.steps.ready),
            self.fault.eq(self.accepts & now.fault), self.fault_index.eq(now.index),
            writes[0].eq(self.accepts & ~now.fault & ~is_mul), multiplies[0].eq(self.accepts & ~now.fault & is_mul),
            ends[0].eq(self.accepts & now.last),
            *(at[0][name].eq(now[name]) for name in ("dst", "src", "is_alu", "reset", "alu_opcode", "use_imm", "imm", "last")),
        ]
        for line in (at, writes, multiplies, ends):
            m.d.sync += [after.eq(before) for before, after in pairwise(line)]
        # An instruction without MUL could retire earlier; retiring all at one stage keeps them in order.
        m.d.sync += self.retired.eq(ends[-1])
        m.d.comb += hazard.eq(self._unwritten(now) | self._mul_hazard(m, now, is_mul, multiplies[0]))
        m.d.comb += [
            self.inp.index.eq(now.src), self.inp.enable.eq(1), self.wgt.index.eq(now.wgt), self.wgt.enable.eq(1),
            macs.inp.eq(self.inp.data), macs.wgt.eq(self.wgt.data),
            self.acc.index.eq(at[last - 3].dst), self.acc.enable.eq(writes[last - 3] | multiplies[last - 3]),
            self.src.index.eq(at[last - 3].src),
            self.src.enable.eq(self.acc.enable & at[last - 3].is_alu & ~at[last - 3].use_imm),
        ]

        # Operands: what the scratchpad holds, unless a result on its way to it is newer.
        result, older = Signal(word), Signal(word)  # written in this cycle, and in the one before
        self._written = Signal(cfg.acc_depth_log2, name="written")
        a = self._operand(m, "a", "dst", at, writes, result, older, self.acc.data)
        b = self._operand(m, "b", "src", at, writes, result, older, self.src.data)
        b_bits = operand_bits(cfg)
        imm, second = Signal(signed(b_bits)), Signal(cfg.batch * cfg.block * b_bits)
        total = Signal(word)
        m.d.sync += imm.eq(at[last - 1].imm)
        for lane in range(cfg.batch * cfg.block):
            part = slice(lane * cfg.acc_bits, (lane + 1) * cfg.acc_bits)
            m.d.comb += [
                total[part].eq(a[part] + macs.sums[part]),
                second.word_select(lane, b_bits).eq(Mux(at[last].use_imm, imm, b[part].as_signed())),
            ]
        m.d.comb += [alu.a.eq(a), alu.b.eq(second), alu.opcode.eq(at[last].alu_opcode)]

        product, product_dst, product_runs = self._multiplier(m, a, second, at[last].dst, multiplies[last])
        m.d.sync += older.eq(result)
        with m.If(product_runs):
            m.d.sync += result.eq(product)
        with m.Elif(at[last].is_alu):
            m.d.sync += result.eq(alu.result)
        with m.Else():
            m.d.sync += result.eq(Mux(at[last].reset, 0, total))
        m.d.sync += [
            self.result.valid.eq(writes[last] | product_runs), self._written.eq(Mux(product_runs, product_dst, at[last].dst)),
        ]
        m.d.comb += [
            self.result.index.eq(self._written), self.result.count.eq(1), self.result.mask.eq(1), self.result.data[0].eq(result),
        ]
        return m

    def _unwritten(self, now: data.View) -> Value:
        """Whether the step needs an element that an older load has yet to write."""
        def within(index: Value) -> Value:
            return (index >= self.pending.next) & (index < self.pending.end)

        reads_src = now.is_alu & ~now.use_imm
        older = now.loads_before != self.pending.loads_done
        return older & (within(now.dst) | (reads_src & within(now.src)))

    def _mul_hazard(self, m: Module, now: data.View, is_mul: Value, accepted: Signal) -> Value:
        """Whether the step comes too soon after a MUL: any but a MUL waits until all are written, a MUL only for its elements."""
        recent = [Signal(name=f"recent_mul{n}") for n in range(MUL_WAIT_CYCLES)]
        dsts = [Signal.like(now.dst, name=f"recent_dst{n}") for n in range(MUL_WAIT_CYCLES)]
        m.d.sync += [recent[0].eq(accepted), dsts[0].eq(now.dst)]
        waits: Value = recent[0] & (~is_mul | (dsts[0] == now.dst) | (~now.use_imm & (dsts[0] == now.src)))
        for n in range(1, MUL_WAIT_CYCLES):
            m.d.sync += [recent[n].eq(recent[n - 1]), dsts[n].eq(dsts[n - 1])]
            waits |= recent[n] & (~is_mul | (dsts[n] == now.dst) | (~now.use_imm & (dsts[n] == now.src)))
        return waits

    def _operand(
        self, m: Module, name: str, index: str, at: list[data.View], writes: list[Signal],
        result: Signal, older: Signal, read: Value,
    ) -> Value:
        """An operand at the stage `last`, whatever was written to its element since it was read.

        Results come out one stage later, so the step at stage `last + n` is the one whose result is n - 1 cycles old. Which of
        them meets which operand is decided a cycle ahead, by comparing indices one stage earlier.
        """
        last = len(at) - 1

        def meets(stage: int, writer: int) -> Signal:
            """In the cycle after this one: is what `writer` writes the operand of the step now at `stage`?"""
            flag = Signal(name=f"{name}_{stage}_meets_{writer}")
            dst = at[writer].dst if writer <= last else self._written
            m.d.sync += flag.eq(writes[writer] & (at[stage][index] == dst))
            return flag

        from_three_ago, from_four_ago = meets(last - 3, last), meets(last - 3, last + 1)
        from_two_ago, from_last = meets(last - 2, last), meets(last - 1, last)
        first, second = Signal.like(result, name=f"{name}_first"), Signal.like(result, name=f"{name}_second")
        m.d.sync += first.eq(Mux(from_three_ago, result, Mux(from_four_ago, older, read)))
        m.d.sync += second.eq(Mux(from_two_ago, result, first))
        return Mux(from_last, result, second)

    def _multiplier(self, m: Module, a: Value, b: Value, dst: Value, runs: Signal) -> tuple[Signal, Signal, Signal]:
        """Low bits of the lanes' products `MUL_STAGES` cycles later, with their index and whether there are any."""
        bits = self._cfg.acc_bits
        left, right, product = Signal.like(a), Signal.like(b), Signal.like(a)
        # Operands are held still while no MUL runs: the multipliers then neither switch nor cost simulation time.
        with m.If(runs):
            m.d.sync += [left.eq(a), right.eq(b)]
        for lane in range(len(a) // bits):
            part = slice(lane * bits, (lane + 1) * bits)
            m.d.sync += product[part].eq(left[part] * right.word_select(lane, operand_bits(self._cfg)))
        line: list[Value] = [runs]
        dsts: list[Value] = [dst]
        for n in range(MUL_STAGES):
            line.append(Signal(name=f"product_runs{n}"))
            dsts.append(Signal.like(dst, name=f"product_dst{n}"))
            m.d.sync += [line[-1].eq(line[-2]), dsts[-1].eq(dsts[-2])]
        return product, dsts[-1], line[-1]
