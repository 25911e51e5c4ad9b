"""Operators on elements."""

import numpy as np

from vtakit.compiler.frontend.tflite.nodes import TfliteNode, axis_in, converts, floats
from vtakit.compiler.frontend.tflite.tensors import Order, plain
from vtakit.compiler.graph.ir import Value

_BINARY = {
    "ADD": ("add", "AddOptions"), "SUB": ("sub", "SubOptions"), "MUL": ("mul", "MulOptions"), "DIV": ("div", "DivOptions"),
    "MAXIMUM": ("max", ""), "MINIMUM": ("min", ""), "POW": ("pow", ""), "EQUAL": ("equal", ""), "GREATER": ("greater", ""),
    "GREATER_EQUAL": ("greater_or_equal", ""), "LESS": ("less", ""), "LESS_EQUAL": ("less_or_equal", ""),
    "LOGICAL_AND": ("and", ""), "LOGICAL_OR": ("or", ""), "BITWISE_XOR": ("bitwise_xor", ""),
}
_UNARY = {
    "ABS": "abs", "CEIL": "ceil", "COS": "cos", "ELU": "elu", "EXP": "exp", "FLOOR": "floor", "HARD_SWISH": "hard_swish",
    "LOG": "log", "LOGICAL_NOT": "not", "LOGISTIC": "sigmoid", "NEG": "neg", "RELU": "relu", "ROUND": "round", "SIGN": "sign",
    "SIN": "sin", "SQRT": "sqrt", "TANH": "tanh",
}
_CLIPS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


def _both(n: TfliteNode) -> tuple[Value, Value, Order]:
    """Two operands that broadcast to each other, in one order."""
    order = n.order(0, 1)
    return n.broadcast(0, order), n.broadcast(1, order), order


@converts(*_BINARY)
def binary(n: TfliteNode) -> None:
    op, options = _BINARY[n.op]
    a, b, order = _both(n)
    activation = n.options(options).FusedActivationFunction() if options else 0
    n.put(n.apply(op, a, b), order=order, activation=activation)


@converts("NOT_EQUAL")
def not_equal(n: TfliteNode) -> None:
    a, b, order = _both(n)
    n.put(n.apply("not", n.apply("equal", a, b)), order=order)


@converts("SQUARED_DIFFERENCE")
def squared_difference(n: TfliteNode) -> None:
    a, b, order = _both(n)
    less = n.apply("sub", a, b)
    n.put(n.apply("mul", less, less), order=order)


@converts("FLOOR_DIV")
def floor_div(n: TfliteNode) -> None:
    """Divide and round down; floats are divided in double precision. Source: TensorFlow Lite, kernels/floor_div.cc."""
    a, b, order = _both(n)
    if floats(a.type.dtype):
        wide = [n.apply("cast", each, to="float64") for each in (a, b)]
        n.put(n.apply("cast", n.apply("floor", n.apply("div", *wide)), to=str(a.type.dtype)), order=order)
        return
    n.put(n.apply("floor_div", a, b), order=order)


@converts("FLOOR_MOD")
def floor_mod(n: TfliteNode) -> None:
    a, b, order = _both(n)
    n.put(n.apply("mod", a, b), order=order)


@converts("PRELU")
def prelu(n: TfliteNode) -> None:
    a, b, order = _both(n)
    n.put(n.apply("prelu", a, b), order=order)


@converts(*_UNARY)
def unary(n: TfliteNode) -> None:
    order = n.order(0)
    n.put(n.apply(_UNARY[n.op], n.value(0, order)), order=order)


@converts(*_CLIPS)
def clip(n: TfliteNode) -> None:
    order = n.order(0)
    n.put(n.clip(n.value(0, order), *_CLIPS[n.op]), order=order)


@converts("LEAKY_RELU")
def leaky_relu(n: TfliteNode) -> None:
    order = n.order(0)
    n.put(n.apply("leaky_relu", n.value(0, order), alpha=n.options("LeakyReluOptions").Alpha()), order=order)


@converts("GELU")
def gelu(n: TfliteNode) -> None:
    order, approximate = n.order(0), n.options("GeluOptions").Approximate()
    n.put(n.apply("gelu", n.value(0, order), approximate="tanh" if approximate else "none"), order=order)


@converts("RSQRT")
def rsqrt(n: TfliteNode) -> None:
    order = n.order(0)
    n.put(n.apply("reciprocal", n.apply("sqrt", n.value(0, order))), order=order)


@converts("SQUARE")
def square(n: TfliteNode) -> None:
    order = n.order(0)
    x = n.value(0, order)
    n.put(n.apply("mul", x, x), order=order)


@converts("ADD_N")
def add_n(n: TfliteNode) -> None:
    order = n.order(*range(len(n)))
    n.put(n.apply("sum", *[n.broadcast(at, order) for at in range(len(n))]), order=order)


@converts("SELECT", "SELECT_V2")
def select(n: TfliteNode) -> None:
    take, put = n.moves(1, 2)
    if n.op == "SELECT" and n.shape(0) != n.shape(1):  # a condition for each index of the first dimension
        condition = n.reshape(n.raw(0), (*n.shape(0), *[1] * (n.ndim(1) - n.ndim(0))))
    else:
        condition = n.raw(0)
    put(n.apply("where", condition, take(1), take(2)))


@converts("SOFTMAX")
def softmax(n: TfliteNode) -> None:
    order, beta = n.order(0), n.options("SoftmaxOptions").Beta()
    x = n.value(0, order)
    if beta != 1.0:
        x = n.apply("mul", x, n.like(beta, x))
    n.put(n.apply("softmax", x, axis=axis_in(order, -1)), order=order)


@converts("LOG_SOFTMAX")
def log_softmax(n: TfliteNode) -> None:
    order = n.order(0)
    n.put(n.apply("log_softmax", n.value(0, order), axis=axis_in(order, -1)), order=order)


@converts("L2_NORMALIZATION")
def l2_normalization(n: TfliteNode) -> None:
    """x by the root of the sum of its squares, which is at least 1e-6. Source: TensorFlow Lite, reference/l2normalization.h."""
    order = n.order(0)
    x = n.value(0, order)
    squares = n.apply("reduce_sum_square", x, axes=(axis_in(order, -1),), keepdims=True)
    n.put(n.apply("div", x, n.apply("max", n.apply("sqrt", squares), n.like(1e-6, x))), order=order)


@converts("CUMSUM")
def cumsum(n: TfliteNode) -> None:
    o = n.options("CumsumOptions")
    n.put(n.apply("cumsum", n.value(0), axis=n.ints(1)[0] % n.ndim(0), exclusive=bool(o.Exclusive()), reverse=bool(o.Reverse())))


@converts("ZEROS_LIKE")
def zeros_like(n: TfliteNode) -> None:
    kind = n.tensor(0).kind
    assert kind is not None
    n.put_raw(n.build.constant(np.zeros(n.shape(0)), kind, n.name), order=plain(n.ndim(0)))
