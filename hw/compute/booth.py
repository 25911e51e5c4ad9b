"""Products in logic, for devices with fewer DSP blocks than the matrix core has multipliers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def booth(m: Module, a: Value, b: Value, name: str) -> Value:
    """Return a * b of signed numbers as a sum of a row for every two bits of b (Booth's recoding, radix 4).

    A synthesizer takes it for no DSP block, since nothing here is a multiplication. A negative row is the complement of a
    positive one, and its missing 1 stands in the row behind it, whose two low bits are free. Sums are kept by their names: of
    8 by 8 bits yosys makes 49 LUTs of a 7-series, or 107 of an ECP5, of the sums as they are, and 96 or 185 if it may merge them.
    """
    bits, size = Cat(Const(0, 1), b, b[-1]), len(a) + 1
    rows: list[Value] = []
    missing: Value = Const(0, 0)
    for at in range(0, len(b), 2):
        low, middle, negative = bits[at], bits[at + 1], bits[at + 2]  # of three ones the row is -0
        one, two = low ^ middle, Mux(negative, ~(low | middle), low & middle)
        row = Mux(two, a << 1, Mux(one, a, 0))[:size] ^ negative.replicate(size)
        rows.append(Cat(Const(0, max(0, at - 2)), missing, row).as_signed())
        missing = Cat(negative, Const(0, 1))
    rows.append((missing[0] << (len(b) - 1 & ~1)).as_unsigned())
    level = 0
    while len(rows) > 1:
        sums = []
        for at in range(0, len(rows) - 1, 2):
            total = rows[at] + rows[at + 1]
            kept = Signal(total.shape(), name=f"{name}_rows{level}_{at}", attrs={"keep": "true"})
            m.d.comb += kept.eq(total)
            sums.append(kept)
        rows, level = [*sums, *rows[len(rows) & ~1:]], level + 1
    return rows[0][: len(a) + len(b)].as_signed()
