"""The matrix core: one input tile times one weight tile a cycle."""

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.config import VTAConfig

LEVELS_A_STAGE = 2  # adder levels between two registers


def mac_latency(cfg: VTAConfig) -> int:
    """Cycles from tiles to sums: products, then the tree."""
    return 1 + -(-cfg.log_block // LEVELS_A_STAGE)


class MacArray(wiring.Component):
    """sums[b, o] = sum over i of inp[b, i] * wgt[o, i], `mac_latency` cycles after the tiles.

    Members
    -------
    inp : ``In(batch x block x inp_bits)``          a tile as it lies in the scratchpad
    wgt : ``In(block x block x wgt_bits)``          likewise, [out][in]
    sums : ``Out(batch x block x acc_bits)``        wrapped at the accumulator's width
    """

    def __init__(self, cfg: VTAConfig) -> None:
        self._cfg = cfg
        super().__init__({
            "inp": In(8 * cfg.inp_bytes), "wgt": In(8 * cfg.wgt_bytes), "sums": Out(8 * cfg.acc_bytes),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        inp = [self.inp[at : at + cfg.inp_bits].as_signed() for at in range(0, len(self.inp), cfg.inp_bits)]
        wgt = [self.wgt[at : at + cfg.wgt_bits].as_signed() for at in range(0, len(self.wgt), cfg.wgt_bits)]
        product_bits = cfg.inp_bits + cfg.wgt_bits
        for row in range(cfg.batch):
            for out in range(cfg.block):
                terms: list[Signal] = []
                for into in range(cfg.block):
                    product = Signal(signed(product_bits), name=f"product_{row}_{out}_{into}", reset_less=True)
                    m.d.sync += product.eq(inp[row * cfg.block + into] * wgt[out * cfg.block + into])
                    terms.append(product)
                total = self._tree(m, terms, f"sum_{row}_{out}")
                m.d.comb += self.sums.word_select(row * cfg.block + out, cfg.acc_bits).eq(total)
        return m

    def _tree(self, m: Module, terms: list[Signal], name: str) -> Signal:
        fan_in, level = 1 << LEVELS_A_STAGE, 0
        while len(terms) > 1:
            groups = [terms[at : at + fan_in] for at in range(0, len(terms), fan_in)]
            level += LEVELS_A_STAGE
            terms = [self._stage(m, group, f"{name}_level{level}_{at}") for at, group in enumerate(groups)]
        return terms[0]

    def _stage(self, m: Module, terms: list[Signal], name: str) -> Signal:
        """A register for the sum of terms of one width.

        Only the first adders extend a sign; the others drop their carries, since the sum fits. So simulators, too, extend
        nothing twice.
        """
        bits = len(terms[0]) + (len(terms) - 1).bit_length()
        parts = [Cat(term, term[-1].replicate(bits - 1 - len(term))).as_signed() for term in terms]
        sums: list[Value] = [left + right for left, right in zip(parts[::2], parts[1::2], strict=True)]
        while len(sums) > 1:
            pairs = zip(sums[::2], sums[1::2], strict=True)
            sums = [(left.as_unsigned() + right.as_unsigned())[:bits] for left, right in pairs]
        register = Signal(signed(bits), name=name, reset_less=True)
        m.d.sync += register.eq(sums[0])
        return register
