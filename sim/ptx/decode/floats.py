"""Instructions on floating point."""

from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import Context, ones, width
from vtakit.sim.ptx.decode.integers import comparison
from vtakit.sim.ptx.text.syntax import Instruction

FORMATS = {"f32": o.F32, "f64": o.F64, "f16": o.F16, "bf16": o.BF16, "tf32": o.TF32, "e4m3": o.E4M3, "e5m2": o.E5M2,
           "f16x2": o.F16, "bf16x2": o.BF16, "f32x2": o.F32, "e4m3x2": o.E4M3, "e5m2x2": o.E5M2}
TYPES = tuple(FORMATS)
_OPS = {"add": o.N_ADD, "sub": o.N_SUB, "mul": o.N_MUL, "fma": o.N_FMA, "mad": o.N_FMA, "div": o.N_DIV, "min": o.N_MIN,
        "max": o.N_MAX,
        "neg": o.N_NEG, "abs": o.N_ABS, "sqrt": o.N_SQRT, "rcp": o.N_RCP, "rsqrt": o.N_RSQRT, "ex2": o.N_EX2, "lg2": o.N_LG2,
        "sin": o.N_SIN, "cos": o.N_COS, "tanh": o.N_TANH, "copysign": o.N_COPYSIGN}
_FREQUENT = {"add": o.F_ADD, "sub": o.F_SUB, "mul": o.F_MUL, "fma": o.F_FMA}
_SOURCES = {"fma": 3, "mad": 3, "neg": 1, "abs": 1, "sqrt": 1, "rcp": 1, "rsqrt": 1, "ex2": 1, "lg2": 1, "sin": 1, "cos": 1,
            "tanh": 1}
_FLAGS = {"ftz": o.FLUSH, "sat": o.SATURATE, "NaN": o.PROPAGATE_NAN, "relu": o.RELU}
_NO_FLAG = ("rn", "approx", "full")  # a function's value is exact and rounded once, whatever error the hardware may make
_TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def flags_of(c: Context, words: tuple[str, ...]) -> int:
    """The flags that modifiers name."""
    found = 0
    for word in words:
        if word in _FLAGS:
            found |= _FLAGS[word]
        elif word not in _NO_FLAG:
            raise c.error(f"the modifier {word!r} is unknown")
    return found


def arithmetic(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """Operations with one result of their operands' type."""
    kind = words[-1]
    flags = flags_of(c, words[1:-1])
    places = dict(zip("ABC", (c.source(each, kind) for each in i.operands[1:1 + _SOURCES.get(words[0], 2)]), strict=False))
    to = c.register(i.operands[0])
    if kind == "f32" and not flags and words[0] in _FREQUENT:
        c.row(_FREQUENT[words[0]], "float", D=to, **places)
        return
    parts = 2 if kind.endswith("x2") else 1
    c.row(_OPS[words[0]], "float", D=to, KIND=FORMATS[kind], FLAGS=flags, K=width(kind) // parts, COUNT=parts, **places)


def compare(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """setp of floating point."""
    kind = words[-1]
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    flags = flags_of(c, tuple(word for word in words[2:-1] if word not in ("and", "or", "xor")))
    if kind.endswith("x2"):
        raise c.error("comparisons of two values in a register are unknown to it")
    places = comparison(c, i, tuple(word for word in words if word != "ftz"))
    test = o.COMPARISONS[words[1]]
    if kind == "f32" and not flags:
        c.row(o.F_SETP, "float", A=a, B=b, KIND=test, **places)
        return
    combine = places.pop("KIND2") | places.pop("IMM") << 2
    c.row(o.N_SETP, "float", A=a, B=b, KIND=FORMATS[kind], KIND2=test, IMM=combine, FLAGS=flags, K=width(kind), COUNT=1, **places)


def compare_set(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """set of floating point."""
    result, kind = words[-2:]
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    if kind.endswith("x2") or len(words) - ("ftz" in words) != 4:
        raise c.error("this form of set is unknown to it")
    true = 0x3F800000 if result == "f32" else ones(width(result)) if result[0] in "us" else 0x3C00 if result == "f16" else 0x3F80
    c.row(o.N_SET, "float", D=c.register(i.operands[0]), A=a, B=b, KIND=FORMATS[kind], KIND2=o.COMPARISONS[words[1]], IMM=true,
          FLAGS=flags_of(c, words[2:-2]), K=width(kind), COUNT=1)


def test(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """testp."""
    a = c.source(i.operands[1], words[-1])
    c.row(o.N_TESTP, "float", D=c.register(i.operands[0]), A=a, KIND=FORMATS[words[-1]], IMM=_TESTS.index(words[1]),
          K=width(words[-1]),
          COUNT=1)
