"""Operators that move elements, and those that make them of nothing."""

import numpy as np

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value

_FIRST = -(1 << 62)  # before every element, for slices that run backwards


@converts("view.default", "_unsafe_view.default", "reshape.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
          "unsqueeze.default", "flatten.using_ints")
def reshape(n: AtenNode) -> Value:
    """All that gives the same elements in the same order another shape: the result's is known."""
    return n.reshape(n.value("self"), n.type.shape)


@converts("permute.default")
def permute(n: AtenNode) -> Value:
    x = n.value("self")
    return n.apply("transpose", x, perm=tuple([dim % len(x.type.shape) for dim in n["dims"]]))


@converts("transpose.int")
def transpose(n: AtenNode) -> Value:
    x = n.value("self")
    order = list(range(len(x.type.shape)))
    a, b = (n[name] % len(order) for name in ("dim0", "dim1"))
    order[a], order[b] = b, a
    return n.apply("transpose", x, perm=tuple(order))


@converts("t.default")
def transpose_matrix(n: AtenNode) -> Value:
    x = n.value("self")
    return n.apply("transpose", x, perm=(1, 0)) if len(x.type.shape) == 2 else x


@converts("expand.default")
def expand(n: AtenNode) -> Value:
    x = n.value("self")
    return x if x.type == n.type else n.apply("expand", x, shape=n.type.shape)


@converts("cat.default")
def cat(n: AtenNode) -> Value:
    """Tensors of one dimension without elements may be among them, whatever the others' shapes."""
    parts = [n.cast(part, n.type.dtype) for part in n["tensors"] if part.type.shape != (0,) or n.type.shape == (0,)]
    return parts[0] if len(parts) == 1 else n.apply("concat", *parts, axis=n["dim"] % len(n.type.shape))


@converts("slice.Tensor")
def slice_(n: AtenNode) -> Value:
    x = n.value("self")
    if x.type == n.type:
        return x
    axis = n["dim"] % len(x.type.shape)
    size = x.type.shape[axis]
    start, end = (min(max(at + size if at < 0 else at, 0), size) for at in (
        0 if n["start"] is None else n["start"], size if n["end"] is None else n["end"]))
    return n.apply("slice", x, starts=(start,), ends=(max(start, end),), axes=(axis,), steps=(n["step"],))


@converts("select.int")
def select(n: AtenNode) -> Value:
    x = n.value("self")
    axis = n["dim"] % len(x.type.shape)
    at = n["index"] % x.type.shape[axis]
    return n.reshape(n.apply("slice", x, starts=(at,), ends=(at + 1,), axes=(axis,), steps=(1,)), n.type.shape)


@converts("split_with_sizes.default")
def split(n: AtenNode) -> list[Value | None]:
    x = n.value("self")
    return list(n.all("split", x, axis=n["dim"] % len(x.type.shape), sizes=tuple(n["split_sizes"])))


@converts("repeat.default")
def repeat(n: AtenNode) -> Value:
    x, repeats = n.value("self"), tuple(n["repeats"])
    return n.apply("tile", n.reshape(x, (*(1,) * (len(repeats) - len(x.type.shape)), *x.type.shape)), repeats=repeats)


@converts("flip.default")
def flip(n: AtenNode) -> Value:
    x = n.value("self")
    axes = tuple([dim % len(x.type.shape) for dim in n["dims"]])
    ones = (-1,) * len(axes)
    return n.apply("slice", x, starts=ones, ends=(_FIRST,) * len(axes), axes=axes, steps=ones) if axes else x


@converts("constant_pad_nd.default")
def pad(n: AtenNode) -> Value:
    """PyTorch gives the last dimension first, and what is before and after each."""
    x, given = n.value("self"), n["pad"]
    rest = len(x.type.shape) - len(given) // 2
    before = (*(0,) * rest, *reversed(given[::2]))
    after = (*(0,) * rest, *reversed(given[1::2]))
    return n.apply("pad", x, n.like(n["value"], x), pads=(*before, *after))


@converts("index_select.default")
def index_select(n: AtenNode) -> Value:
    x = n.value("self")
    return n.apply("gather", x, n.value("index"), axis=n["dim"] % len(x.type.shape))


@converts("gather.default")
def gather(n: AtenNode) -> Value:
    x = n.value("self")
    return n.apply("gather_elements", x, n.value("index"), axis=n["dim"] % len(x.type.shape))


@converts("full.default", "full_like.default", "scalar_tensor.default", "zeros.default", "ones.default", "zeros_like.default",
          "ones_like.default", "new_zeros.default", "new_ones.default", "new_full.default")
def full(n: AtenNode) -> Value:
    number = n["fill_value"] if "fill_value" in n.operands else n["s"] if "s" in n.operands else "ones" in n.op
    scalar = n.build.constant(np.asarray(number), n.type.dtype, n.name)
    return n.apply("expand", scalar, shape=n.type.shape) if n.type.shape else scalar


@converts("arange.default", "arange.start", "arange.start_step")
def arange(n: AtenNode) -> Value:
    kind = numpy_dtype(n.type.dtype)
    start, step = n.operands.get("start", 0), n.operands.get("step", 1)
    numbers = start + step * np.arange(n.type.shape[0], dtype=np.int64 if kind.kind in "iu" else np.float64)
    return n.build.constant(numbers.astype(kind), n.type.dtype, n.name)


@converts("tril.default", "triu.default")
def triangle(n: AtenNode) -> Value:
    return n.apply("trilu", n.value("self"), k=n["diagonal"], upper="triu" in n.op)


