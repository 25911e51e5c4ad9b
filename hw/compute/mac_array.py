"""The matrix core: one input tile times one weight tile, or a part of its outputs, a cycle."""

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.compute.booth import booth
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.timing import LEVELS_A_STAGE


def sum_bits(cfg: VTAConfig) -> int:
    """Bits of a sum: all that it can have, or those that the accumulator keeps."""
    return min(cfg.acc_bits, cfg.inp_bits + cfg.wgt_bits + cfg.log_block)


class MacArray(wiring.Component):
    """sums[b, o] = sum over i of inp[b, i] * wgt[o, i], `mac_latency` cycles after the tiles.

    Registers that do the same for neighbouring outputs have neighbouring names, so that a simulator keeps them side by side and
    its compiler finds vectors among them.

    Members
    -------
    inp : ``In(batch x block x inp_bits)``          a tile as it lies in the scratchpad; with a `Window` its factors
    wgt : ``In(outs x block x wgt_bits)``           likewise, [out][in]
    sums : ``Out(batch x outs of signed)``          of `sum_bits`

    passes : parts of a tile's outputs that are formed one after the other; outs is block / passes
    dsp_products : how many products are multiplications, for DSP blocks; the others are sums of rows, in logic. None: all
    """

    def __init__(self, cfg: VTAConfig, *, windows: bool = False, dsp_products: int | None = None, passes: int = 1) -> None:
        self._cfg, self._windows, self._outs = cfg, windows, cfg.block // passes
        self._dsp_products = cfg.products if dsp_products is None else dsp_products
        self._sum_bits = sum_bits(cfg)
        super().__init__({
            "inp": In(8 * cfg.inp_bytes * (self._outs if windows else 1)), "wgt": In(8 * cfg.wgt_bytes // passes),
            "sums": Out(data.ArrayLayout(signed(self._sum_bits), cfg.batch * self._outs)),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg, outs = Module(), self._cfg, self._outs
        inp = [self.inp[at : at + cfg.inp_bits].as_signed() for at in range(0, len(self.inp), cfg.inp_bits)]
        wgt = [self.wgt[at : at + cfg.wgt_bits].as_signed() for at in range(0, len(self.wgt), cfg.wgt_bits)]
        product_bits = min(self._sum_bits, cfg.inp_bits + cfg.wgt_bits)
        for row in range(cfg.batch):
            for out in range(outs):
                lane = row * outs + out
                terms = []
                for into in range(cfg.block):
                    name = f"product_in{into:02}_out{lane:03}"
                    product = Signal(signed(product_bits), name=name, reset_less=True)
                    factor = into * cfg.batch * outs + lane if self._windows else row * cfg.block + into
                    x, w = inp[factor], wgt[out * cfg.block + into]
                    in_dsp = into * cfg.batch * outs + lane < self._dsp_products  # so that each lane has its share
                    m.d.sync += product.eq(x * w if in_dsp else booth(m, x, w, name))
                    terms.append(product)
                m.d.comb += self.sums[lane].eq(self._tree(m, terms, lane))
        return m

    def _tree(self, m: Module, terms: list[Signal], lane: int) -> Signal:
        fan_in, level = 1 << LEVELS_A_STAGE, 0
        while len(terms) > 1:
            groups = [terms[at : at + fan_in] for at in range(0, len(terms), fan_in)]
            level += LEVELS_A_STAGE
            terms = [self._stage(m, group, f"sum{level}_{at:02}_out{lane:03}") for at, group in enumerate(groups)]
        return terms[0]

    def _stage(self, m: Module, terms: list[Signal], name: str) -> Signal:
        """A register for the sum of terms.

        It is as wide as the whole sum at once: the first adders extend signs, and no later one has to.
        """
        sums: list[Value] = [self._extended(term) for term in terms]
        while len(sums) > 1:
            sums = [(left + right)[: self._sum_bits] for left, right in zip(sums[::2], sums[1::2], strict=True)]
        register = Signal(signed(self._sum_bits), name=name, reset_less=True)
        m.d.sync += register.eq(sums[0].as_signed())
        return register

    def _extended(self, term: Signal) -> Value:
        """The term with so many copies of its sign that a sum with another has all bits; carries out of these do not count."""
        copies = self._sum_bits - 1 - len(term)
        return Cat(term, term[-1].replicate(copies)).as_signed() if copies >= 0 else term.as_unsigned()
