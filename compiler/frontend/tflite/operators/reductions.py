"""Reductions."""

from vtakit.compiler.frontend.tflite.nodes import TfliteNode, axis_in, converts
from vtakit.compiler.frontend.tflite.tensors import FIRST

_REDUCTIONS = {
    "MEAN": "reduce_mean", "SUM": "reduce_sum", "REDUCE_MAX": "reduce_max", "REDUCE_MIN": "reduce_min",
    "REDUCE_PROD": "reduce_prod",
}


@converts(*_REDUCTIONS)
def reduce(n: TfliteNode) -> None:
    ndim, keep = n.ndim(0), bool(n.options("ReducerOptions").KeepDims())
    axes = sorted({axis % ndim for axis in n.ints(1)}) if ndim else []
    order = n.order(0)
    if axes == [1, 2] and order == FIRST and n.op == "MEAN":
        y = n.apply("global_average_pool", n.value(0, FIRST))
        n.put(y, order=FIRST) if keep else n.put(n.reshape(y, y.type.shape[:2]))
        return
    if not keep:
        order = tuple(range(ndim))
    x = n.value(0, order)
    y = x if not axes else n.apply(_REDUCTIONS[n.op], x, axes=tuple(sorted(axis_in(order, axis) for axis in axes)), keepdims=keep)
    n.put(y, order=order if keep else None)


@converts("ARG_MAX", "ARG_MIN")
def arg(n: TfliteNode) -> None:
    y = n.apply("argmax" if n.op == "ARG_MAX" else "argmin", n.raw(0), axis=n.ints(1)[0] % n.ndim(0), keepdims=False)
    kind = n.result().kind
    n.put_raw(y if kind is y.type.dtype else n.apply("cast", y, to=str(kind)))


@converts("REDUCE_ANY", "REDUCE_ALL")
def any_or_all(n: TfliteNode) -> None:
    ndim, keep = n.ndim(0), bool(n.options("ReducerOptions").KeepDims())
    axes = tuple(sorted({axis % ndim for axis in n.ints(1)}))
    x = n.apply("cast", n.raw(0), to="int32")
    y = n.apply("reduce_max" if n.op == "REDUCE_ANY" else "reduce_min", x, axes=axes, keepdims=keep)
    n.put_raw(n.apply("cast", y, to="bool"))


@converts("TOPK_V2")
def top_k(n: TfliteNode) -> None:
    values, indices = n.all("top_k", n.raw(0), k=n.ints(1)[0], axis=-1)
    n.put_raw(values)
    n.put_raw(n.apply("cast", indices, to="int32"), 1)
