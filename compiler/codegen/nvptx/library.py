"""Functions of C's math library for kernels, which have no library to call: defined in the module that calls them.

All compute in float64. Those of float32 round the result once more, so their error is at most one unit in the last place
(sin, cos and tan for arguments up to 1e9 in magnitude); fmod and nextafter are exact. Those of float64 have a relative error of
at most 4e-16 times the figure in brackets: exp, log and their kin (2), sin, cos, atan (2), sinh to atanh (8), pow (1,500).
Measured by tests/compiler/nvptx/test_library.py. exp, log, tanh, erf and others of float32 are no calls: see
`vtakit.compiler.codegen.llvm.lowering.math`.
"""

import math
from collections.abc import Callable

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.declarations import Declarations
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant
from vtakit.compiler.codegen.nvptx.doubles import Doubles

_D = "double"
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has 32 bits, so that its multiples are exact
# pi / 2 as the sum of three doubles, each the next 53 bits.
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)


_Of = Callable[..., Value]


def _exp_parts(d: Doubles, x: Value) -> tuple[Value, Value]:
    """x = n ln2 + r, |r| <= ln2 / 2: (r, n)."""
    x = d.clamp(x, -760.0, 720.0)
    n = d.one("rint", d.mul(x, 1 / math.log(2)))
    return d.fma(n, -_LN2_LOW, d.fma(n, -_LN2_HIGH, x)), n


def _exp(d: Doubles, x: Value) -> Value:
    r, n = _exp_parts(d, x)
    return d.scale(d.series(r, [1 / math.factorial(k) for k in range(14)]), d.integer(n))


def _exp2(d: Doubles, x: Value) -> Value:
    x = d.clamp(x, -1080.0, 1030.0)
    n = d.one("rint", x)
    r = d.mul(d.sub(x, n), math.log(2))
    return d.scale(d.series(r, [1 / math.factorial(k) for k in range(14)]), d.integer(n))


def _expm1(d: Doubles, x: Value) -> Value:
    small = d.mul(x, d.series(x, [1 / math.factorial(k + 1) for k in range(15)]))
    return d.select(d.test("olt", d.abs(x), 0.4), small, d.sub(_exp(d, x), 1.0))


def _log(d: Doubles, x: Value) -> Value:
    """x = 2**e m, sqrt(1/2) <= m < sqrt(2); log m = 2 atanh(s), s = (m - 1) / (m + 1)."""
    b = d.b
    subnormal = d.test("olt", x, 2.0**-1022)
    raw = b.bitcast(d.select(subnormal, d.mul(x, 2.0**54), x), "i64")
    offset = b.op("sub", raw, int_constant("i64", 0x3FE6A09E667F3BCD))  # of sqrt(1/2): its step of the exponent is there
    e = b.op("ashr", offset, int_constant("i64", 52))
    m = b.bitcast(b.op("sub", raw, b.op("shl", e, int_constant("i64", 52))), _D)
    power = d.sub(b.convert("sitofp", e, _D), d.select(subnormal, 54.0, 0.0))
    f = d.sub(m, 1.0)
    s = d.div(f, d.add(f, 2.0))
    z = d.mul(s, s)
    tail = d.mul(z, d.series(z, [2 / (2 * k + 3) for k in range(11)]))
    # log m = f - s (f - tail): the large part is exact.
    found = d.fma(power, _LN2_HIGH, d.sub(f, d.fma(s, d.sub(f, tail), d.mul(power, -_LN2_LOW))))
    found = d.select(d.test("oeq", x, math.inf), x, found)
    found = d.select(d.test("oeq", x, 0.0), -math.inf, found)
    return d.select(d.test("uge", x, 0.0), d.select(d.test("uno", x, x), x, found), math.nan)


