"""Operators on each element."""

from typing import Any

from vtakit.compiler.frontend.torch.nodes import AtenNode, Converter, converts, kind_of
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import DType, dtype

_BOOL = dtype("bool")
_UNARY = {  # PyTorch's name -> ours, where they mean the same
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf", "erfc": "erfc", "exp": "exp", "exp2": "exp2", "expm1": "expm1",
    "floor": "floor",
    "hardswish": "hard_swish", "isinf": "is_inf", "isnan": "is_nan", "log": "log", "log10": "log10",
    "log1p": "log1p", "log2": "log2", "mish": "mish", "neg": "neg",
    "reciprocal": "reciprocal", "relu": "relu", "round": "round", "sigmoid": "sigmoid", "sign": "sign", "silu": "swish",
    "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}
_ARITHMETIC = {"mul": "mul", "div": "div", "maximum": "max", "minimum": "min"}
_COMPARISONS = {"eq": "equal", "ge": "greater_or_equal", "gt": "greater", "le": "less_or_equal", "lt": "less"}


def _unary(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        x = n.value("self")
        if n.type.dtype.is_float:
            x = n.cast(x, n.type.dtype)  # the square root of integers is taken of floats
        return n.apply(op, x)
    return convert


for _name, _op in _UNARY.items():
    converts(f"{_name}.default")(_unary(_op))


def _of(n: AtenNode, kind: DType, *names: str) -> list[Value]:
    """Operands, tensors or numbers, as tensors of one type."""
    return [n.cast(n[name], kind) for name in names]


def _common(n: AtenNode) -> DType:
    """The type in which PyTorch compares: that of the tensors, and where those differ the greater; numbers count less."""
    import torch

    def sample(given: Any) -> Any:
        return torch.empty(given.type.shape, dtype=getattr(torch, str(given.type.dtype)), device="meta") \
            if isinstance(given, Value) else given
    return kind_of(torch.result_type(sample(n["self"]), sample(n["other"])))


def _arithmetic(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        if op == "mul" and n.type.dtype == _BOOL:
            return n.apply("and", *_of(n, _BOOL, "self", "other"))
        return n.apply(op, *_of(n, n.type.dtype, "self", "other"))
    return convert


@converts("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default")
def div_rounded(n: AtenNode) -> Value:
    """A quotient rounded down or towards zero."""
    mode = "floor" if "floor_divide" in n.op else n["rounding_mode"]
    a, b = _of(n, n.type.dtype, "self", "other")
    if not n.type.dtype.is_float:
        if n.type.dtype == _BOOL:
            n.unsupported("of truth values")
        return n.apply("floor_div" if mode == "floor" else "div", a, b)
    if mode == "floor":
        return _floored(n, a, b)
    quotient = n.apply("div", a, b)
    return quotient if mode is None else _truncated(n, quotient)


def _floored(n: AtenNode, a: Value, b: Value) -> Value:
    """A quotient of floats rounded down. Source: PyTorch, c10/util/generic_math.h, div_floor_floating."""
    quotient, rest, nothing = n.apply("div", a, b), n.apply("mod", a, b, fmod=True), n.like(0, a)
    exact = n.apply("div", n.apply("sub", a, rest), b)  # a whole number, or nearly
    differ = n.apply("xor", n.apply("less", b, nothing), n.apply("less", rest, nothing))
    less = n.apply("and", differ, n.apply("not", n.apply("equal", rest, nothing)))
    exact = n.apply("where", less, n.apply("sub", exact, n.like(1, a)), exact)
    down = n.apply("floor", exact)
    up = n.apply("greater", n.apply("sub", exact, down), n.like(0.5, a))
    whole = n.apply("where", up, n.apply("add", down, n.like(1, a)), down)
    whole = n.apply("where", n.apply("equal", exact, nothing), n.apply("copysign", nothing, quotient), whole)
    return n.apply("where", n.apply("equal", b, nothing), quotient, whole)


def _truncated(n: AtenNode, x: Value) -> Value:
    down, up = n.apply("floor", x), n.apply("ceil", x)
    return n.apply("where", n.apply("less", x, n.like(0, x)), up, down)


@converts("trunc.default", "fix.default")
def trunc(n: AtenNode) -> Value:
    x = n.value("self")
    return _truncated(n, x) if x.type.dtype.is_float else x


def _sum(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        a, b = _of(n, n.type.dtype, "self", "other")
        if op == "add" and n.type.dtype == _BOOL and n["alpha"] == 1:
            return n.apply("or", a, b)
        if n["alpha"] != 1:
            b = n.apply("mul", b, n.like(n["alpha"], b))
        return n.apply(op, a, b)
    return convert


def _comparison(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        return _compared(n, op)
    return convert


def _compared(n: AtenNode, op: str) -> Value:
    return n.apply(op, *_of(n, _common(n), "self", "other"))


for _name, _op in _ARITHMETIC.items():
    _kinds = ("default",) if _name in ("maximum", "minimum") else ("Tensor", "Scalar")
    converts(*(f"{_name}.{_kind}" for _kind in _kinds))(_arithmetic(_op))
for _name in ("add", "sub"):
    converts(f"{_name}.Tensor", f"{_name}.Scalar")(_sum(_name))
for _name, _op in _COMPARISONS.items():
    converts(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_op))


@converts("ne.Tensor", "ne.Scalar")
def ne(n: AtenNode) -> Value:
    return n.apply("not", _compared(n, "equal"))


def _logical(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        return n.apply(op, *[n.cast(n.value(name), _BOOL) for name in ("self", "other") if name in n.operands])
    return convert


for _name in ("and", "or", "xor", "not"):
    converts(f"logical_{_name}.default")(_logical(_name))


def _bitwise(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        return n.apply(op if n.type.dtype == _BOOL else f"bitwise_{op}", *_of(n, n.type.dtype, "self", "other"))
    return convert


for _name in ("and", "or", "xor"):
    converts(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar")(_bitwise(_name))


@converts("bitwise_not.default")
def bitwise_not(n: AtenNode) -> Value:
    return n.apply("not" if n.type.dtype == _BOOL else "bitwise_not", n.value("self"))


@converts("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(n: AtenNode) -> Value:
    x = n.cast(n["self"], n.type.dtype)
    if n["exponent"] == 2:
        return n.apply("mul", x, x)
    if n["exponent"] == 0.5:
        return n.apply("sqrt", x)
    return n.apply("pow", x, n.cast(n["exponent"], n.type.dtype))


@converts("remainder.Tensor", "remainder.Scalar")
def remainder(n: AtenNode) -> Value:
    """With the sign of the divisor."""
    return n.apply("mod", *_of(n, n.type.dtype, "self", "other"))


@converts("fmod.Tensor", "fmod.Scalar")
def fmod(n: AtenNode) -> Value:
    return n.apply("mod", *_of(n, n.type.dtype, "self", "other"), fmod=True)


@converts("clamp.default", "hardtanh.default", "relu6.default")
def clamp(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    low, high = (0, 6) if "relu6" in n.op else (n["min_val"], n["max_val"]) if "hardtanh" in n.op else (n["min"], n["max"])
    return n.apply("clip", x, *(None if bound is None else n.like(bound, x) for bound in (low, high)))


@converts("clamp.Tensor")
def clamp_by_tensors(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    for name, op in (("min", "max"), ("max", "min")):
        if n[name] is not None:
            x = n.apply(op, x, n.cast(n[name], n.type.dtype))
    return x


@converts("clamp_min.default", "clamp_max.default")
def clamp_one_side(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    return n.apply("clip", x, n.like(n["min"], x)) if "min" in n.operands else n.apply("clip", x, None, n.like(n["max"], x))


@converts("hypot.default")
def hypot(n: AtenNode) -> Value:
    return n.apply("hypot", *_of(n, n.type.dtype, "self", "other"))


@converts("copysign.Tensor", "copysign.Scalar")
def copysign(n: AtenNode) -> Value:
    return n.apply("copysign", *_of(n, n.type.dtype, "self", "other"))


@converts("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar", "__lshift__.Tensor",
          "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar", "__rshift__.Tensor")
def shift(n: AtenNode) -> Value:
    """Shift by a number that is known: a product with a power of two, or a quotient rounded down."""
    by = n["other"]
    if isinstance(by, Value) or not 0 <= by < n.type.dtype.bits - 1 or not n.type.dtype.is_int:
        n.unsupported("by a tensor" if isinstance(by, Value) else f"of {n.type.dtype} by {by}")
    x = n.cast(n.value("self"), n.type.dtype)
    power = n.like(2 ** int(by), x)
    if "left" in n.op or "lshift" in n.op:
        return n.apply("mul", x, power)
    return n.apply("floor_div", x, power)


@converts("rsqrt.default")
def rsqrt(n: AtenNode) -> Value:
    return n.apply("reciprocal", n.apply("sqrt", n.cast(n.value("self"), n.type.dtype)))


@converts("where.self")
def where(n: AtenNode) -> Value:
    return n.apply("where", n.value("condition"), *_of(n, n.type.dtype, "self", "other"))


@converts("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(n: AtenNode) -> Value:
    return n.apply("where", n.value("mask"), *_of(n, n.type.dtype, "value", "self"))


@converts("_to_copy.default", "to.dtype", "clone.default", "alias.default", "detach.default", "lift_fresh_copy.default",
          "contiguous.default", "dropout.default", "copy.default")
def copy(n: AtenNode) -> Value:
    """Convert a copy: the same elements, perhaps of another type. Dropout is a copy where a program is exported for inference."""
    if n.operands.get("train"):
        n.unsupported("in training")
    source = n.value("src" if "src" in n.operands else "input" if "input" in n.operands else "self")
    found = n.cast(source, n.type.dtype)
    return found if found.type.shape == n.type.shape else n.apply("expand", found, shape=n.type.shape)
