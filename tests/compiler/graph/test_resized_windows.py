"""Windows over resized and padded values are one kernel, whose reads the verifier can prove."""

import numpy as np
import onnx
import pytest
from quantized_support import onnxruntime_of

import vtakit

MODEL = """
    <ir_version: 10, opset_import: ["": 21]>
    m (int8[1, 12, {rows}, {columns}] x) => (int8[1, 12, h, w] y)
    <float s = {{0.5}}, int8 z = {{0}}, float t = {{0.25}}, int64[8] pads = {{0, 0, 1, 2, 0, 0, 2, 0}},
     float[4] scales = {{1.0, 1.0, {scales}}}>
    {{
        a = DequantizeLinear (x, s, z)
        b = Pad (a, pads)
        c = QuantizeLinear (b, s, z)
        d = DequantizeLinear (c, s, z)
        e = Resize <mode="nearest", nearest_mode="{rounding}", coordinate_transformation_mode="{place}"> (d, , scales)
        f = QuantizeLinear (e, s, z)
        g = DequantizeLinear (f, s, z)
        i = AveragePool <kernel_shape=[3, 3], strides=[2, 1], pads=[0, 1, 0, 1], count_include_pad=1> (g)
        y = QuantizeLinear (i, t, z)
    }}
"""


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (4, 5)])
@pytest.mark.parametrize("scales", ["2.0, 1.0", "1.75, 1.0", "1.0, 3.0"])
@pytest.mark.parametrize(("place", "rounding"), [
    ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"), ("half_pixel", "floor"),
])
def test_windows_over_resized_values(rows, columns, scales, place, rounding):
    model = onnx.parser.parse_model(MODEL.format(rows=rows, columns=columns, scales=scales, place=place, rounding=rounding))
    x = np.random.default_rng(0).integers(-60, 60, (1, 12, rows, columns), np.int8)
    module = vtakit.compile(model, threads=1, cache=False)
    assert module.image.layers[-1].ops[-3:] == ("resize", "sum_pool", "requantize")
    (want,) = onnxruntime_of(model, optimised=False).run(["y"], {"x": x})
    np.testing.assert_array_equal(module.run({"x": x})["y"], want)
