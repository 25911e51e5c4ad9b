"""Images of another size."""

from math import floor

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
    if n.attr("antialias", 0):
        raise n.unsupported("with antialias")
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
    return n.apply(
        "resize", n[0], sizes=tuple(sizes), scales=tuple(scales), roi=roi, mode=n.attr("mode", "nearest"),
        coordinates=coordinates, nearest_mode=n.attr("nearest_mode", "round_prefer_floor"),
        cubic_coeff_a=n.attr("cubic_coeff_a", -0.75),
        exclude_outside=bool(n.attr("exclude_outside", 0)), extrapolation_value=n.attr("extrapolation_value", 0.0),
    )
