"""The vector ALU: one operation on every lane of two accumulator elements."""

from enum import Enum
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.exhaustive import covers, for_each
from vtakit.hw.isa.insns import ALU, AluOp

IMM_BITS = ALU.width("imm")
FINE_BITS = 2  # of a shift, in the second of its two cycles; accumulators have at least twice as many
DSP_BITS = 16  # numbers without a sign that one DSP block multiplies; accumulators have at most twice as many


class Result(Enum):
    """Sources of a lane's result."""

    COMPARED = "the lesser of the two operands, or the greater"
    SUM = "the adder"
    SHIFTED = "the shifter, whose most part takes a cycle"
    PRODUCT = "DSP blocks, with operands of their own"


RESULTS = for_each(AluOp, {
    AluOp.MIN: Result.COMPARED, AluOp.MAX: Result.COMPARED, AluOp.ADD: Result.SUM, AluOp.SHR: Result.SHIFTED,
    AluOp.MUL: Result.PRODUCT,
}, __name__)


def is_from(chosen: Value, result: Result) -> Value:
    """Return 1 if the selected operation (one-hot) takes its result from `result`."""
    return reduce(or_, [chosen[op] for op in AluOp if RESULTS[op] is result])


def is_product(alu_opcode: Value) -> Value:
    """Return 1 if an operation takes its result from the multipliers."""
    return reduce(or_, [alu_opcode == op for op in AluOp if RESULTS[op] is Result.PRODUCT])


def operand_bits(cfg: VTAConfig) -> int:
    """Bits of a second operand: an accumulator value or an immediate, which may be wider."""
    return max(cfg.acc_bits, IMM_BITS)


