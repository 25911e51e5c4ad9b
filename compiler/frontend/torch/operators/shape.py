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
    if any(amount < 0 for amount in given):
        n.unsupported("with negative pads")
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


@converts("index.Tensor")
def index(n: AtenNode) -> Value:
    given = [(axis, each) for axis, each in enumerate(n["indices"]) if each is not None]
    if any(not each.type.dtype.is_int for _, each in given):
        n.unsupported("with an index by a mask")
    if len(given) != 1:
        n.unsupported(f"with indices along {len(given)} dimensions")
    ((axis, at),) = given
    x = n.value("self")
    below = n.apply("less", at, n.like(0, at))
    at = n.apply("where", below, n.apply("add", at, n.like(x.type.shape[axis], at)), at)
    return n.apply("gather", x, at, axis=axis)


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


@converts("pixel_shuffle.default")
def pixel_shuffle(n: AtenNode) -> Value:
    return n.apply("depth_to_space", n.value("self"), blocksize=n["upscale_factor"], mode="CRD")
