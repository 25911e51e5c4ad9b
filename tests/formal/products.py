"""A product in logic is the product."""

from amaranth.hdl import Module, Signal, signed
from formal.checker import Checker

from vtakit.hw.compute.booth import booth


class RowsMakeTheProduct(Checker):
    """booth against a multiplication, of all operands of so many bits."""

    def __init__(self, a_bits: int, b_bits: int) -> None:
        self._bits = a_bits, b_bits
        super().__init__()

    def properties(self, m: Module) -> None:
        a, b = (Signal(signed(bits), name=f"held_{name}") for name, bits in zip("ab", self._bits, strict=True))
        m.d.sync += [a.eq(self.free("a", a.shape())), b.eq(self.free("b", b.shape()))]
        found = booth(m, a, b, "product")
        self.watch(held_a=a, held_b=b, found=found)
        self.prove(m, "the sum of rows is the product", found == a * b)
        self.reach(m, "both of the least numbers there are", found == 1 << sum(self._bits) - 2)
