"""Reductions."""

from collections.abc import Sequence

from vtakit.compiler.frontend.torch.nodes import AtenNode, Converter, converts
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import dtype

_INT32 = dtype("int32")


def _axes(n: AtenNode, x: Value) -> tuple[int, ...]:
    """The dimensions that a reduction is over; all if none is named."""
    given, count = n.operands.get("dim"), len(x.type.shape)
    dims: Sequence[int] = tuple(given) if isinstance(given, tuple) else () if given is None else (given,)
    return tuple(sorted(dim % count for dim in dims)) if dims else tuple(range(count))


def _reduced(n: AtenNode, op: str, x: Value) -> Value:
    axes = _axes(n, x)
    made = n.apply(op, x, axes=axes, keepdims=False) if axes else x
    return n.reshape(made, n.type.shape)


def _reduction(op: str) -> Converter:
    def convert(n: AtenNode) -> Value:
        return _reduced(n, op, n.cast(n.value("self"), n.type.dtype))
    return convert


for _op, _names in {
    "reduce_mean": ("mean.default", "mean.dim"), "reduce_sum": ("sum.default", "sum.dim_IntList"),
    "reduce_prod": ("prod.default", "prod.dim_int"), "reduce_max": ("amax.default", "max.default"),
    "reduce_min": ("amin.default", "min.default"),
}.items():
    converts(*_names)(_reduction(_op))


@converts("linalg_vector_norm.default")
def norm(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    if n["ord"] == float("inf"):
        return _reduced(n, "reduce_max", n.apply("abs", x))
    if n["ord"] not in (1, 2):
        order = float(n["ord"])
        if order <= 0 or order == float("inf"):
            n.unsupported(f"of order {n['ord']}")
        total = _reduced(n, "reduce_sum", n.apply("pow", n.apply("abs", x), n.like(order, x)))
        return n.apply("pow", total, n.like(1 / order, total))
    return _reduced(n, "reduce_l1" if n["ord"] == 1 else "reduce_l2", x)


def _logical(op: str) -> Converter:
    """Any or all: the greatest or least of zeros and ones."""
    def convert(n: AtenNode) -> Value:
        x = n.cast(n.cast(n.value("self"), dtype("bool")), _INT32)
        return n.cast(_reduced(n, op, x), n.type.dtype)
    return convert


converts("any.default", "any.dim", "any.dims")(_logical("reduce_max"))
converts("all.default", "all.dim", "all.dims")(_logical("reduce_min"))


def _var(n: AtenNode) -> Value:
    """The sum of squares about the mean, over their number less `correction`, which is 1 by default."""
    x = n.value("self")
    axes = _axes(n, x)
    count = 1
    for axis in axes:
        count *= x.type.shape[axis]
    apart = n.apply("sub", x, n.apply("reduce_mean", x, axes=axes, keepdims=True))
    total = _reduced(n, "reduce_sum_square", apart)
    correction = 1 if n["correction"] is None else n["correction"]
    return n.apply("mul", total, n.like(1 / (count - correction) if count > correction else float("nan"), total))


converts("var.correction")(_var)


@converts("var_mean.correction")
def var_mean(n: AtenNode) -> list[Value | None]:
    return [_var(n), _reduced(n, "reduce_mean", n.value("self"))]


@converts("argmax.default", "argmin.default")
def argmax(n: AtenNode) -> Value:
    x, op = n.value("self"), n.op.removeprefix("aten.").removesuffix(".default")
    if n["dim"] is None:
        x = n.reshape(x, (x.type.size,))
    axis = 0 if n["dim"] is None else n["dim"] % max(1, len(x.type.shape))
    return n.reshape(n.apply(op, x, axis=axis, keepdims=False), n.type.shape)


@converts("max.dim", "min.dim")
def max_with_indices(n: AtenNode) -> list[Value | None]:
    x, word = n.value("self"), n.op.removeprefix("aten.")[:3]
    axis = n["dim"] % max(1, len(x.type.shape))
    found = [
        n.apply(f"reduce_{word}", x, axes=(axis,), keepdims=False), n.apply(f"arg{word}", x, axis=axis, keepdims=False)
    ]
    return [n.reshape(each, n.type.shape) for each in found]


@converts("cumsum.default")
def cumsum(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    return n.apply("cumsum", x, axis=n["dim"] % len(x.type.shape))


@converts("cumprod.default")
def cumprod(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    return n.apply("cumprod", x, axis=n["dim"] % len(x.type.shape))


@converts("topk.default")
def top_k(n: AtenNode) -> list[Value | None]:
    x = n.value("self")
    return list(n.all("top_k", x, k=n["k"], axis=n["dim"] % len(x.type.shape), largest=n["largest"]))
