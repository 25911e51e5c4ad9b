"""Operators that move elements, and those that make constants of shapes."""

from collections.abc import Sequence
from math import prod

import numpy as np

from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.tflite.nodes import TfliteNode, axis_in, converts
from vtakit.compiler.frontend.tflite.tensors import is_quantized, plain
from vtakit.compiler.graph.ir import Value


def _reshaped(n: TfliteNode, shape: Sequence[int]) -> None:
    if (both := n.complex(0)) is not None:
        n.put_complex(n.reshape(both[0], shape), n.reshape(both[1], shape))
        return
    take, put = n.moves(0)
    put(n.reshape(take(0), shape))


@converts("RESHAPE")
def reshape(n: TfliteNode) -> None:
    o = n.options("ReshapeOptions")
    if n.has(1):
        shape = list(n.ints(1))
    elif not o.NewShapeIsNone():
        shape = [int(size) for size in o.NewShapeAsNumpy()]
    else:
        shape = list(n.result().shape)
    if shape.count(-1) == 1:
        rest = prod(size for size in shape if size != -1)
        shape[shape.index(-1)] = prod(n.shape(0)) // rest if rest else 0
    if prod(shape) != prod(n.shape(0)):
        raise ModelError(f"node {n.name!r} (RESHAPE) makes {shape} of {list(n.shape(0))}")
    _reshaped(n, shape)


@converts("SQUEEZE")
def squeeze(n: TfliteNode) -> None:
    o, shape = n.options("SqueezeOptions"), n.shape(0)
    given = [] if o.SqueezeDimsIsNone() else [int(axis) % len(shape) for axis in o.SqueezeDimsAsNumpy()]
    axes = given or [axis for axis, size in enumerate(shape) if size == 1]
    _reshaped(n, [size for axis, size in enumerate(shape) if axis not in axes])


@converts("EXPAND_DIMS")
def expand_dims(n: TfliteNode) -> None:
    shape = list(n.shape(0))
    shape.insert(n.ints(1)[0] % (len(shape) + 1), 1)
    _reshaped(n, shape)


@converts("TRANSPOSE")
def transpose(n: TfliteNode) -> None:
    take, put = n.moves(0)
    perm = tuple([axis % n.ndim(0) for axis in n.ints(1)])
    order = n.order(0)
    # Dimension i of the value is dimension order[i] of the operand, which is dimension perm.index(order[i]) of the result.
    put(take(0, order), order=tuple([perm.index(axis) for axis in order]))


@converts("CONCATENATION")
def concatenation(n: TfliteNode) -> None:
    o, every = n.options("ConcatenationOptions"), range(len(n))
    take, put = n.moves(*every) if not o.FusedActivationFunction() else (n.value, n.put)
    order = n.order(*every)
    y = n.apply("concat", *[take(at, order) for at in every], axis=axis_in(order, o.Axis()))
    if put == n.put:
        n.put(y, order=order, activation=o.FusedActivationFunction())
    else:
        put(y, order=order)


@converts("PACK")
def pack(n: TfliteNode) -> None:
    every = range(len(n))
    take, put = n.moves(*every)
    axis = n.options("PackOptions").Axis() % (n.ndim(0) + 1)
    shape = (*n.shape(0)[:axis], 1, *n.shape(0)[axis:])
    put(n.apply("concat", *[n.reshape(take(at), shape) for at in every], axis=axis))


@converts("UNPACK")
def unpack(n: TfliteNode) -> None:
    take, put = n.moves(0)
    axis = n.options("UnpackOptions").Axis() % n.ndim(0)
    shape = n.shape(0)
    for at, part in enumerate(n.all("split", take(0), axis=axis, sizes=(1,) * shape[axis])):
        put(n.reshape(part, (*shape[:axis], *shape[axis + 1:])), at)


