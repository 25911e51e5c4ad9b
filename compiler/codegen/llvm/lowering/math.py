"""Math functions of floating-point values.

exp, exp2, log, log2, tanh, erf and sigmoid of float32 are polynomials after a reduction of the argument, within 2 ulp, the same
for scalars and vectors so that a schedule does not change results. Each polynomial's weighted relative error is under 1e-8,
fitted by Lawson's iteration (C. Lawson, Contributions to the theory of linear minimax approximation, 1961) on the interval
that its function names. Without fused multiply-add on the target the error is up to 3 ulp.
What is neither among them nor an LLVM intrinsic calls the C library, lane by lane.
"""

import math
from collections.abc import Callable, Sequence

from vtakit.compiler.codegen.llvm.lowering.floats import suffix
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant

# Highest power first.
_EXP = (0.0013951717410236597, 0.008369598537683487, 0.0416661873459816, 0.16666512191295624, 0.5)
_EXP2 = (
    0.0001547736901557073, 0.0013401624746620655, 0.009618000127375126, 0.0555032454431057, 0.24022650718688965,
    0.6931471824645996,
)
_LOG = (
    0.06757530570030212, -0.11694324761629105, 0.1189352497458458, -0.12403086572885513, 0.1421855241060257, -0.16668090224266052,
    0.2000216692686081, -0.25000008940696716, 0.3333331048488617,
)
TANH = (-0.005717036779969931, 0.020650578662753105, -0.05374349653720856, 0.13331490755081177, -0.3333328366279602)
ERF = (
    8.345225069206208e-05, -0.0008137437398545444, 0.005200634244829416, -0.02685927040874958, 0.11283694207668304,
    -0.37612634897232056, 0.12837916612625122,
)
ERFC = (  # -log(erfc(t)) = t + t * p(t)
    1.1522463864821475e-05, -0.00032565437140874565, 0.0036537705454975367, -0.023785360157489777, 0.1062631607055664,
    0.6351358890533447, 0.1286521703004837,
)
# ln 2 in two parts: the product of the first with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06
SCALED = 16  # lanes of the instruction that scales by powers of two
_SHIFT = 12582912.0  # 1.5 * 2**23: adding it leaves the nearest integer in the low bits


class Float32:
    """Arithmetic on float32 values of one type, scalar or vector."""

    def __init__(self, b: Builder, target: Target, type_: str) -> None:
        self.b, self.type, self.word = b, type_, ty.like("i32", type_)
        self.fused = target.has_fma
        self.scales = target.has("avx512f")

    def const(self, value: float) -> Value:
        return float_constant(self.type, value)

    def bits(self, value: int) -> Value:
        return int_constant(self.word, value)

    def add(self, a: Value, b: Value | float) -> Value:
        return self.b.op("fadd", a, self._of(b))

    def sub(self, a: Value | float, b: Value | float) -> Value:
        return self.b.op("fsub", self._of(a), self._of(b))

    def mul(self, a: Value, b: Value | float) -> Value:
        return self.b.op("fmul", a, self._of(b))

    def div(self, a: Value | float, b: Value) -> Value:
        return self.b.op("fdiv", self._of(a), b)

    def _of(self, value: Value | float) -> Value:
        return value if isinstance(value, Value) else self.const(value)

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """``a * b + c``, rounded once where an instruction does that."""
        if not self.fused:
            return self.add(self.mul(a, b), c)
        return self.b.intrinsic(f"fma.{suffix(self.type)}", self.type, a, self._of(b), self._of(c))

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        found: Value | None = None
        for c in coefficients:
            found = self.const(c) if found is None else self.fma(found, x, c)
        assert found is not None
        return found

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """x within the bounds; NaN stays."""
        b = self.b
        x = b.select(b.fcmp("ogt", self.const(low), x), self.const(low), x)
        return b.select(b.fcmp("olt", self.const(high), x), self.const(high), x)

    def abs(self, x: Value) -> Value:
        return self.b.intrinsic(f"fabs.{suffix(self.type)}", self.type, x)

    def copysign(self, x: Value, sign: Value) -> Value:
        return self.b.intrinsic(f"copysign.{suffix(self.type)}", self.type, x, sign)

    def nearest(self, x: Value) -> tuple[Value, Value]:
        """The nearest integer of a small number, as a float and as an int (which is arbitrary for NaN)."""
        shifted = self.add(x, _SHIFT)
        as_int = self.b.op("sub", self.b.bitcast(shifted, self.word), self.b.bitcast(self.const(_SHIFT), self.word))
        return self.sub(shifted, _SHIFT), as_int

    def scale(self, x: Value, power: Value, n: Value) -> Value:
        """``x * 2**n`` for -252 <= n <= 254, rounded once: in two steps so that neither factor is out of range, or by AVX-512.

        power : n as a float
        """
        b = self.b
        lanes = ty.split(self.type)[1]
        if self.scales and lanes >= SCALED and lanes.bit_count() == 1:
            parts = [range(at, at + SCALED) for at in range(0, lanes, SCALED)]
            return b.joined([self._scaled(*(b.shuffle(a, a, part) for a in (x, power))) for part in parts])
        half = b.op("ashr", n, self.bits(1))
        for part in (half, b.op("sub", n, half)):
            power = b.op("shl", b.op("add", part, self.bits(127)), self.bits(23))
            x = self.mul(x, b.bitcast(power, self.type))
        return x

    def _scaled(self, x: Value, power: Value) -> Value:
        every, rounded = int_constant("i16", -1), int_constant("i32", 4)  # as the processor is told to
        return self.b.intrinsic("x86.avx512.mask.scalef.ps.512", x.type, x, power, x, every, rounded)