def _log1p(d: Doubles, x: Value) -> Value:
    u = d.add(x, 1.0)
    found = d.add(_log(d, u), d.div(d.sub(x, d.sub(u, 1.0)), u))
    found = d.select(d.test("oeq", u, math.inf), u, d.select(d.test("oeq", u, 0.0), -math.inf, found))
    return d.select(d.test("olt", d.abs(x), 1e-17), x, found)


def _reduced(d: Doubles, x: Value) -> tuple[Value, Value]:
    """x = n pi/2 + r, |r| <= pi/4: (r, n as an i64)."""
    n = d.one("rint", d.mul(x, 2 / math.pi))
    r = x
    for part in _HALF_PI:
        r = d.fma(n, -part, r)
    return r, d.integer(n)


def _sin_cos(d: Doubles, x: Value) -> tuple[Value, Value]:
    b = d.b
    r, n = _reduced(d, x)
    z = d.mul(r, r)
    sin = d.fma(d.mul(r, z), d.series(z, [(-1) ** (k + 1) / math.factorial(2 * k + 3) for k in range(8)]), r)
    cos = d.fma(z, d.series(z, [(-1) ** (k + 1) / math.factorial(2 * k + 2) for k in range(9)]), 1.0)
    odd = b.icmp("ne", b.op("and", n, int_constant("i64", 1)), int_constant("i64", 0))
    below = b.icmp("ne", b.op("and", n, int_constant("i64", 2)), int_constant("i64", 0))
    first, second = b.select(odd, cos, sin), b.select(odd, b.fneg(sin), cos)
    return b.select(below, b.fneg(first), first), b.select(below, b.fneg(second), second)


def _sin(d: Doubles, x: Value) -> Value:
    return d.select(d.test("oeq", x, 0.0), x, _sin_cos(d, x)[0])


def _tan(d: Doubles, x: Value) -> Value:
    sin, cos = _sin_cos(d, x)
    return d.select(d.test("oeq", x, 0.0), x, d.div(sin, cos))


def _atan(d: Doubles, x: Value) -> Value:
    """1/t for t = |x| above 1, then (t - 1) / (t + 1) above tan(pi/8): a series of at most 0.4143."""
    size = d.abs(x)
    large = d.test("ogt", size, 1.0)
    t = d.select(large, d.div(1.0, size), size)
    middle = d.test("ogt", t, math.sqrt(2) - 1)
    t = d.select(middle, d.div(d.sub(t, 1.0), d.add(t, 1.0)), t)
    z = d.mul(t, t)
    found = d.fma(d.mul(t, z), d.series(z, [(-1) ** (k + 1) / (2 * k + 3) for k in range(21)]), t)
    found = d.select(middle, d.add(found, math.pi / 4), found)
    found = d.select(large, d.sub(math.pi / 2, d.sub(found, _HALF_PI[1])), found)
    return d.sign(found, x)


def _atan2(d: Doubles, y: Value, x: Value) -> Value:
    b = d.b
    high, wide = d.abs(y), d.abs(x)
    same = d.test("oeq", high, wide)  # both 0, or both infinite, whose quotient is none
    quotient = d.select(same, d.select(d.test("oeq", wide, 0.0), 0.0, 1.0), d.div(high, wide))
    angle = _atan(d, quotient)
    negative = b.icmp("slt", b.bitcast(x, "i64"), int_constant("i64", 0))  # of -0.0 too
    angle = b.select(negative, d.sub(math.pi, d.sub(angle, 2 * _HALF_PI[1])), angle)
    return d.select(b.fcmp("uno", y, x), d.add(y, x), d.sign(angle, y))


