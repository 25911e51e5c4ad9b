"""Conversions."""

from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import Context, width
from vtakit.sim.ptx.decode.floats import FORMATS, TYPES
from vtakit.sim.ptx.text.syntax import Instruction

_ROUNDINGS = {"rn": o.NEAREST, "rz": o.ZERO, "rm": o.DOWN, "rp": o.UP, "rna": o.AWAY,
              "rni": o.NEAREST, "rzi": o.ZERO, "rmi": o.DOWN, "rpi": o.UP}
_FLAGS = {"ftz": o.FLUSH, "sat": o.SATURATE, "relu": o.RELU, "satfinite": 0}


def convert(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """cvt from any type to any."""
    to, given = words[-2:]
    rounding, flags = None, 0
    for word in words[1:-2]:
        if word in _ROUNDINGS:
            rounding = _ROUNDINGS[word]
            if word.endswith("i") and to in TYPES:
                flags |= o.TO_INTEGRAL
        elif word in _FLAGS:
            flags |= _FLAGS[word]
        else:
            raise c.error(f"the modifier {word!r} is unknown")
    finite = int("satfinite" in words)
    if to.endswith("x2") and not given.endswith("x2"):
        high, low = (c.source(each, given) for each in i.operands[1:3])
        c.row(o.CVT_PACK, "convert", D=c.register(i.operands[0]), A=high, B=low, M=c.mask(i.operands[0]), KIND=FORMATS[to],
              KIND2=FORMATS[given], IMM=o.NEAREST if rounding is None else rounding, FLAGS=flags, SIGNED=finite)
        return
    mask = c.mask(i.operands[0])
    a = c.source(i.operands[1], given)
    common = {"A": a, "D": c.register(i.operands[0]), "M": mask, "FLAGS": flags}
    if given.endswith("x2"):
        if to != "f16x2" and to != "bf16x2":
            raise c.error("its types are unknown")
        c.row(o.CVT_UNPACK, "convert", KIND=FORMATS[to], KIND2=FORMATS[given], **common)
    elif to in TYPES and given in TYPES:
        c.row(o.CVT_FLOAT, "convert", KIND=FORMATS[to], KIND2=FORMATS[given], IMM=o.NEAREST if rounding is None else rounding,
              SIGNED=finite, **common)
    elif to in TYPES:
        c.row(o.CVT_TO_FLOAT, "convert", KIND=FORMATS[to], K=64 - width(given), SIGNED=2 * int(given[0] == "s"),
              IMM=o.NEAREST if rounding is None else rounding, **common)
    elif given in TYPES:
        c.row(o.CVT_TO_INT, "convert", KIND2=FORMATS[given], COUNT=width(to), SIGNED=int(to[0] == "s"),
              IMM=o.ZERO if rounding is None else rounding, **common)
    else:
        c.row(o.CVT_INT, "convert", K=64 - width(given), COUNT=width(to), SIGNED=int(to[0] == "s") | 2 * int(given[0] == "s"),
              **common)
