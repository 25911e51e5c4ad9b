"""Operators that move elements."""

from math import prod

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("Reshape")
def reshape(n: OnnxNode) -> Value:
    shape = list(n.ints(1))
    if not n.attr("allowzero", 0):
        shape = [n.shape(0)[i] if size == 0 and i < n.ndim(0) else size for i, size in enumerate(shape)]
    if shape.count(-1) == 1:
        rest = prod(size for size in shape if size != -1)
        shape[shape.index(-1)] = n[0].type.size // rest if rest else 0
    return n.apply("reshape", n[0], shape=tuple(shape))


@converts("Flatten")
def flatten(n: OnnxNode) -> Value:
    axis = n.attr("axis", 1)
    axis += n.ndim(0) if axis < 0 else 0
    return n.apply("reshape", n[0], shape=(prod(n.shape(0)[:axis]), prod(n.shape(0)[axis:])))


@converts("Squeeze")
def squeeze(n: OnnxNode) -> Value:
    axes = n.ints(1) if n.has(1) else n.attr("axes")
    shape, ndim = n.shape(0), n.ndim(0)
    gone = {i for i, size in enumerate(shape) if size == 1} if axes is None else {axis % ndim if ndim else axis for axis in axes}
    if any(axis >= ndim or shape[axis] != 1 for axis in gone):
        raise n.unsupported(f"of axes {list(axes or ())} of the shape {list(shape)}, where they are not of size 1")
    return n.apply("reshape", n[0], shape=tuple([size for i, size in enumerate(shape) if i not in gone]))


@converts("Unsqueeze")
def unsqueeze(n: OnnxNode) -> Value:
    axes = n.ints(1) if n.version >= 13 else n.required("axes")
    ndim = n.ndim(0) + len(axes)
    new = {axis % ndim for axis in axes if -ndim <= axis < ndim}
    if len(new) != len(axes):
        raise n.unsupported(f"of axes {list(axes)}, which are not different ones of {ndim} dimensions")
    rest = iter(n.shape(0))
    return n.apply("reshape", n[0], shape=tuple([1 if i in new else next(rest) for i in range(ndim)]))


@converts("Transpose")
def transpose(n: OnnxNode) -> Value:
    return n.apply("transpose", n[0], perm=n.attr("perm"))


@converts("Expand")
def expand(n: OnnxNode) -> Value:
    return n.apply("expand", n[0], shape=n.ints(1))


@converts("Tile")
def tile(n: OnnxNode) -> Value:
    return n.apply("tile", n[0], repeats=n.ints(1))


@converts("Concat")
def concat(n: OnnxNode) -> Value:
    return n.apply("concat", *n.all_given(), axis=n.required("axis"))


@converts("Split")
def split(n: OnnxNode) -> list[Value]:
    """One slice a part, so that each goes its own way."""
    axis = n.attr("axis", 0)
    axis += n.ndim(0) if axis < 0 else 0
    if not 0 <= axis < n.ndim(0):
        raise n.unsupported(f"along axis {axis} of the shape {list(n.shape(0))}")
    extent, count = n.shape(0)[axis], len(n.outputs)
    sizes = n.ints(1) if n.has(1) else n.attr("split")
    if sizes is None:
        count = n.attr("num_outputs", count)
        part = -(-extent // count)
        sizes = [min(part, max(0, extent - i * part)) for i in range(count)]
    if sum(sizes) != extent or min(sizes) < 0:
        raise n.unsupported(f"into {list(sizes)} of an extent of {extent}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        n.apply("slice", n[0], starts=(start,), ends=(start + size,), axes=(axis,))
        for start, size in zip(starts, sizes, strict=True)
    ]


@converts("Slice")
def strided_slice(n: OnnxNode) -> Value:
    if n.version < 10:
        starts, ends, axes, steps = n.required("starts"), n.required("ends"), n.attr("axes"), None
    else:
        starts, ends = n.ints(1), n.ints(2)
        axes, steps = (n.ints(at) if n.has(at) else None for at in (3, 4))
    return n.apply("slice", n[0], starts=starts, ends=ends, axes=axes, steps=steps)


@converts("Pad")
def pad(n: OnnxNode) -> Value:
    if n.version < 11:
        pads, value = list(n.required("pads")), n.like(n.attr("value", 0.0), n[0])
    else:
        pads, value = list(n.ints(1)), n[2] if n.has(2) else n.like(0, n[0])
    if n.has(3):
        axes = [axis % n.ndim(0) for axis in n.ints(3)]
        given, pads = pads, [0] * (2 * n.ndim(0))
        for i, axis in enumerate(axes):
            pads[axis], pads[axis + n.ndim(0)] = given[i], given[i + len(axes)]
    mode = n.attr("mode", "constant")
    return n.apply("pad", n[0], value if mode == "constant" else None, pads=tuple(pads), mode=mode)


@converts("DepthToSpace")
def depth_to_space(n: OnnxNode) -> Value:
    return n.apply("depth_to_space", n[0], blocksize=n.required("blocksize"), mode=n.attr("mode", "DCR"))


@converts("SpaceToDepth")
def space_to_depth(n: OnnxNode) -> Value:
    return n.apply("space_to_depth", n[0], blocksize=n.required("blocksize"), mode=n.attr("mode", "DCR"))


@converts("Trilu")
def trilu(n: OnnxNode) -> Value:
    diagonal = n.ints(1)[0] if n.has(1) else 0
    return n.apply("trilu", n[0], k=diagonal, upper=bool(n.attr("upper", 1)))


@converts("ReverseSequence")
def reverse_sequence(n: OnnxNode) -> Value:
    return n.apply(
        "reverse_sequence", n[0], n[1], batch_axis=n.attr("batch_axis", 1), time_axis=n.attr("time_axis", 0)
    )