def _exp(f: Float32, x: Value) -> Value:
    """x = n ln2 + r, |r| <= ln2 / 2: exp(x) = 2**n * (1 + r + r**2 p(r))."""
    x = f.clamp(x, -105.0, 89.0)  # beyond, the result is 0 or infinite all the same
    n, n_int = f.nearest(f.mul(x, 1 / math.log(2)))
    r = f.fma(n, -_LN2_HIGH, x)
    r = f.fma(n, -_LN2_LOW, r)
    p = f.fma(f.mul(r, r), f.polynomial(r, _EXP), r)
    return f.scale(f.add(p, 1.0), n, n_int)


def _exp2(f: Float32, x: Value) -> Value:
    """x = n + r, |r| <= 1/2: 2**n * (1 + r p(r))."""
    x = f.clamp(x, -151.0, 129.0)
    n, n_int = f.nearest(x)
    r = f.sub(x, n)
    return f.scale(f.fma(f.polynomial(r, _EXP2), r, 1.0), n, n_int)


def _log_parts(f: Float32, x: Value) -> tuple[Value, Value, Value, Value]:
    """x = 2**e (1 + m), sqrt(1/2) <= 1 + m < sqrt(2): (e, m, m**2, m**3 p(m)) with log(1 + m) = m - m**2 / 2 + m**3 p(m)."""
    b = f.b
    subnormal = b.fcmp("olt", x, f.const(2.0**-126))
    x = b.select(subnormal, f.mul(x, 2.0**23), x)
    raw = b.bitcast(x, f.word)
    # Taking sqrt(1/2)'s bits away puts the step of the exponent there.
    offset = b.op("sub", raw, f.bits(0x3F3504F3))
    e = b.op("ashr", offset, f.bits(23))
    m = f.sub(b.bitcast(b.op("sub", raw, b.op("shl", e, f.bits(23))), f.type), 1.0)
    exponent = b.convert("sitofp", e, f.type)
    exponent = f.sub(exponent, b.select(subnormal, f.const(23.0), f.const(0.0)))
    square = f.mul(m, m)
    return exponent, m, square, f.mul(f.mul(square, m), f.polynomial(m, _LOG))


def _log_edges(f: Float32, x: Value, found: Value) -> Value:
    """The logarithm's values at 0, infinity, NaN and below 0."""
    b = f.b
    found = b.select(b.fcmp("oeq", x, f.const(math.inf)), x, found)
    found = b.select(b.fcmp("oeq", x, f.const(0.0)), f.const(-math.inf), found)
    return b.select(b.fcmp("uge", x, f.const(0.0)), b.select(b.fcmp("uno", x, x), x, found), f.const(math.nan))


def _log(f: Float32, x: Value) -> Value:
    e, m, square, cube = _log_parts(f, x)
    tail = f.fma(square, -0.5, f.fma(e, _LN2_LOW, cube))
    return _log_edges(f, x, f.fma(e, _LN2_HIGH, f.add(m, tail)))