@converts("pixel_unshuffle.default")
def pixel_unshuffle(n: AtenNode) -> Value:
    return n.apply("space_to_depth", n.value("self"), blocksize=n["downscale_factor"], mode="CRD")


@converts("as_strided.default")
def as_strided(n: AtenNode) -> Value:
    """Elements by their places in memory, where PyTorch's strides have put them."""
    x, strides = n.value("self"), n.strides["self"]
    shape = x.type.shape
    order = tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] == 1, axis)))
    places = np.zeros(shape, np.int64)
    for axis, stride in enumerate(strides):
        places += (np.arange(shape[axis]) * stride).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    stored = places.transpose(order).reshape(-1)  # grows along the memory
    wanted = np.full(n.type.shape, n["storage_offset"] or 0, np.int64)
    for axis, stride in enumerate(n["stride"]):
        wanted += (np.arange(n.type.shape[axis]) * stride).reshape(-1, *(1,) * (len(n.type.shape) - 1 - axis))
    at = np.searchsorted(stored, wanted)
    if not np.array_equal(stored[np.minimum(at, stored.size - 1)], wanted):
        n.unsupported("of elements that the tensor does not have")
    flat = n.reshape(x if order == tuple(range(len(shape))) else n.apply("transpose", x, perm=order), (x.type.size,))
    if not np.array_equal(at.reshape(-1), np.arange(x.type.size)):
        flat = n.apply("gather", flat, n.build.constant(at.reshape(-1), name=n.name), axis=0)
    return n.reshape(flat, n.type.shape)


@converts("unfold.default")
def unfold(n: AtenNode) -> Value:
    """Windows along one dimension, whose elements become the last dimension."""
    x = n.value("self")
    axis = n["dimension"] % max(1, len(x.type.shape))
    count = n.type.shape[axis]
    places = np.arange(count, dtype=np.int64)[:, None] * n["step"] + np.arange(n["size"], dtype=np.int64)
    y = n.apply("gather", x, n.build.constant(places, name=n.name), axis=axis)
    rank = len(y.type.shape)
    return n.apply("transpose", y, perm=(*range(axis + 1), *range(axis + 2, rank), axis + 1))


@converts("diagonal.default")
def diagonal(n: AtenNode) -> Value:
    """A diagonal of two dimensions, as the last dimension."""
    x = n.value("self")
    rank = len(x.type.shape)
    a, b = n["dim1"] % rank, n["dim2"] % rank
    count, offset = n.type.shape[-1], n["offset"]
    rows = np.arange(count, dtype=np.int64) + max(0, -offset)
    places = rows * x.type.shape[b] + np.arange(count, dtype=np.int64) + max(0, offset)
    rest = [axis for axis in range(rank) if axis not in (a, b)]
    y = n.apply("transpose", x, perm=(*rest, a, b))
    flat = n.reshape(y, (*y.type.shape[:-2], x.type.shape[a] * x.type.shape[b]))
    return n.apply("gather", flat, n.build.constant(places, name=n.name), axis=rank - 2)


@converts("linspace.default", "logspace.default", "eye.default", "eye.m", "triu_indices.default", "tril_indices.default",
          "hann_window.default", "hann_window.periodic", "hamming_window.default", "hamming_window.periodic")
def known(n: AtenNode) -> Value:
    """Elements that depend on no tensor, as PyTorch computes them."""
    import torch

    _, name, overload = n.op.split(".")
    operands = {key: given for key, given in n.operands.items() if key not in ("device", "layout", "pin_memory")}
    made = getattr(getattr(torch.ops.aten, name), overload)(**operands)
    return n.build.constant(made.numpy(), n.type.dtype, n.name)


@converts("grid_sampler_2d.default")
def grid_sample(n: AtenNode) -> Value:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return n.apply("grid_sample", n.value("input"), n.value("grid"), mode=modes[n["interpolation_mode"]],
                   padding_mode=paddings[n["padding_mode"]], align_corners=bool(n["align_corners"]))


@converts("slice_scatter.default", "select_scatter.default")
def slice_scatter(n: AtenNode) -> Value:
    """Put a tensor in place of a slice along one dimension."""
    x, put = n.value("self"), n.value("src")
    axis = n["dim"] % len(x.type.shape)
    size = x.type.shape[axis]
    if "select" in n.op:
        start, step = n["index"] % size, 1
        end = start + 1
        put = n.reshape(put, (*x.type.shape[:axis], 1, *x.type.shape[axis + 1:]))
    else:
        start, end = (min(max(at + size if at < 0 else at, 0), size) for at in (
            0 if n["start"] is None else n["start"], size if n["end"] is None else n["end"]))
        step = n["step"]
    put = n.cast(put, n.type.dtype)
    if step != 1:
        at = np.arange(start, end, step).reshape(-1, *(1,) * (len(x.type.shape) - 1 - axis))
        places = n.build.constant(np.broadcast_to(at, put.type.shape), name=n.name)
        return n.apply("scatter_elements", x, places, put, axis=axis)
    before, after = (
        n.apply("slice", x, starts=(first,), ends=(last,), axes=(axis,), steps=(1,)) if last > first else None
        for first, last in ((0, start), (end, size))
    )
    parts = [part for part in (before, put if end > start else None, after) if part is not None]
    return parts[0] if len(parts) == 1 else n.apply("concat", *parts, axis=axis)


@converts("pixel_shuffle.default")
def pixel_shuffle(n: AtenNode) -> Value:
    return n.apply("depth_to_space", n.value("self"), blocksize=n["upscale_factor"], mode="CRD")
