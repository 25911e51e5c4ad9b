"""Operators on elements, against onnxruntime and NumPy."""

import math

import numpy as np
import pytest
from nn_support import check, floats, integers, onnx_run, placeholders, run, run_group

from vtakit.compiler.nn.operators import find

X = floats(3, 37)
ERFC = np.vectorize(math.erfc, otypes=[np.float64])
UNIT = np.clip(X / 4, -0.99, 0.99)
UNARY = {
    "abs": X, "acos": UNIT, "acosh": 1 + np.abs(X), "asin": UNIT, "asinh": X, "atan": X, "atanh": UNIT, "ceil": X, "cos": X,
    "cosh": X, "erf": X, "exp": X, "floor": X, "identity": X, "log": np.abs(X) + 0.1, "neg": X, "reciprocal": np.abs(X) + 0.1,
    "relu": X, "round": np.r_[X[0], 0.5, 1.5, 2.5, -0.5], "sigmoid": X, "sign": np.r_[X[0], 0], "sin": X, "sinh": X,
    "softplus": X * 30, "softsign": X, "sqrt": np.abs(X), "tan": UNIT, "tanh": X, "mish": X,
}
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5], np.float32)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_functions_of_one_number(name):
    x = UNARY[name].astype(np.float32)
    check(run(name, x), onnx_run(name.title(), x, opset=20), atol=2e-6)


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "sqrt", "sigmoid", "floor"])
@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_other_floating_point_types(name, kind):
    x = np.abs(floats(5, 9, dtype=kind)) + np.asarray(0.5, kind)
    want = {"exp": np.exp, "tanh": np.tanh, "log": np.log, "sqrt": np.sqrt, "floor": np.floor,
            "sigmoid": lambda v: 1 / (1 + np.exp(-v))}[name](x.astype(np.float64)).astype(kind)
    tolerance = 2e-3 if kind == "float16" else 1e-12
    check(run(name, x), want, rtol=tolerance, atol=tolerance)


def near(got: np.ndarray, want: np.ndarray, ulps: float) -> None:
    """Assert that results are so many units in the last place from doubles, relative also where they are tiny."""
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=ulps * np.finfo(got.dtype).eps, atol=0)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(("name", "lists"), [
    ("exp2", [(-120, 120)]), ("expm1", [(-20, 20), (-1e-6, 1e-6)]), ("log1p", [(-0.9, 50), (-1e-6, 1e-6)]),
    ("log2", [(1e-30, 1e-20), (0.3, 9)]), ("log10", [(1e-30, 1e-20), (0.3, 9)]), ("erfc", [(-6, 2), (2, 9.1), (0, 1e-4)]),
])
def test_functions_are_exact_relative_to_their_results(name, lists, kind):
    """None is rebuilt from others, which would lose the digits of small results."""
    x = np.concatenate([np.linspace(low, high, 2001) for low, high in lists]).astype(kind)
    want = (ERFC if name == "erfc" else getattr(np, name))(x.astype(np.longdouble) if name != "erfc" else x.astype(float))
    near(run(name, x), want.astype(np.float64), {"erfc": 5 if kind == "float32" else 9}.get(name, 3))


def test_tails_of_the_error_function():
    """To infinity, and what is no number; in double precision down to the least normal numbers."""
    np.testing.assert_array_equal(run("erfc", SPECIAL[:5]), [1, 1, 0, 2, np.nan])
    x = np.linspace(5, 26.5, 3000)
    near(run("erfc", x), ERFC(x), 9)
    check(run("erfc", np.float16([0.5, -3, 2.5])), ERFC([0.5, -3, 2.5]).astype(np.float16), rtol=1e-3)
    for how in ("plain", "interpreter"):
        near(run("erfc", np.float32([-1, 0.25, 4, 8]), how=how), ERFC([-1, 0.25, 4, 8]), 5)