def _log2(f: Float32, x: Value) -> Value:
    e, m, square, cube = _log_parts(f, x)
    tail = f.fma(square, -0.5, cube)
    # log2(e) = 1 + 0.4426950408889634: adding the one last keeps the result near 1 exact enough.
    rest = f.fma(tail, 0.4426950408889634, f.fma(m, 0.4426950408889634, tail))
    return _log_edges(f, x, f.add(e, f.add(rest, m)))


def _tanh(f: Float32, x: Value) -> Value:
    """Up to 0.625 x + x**3 p(x**2), beyond 1 - 2 / (exp(2 |x|) + 1)."""
    b = f.b
    size, z = f.abs(x), f.mul(x, x)
    small = f.fma(f.mul(z, x), f.polynomial(z, TANH), x)
    large = f.sub(1.0, f.div(2.0, f.add(_exp(f, f.add(size, size)), 1.0)))
    return f.copysign(b.select(b.fcmp("ogt", size, f.const(0.625)), large, small), x)  # of -0.0 too


def _erf(f: Float32, x: Value) -> Value:
    """Up to 0.927 x + x p(x**2), beyond 1 - exp(-t - t p(t)) of t = |x|; from 4 on it is 1."""
    b = f.b
    z = f.mul(x, x)
    small = f.fma(f.polynomial(z, ERF), x, x)
    size = f.abs(x)
    t = f.clamp(size, 0.0, 4.0)
    power = f.fma(f.polynomial(t, ERFC), t, t)
    large = f.sub(1.0, _exp(f, b.fneg(power)))
    return b.select(b.fcmp("ogt", size, f.const(0.927)), f.copysign(large, x), small)


def _sigmoid(f: Float32, x: Value) -> Value:
    """1 / (1 + exp(-x)), and exp(x) / (1 + exp(x)) below 0, so that exp does not overflow."""
    e = _exp(f, f.b.fneg(f.abs(x)))
    above = f.b.select(f.b.fcmp("olt", x, f.const(0.0)), e, f.const(1.0))
    return f.div(above, f.add(e, 1.0))


def _rsqrt(f: Float32, x: Value) -> Value:
    return f.div(1.0, f.b.intrinsic(f"sqrt.{suffix(f.type)}", f.type, x))


POLYNOMIALS: dict[str, Callable[[Float32, Value], Value]] = {
    "exp": _exp, "exp2": _exp2, "log": _log, "log2": _log2, "tanh": _tanh, "erf": _erf, "sigmoid": _sigmoid, "rsqrt": _rsqrt,
}
INTRINSICS = ("sqrt", "floor", "ceil", "trunc", "round", "nearbyint", "fabs", "copysign")
_LIBRARY = {  # of one or two arguments, in C's names
    "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "pow", "atan2", "hypot", "fmod",
}
NAMES = frozenset(POLYNOMIALS) | frozenset(INTRINSICS) | _LIBRARY | {"exp10", "abs"}


def library(b: Builder, name: str, *args: Value) -> Value:
    """A function of the C library applied to each lane of float32 or float64 values."""
    def one(*lanes: Value) -> Value:
        return b.call(name + ("f" if lanes[0].type == "float" else ""), lanes[0].type, *lanes)
    return b.per_lane(one, *args)


def function(b: Builder, target: Target, name: str, args: Sequence[Value]) -> Value:
    """The named function of float32 or float64 values; `name` is one of `NAMES`."""
    x = args[0]
    if name == "abs":
        name = "fabs"
    if name in INTRINSICS:
        return b.intrinsic(f"{name}.{suffix(x.type)}", x.type, *args)
    if ty.scalar(x.type) == "float":
        if name in POLYNOMIALS:
            return POLYNOMIALS[name](Float32(b, target, x.type), x)
    elif name == "rsqrt":
        return b.op("fdiv", float_constant(x.type, 1.0), b.intrinsic(f"sqrt.{suffix(x.type)}", x.type, x))
    elif name == "sigmoid":
        one = float_constant(x.type, 1.0)
        return b.op("fdiv", one, b.op("fadd", one, library(b, "exp", b.fneg(x))))
    if name == "exp10":  # not in ISO C
        return library(b, "pow", float_constant(x.type, 10.0), x)
    return library(b, name, *args)
