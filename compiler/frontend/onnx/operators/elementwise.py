"""Operators on each element."""

from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import DType

_SAME = {  # those whose operands and results are ours; with their attributes, which have the same names
    "Abs": ("abs",), "Acos": ("acos",), "Acosh": ("acosh",), "Add": ("add",), "And": ("and",), "Asin": ("asin",),
    "Asinh": ("asinh",), "Atan": ("atan",), "Atanh": ("atanh",), "BitShift": ("bit_shift", "direction"),
    "BitwiseAnd": ("bitwise_and",), "BitwiseNot": ("bitwise_not",), "BitwiseOr": ("bitwise_or",), "BitwiseXor": ("bitwise_xor",),
    "Ceil": ("ceil",), "Celu": ("celu", "alpha"), "Cos": ("cos",), "Cosh": ("cosh",), "Div": ("div",), "Elu": ("elu", "alpha"),
    "Equal": ("equal",), "Erf": ("erf",), "Exp": ("exp",), "Floor": ("floor",), "Gelu": ("gelu", "approximate"),
    "Greater": ("greater",), "GreaterOrEqual": ("greater_or_equal",), "HardSigmoid": ("hard_sigmoid", "alpha", "beta"),
    "HardSwish": ("hard_swish",), "IsNaN": ("is_nan",), "LeakyRelu": ("leaky_relu", "alpha"), "Less": ("less",),
    "LessOrEqual": ("less_or_equal",), "Log": ("log",), "Max": ("max",), "Mean": ("mean",), "Min": ("min",), "Mish": ("mish",),
    "Mul": ("mul",), "Neg": ("neg",), "Not": ("not",), "Or": ("or",), "Pow": ("pow",), "Reciprocal": ("reciprocal",),
    "Relu": ("relu",), "Round": ("round",), "Selu": ("selu", "alpha", "gamma"), "Shrink": ("shrink", "bias", "lambd"),
    "Sigmoid": ("sigmoid",), "Sign": ("sign",), "Sin": ("sin",), "Sinh": ("sinh",), "Softplus": ("softplus",),
    "Softsign": ("softsign",), "Sqrt": ("sqrt",), "Sub": ("sub",), "Sum": ("sum",), "Swish": ("swish", "alpha"), "Tan": ("tan",),
    "Tanh": ("tanh",), "ThresholdedRelu": ("thresholded_relu", "alpha"), "Where": ("where",), "Xor": ("xor",),
}


@converts(*_SAME)
def same(n: OnnxNode) -> Value:
    name, *attributes = _SAME[n.op]
    given = {each: n.attr(each) for each in attributes if n.attr(each) is not None}
    return n.apply(name, *n.all_given(), **given)


@converts("PRelu")
def prelu(n: OnnxNode) -> Value:
    return n.apply("prelu", n[0], n[1])


@converts("Identity")
def identity(n: OnnxNode) -> Value:
    return n[0]


@converts("Clip")
def clip(n: OnnxNode) -> Value:
    if n.version < 11:
        low, high = (None if n.attr(name) is None else n.like(n.attr(name), n[0]) for name in ("min", "max"))
        return n.apply("clip", n[0], low, high)
    return n.apply("clip", n[0], n.maybe(1), n.maybe(2))


@converts("Mod")
def mod(n: OnnxNode) -> Value:
    return n.apply("mod", n[0], n[1], fmod=bool(n.attr("fmod", 0)))


@converts("IsInf")
def is_inf(n: OnnxNode) -> Value:
    signs = {name: bool(n.attr(name, 1)) for name in ("detect_negative", "detect_positive")}
    return n.apply("is_inf", n[0], **signs)


@converts("Cast")
def cast(n: OnnxNode) -> Value:
    return _cast(n, n.kind("to"))


@converts("CastLike")
def cast_like(n: OnnxNode) -> Value:
    return _cast(n, n.dtype(1))


def _cast(n: OnnxNode, kind: DType) -> Value:
    if kind is n.dtype(0):
        return n[0]
    words: dict[str, Any] = {}
    if kind.is_storage:
        words = {"saturate": bool(n.attr("saturate", 1)), "round_mode": n.attr("round_mode", "up")}
    return n.apply("cast", n[0], to=str(kind), **words)


@converts("BitCast")
def bit_cast(n: OnnxNode) -> Value:
    return n.apply("bit_cast", n[0], to=str(n.kind("to")))


@converts("Dropout")
def dropout(n: OnnxNode) -> tuple[Value, ...]:
    """Outside of training all elements stay."""
    if n.has(2) and bool(n.constant(2).reshape(-1)[0]) and (not n.has(1) or float(n.constant(1).reshape(-1)[0])):
        raise n.unsupported("in training mode")
    if len(n.outputs) < 2:
        return (n[0],)
    kind = numpy_dtype(n.dtype(0)) if n.version < 10 else np.dtype(bool)
    return n[0], n.value(np.ones(n.shape(0), kind))
