"""Instructions on floating point against NumPy and exact fractions."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_instructions import floats, integers, run

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def operands(kind, seed, count=256):
    """Bits of numbers of a format."""
    if kind in ("f32", "f64"):
        return floats(int(kind[1:]), seed, count)
    wide = floats(32, seed, count)
    found = wide.view(np.float32).astype(KINDS[kind]).view(np.uint16)
    found[::3] = integers(16, seed, count)[::3]
    return found


def same(kind, got, want):
    """Bits are those of the wanted numbers; every NaN is the canonical one, whose payload float64 does not fix."""
    want = np.asarray(want, KINDS[kind])
    nan = np.isnan(want.astype(np.float64))
    assert (np.isnan(got.view(KINDS[kind]).astype(np.float64)) == nan).all()
    if kind != "f64":
        assert (got[nan] == (0x7FFFFFFF if kind == "f32" else 0x7FFF)).all()
    np.testing.assert_array_equal(got[~nan], want.view(got.dtype)[~nan])


def rounded(kind, exact, finite):
    """A fraction in a format, rounded once; `finite` is the result where an operand is no number."""
    if finite is not None:
        return KINDS[kind](finite)
    if kind == "f64":
        try:
            return np.float64(float(exact))
        except OverflowError:
            return np.float64(math.inf if exact > 0 else -math.inf)
    info = ml_dtypes.finfo(KINDS[kind])
    least = int(info.minexp) - int(info.nmant)
    scale = least if exact == 0 else max(least, exact_log2(abs(exact)) - int(info.nmant))
    steps = exact / Fraction(2) ** scale
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    found = Fraction(whole) * Fraction(2) ** scale
    top = Fraction(float(info.max))
    return KINDS[kind](math.copysign(math.inf, found) if abs(found) > top else math.copysign(float(found), exact))


def exact_log2(value):
    log2 = value.numerator.bit_length() - value.denominator.bit_length()
    return log2 if Fraction(2) ** log2 <= value else log2 - 1


def fused(kind, a, b, c):
    found = []
    for x, y, z in zip(*(each.view(KINDS[kind]).astype(np.float64).tolist() for each in (a, b, c)), strict=True):
        if not all(map(math.isfinite, (x, y, z))):
            found.append(KINDS[kind](np.float64(x) * np.float64(y) + np.float64(z)
                                     if not (math.isfinite(x) and math.isfinite(y)) else z))
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        zero = None
        if exact == 0:
            product = math.copysign(0.0, x) * math.copysign(1.0, y)
            zero = product + z if x == 0 or y == 0 else 0.0
        found.append(rounded(kind, exact, zero))
    return np.array(found, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic_is_rounded_once(kind):
    a, b, c = (operands(kind, seed) for seed in range(3))
    real = KINDS[kind]
    x, y = a.view(real), b.view(real)
    kinds = [a.dtype] * 4
    lines = [f"{name}.rn.{kind} %d{k}, %a0, %a1;" for k, name in enumerate(("add", "sub", "mul"))]
    add, sub, mul, fma = run([*lines, f"fma.rn.{kind} %d3, %a0, %a1, %a2;"], [a, b, c], kinds)
    for got, want in ((add, x + y), (sub, x - y), (mul, x * y), (fma, fused(kind, a, b, c))):
        same(kind, got, want)
    if kind in ("f32", "f64"):
        div, sqrt, rcp = run([f"div.rn.{kind} %d0, %a0, %a1;", f"sqrt.rn.{kind} %d1, %a0;", f"rcp.rn.{kind} %d2, %a0;"], [a, b],
                             kinds[:3])
        for got, want in ((div, x / y), (sqrt, np.sqrt(x)), (rcp, real(1) / x)):
            same(kind, got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_least_greatest_and_signs(kind):
    a, b = operands(kind, 3), operands(kind, 4)
    b[::4] = a[::4]
    x, y = a.view(KINDS[kind]), b.view(KINDS[kind])
    wide, other = x.astype(np.float64), y.astype(np.float64)
    top = np.array(1, a.dtype) << (8 * a.itemsize - 1)
    names = ["min", "max", "min.NaN", "max.NaN"] if kind != "f64" else ["min", "max"]
    lines = [f"{name}.{kind} %d{k}, %a0, %a1;" for k, name in enumerate(names)]
    found = run(lines, [a, b], [a.dtype] * len(names))
    for name, got in zip(names, found, strict=True):
        smaller = (wide < other) | ((wide == other) & (np.signbit(wide) >= np.signbit(other)))
        pick = np.where(smaller == name.startswith("min"), x, y)
        if "NaN" in name:
            pick = np.where(np.isnan(wide) | np.isnan(other), np.array(np.nan, x.dtype), pick)
        else:
            pick = np.where(np.isnan(wide), y, np.where(np.isnan(other), x, pick))
        same(kind, got, pick)
    neg, absolute = run([f"neg.{kind} %d0, %a0;", f"abs.{kind} %d1, %a0;"], [a], [a.dtype] * 2)
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(neg[number], (a ^ top)[number])
    np.testing.assert_array_equal(absolute[number], (a & ~top)[number])


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(kind):
    a, b = operands(kind, 5), operands(kind, 6)
    b[::3] = a[::3]
    x, y = a.view(KINDS[kind]).astype(np.float64), b.view(KINDS[kind]).astype(np.float64)
    odd = np.isnan(x) | np.isnan(y)
    ordered = {"eq": x == y, "ne": (x != y) & ~odd, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "num": ~odd, "nan": odd}
    ordered |= {f"{name}u": ordered[name] | odd for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    lines = [f"setp.{name}.{kind} %p0, %a0, %a1; selp.u32 %d{k}, 1, 0, %p0;" for k, name in enumerate(ordered)]
    for name, want, got in zip(ordered, ordered.values(), run(lines, [a, b], ["u4"] * len(ordered)), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=name)


def test_functions_that_are_approximate_are_exact_here():
    """The emulator rounds the exact value once: within one unit in the last place, and within PTX's own bounds."""
    a = operands("f32", 7)
    x = a.view(np.float32).astype(np.float64)
    exact = {"rcp": 1 / x, "rsqrt": 1 / np.sqrt(x), "sqrt": np.sqrt(x), "ex2": np.exp2(x), "lg2": np.log2(x), "sin": np.sin(x),
             "cos": np.cos(x), "tanh": np.tanh(x)}
    lines = [f"{name}.approx.f32 %d{k}, %a0;" for k, name in enumerate(exact)]
    for name, want, got in zip(exact, exact.values(), run(lines, [a], ["u4"] * len(exact)), strict=True):
        value, want = got.view(np.float32), want.astype(np.float32)
        assert (np.isnan(value) == np.isnan(want)).all(), name
        number = np.isfinite(want)
        np.testing.assert_array_equal(value[~number & ~np.isnan(want)], want[~number & ~np.isnan(want)])
        ulps = np.abs(value[number].view(np.int32).astype(np.int64) - want[number].view(np.int32))
        assert ulps.max(initial=0) <= 1 or (np.abs(value[number] - want[number]) < 1e-45).all(), name