class Alu(wiring.Component):
    """result = op(a, b) on each of batch x block lanes, one cycle later.

    Members
    -------
    a : ``In(batch x block x acc_bits)``        first operands
    b : ``In(batch x block x operand_bits)``    second operands; the shift amounts of SHR
    factor_a, factor_b : ``In``                 a and the low bits of b, once more for MUL: of registers that nothing else reads,
                                                so that they can stand beside the DSP blocks
    chosen : ``In(operations)``                 bit n: the operation is `AluOp` n; decoded, to reach all lanes in time
    part : ``In``                               which of the `mul_passes` parts of the lanes the factors are of
    runs : ``In(1)``                            the operands are to be worked on; otherwise the result stays
    result : ``Out(batch x block x acc_bits)``  of MUL, once its parts have run one after the other, the last one last

    mul_passes : parts of the lanes that take the multipliers in turn; with one, each lane has multipliers of its own
    """

    def __init__(self, cfg: VTAConfig, *, mul_passes: int = 1) -> None:
        self._cfg, self._passes = cfg, mul_passes
        word, lanes = 8 * cfg.acc_bytes, cfg.batch * cfg.block
        factors = {name: In(word // mul_passes) for name in ("factor_a", "factor_b")}
        super().__init__({
            "a": In(word), "b": In(lanes * operand_bits(cfg)), **factors, "part": In(range(mul_passes)),
            "chosen": In(max(AluOp) + 1), "runs": In(1), "result": Out(word),
        })

    def elaborate(self, platform: object) -> Module:
        m, bits, b_bits = Module(), self._cfg.acc_bits, operand_bits(self._cfg)
        covers(Result, (Result.PRODUCT, Result.SHIFTED, Result.SUM, Result.COMPARED), f"{__name__}.Alu")  # has logic below
        # Each kind of result has registers of its own and they are chosen between behind those, since most of a shifter takes a
        # cycle; so what they are chosen by is a cycle late too.
        chosen = Signal.like(self.chosen, name="chosen_before")
        with m.If(self.runs):
            m.d.sync += chosen.eq(self.chosen)
        products = self._products(m)
        for lane in range(len(self.a) // bits):
            a, b = Signal(signed(bits), name=f"a{lane}"), Signal(signed(b_bits), name=f"b{lane}")
            other = Signal(bits, name=f"other{lane}", reset_less=True)
            shifted = self._shifted(m, a, b, lane)
            m.d.comb += [
                a.eq(self.a.word_select(lane, bits)), b.eq(self.b.word_select(lane, b_bits)),
                self.result.word_select(lane, bits).eq(
                    Mux(is_from(chosen, Result.PRODUCT), products[lane], Mux(is_from(chosen, Result.SHIFTED), shifted, other))
                ),
            ]
            with m.If(self.runs):
                with m.If(is_from(self.chosen, Result.SUM)):
                    m.d.sync += other.eq(a + b)
                with m.Else():
                    m.d.sync += other.eq(Mux((a < b) == self.chosen[AluOp.MIN], a, b))
        return m

    def _products(self, m: Module) -> list[Value]:
        """Return each lane's product. Those of all parts but the last are kept in registers until the last one is there."""
        bits = self._cfg.acc_bits
        made = [
            self._product(m, self.factor_a.word_select(n, bits), self.factor_b.word_select(n, bits), n)
            for n in range(len(self.factor_a) // bits)
        ]
        part = Signal.like(self.part, name="part_before")
        with m.If(self.runs):
            m.d.sync += part.eq(self.part)
        kept: list[Value] = []
        for number in range(self._passes - 1):
            mine = [Signal(bits, name=f"kept{number}_{n}", reset_less=True) for n in range(len(made))]
            with m.If(part == number):
                m.d.sync += [register.eq(product) for register, product in zip(mine, made, strict=True)]
            kept += mine
        return kept + made

    def _product(self, m: Module, a: Value, b: Value, lane: int) -> Value:
        """a * b, a cycle later. DSP blocks are slow: their products go to registers, and are added behind those."""
        bits = len(a)
        half = min(bits, DSP_BITS)
        factors = {"low": (a[:half], b[:half])}
        if bits > half:  # the product of the high halves lies beyond the result
            factors |= {"left": (a[half:], b[:half]), "right": (a[:half], b[half:])}
        products = {
            name: Signal(bits if name == "low" else bits - half, name=f"{name}{lane}", reset_less=True) for name in factors
        }
        with m.If(self.runs):
            m.d.sync += [products[name].eq(left * right) for name, (left, right) in factors.items()]
        low, *others = products.values()
        return Cat(low[:half], (low[half:] + sum(others))[: bits - half]) if others else low

    def _shifted(self, m: Module, a: Signal, b: Signal, lane: int) -> Value:
        """a >> b, or a << -b for negative b, a cycle later, by one shifter to the right.

        A left shift by n takes the low half of (a, 0) >> (width - n), and the low bits of b = -n are just width - n. The last
        `FINE_BITS` of the shift come behind the register: a shifter whole is the slowest path of the core.
        """
        bits = len(a)
        log2 = bits.bit_length() - 1
        left, far, fill = (Signal(name=f"{name}{lane}") for name in ("left", "far", "fill"))
        high, wide = Signal(bits, name=f"high{lane}"), Signal(2 * bits, name=f"wide{lane}")
        upper, ones = b[log2:], Const((1 << bits) - 1, bits)
        m.d.comb += [
            left.eq(b[-1]), fill.eq(~left & a[-1]), far.eq(Mux(left, ~upper.all(), upper.any())),  # far: by the width or more
            high.eq(Mux(left, a, Mux(fill, ones, 0))), wide.eq(Cat(Mux(left, 0, a), high)),
        ]
        part = Signal(bits + (1 << FINE_BITS) - 1, name=f"part{lane}", reset_less=True)
        rest, shifted = Signal(FINE_BITS, name=f"rest{lane}", reset_less=True), Signal(bits, name=f"shifted{lane}")
        with m.If(self.runs):
            m.d.sync += [
                part.eq(Mux(far, fill.replicate(len(part)), wide >> Cat(Const(0, FINE_BITS), b[FINE_BITS:log2]))),
                rest.eq(b[:FINE_BITS]),
            ]
        m.d.comb += shifted.eq(part >> rest)
        return shifted
