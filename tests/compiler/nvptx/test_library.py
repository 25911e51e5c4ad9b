"""C's math functions for kernels, run on this machine, since they are plain LLVM IR, against NumPy's in float64."""

import ctypes
import functools
import math
from typing import Any

import numpy as np
import pytest

from vtakit.compiler.codegen.llvm.lowering.math import NAMES as CALLED
from vtakit.compiler.codegen.llvm.passes import machine_code
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.declarations import Declarations
from vtakit.compiler.codegen.nvptx.library import NAMES, define

PAIRS = ("pow", "atan2", "hypot", "fmod", "nextafter")
HALF, UNIT = np.float64(0.5), np.float64(1)


@functools.cache
def functions(suffix: str) -> tuple[Any, dict[str, Any]]:
    """All functions of a type as machine code, by name; and what keeps it."""
    import llvmlite.binding as llvm

    kind, c_type = ("float", ctypes.c_float) if suffix else ("double", ctypes.c_double)
    declare = Declarations()
    for name in NAMES:
        declare.outside[name + suffix] = (kind, (kind,) * (2 if name in PAIRS else 1), ())
    texts = [define(name + suffix, declare).replace(f"define internal {kind} @", f"define {kind} @own_") for name in NAMES]
    for name in NAMES:
        del declare.outside[name + suffix]
    target = Target.host()
    text = "\n\n".join([f'target triple = "{target.triple}"', declare.text(), *texts])
    machine_code(text, target, "optimized")  # sets LLVM up and checks it
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    found = {}
    for name in NAMES:
        signature = ctypes.CFUNCTYPE(c_type, *[c_type] * (2 if name in PAIRS else 1))
        found[name] = signature(engine.get_function_address(f"own_{name}{suffix}"))
    return engine, found


def call(name: str, suffix: str, *args: np.ndarray) -> np.ndarray:
    function = functions(suffix)[1][name]
    return np.array([function(*map(float, values)) for values in zip(*args, strict=True)], args[0].dtype)


TRUTH = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan, "atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "hypot": np.hypot, "fmod": np.fmod, "nextafter": np.nextafter,
}
ODD = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 2.0, -2.0, 3.0, 1e-30, -1e-30, 1e30]


def inputs(name: str, kind: str, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(count), 30 * rng.standard_normal(count), np.exp(rng.uniform(-40, 40, count))])
    if name in ("asin", "acos", "atanh"):
        x = rng.uniform(-1, 1, 3 * count)
    if name in ("sin", "cos", "tan"):
        x = np.concatenate([x[:2 * count], rng.uniform(-1e9, 1e9, count)])
    if name == "acosh":
        x = 1 + np.abs(x)
    found = [x.astype(kind)]
    if name in PAIRS:
        y = np.concatenate([rng.standard_normal(count), rng.integers(-9, 10, count), 5 * rng.standard_normal(count)])
        found = [np.abs(found[0]) if name == "pow" else found[0], y.astype(kind)]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_float32_are_within_one_unit_in_the_last_place(name):
    args = inputs(name, "float32", 800)
    got = call(name, "f", *args)
    with np.errstate(all="ignore"):
        want = TRUTH[name](*args) if name == "nextafter" else TRUTH[name](*[arg.astype("float64") for arg in args])
        near = want.astype("float32")
        finite = np.isfinite(near)
        np.testing.assert_array_equal(got[~finite], near[~finite])
        apart = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(near[finite])).astype("float64")
    assert apart.max() <= (0 if name in ("nextafter",) else 1), args[0][finite][apart.argmax()]


LIMITS = {"pow": 1500, **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 8), "tan": 4, "asin": 3, "acos": 3,
          "atan2": 3, "fmod": 0, "nextafter": 0}


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_float64_are_close(name):
    args = inputs(name, "float64", 400)
    got = call(name, "", *args)
    with np.errstate(all="ignore"):
        want = TRUTH[name](*args)
        finite = np.isfinite(want) & (np.abs(want) > 1e-300)
        np.testing.assert_array_equal(got[~np.isfinite(want)], want[~np.isfinite(want)])
        apart = np.abs(got[finite] - want[finite]) / np.abs(want[finite]) / 4e-16
    assert apart.max() <= LIMITS.get(name, 2), (args[0][finite][apart.argmax()], apart.max())


@pytest.mark.parametrize("suffix", ["", "f"])
@pytest.mark.parametrize("name", NAMES)
def test_odd_arguments_give_what_c_does(name, suffix):
    kind = "float32" if suffix else "float64"
    odd = np.array(ODD, kind)
    args = [odd] if name not in PAIRS else [part.ravel() for part in np.meshgrid(odd, odd)]
    got = call(name, suffix, *args)
    with np.errstate(all="ignore"):
        want = TRUTH[name](*args)
    if name in ("sin", "cos", "tan"):  # for arguments up to 1e9
        keep = ~(np.isfinite(args[0]) & (np.abs(args[0]) > 1e9))
        got, want = got[keep], want[keep]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=3e-7 if suffix else 1e-12, atol=1e-300 if not suffix else 1e-44)
    same = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[same]), np.signbit(want[same]))


def test_every_function_that_expressions_call_is_there_or_needs_no_call():
    unknown = CALLED - {*NAMES} - {"sqrt", "floor", "ceil", "trunc", "round", "nearbyint", "fabs", "copysign", "abs", "rsqrt",
                                   "sigmoid", "exp10", "erf"}
    assert not unknown
