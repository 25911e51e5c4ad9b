"""The matrix core: one input tile times one weight tile a cycle."""

from amaranth.hdl import Module, Signal, Value, signed
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
                terms: list[Value] = []
                for into in range(cfg.block):
                    product = Signal(signed(product_bits), name=f"product_{row}_{out}_{into}")
                    m.d.sync += product.eq(inp[row * cfg.block + into] * wgt[out * cfg.block + into])
                    terms.append(product)
                total = self._tree(m, terms, f"sum_{row}_{out}")
                m.d.comb += self.sums.word_select(row * cfg.block + out, cfg.acc_bits).eq(total)
        return m

    def _tree(self, m: Module, terms: list[Value], name: str) -> Value:
        level = 0
        while len(terms) > 1:
            terms = [left + right for left, right in zip(terms[::2], terms[1::2], strict=True)]
            level += 1
            if level % LEVELS_A_STAGE == 0 or len(terms) == 1:
                kept = [Signal(term.shape(), name=f"{name}_level{level}_{at}") for at, term in enumerate(terms)]
                m.d.sync += [register.eq(term) for register, term in zip(kept, terms, strict=True)]
                terms = list(kept)
        return terms[0]
