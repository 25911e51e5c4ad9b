"""Math functions: OpenCL's own within the specification's limits, and our formulas, built of few functions, against float64."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from clike_support import on_device

from vtakit.compiler.codegen.clike.kernel import source
from vtakit.compiler.codegen.clike.opencl import OpenCL
from vtakit.compiler.codegen.clike.wgsl import Wgsl
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import FLOAT_TESTS, math_call
from vtakit.compiler.ir.dtypes import FLOAT32, dtype
from vtakit.runtime.opencl.function import Function

ERF = np.vectorize(math.erf)
# name -> (in float64, from, to, ulp of OpenCL's, ulp of our formula)
FUNCTIONS = {
    "exp10": (lambda x: 10.0**x, -40, 38, 3, 4), "log10": (np.log10, 1e-37, 3e38, 3, 3), "log1p": (np.log1p, -0.99, 1e30, 2, 4),
    "expm1": (np.expm1, -50, 80, 3, 5), "tanh": (np.tanh, -30, 30, 5, 3), "erf": (ERF, -5, 5, 16, 3),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80, 80, 5, 5),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -1e9, 1e9, 0, 0),
}
SPECIAL = {
    "exp10": [(np.inf, np.inf), (-np.inf, 0.0), (0.0, 1.0)], "log1p": [(0.0, 0.0), (-1.0, -np.inf), (np.inf, np.inf)],
    "expm1": [(0.0, 0.0), (-np.inf, -1.0), (np.inf, np.inf)],
    "tanh": [(0.0, 0.0), (np.inf, 1.0), (-np.inf, -1.0), (100.0, 1.0)],
    "erf": [(0.0, 0.0), (np.inf, 1.0), (-np.inf, -1.0)], "sigmoid": [(np.inf, 1.0), (-np.inf, 0.0), (0.0, 0.5)],
    "round": [(0.5, 1.0), (-0.5, -1.0), (0.49999997, 0.0), (2.5, 3.0), (8388609.0, 8388609.0)],
    "log10": [(1.0, 0.0), (0.0, -np.inf)],
}


@dataclass(frozen=True)
class Few(OpenCL):
    """OpenCL C, as if it had only the functions that WGSL has."""

    functions: ClassVar = {name: OpenCL.functions[name] for name in Wgsl.functions}


def applied(name, dialect, *arrays, result="float32"):
    """Return a function of each element."""
    n, i = arrays[0].size, ir.Var("i")
    buffers = [Buffer(f"a{at}", (n,), FLOAT32) for at in range(len(arrays))]
    out = Buffer("out", (n,), dtype(result))
    body = st.Store(out, (i,), math_call(name, *(ir.Load(b, (i,)) for b in buffers)))
    loop = st.For(i, ir.IntImm(n), body, st.LoopKind.THREAD, "blockIdx.x")
    program = split(st.Function("apply", (*buffers, out), loop))
    found = np.zeros(n, result)
    Function(program, source(program, dialect))(*arrays, found)
    return found


def ulps(got, exact):
    with np.errstate(over="ignore"):
        spacing = np.maximum(np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64), 2.0**-149)
    return np.abs(got.astype(np.float64) - exact) / spacing


@pytest.mark.parametrize("ours", [False, True], ids=["OpenCL", "formula"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_what_is_stated(name, ours):
    in_double, low, high, theirs_ulp, ours_ulp = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    signs = rng.choice([-1, 1] if low < 0 else [1], 3000)
    spread = signs * np.exp(rng.uniform(math.log(1e-36), math.log(max(abs(low), high)), 3000))
    x = np.concatenate([spread, 1 + rng.normal(0, 0.2, 3000), rng.uniform(low, high, 3000)]).astype(np.float32)
    x = x[(x >= low) & (x <= high)]
    given = [at for at, _ in SPECIAL[name]]
    got = applied(name, Few() if ours else OpenCL(), np.concatenate([x, np.array(given, np.float32)]))
    apart = ulps(got[:x.size], in_double(x.astype(np.float64)))
    worst = int(apart.argmax())
    assert apart[worst] <= (ours_ulp if ours else theirs_ulp) + 0.5, f"{name}({x[worst]!r}) is {apart[worst]:.1f} ulp off"
    want = np.array([want for _, want in SPECIAL[name]], np.float32)
    if ours:
        np.testing.assert_array_equal(got[x.size:], want)
    else:
        np.testing.assert_allclose(got[x.size:], want, rtol=theirs_ulp * 2.0**-23)


def test_formulas_of_two_values_and_tests_of_bits():
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(500) * 10.0 ** rng.integers(-20, 18, 500) for _ in range(2))
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38]
    x, y = (np.concatenate([a, b]).astype(np.float32) for a, b in ((x, odd * 7), (y, np.repeat(odd, 7))))
    few = Few()
    assert np.nanmax(ulps(applied("hypot", few, x, y)[:500], np.hypot(x[:500].astype(float), y[:500]))) <= 4
    np.testing.assert_array_equal(applied("hypot", few, x, y)[500:][np.isinf(x[500:]) | np.isinf(y[500:])], np.inf)
    np.testing.assert_array_equal(applied("copysign", few, x, y).view(np.uint32)[:530], np.copysign(x, y).view(np.uint32)[:530])
    numbers = ~(np.isnan(x) | np.isnan(y))
    np.testing.assert_array_equal(applied("nextafter", few, x, y)[numbers], np.nextafter(x, y)[numbers])
    for name in FLOAT_TESTS:
        np.testing.assert_array_equal(applied(name, few, x, result="bool"), getattr(np, name)(x))


def test_a_program_without_functions_has_no_helper():
    b, i = Buffer("b", (4,), FLOAT32), ir.Var("i")
    loop = st.For(i, ir.IntImm(4), st.Store(b, (i,), ir.FloatImm(1.5, FLOAT32)), st.LoopKind.THREAD, "threadIdx.x")
    function = st.Function("main", (b,), loop)
    assert "vt_" not in source(split(function), OpenCL()).text
    found = np.zeros(4, np.float32)
    on_device(function, [found])
    assert found.tolist() == [1.5] * 4