def test_flush_saturate_and_pairs():
    a, b = operands("f32", 8), operands("f32", 9)
    x, y = a.view(np.float32), b.view(np.float32)
    tiny = np.finfo(np.float32).tiny

    def flush(v):
        return np.where(np.abs(v) < tiny, np.copysign(np.float32(0), v), v)

    ftz, sat = run(["mul.rn.ftz.f32 %d0, %a0, %a1;", "add.rn.sat.f32 %d1, %a0, %a1;"], [a, b], ["u4"] * 2)
    same("f32", ftz, flush(flush(x) * flush(y)))
    total = x + y
    want = np.where(np.isnan(total), np.float32(0), np.clip(np.where(np.isnan(total), 0, total), np.float32(0), np.float32(1)))
    np.testing.assert_array_equal(sat.view(np.float32), want)
    for kind in ("f16", "bf16"):
        low = [operands(kind, seed) for seed in range(10, 13)]
        high = [operands(kind, seed) for seed in range(13, 16)]
        packed = [lo.astype(np.uint32) | hi.astype(np.uint32) << 16 for lo, hi in zip(low, high, strict=True)]
        total, product = run([f"add.{kind}x2 %d0, %a0, %a1;", f"fma.rn.{kind}x2 %d1, %a0, %a1, %a2;"], packed, ["u4"] * 2)
        for shift, parts in ((0, low), (16, high)):
            same(kind, (total >> shift).astype(np.uint16), parts[0].view(KINDS[kind]) + parts[1].view(KINDS[kind]))
            same(kind, (product >> shift).astype(np.uint16), fused(kind, *parts))


