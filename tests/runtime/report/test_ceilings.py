"""Roofs of a model's layers: no layer stands above its own, but for a stated reason."""

import pytest
from quantized_support import Layers, quantized

import vtakit
from vtakit.compiler.graph.compile import Layer
from vtakit.runtime.profile import Profile
from vtakit.runtime.report.ceilings import Ceilings, measure
from vtakit.runtime.report.model_page import layers_grid
from vtakit.runtime.timed import Timed

PEAK = Ceilings(100e9, 10e9, 400e9)


def timed(ops: tuple[str, ...], macs: int, size: int, seconds: float) -> Timed:
    return Timed(Layer(0, ops, ("node",), size, macs), seconds)


CASES = {  # a layer, and the roof that bounds it with its share
    "compute": (timed(("conv",), 50_000_000, 1000, 1e-3), ("compute", "50.0%")),
    "memory": (timed(("conv",), 1_000_000, 1_000_000, 1e-3), ("memory", "10.0%")),
    "cache": (timed(("conv",), 50_000_000, 50_000_000, 1e-3), ("cache", "50.0%")),
    "int8": (timed(("conv_packed", "requantize_bytes"), 300_000_000, 1000, 1e-3), ("compute", "75.0%")),
    "winograd": (timed(("conv_winograd",), 200_000_000, 1000, 1e-3), ("compute", "200.0%")),
    "bits": (timed(("conv_bits", "requantize_bytes"), 800_000_000, 1000, 1e-3), ("compute", "200.0%")),
    "nothing to multiply": (timed(("relu",), 0, 1000, 1e-3), ("", "")),
}


@pytest.mark.parametrize("case", CASES)
def test_each_layer_has_the_roof_that_bounds_it(case):
    layer, found = CASES[case]
    grid = layers_grid(Profile("net", (layer,)), PEAK)
    assert grid.rows[0][-2:] == found
    assert bool(grid.notes) == (case in ("winograd", "bits"))


def test_a_layer_faster_than_the_measurement_raises_the_roof():
    layers = [CASES[case][0] for case in ("compute", "int8", "winograd", "bits")]
    fast = [timed(("conv",), 200_000_000, 10, 1e-3), timed(("matmul_integer",), 900_000_000, 10, 1e-3)]
    assert PEAK.raised(layers) == PEAK
    assert PEAK.raised(fast) == Ceilings(200e9, 10e9, 900e9)


def test_no_layer_of_a_quantized_model_is_above_its_roof():
    net = Layers(3, channels=16, size=12)
    net.pool(net.relu(net.conv("x", 32)))
    net.classifier(net.last, 10)
    model = quantized(net.model(), net.inputs(4))
    module = vtakit.compile(model)
    profile = module.profile({"x": net.inputs(1, 7)})
    ceilings = measure(module.image.target, profile.layers)
    assert ceilings.int8_macs > 0
    shares = [float(row[-1][:-1]) for row in layers_grid(profile, ceilings).rows if row[-1]]
    assert shares
    assert max(shares) <= 100
