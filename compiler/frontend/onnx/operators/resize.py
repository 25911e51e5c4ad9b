"""Images of another size."""

from math import floor

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("Upsample")
def upsample(n: OnnxNode) -> Value:
    scales = n.required("scales") if n.version < 9 else tuple(map(float, n.constant(1)))
    return _plain(n, scales)


def _plain(n: OnnxNode, scales: tuple[float, ...]) -> Value:
    """Convert Upsample and the first Resize."""
    sizes = tuple([floor(size * scale) for size, scale in zip(n.shape(0), scales, strict=True)])
    return n.apply(
        "resize", n[0], sizes=sizes, scales=scales, mode=n.attr("mode", "nearest"), coordinates="asymmetric", nearest_mode="floor"
    )


@converts("Resize")
def resize(n: OnnxNode) -> Value:
    if n.version < 11:
        return _plain(n, tuple(map(float, n.constant(1))))
    shape, axes = n.shape(0), n.attr("axes") or tuple(range(n.ndim(0)))
    axes = [axis % n.ndim(0) for axis in axes]
    sizes, scales = list(shape), [1.0] * len(shape)
    if n.has(2) and n[2].type.size:
        for axis, scale in zip(axes, n.constant(2).reshape(-1), strict=True):
            scales[axis], sizes[axis] = float(scale), floor(shape[axis] * float(scale))
    else:
        wanted = dict(zip(axes, n.ints(3), strict=True))
        policy = n.attr("keep_aspect_ratio_policy", "stretch")
        ratios = {axis: size / shape[axis] if shape[axis] else 1.0 for axis, size in wanted.items()}
        if policy != "stretch":
            common = (min if policy == "not_larger" else max)(ratios.values())
            ratios = dict.fromkeys(wanted, common)
            wanted = {axis: floor(common * shape[axis] + 0.5) for axis in wanted}
        for axis, size in wanted.items():
            sizes[axis], scales[axis] = size, ratios[axis]
    coordinates, roi = n.attr("coordinate_transformation_mode", "half_pixel"), None
    if coordinates == "tf_crop_and_resize":
        given = [float(each) for each in n.constant(1).reshape(-1)]
        starts, ends = [0.0] * len(shape), [1.0] * len(shape)
        for i, axis in enumerate(axes):
            starts[axis], ends[axis] = given[i], given[i + len(axes)]
        roi = (*starts, *ends)
    x, mode = n[0], n.attr("mode", "nearest")
    if n.attr("antialias", 0) and mode != "nearest":
        if coordinates == "tf_crop_and_resize" or not n.dtype(0).is_float:
            raise n.unsupported(f"with antialias, of {n.dtype(0)} by {coordinates}")
        for axis in axes:
            if scales[axis] < 1:
                x = _smaller(n, x, axis, sizes[axis], scales[axis], coordinates)
                scales[axis] = 1.0
    return n.apply(
        "resize", x, sizes=tuple(sizes), scales=tuple(scales), roi=roi, mode=mode,
        coordinates=coordinates, nearest_mode=n.attr("nearest_mode", "round_prefer_floor"),
        cubic_coeff_a=n.attr("cubic_coeff_a", -0.75),
        exclude_outside=bool(n.attr("exclude_outside", 0)), extrapolation_value=n.attr("extrapolation_value", 0.0),
    )


def _smaller(n: OnnxNode, x: Value, axis: int, size: int, scale: float, coordinates: str) -> Value:
    """x made smaller along an axis with a filter as wide as a pixel of the result: a product with a matrix of weights."""
    old = x.type.shape[axis]
    weights = np.zeros((old, size))
    cubic, a = n.attr("mode") == "cubic", n.attr("cubic_coeff_a", -0.75)
    reach = 2 if cubic else 1
    for at in range(size):
        match coordinates:
            case "align_corners":
                place = at * (old - 1) / (old * scale - 1) if old * scale != 1 else 0.0
            case "asymmetric":
                place = at / scale
            case "pytorch_half_pixel" if size == 1:
                place = -0.5
            case "half_pixel_symmetric":
                place = (at + 0.5) / scale - 0.5 + old / 2 * (1 - size / (old * scale))
            case _:
                place = (at + 0.5) / scale - 0.5
        first = floor(place - reach / scale)
        cells = np.arange(first, floor(place + reach / scale) + 2)
        off = np.abs(cells - place) * scale
        if cubic:
            near, far = ((a + 2) * off - (a + 3)) * off * off + 1, ((a * off - 5 * a) * off + 8 * a) * off - 4 * a
            shares = np.where(off <= 1, near, np.where(off < 2, far, 0))
        else:
            shares = np.maximum(1 - off, 0)
        if n.attr("exclude_outside", 0):
            shares = np.where((cells >= 0) & (cells < old), shares, 0)
        np.add.at(weights[:, at], np.clip(cells, 0, old - 1), shares / shares.sum())
    rank = len(x.type.shape)
    perm = tuple([*[each for each in range(rank) if each != axis], axis])
    y = n.apply("matmul", n.apply("transpose", x, perm=perm), n.apply("cast", n.value(weights), to=str(x.type.dtype)))
    return n.apply("transpose", y, perm=tuple([perm.index(each) for each in range(rank)]))