@converts("SPLIT", "SPLIT_V")
def split(n: TfliteNode) -> None:
    data, where = (1, 0) if n.op == "SPLIT" else (0, 2)
    take, put = n.moves(data)
    order, axis = n.order(data), n.ints(where)[0] % n.ndim(data)
    size, count = n.shape(data)[axis], len(n.operator.outputs)
    if n.op == "SPLIT":
        sizes = [size // count] * count
    else:
        sizes = list(n.ints(1))
        sizes = [size - sum(each for each in sizes if each >= 0) if each < 0 else each for each in sizes]
    for at, part in enumerate(n.all("split", take(data, order), axis=axis_in(order, axis), sizes=tuple(sizes))):
        put(part, at, order=order)


@converts("SLICE")
def slice_(n: TfliteNode) -> None:
    take, put = n.moves(0)
    order, starts, sizes = n.order(0), n.ints(1), n.ints(2)
    ends = [whole if size < 0 else start + size for start, size, whole in zip(starts, sizes, n.shape(0), strict=True)]
    axes = tuple([axis_in(order, axis) for axis in range(len(starts))])
    put(n.apply("slice", take(0, order), starts=starts, ends=tuple(ends), axes=axes), order=order)


@converts("STRIDED_SLICE")
def strided_slice(n: TfliteNode) -> None:
    """As NumPy slices, with bits for what is left out. Source: TensorFlow, `tf.strided_slice`."""
    o, shape = n.options("StridedSliceOptions"), n.shape(0)
    if o.EllipsisMask() or o.NewAxisMask() or o.Offset():
        n.unsupported("with an ellipsis, new axes or ends that are offsets")
    take, put = n.moves(0)
    starts, ends, steps = n.ints(1), n.ints(2), n.ints(3)
    slices, shrunk = [], []
    for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if not step:
            raise ModelError(f"node {n.name!r} (STRIDED_SLICE) has a step of 0")
        if o.ShrinkAxisMask() >> axis & 1:
            at = 0 if o.BeginMask() >> axis & 1 else start + shape[axis] if start < 0 else start
            if not 0 <= at < shape[axis]:
                raise ModelError(f"node {n.name!r} (STRIDED_SLICE) takes index {start} of {shape[axis]}")
            slices.append(slice(at, at + 1, 1))
            shrunk.append(axis)
        else:
            slices.append(slice(None if o.BeginMask() >> axis & 1 else start, None if o.EndMask() >> axis & 1 else end, step))
    spans = [range(size)[each] for size, each in zip(shape, slices, strict=False)]
    order = n.order(0) if not shrunk else plain(len(shape))
    axes = tuple([axis_in(order, axis) for axis in range(len(spans))])
    backwards = -1 - max(shape, default=0)  # an end in front of the first element
    y = n.apply("slice", take(0, order), starts=tuple([span.start for span in spans]),
                ends=tuple([backwards if span.stop < 0 else span.stop for span in spans]), axes=axes,
                steps=tuple([span.step for span in spans]))
    if not shrunk:
        put(y, order=order)
        return
    put(n.reshape(y, [size for axis, size in enumerate(y.type.shape) if axis not in shrunk]))


@converts("PAD", "PADV2", "MIRROR_PAD")
def pad(n: TfliteNode) -> None:
    take, put = n.moves(0)
    order = n.order(0)
    x, edges = take(0, order), n.known(1).reshape(-1, 2).astype(int)[list(order)]
    pads = tuple(map(int, (*edges[:, 0], *edges[:, 1])))
    if n.op == "MIRROR_PAD":
        if n.options("MirrorPadOptions").Mode():  # the edge itself too
            x = _symmetric(n, x, edges)
        else:
            x = n.apply("pad", x, None, pads=pads, mode="reflect")
        put(x, order=order)
        return
    tensor = n.tensor(0)
    stored = is_quantized(tensor) and x.type.dtype is tensor.kind
    if n.op == "PADV2":
        value = n.raw(2) if stored else n.value(2)
        fill = n.reshape(value, ())
    else:
        fill = n.like(int(tensor.zeros[0]) if stored else 0, x)
    put(n.apply("pad", x, fill, pads=pads), order=order)


def _symmetric(n: TfliteNode, x: Value, edges: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> Value:
    """x with mirror images at its edges that begin with the edge itself."""
    for axis, (low, high) in enumerate(edges.tolist()):
        size = x.type.shape[axis]
        if low or high:
            indices = np.concatenate([np.arange(low)[::-1], np.arange(size), size - 1 - np.arange(high)])
            x = n.apply("gather", x, n.build.constant(indices, "int64"), axis=axis)
    return x


@converts("GATHER")
def gather(n: TfliteNode) -> None:
    o = n.options("GatherOptions")
    if o.BatchDims():
        n.unsupported("with batch dimensions")
    take, put = n.moves(0)
    put(n.apply("gather", take(0), n.raw(1), axis=o.Axis() % n.ndim(0)))


@converts("GATHER_ND")
def gather_nd(n: TfliteNode) -> None:
    take, put = n.moves(0)
    put(n.apply("gather_nd", take(0), n.apply("cast", n.raw(1), to="int64")))


@converts("EMBEDDING_LOOKUP")
def embedding_lookup(n: TfliteNode) -> None:
    take, put = n.moves(1)
    put(n.apply("gather", take(1), n.raw(0), axis=0))


@converts("TILE")
def tile(n: TfliteNode) -> None:
    take, put = n.moves(0)
    put(n.apply("tile", take(0), repeats=n.ints(1)))


@converts("BROADCAST_TO")
def broadcast_to(n: TfliteNode) -> None:
    take, put = n.moves(0)
    put(n.apply("expand", take(0), shape=n.ints(1)))


@converts("REVERSE_V2")
def reverse(n: TfliteNode) -> None:
    take, put = n.moves(0)
    shape, axes = n.shape(0), [axis % n.ndim(0) for axis in n.ints(1)]
    put(n.apply("slice", take(0), starts=tuple([shape[axis] - 1 for axis in axes]), axes=tuple(axes),
                ends=tuple([-1 - shape[axis] for axis in axes]), steps=(-1,) * len(axes)))


@converts("SHAPE", "RANK")
def shape(n: TfliteNode) -> None:
    kind = n.result().kind
    assert kind is not None
    n.put_raw(n.build.constant(n.shape(0) if n.op == "SHAPE" else n.ndim(0), kind, n.name))


@converts("FILL")
def fill(n: TfliteNode) -> None:
    n.put_raw(n.apply("expand", n.raw(1), shape=n.ints(0)))


@converts("RANGE")
def range_(n: TfliteNode) -> None:
    start, limit, step = [n.known(at).reshape(-1)[0].item() for at in range(3)]
    n.put_raw(n.build.constant(np.arange(start, limit, step), n.result().kind, n.name))


@converts("ONE_HOT")
def one_hot(n: TfliteNode) -> None:
    axis = n.options("OneHotOptions").Axis()
    values = n.apply("concat", n.reshape(n.raw(3), (1,)), n.reshape(n.raw(2), (1,)), axis=0)
    n.put_raw(n.apply("one_hot", n.apply("cast", n.raw(0), to="int64"), values, depth=n.ints(1)[0], axis=axis))
