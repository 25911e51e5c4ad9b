"""TensorFlow Lite models with one operator each, of those that the random ones of `tflite_cases` do not draw."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tflite_cases import Case
from tflite_support import Array

Make = Callable[[Case, str], None]
SINGLE: dict[str, Callable[[Case], None]] = {}


def single(*ops: str) -> Callable[[Make], Make]:
    """Register the maker of the model of one or several operators."""
    def register(make: Make) -> Make:
        for op in ops:
            SINGLE[op] = partial(make, op=op)
        return make
    return register


def given(c: Case, array: Any) -> int:
    """An input with these elements."""
    array = np.asarray(array)
    at = c.model.input(array.shape, str(array.dtype))
    c.given[at] = array
    return at


def made(c: Case, kind: str, *shape: int, **params: Any) -> int:
    """An output of a type."""
    at = c.model.tensor(shape, kind, **params)
    c.model.outputs.append(at)
    return at


def reals(c: Case, *shape: int, low: float = -4.0) -> Array:
    return c.numbers.uniform(low, 4, shape).astype(np.float32)


def ints(c: Case, *shape: int) -> Array:
    return c.numbers.integers(-9, 10, shape).astype(np.int32)


def words(c: Case, array: Any) -> int:
    """A constant of int32."""
    return c.model.constant(array, "int32")


@single("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
def compared(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, ints(c, 2, 3, 4)), given(c, ints(c, 3, 1))], [made(c, "bool", 2, 3, 4)])


@single("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")
def logical(c: Case, op: str) -> None:
    operands = [given(c, c.numbers.random((3, 4)) < 0.5) for _ in range(1 if op == "LOGICAL_NOT" else 2)]
    c.model.apply(op, operands, [made(c, "bool", 3, 4)])


@single("BITWISE_XOR", "FLOOR_DIV", "FLOOR_MOD", "DIV")
def of_integers(c: Case, op: str) -> None:
    """Signs of both kinds, and numbers near the ends of int32; then real numbers whose quotients are large."""
    b = ints(c, 4, 5)
    b[b == 0] = 3
    a = np.concatenate([ints(c, 2, 5), c.numbers.integers(-2**31, 2**31, (2, 5)).astype(np.int32)])
    a[3, 0], b[3, 0] = -2**31, 3
    c.model.apply(op, [given(c, a), given(c, b)], [made(c, "int32", 4, 5)], "DivOptions" if op == "DIV" else "")
    if op.startswith("FLOOR"):
        x, y = reals(c, 4, 5), reals(c, 4, 5)
        x[0] *= 1e6
        c.model.apply(op, [given(c, x), given(c, y)], [made(c, "float32", 4, 5)])


@single("POW", "PRELU")
def of_reals(c: Case, op: str) -> None:
    second = c.model.constant(reals(c, 1, 1, 3), "float32") if op == "PRELU" else given(c, reals(c, 3))
    c.model.apply(op, [given(c, reals(c, 2, 4, 3, low=0.1 if op == "POW" else -4)), second], [made(c, "float32", 2, 4, 3)])


@single("LOG", "SQRT", "RSQRT")
def of_positives(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 2, 7, low=0.05))], [made(c, "float32", 2, 7)])


@single("ADD_N")
def add_n(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 2, 5)) for _ in range(3)], [made(c, "float32", 2, 5)])


@single("RELU_0_TO_1", "L2_NORMALIZATION", "LOG_SOFTMAX")
def rows(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 3, 9))], [made(c, "float32", 3, 9)])


@single("L2_POOL_2D")
def l2_pool(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 1, 6, 7, 3))], [made(c, "float32", 1, 3, 4, 3)], "Pool2DOptions", padding=0, strideW=2,
                  strideH=2, filterWidth=3, filterHeight=2)


@single("LOCAL_RESPONSE_NORMALIZATION")
def local_response(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 1, 3, 4, 9))], [made(c, "float32", 1, 3, 4, 9)],
                  "LocalResponseNormalizationOptions", radius=2, bias=1.5, alpha=0.2, beta=0.6)


@single("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
def reduced(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 2, 3, 4, 5)), words(c, [1, -1])], [made(c, "float32", 2, 4)], "ReducerOptions")
    c.model.apply(op, [given(c, reals(c, 2, 3, 4)), words(c, [2])], [made(c, "float32", 2, 3, 1)], "ReducerOptions",
                  keepDims=True)


@single("REDUCE_ANY", "REDUCE_ALL")
def reduced_flags(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, c.numbers.random((6, 3)) < 0.5), words(c, [1])], [made(c, "bool", 6)], "ReducerOptions")


@single("ARG_MIN")
def arg_min(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 3, 4, 5)), words(c, 1)], [made(c, "int64", 3, 5)], "ArgMinOptions", outputType=4)


@single("TOPK_V2")
def top_k(c: Case, op: str) -> None:
    results = [made(c, "float32", 3, 4), made(c, "int32", 3, 4)]
    c.model.apply(op, [given(c, reals(c, 3, 9)), words(c, 4)], results, "TopKV2Options")


@single("CUMSUM")
def cumsum(c: Case, op: str) -> None:
    for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
        c.model.apply(op, [given(c, reals(c, 2, 3, 4)), words(c, 1)], [made(c, "float32", 2, 3, 4)], "CumsumOptions",
                      exclusive=exclusive, reverse=reverse)


@single("CAST")
def cast(c: Case, op: str) -> None:
    for kind in ("int32", "int64", "bool"):
        c.model.apply(op, [given(c, reals(c, 3, 4))], [made(c, kind, 3, 4)])
    c.model.apply(op, [given(c, ints(c, 5))], [made(c, "float32", 5)])


@single("SELECT", "SELECT_V2")
def select(c: Case, op: str) -> None:
    condition = c.numbers.random(4) < 0.5 if op == "SELECT" else c.numbers.random((4, 1)) < 0.5
    c.model.apply(op, [given(c, condition), given(c, reals(c, 4, 3)), given(c, reals(c, 4, 3))], [made(c, "float32", 4, 3)])


@single("GATHER_ND")
def gather_nd(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 3, 4, 2)), words(c, [[0, 3], [2, 1], [1, 0]])], [made(c, "float32", 3, 2)])


@single("EMBEDDING_LOOKUP")
def embedding(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, np.array([2, 0, 5], np.int32)), c.model.constant(reals(c, 6, 4), "float32")],
                  [made(c, "float32", 3, 4)])


@single("BROADCAST_TO")
def broadcast(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 3, 1)), words(c, [2, 3, 4])], [made(c, "float32", 2, 3, 4)], version=2)


@single("PADV2")
def pad(c: Case, op: str) -> None:
    edges, number = words(c, [[0, 0], [1, 2], [0, 1], [0, 0]]), c.model.constant(-1.5, "float32")
    c.model.apply(op, [given(c, reals(c, 1, 3, 4, 2)), edges, number], [made(c, "float32", 1, 6, 5, 2)])


@single("FILL")
def fill(c: Case, op: str) -> None:
    c.model.apply(op, [words(c, [2, 3]), given(c, np.float32(2.5))], [made(c, "float32", 2, 3)])


@single("ZEROS_LIKE")
def zeros_like(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 2, 5))], [made(c, "float32", 2, 5)])


@single("SHAPE", "RANK")
def of_shapes(c: Case, op: str) -> None:
    if op == "SHAPE":
        c.model.apply(op, [given(c, reals(c, 2, 5))], [made(c, "int32", 2)], "ShapeOptions", outType=2)
    else:
        c.model.apply(op, [given(c, reals(c, 2, 5))], [made(c, "int32")])


@single("RANGE")
def numbers(c: Case, op: str) -> None:
    """Added to an input, so that the model has one."""
    between = c.model.tensor((4,), "int32")
    c.model.apply(op, [words(c, each) for each in (3, 14, 3)], [between], "RangeOptions")
    c.model.apply("ADD", [given(c, ints(c, 4)), between], [made(c, "int32", 4)], "AddOptions")


@single("ONE_HOT")
def one_hot(c: Case, op: str) -> None:
    operands = [given(c, np.array([[0, 2], [3, 1]], np.int32)), words(c, 4), c.model.constant(5.0, "float32"),
                c.model.constant(-1.0, "float32")]
    c.model.apply(op, operands, [made(c, "float32", 2, 2, 4)], "OneHotOptions", axis=-1)


@single("QUANTIZE")
def quantize(c: Case, op: str) -> None:
    """From real numbers, and from one scale to another."""
    between = c.model.tensor((3, 8), "int8", scale=0.05, zero=3)
    c.model.apply(op, [given(c, reals(c, 3, 8))], [between], "QuantizeOptions")
    c.model.apply(op, [between], [made(c, "int8", 3, 8, scale=0.07, zero=-4)], "QuantizeOptions")
    c.model.apply("DEQUANTIZE", [between], [made(c, "float32", 3, 8)], "DequantizeOptions")


@single("FAKE_QUANT")
def fake_quant(c: Case, op: str) -> None:
    c.model.apply(op, [given(c, reals(c, 4, 9))], [made(c, "float32", 4, 9)], "FakeQuantOptions", min=-2.0, max=3.0, numBits=8)