def _pow(d: Doubles, x: Value, y: Value) -> Value:
    b = d.b
    found = _exp(d, d.mul(y, _log(d, d.abs(x))))
    whole = d.test("oeq", d.one("trunc", y), y)
    half = d.mul(y, 0.5)
    odd = b.op("and", whole, d.test("une", d.one("trunc", half), half))
    negative = b.icmp("slt", b.bitcast(x, "i64"), int_constant("i64", 0))
    signed = b.select(b.op("and", negative, odd), b.fneg(found), found)
    no_power = b.op("and", d.test("olt", x, 0.0), b.op("xor", b.op("or", whole, d.test("oeq", d.abs(y), math.inf)),
                                                       int_constant("i1", 1)))
    signed = b.select(no_power, d.select(d.test("oeq", x, -math.inf), found, math.nan), signed)
    one = b.op("or", d.test("oeq", y, 0.0), d.test("oeq", x, 1.0))
    one = b.op("or", one, b.op("and", d.test("oeq", x, -1.0), d.test("oeq", d.abs(y), math.inf)))
    return d.select(one, 1.0, signed)


def _sinh(d: Doubles, x: Value) -> Value:
    size = d.abs(x)
    e = _expm1(d, d.select(d.test("ogt", size, 709.0), 709.0, size))
    found = d.mul(0.5, d.add(e, d.div(e, d.add(e, 1.0))))
    half = _exp(d, d.mul(size, 0.5))
    return d.sign(d.select(d.test("ogt", size, 700.0), d.mul(d.mul(half, 0.5), half), found), x)


def _cosh(d: Doubles, x: Value) -> Value:
    half = _exp(d, d.mul(d.abs(x), 0.5))
    e = d.mul(half, half)
    return d.select(d.test("ogt", d.abs(x), 700.0), d.mul(d.mul(half, 0.5), half), d.mul(0.5, d.add(e, d.div(1.0, e))))


def _tanh(d: Doubles, x: Value) -> Value:
    e = _expm1(d, d.mul(-2.0, d.abs(x)))
    return d.sign(d.div(d.b.fneg(e), d.add(e, 2.0)), x)


def _asinh(d: Doubles, x: Value) -> Value:
    size = d.abs(x)
    z = d.mul(size, size)
    small = _log1p(d, d.add(size, d.div(z, d.add(d.sqrt(d.add(z, 1.0)), 1.0))))
    large = d.add(_log(d, size), math.log(2))
    return d.sign(d.select(d.test("ogt", size, 1e9), large, small), x)


def _acosh(d: Doubles, x: Value) -> Value:
    t = d.sub(x, 1.0)
    small = _log1p(d, d.add(t, d.sqrt(d.mul(t, d.add(t, 2.0)))))
    return d.select(d.test("ogt", x, 1e9), d.add(_log(d, x), math.log(2)), small)


def _atanh(d: Doubles, x: Value) -> Value:
    size = d.abs(x)
    return d.sign(d.mul(0.5, _log1p(d, d.div(d.add(size, size), d.sub(1.0, size)))), x)


def _asin(d: Doubles, x: Value) -> Value:
    return _atan2(d, x, d.sqrt(d.mul(d.sub(1.0, x), d.add(1.0, x))))


def _acos(d: Doubles, x: Value) -> Value:
    return d.mul(2.0, _atan2(d, d.sqrt(d.sub(1.0, x)), d.sqrt(d.add(1.0, x))))


def _hypot(d: Doubles, x: Value, y: Value) -> Value:
    x, y = d.abs(x), d.abs(y)
    most = d.select(d.test("ogt", x, y), x, y)
    least = d.select(d.test("ogt", x, y), y, x)
    ratio = d.select(d.test("oeq", most, 0.0), 0.0, d.div(least, most))
    found = d.mul(most, d.sqrt(d.fma(ratio, ratio, 1.0)))
    infinite = d.b.op("or", d.test("oeq", x, math.inf), d.test("oeq", y, math.inf))
    return d.select(infinite, math.inf, d.select(d.b.fcmp("uno", x, y), d.add(x, y), found))


