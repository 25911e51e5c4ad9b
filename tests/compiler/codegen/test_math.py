"""Math functions: accuracy against float64, special values, and that vectors and scalars agree to the bit."""

import math

import numpy as np
import pytest
from codegen_cases import applied, elementwise

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import FLOAT32

ERF = np.vectorize(math.erf)
# name -> (in float64, from, to)
POLYNOMIALS = {
    "exp": (np.exp, -104, 89), "exp2": (np.exp2, -150, 128.5), "log": (np.log, 1e-40, 3e38), "log2": (np.log2, 1e-40, 3e38),
    "tanh": (np.tanh, -10, 10), "erf": (ERF, -5, 5), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -104, 104),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-40, 3e38),
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 3.4e38, -3.4e38], np.float32)


def _points(low, high, count):
    """Many of them near 0 and 1 and over all magnitudes, and as many spread evenly."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1] if low < 0 else [1], count)
    magnitudes = signs * np.exp(rng.uniform(math.log(1e-40), math.log(max(abs(low), high)), count))
    near = 1 + rng.normal(0, 0.1, count)
    every = np.concatenate([magnitudes, near, rng.uniform(low, high, count)]).astype(np.float32)
    return every[(every >= low) & (every <= high)][: count * 2 // 16 * 16]


def _ulps(got, exact):
    """How far float32 results are from exact ones, in units of the last place of the exact."""
    with np.errstate(over="ignore"):
        spacing = np.maximum(np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64), 2.0**-149)
    return np.abs(got.astype(np.float64) - exact) / spacing


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_within_two_units(name, lanes):
    exact, low, high = POLYNOMIALS[name]
    x = _points(low, high, 40_000)
    got = applied(elementwise(lambda a: math_call(name, a), lanes=lanes), x)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))
        rounded = wanted.astype(np.float32)
    finite = np.abs(wanted) < 3.4028235e38
    apart = _ulps(got[finite], wanted[finite])
    worst = int(np.argmax(apart))
    assert apart[worst] <= 2, f"{name}({x[finite][worst]!r}) = {got[finite][worst]!r}, exactly {wanted[finite][worst]!r}"
    assert np.array_equal(got[~finite], rounded[~finite])


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_without_fused_multiply_add_they_are_within_three_units(name):
    exact, low, high = POLYNOMIALS[name]
    x = _points(low, high, 20_000)
    plain = Target("x86_64-unknown-linux-gnu", "x86-64")
    got = applied(elementwise(lambda a: math_call(name, a), target=plain), x)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))
    finite = np.abs(wanted) < 3.4028235e38
    assert _ulps(got[finite], wanted[finite]).max() <= 3


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_special_values(name):
    """Statement 63: infinities and NaN."""
    x = np.resize(SPECIAL, 16)
    scalar = applied(elementwise(lambda a: math_call(name, a)), x)
    vector = applied(elementwise(lambda a: math_call(name, a), lanes=16), x)
    with np.errstate(all="ignore"):
        wanted = POLYNOMIALS[name][0](x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(scalar, vector, equal_nan=True)
    assert np.allclose(scalar, wanted, rtol=3e-7, atol=3e-45, equal_nan=True)
    assert np.array_equal(np.signbit(scalar[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("name", ["sin", "log10", "expm1", "pow", "atan2", "exp"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_the_rest_calls_the_c_library(name, lanes):
    two = name in ("pow", "atan2")
    x = np.abs(np.random.default_rng(0).normal(size=64)) + 0.1
    got = applied(elementwise(lambda a: math_call(name, *([a, a] if two else [a])), "float64", lanes=lanes), x)
    numpy_name = {"pow": "power", "atan2": "arctan2"}.get(name, name)
    assert np.allclose(got, getattr(np, numpy_name)(x, x) if two else getattr(np, numpy_name)(x), rtol=1e-15)


def test_sigmoid_and_rsqrt_of_doubles():
    x = np.array([0.25, 1.0, 4.0, 30.0])
    assert np.allclose(applied(elementwise(lambda a: math_call("sigmoid", a), "float64"), x), 1 / (1 + np.exp(-x)), rtol=1e-15)
    assert np.allclose(applied(elementwise(lambda a: math_call("rsqrt", a), "float64"), x), 1 / np.sqrt(x), rtol=1e-15)


@pytest.mark.parametrize(("node", "numpy"), [(ir.Min, np.minimum), (ir.Max, np.maximum)])
@pytest.mark.parametrize("lanes", [1, 8])
def test_min_and_max_pass_nan_on(node, numpy, lanes):
    """Statement 63: NaN literals; the constant on either side."""
    x = np.array([np.nan, 1, -1, 0.5, np.inf, -np.inf, 0, 2], np.float32)
    half, nan = np.float32(0.5), np.float32(np.nan)

    def spread(value):
        c = ir.FloatImm(float(value), FLOAT32)
        return ir.Broadcast(c, lanes) if lanes > 1 else c

    for c in (half, nan):
        right, left = (applied(elementwise(make, lanes=lanes), x) for make in (
            lambda a, c=c: node(a, spread(c)), lambda a, c=c: node(spread(c), a)))
        assert np.array_equal(right, numpy(x, c), equal_nan=True)
        assert np.array_equal(left, numpy(c, x), equal_nan=True)