@pytest.mark.parametrize(("name", "op", "attributes"), [
    ("elu", "Elu", {"alpha": 1.5}), ("celu", "Celu", {"alpha": 2.0}), ("selu", "Selu", {}),
    ("selu", "Selu", {"alpha": 2.0, "gamma": 3.0}), ("leaky_relu", "LeakyRelu", {"alpha": 0.2}),
    ("thresholded_relu", "ThresholdedRelu", {"alpha": 0.5}), ("hard_sigmoid", "HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("hard_swish", "HardSwish", {}), ("shrink", "Shrink", {"bias": 0.2, "lambd": 0.7}), ("gelu", "Gelu", {}),
    ("gelu", "Gelu", {"approximate": "tanh"}),
])
def test_functions_with_attributes(name, op, attributes):
    check(run(name, X, **attributes), onnx_run(op, X, **attributes), atol=2e-6)


def test_swish_is_x_times_sigmoid():
    check(run("swish", X, alpha=0.7), X / (1 + np.exp(-np.float32(0.7) * X)))


@pytest.mark.parametrize(("negative", "positive"), [(True, True), (True, False), (False, True), (False, False)])
def test_infinities_of_the_signs_asked_for(negative, positive):
    got = run("is_inf", SPECIAL, detect_negative=negative, detect_positive=positive)
    np.testing.assert_array_equal(got, onnx_run("IsInf", SPECIAL, detect_negative=negative, detect_positive=positive))


def test_what_is_no_number():
    np.testing.assert_array_equal(run("is_nan", SPECIAL), np.isnan(SPECIAL))
    np.testing.assert_array_equal(run("sign", SPECIAL), [0, 0, 1, -1, np.nan, 1])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int64", "float16", "float32", "float64", "bool"])
def test_cast(kind):
    x = np.array([0, 1, 2, 3, 100, 0, 7], kind)
    kinds = "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bool"
    given = placeholders((x,))
    made = [find("cast").define(given[0], to=to) for to in kinds]
    check(tuple(run_group([x], given, made)), tuple(x.astype(to) for to in kinds))


def test_casting_a_float_to_an_integer_cuts():
    np.testing.assert_array_equal(run("cast", np.array([1.9, -1.9, 0.5], np.float32), to="int32"), [1, -1, 0])


def test_functions_of_integers():
    x = integers(-100, 100, (50,), "int8")
    check(run("abs", x), np.abs(x))
    check(run("neg", x), -x)
    check(run("sign", x), np.sign(x))
    check(run("relu", x), np.maximum(x, 0))
    check(run("bitwise_not", x), ~x)
    check(run("sign", x.astype(np.uint8)), np.sign(x.astype(np.uint8)))
    check(run("not", x > 0), x <= 0)


A, B = floats(4, 1, 19, seed=1), floats(6, 1, seed=2)
WHOLE, SMALL = integers(-50, 50, (5, 1, 7), "int32", 3), integers(1, 20, (3, 7), "int32", 4)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_broadcasts(name):
    check(run(name, A, B), onnx_run(name.title(), A, B))
    check(run(name, WHOLE, SMALL), onnx_run(name.title(), WHOLE, SMALL))


@pytest.mark.parametrize(("name", "op"), [
    ("equal", "Equal"), ("less", "Less"), ("less_or_equal", "LessOrEqual"), ("greater", "Greater"),
    ("greater_or_equal", "GreaterOrEqual"),
])
def test_comparisons_broadcast(name, op):
    check(run(name, WHOLE, SMALL), onnx_run(op, WHOLE, SMALL))
    check(run(name, A, B), onnx_run(op, A, B))


@pytest.mark.parametrize(("name", "op"), [("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)])
def test_logic(name, op):
    check(run(name, A > 0, B > 0), op(A > 0, B > 0))


@pytest.mark.parametrize(("name", "op"), [
    ("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor),
])
def test_bits(name, op):
    check(run(name, WHOLE, SMALL), op(WHOLE, SMALL))


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint32", "int32"])
def test_shifts_by_any_count(kind):
    x = np.array([1, 3, 100, 127, 5] if kind[0] == "u" else [1, -3, -100, 127, 5], kind)
    bits = x.dtype.itemsize * 8
    counts = np.array([0, 1, 3, bits - 1, bits], kind)
    right = [int(a) >> int(b) for a, b in zip(x, counts, strict=True)]
    check(run("bit_shift", x, counts, direction="RIGHT"), np.array(right, kind))
    left = [(int(a) << int(b)) & ((1 << bits) - 1) if b < bits else 0 for a, b in zip(x, counts, strict=True)]
    check(run("bit_shift", x, counts, direction="LEFT"), np.array(left, f"uint{bits}").view(kind))


@pytest.mark.parametrize("name", ["max", "min", "sum", "mean"])
def test_any_number_of_operands(name):
    three = A, B, floats(19, seed=5)
    for count in (1, 2, 3):
        check(run(name, *three[:count]), onnx_run(name.title(), *three[:count]))


def test_powers():
    base = np.abs(A) + np.float32(0.1)
    check(run("pow", base, B), onnx_run("Pow", base, B))
    check(run("pow", A, np.array([2, 3], "int64").repeat(19)[:19]), A ** np.array([2, 3]).repeat(19)[:19].astype("float32"),
          rtol=1e-5)
    whole = integers(-9, 9, (4, 5), "int32")
    check(run("pow", whole, np.full((5,), 3, "int32")), whole**3)


@pytest.mark.parametrize("how", ["default", "interpreter"])
@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8"])
def test_quotients_rounded_down(kind, how):
    """To the ends of the type; the least integer by -1 is that integer, as in C with wrapping."""
    info = np.iinfo(kind)
    ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 7, 0], kind)
    by = np.array([3, 7, info.max, 1] if kind == "uint8" else [3, -3, 7, info.min, info.max, 1, -1], kind)
    a, b = ends[:, None], by[None]
    want = [[(int(x) // int(y) - info.min) % (1 << info.bits) + info.min for y in by] for x in ends]
    np.testing.assert_array_equal(run("floor_div", a, b, how=how), np.array(want, kind))
    check(run("floor_div", WHOLE, -SMALL, how=how), WHOLE // -SMALL)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_hypotenuses_neither_overflow_nor_underflow(kind):
    x = np.concatenate([floats(50, dtype=kind) * np.asarray(size, kind) for size in (1, 1e30, 1e-30)] + [SPECIAL.astype(kind)])
    y = np.concatenate([floats(150, seed=1, dtype=kind) * np.abs(x[:150]), SPECIAL[::-1].astype(kind)])
    near(run("hypot", x, y), np.hypot(x.astype(np.longdouble), y.astype(np.longdouble)).astype(np.float64), 2)


def test_signs_of_others():
    got = run("copysign", SPECIAL[:, None], SPECIAL[None, :4])
    np.testing.assert_array_equal(got, np.copysign(SPECIAL[:, None], SPECIAL[None, :4]))
    np.testing.assert_array_equal(np.signbit(got), np.broadcast_to(np.signbit(SPECIAL[:4]), got.shape))


@pytest.mark.parametrize("fmod", [False, True])
def test_remainders_of_integers(fmod):
    check(run("mod", WHOLE, SMALL, fmod=fmod), (np.fmod if fmod else np.mod)(WHOLE, SMALL))


def test_remainders_of_floats():
    check(run("mod", A, B, fmod=True), np.fmod(*np.broadcast_arrays(A, B)))
    check(run("mod", A, B), np.mod(*np.broadcast_arrays(A, B)), atol=1e-6)


def test_where_prelu_and_clip():
    check(run("where", A > 0, A, B), np.where(A > 0, *np.broadcast_arrays(A, B)))
    check(run("prelu", A, floats(19, seed=6)), onnx_run("PRelu", A, floats(19, seed=6)))
    low, high = np.array(-0.5, np.float32), np.array(0.25, np.float32)
    for bounds in ((low, high), (low, None), (None, high), (None, None)):
        check(run("clip", A, *bounds), onnx_run("Clip", A, *bounds))
    check(run("clip", WHOLE, np.array([-3], "int32"), np.array([9], "int32")), np.clip(WHOLE, -3, 9))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 0, 5), (1, 1, 1), (17,), (2, 3, 4, 5, 6)])
def test_tensors_of_any_shape(shape):
    check(run("add", floats(*shape), floats(*shape, seed=1)), np.asarray(floats(*shape) + floats(*shape, seed=1)))
    check(run("exp", floats(*shape)), np.asarray(np.exp(floats(*shape))))