def _fmod(d: Doubles, x: Value, y: Value) -> Value:
    """Subtract whole multiples of the divisor until less than one is left. A quotient has 53 bits and its remainder is exact."""
    b = d.b
    size, step = d.abs(x), d.abs(y)
    before, test, inside, after = b.at, b.block("while"), b.block("do"), b.block("done")
    b.jump(test)
    b.place(test)
    rest, below = b.phi(_D), b.phi("i1")  # what is left, and whether it is to be subtracted from the divisor
    rest.add(size, before)
    below.add(int_constant("i1", 0), before)
    finite = b.op("and", d.test("olt", rest.value, math.inf), d.test("ogt", step, 0.0))
    b.branch(b.op("and", finite, d.test("oge", rest.value, step)), inside, after)
    b.place(inside)
    quotient = d.one("trunc", d.div(rest.value, step))
    quotient = d.select(d.test("oeq", quotient, math.inf), 2.0**1000, quotient)
    left = d.fma(b.fneg(quotient), step, rest.value)
    rest.add(d.abs(left), b.at)
    below.add(b.op("xor", below.value, d.test("olt", left, 0.0)), b.at)
    b.jump(test)
    b.place(after)
    found = b.select(b.op("and", below.value, d.test("ogt", rest.value, 0.0)), d.sub(step, rest.value), rest.value)
    none = b.op("or", d.test("oeq", size, math.inf), d.test("oeq", step, 0.0))
    none = b.op("or", none, b.fcmp("uno", x, y))
    return d.select(none, math.nan, d.sign(found, x))


_FUNCTIONS: dict[str, _Of] = {
    "exp": _exp, "exp2": _exp2, "expm1": _expm1, "log": _log, "log1p": _log1p,
    "log2": lambda d, x: d.mul(_log(d, x), 1 / math.log(2)), "log10": lambda d, x: d.mul(_log(d, x), 1 / math.log(10)),
    "sin": _sin, "cos": lambda d, x: _sin_cos(d, x)[1], "tan": _tan, "atan": _atan, "atan2": _atan2, "asin": _asin, "acos": _acos,
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh, "pow": _pow,
    "hypot": _hypot, "fmod": _fmod,
}


def _next_after(b: Builder, start: Value, goal: Value) -> Value:
    """Return the next number of the type towards the goal: a step of the bits."""
    word = "i32" if start.type == "float" else "i64"
    bits, zero, one = b.bitcast(start, word), float_constant(start.type, 0.0), int_constant(word, 1)
    away = b.op("xor", b.fcmp("olt", start, goal), b.fcmp("olt", start, zero))
    stepped = b.select(away, b.op("add", bits, one), b.op("sub", bits, one))
    sign = int_constant(word, 1 << (31 if word == "i32" else 63))
    from_zero = b.op("or", one, b.op("and", b.bitcast(goal, word), sign))
    found = b.bitcast(b.select(b.fcmp("oeq", start, zero), from_zero, stepped), start.type)
    found = b.select(b.fcmp("oeq", start, goal), goal, found)
    return b.select(b.fcmp("uno", start, goal), b.op("fadd", start, goal), found)


NAMES = (*_FUNCTIONS, "nextafter")


def define(name: str, declare: Declarations) -> str | None:
    """Return the text of a function of C's math library, as "sinf" or "pow"; None if it is none of `NAMES`."""
    plain, kind = (name, _D) if name in NAMES else (name[:-1], "float")
    if plain not in NAMES or (kind == "float" and not name.endswith("f")):
        return None
    returns, args, _ = declare.outside.get(name, (kind, (kind,), ()))
    if {returns, *args} != {kind}:
        raise CodegenError(f"the function {name} is called with {', '.join(args)} and takes {kind}")
    params = [Value(f"%x{i}", kind) for i in range(len(args))]
    listed = ", ".join(f"{param}" for param in params)
    b = Builder(f"define internal {kind} @{name}({listed}) nounwind", declare)
    if plain == "nextafter":
        b.ret(_next_after(b, *params))
    else:
        wide = [b.convert("fpext", param, _D) for param in params]
        b.ret(b.convert("fptrunc", _FUNCTIONS[plain](Doubles(b), *wide), kind))
    return b.text()