ROUNDINGS = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_conversions_to_integers(kind):
    a = operands(kind, 16)
    x = a.view(KINDS[kind]).astype(np.float64)
    pairs = [(to, r) for to in ("s32", "u32", "s64", "u64", "s16", "u8") for r in ROUNDINGS]
    lines = [f"cvt.{r}i.{to}.{kind} %d{k}, %a0;" for k, (to, r) in enumerate(pairs)]
    sizes = [max(2, int(to[1:]) // 8) for to, _ in pairs]
    for (to, r), size, got in zip(pairs, sizes, run(lines, [a], [f"u{s}" for s in sizes]), strict=True):
        n = int(to[1:])
        low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if to[0] == "s" else (0, (1 << n) - 1)
        for value, found in zip(x.tolist(), got.tolist(), strict=True):
            if math.isnan(value):
                want = 1 << (n - 1) if kind == "f64" or n == 64 else 0
                assert found % (1 << n) == want
                continue
            want = low if value == -math.inf else high if value == math.inf else min(max(int(ROUNDINGS[r](value)), low), high)
            assert found == want % (1 << 8 * size), (to, r, value)


def test_conversions_from_integers():
    for bits in (32, 64):
        a = integers(bits, 17)
        for sign in "su":
            ints = (a.view(f"i{bits // 8}") if sign == "s" else a).tolist()
            lines = [f"cvt.rn.{kind}.{sign}{bits} %d{k}, %a0;" for k, kind in enumerate(KINDS)]
            found = run(lines, [a], ["u4", "u8", "u2", "u2"])
            for kind, got in zip(KINDS, found, strict=True):
                same(kind, got, [rounded(kind, Fraction(value), 0.0 if value == 0 else None) for value in ints])


def test_conversions_between_formats():
    for given in KINDS:
        a = operands(given, 18)
        x = a.view(KINDS[given])
        others = [kind for kind in KINDS if kind != given and {kind, given} != {"f16", "bf16"}
                  and {kind, given} != {"f64", "bf16"}]
        lines = [f"cvt{'.rn' if np.dtype(KINDS[kind]).itemsize < a.itemsize else ''}.{kind}.{given} %d{k}, %a0;" for k,
                 kind in enumerate(others)]
        for kind, got in zip(others, run(lines, [a], [f"u{np.dtype(KINDS[kind]).itemsize}" for kind in others]), strict=True):
            same(kind, got, x.astype(KINDS[kind]))
    a, b = operands("f32", 19), operands("f32", 20)
    pair, bpair, tf32, rz = run(["cvt.rn.f16x2.f32 %d0, %a0, %a1;", "cvt.rn.bf16x2.f32 %d1, %a0, %a1;",
                                 "cvt.rna.tf32.f32 %d2, %a0;",
                                 "cvt.rzi.f32.f32 %d3, %a0;"], [a, b], ["u4"] * 4)
    for got, kind in ((pair, "f16"), (bpair, "bf16")):
        same(kind, (got >> 16).astype(np.uint16), a.view(np.float32).astype(KINDS[kind]))
        same(kind, got.astype(np.uint16), b.view(np.float32).astype(KINDS[kind]))
    number = np.isfinite(a.view(np.float32))
    want = ((a.astype(np.uint64) + 0x1000) & 0xFFFFE000).astype(np.uint32)
    np.testing.assert_array_equal(tf32[number], want[number])
    same("f32", rz, np.trunc(a.view(np.float32)))


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_formats_of_eight_bits(kind):
    real = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]
    a, b = operands("f32", 21), operands("f32", 22)
    top = float(ml_dtypes.finfo(real).max)
    (packed,) = run([f"cvt.rn.satfinite.{kind}x2.f32 %h0, %a0, %a1; cvt.u32.u16 %d0, %h0;"], [a, b], ["u4"])
    for shift, bits in ((8, a), (0, b)):
        x = bits.view(np.float32)
        want = np.where(np.isnan(x), x, np.clip(x, -top, top)).astype(real)
        got = (packed >> shift & 255).astype(np.uint8)
        number = ~np.isnan(x)
        np.testing.assert_array_equal(got[number], want.view(np.uint8)[number])
        assert (got[~number] == 0x7F).all()
