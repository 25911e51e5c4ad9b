"""Convolutions of few channels with several pixels of the result in a block, against NumPy: any shape, and the way back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import raises
from vta_support import build, execute, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.packing import pack_activations, pack_weights, unpack_activations
from vtakit.compiler.nn.vta.pixels import Pixels, Spread2d

SHAPE = {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1), "size": (7, 9)}


def convolved(x: np.ndarray, weights: np.ndarray, pixels: Pixels) -> np.ndarray:
    """A plain convolution, tap by tap, shifted by 8 bits: [images, channels, rows, columns]."""
    above, below, left, right = pixels.pad
    padded = np.pad(x, ((0, 0), (0, 0), (above, below), (left, right)))
    rows, columns = pixels.result
    found = np.zeros((len(x), len(weights), rows, columns), np.int64)
    for y, z in np.ndindex(pixels.kernel):
        part = padded[:, :, y:, z:][:, :, ::pixels.stride[0], ::pixels.stride[1]][:, :, :rows, :columns]
        found += np.einsum("nchw,oc->nohw", part, weights[:, :, y, z])
    return wrap(found >> 8, 8)


def packed_pixels(target: Target, values: np.ndarray, pixels: Pixels) -> np.ndarray:
    """[images, channels, rows, columns] as it lies with several pixels in a block."""
    (down, across), (rows, columns) = pixels.count, pixels.packed
    images, channels, *size = values.shape
    padded = np.zeros((images, channels, rows * down, columns * across), values.dtype)
    padded[:, :, :size[0], :size[1]] = values
    split = padded.reshape(images, channels, rows, down, columns, across).transpose(0, 3, 5, 1, 2, 4)
    return pack_activations(target, split.reshape(images, -1, rows, columns))


@settings(max_examples=12)
@given(st.data())
@pytest.mark.parametrize("config", ["default", "tiny", "b2x16"])
def test_any_convolution_of_few_channels(config, data):
    target, rng = vta(config), np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    most = 3 if config == "tiny" else 5
    kernel = data.draw(st.integers(1, most)), data.draw(st.integers(1, most))
    channels, ins, images = data.draw(st.integers(1, target.config.block)), data.draw(st.integers(1, 20)), 3
    stride = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    pad = tuple(data.draw(st.integers(0, most)) for _ in range(4))
    size = data.draw(st.integers(kernel[0], 12)), data.draw(st.integers(kernel[1], 12))
    count = data.draw(st.sampled_from([(y, x) for y in range(1, 5) for x in range(1, 5)
                                       if y * x * channels <= target.config.block]))
    pixels = Pixels(count=count, channels=channels, kernel=kernel, stride=stride, pad=pad, size=size)
    x, weights = rng.integers(-128, 128, (images, ins, *size)), rng.integers(-128, 128, (channels, ins, *kernel))
    given_data, (given_weights, _) = pack_activations(target, x), pack_weights(target, pixels.weights(weights))
    activations = te.placeholder(given_data.shape, "int8", name="data")
    kernels = te.placeholder(given_weights.shape, "int8", name="weights")
    conv = Conv2d(target=target, data=activations, weights=kernels, stride=pixels.strides, pad=pixels.pads,
                  epilogue=Epilogue(shift=8))
    s = te.create_schedule(conv.result.op)
    try:
        conv.schedule(s)
    except VtaError:  # of a kernel that the scratchpads of `tiny` do not hold
        assert config == "tiny"
        return
    assert (conv.out_height, conv.out_width) == pixels.packed
    got = execute(build(s, [activations, kernels, conv.result], target), {activations: given_data, kernels: given_weights},
                  conv.result)
    want = convolved(x, weights, pixels)
    lanes = unpack_activations(got, images, pixels.lanes).reshape(images, *count, channels, *pixels.packed)
    plain = lanes.transpose(0, 3, 4, 1, 5, 2).reshape(images, channels, pixels.packed[0] * count[0], -1)
    rows, columns = pixels.result
    np.testing.assert_array_equal(plain[:, :, :rows, :columns], want)


@settings(max_examples=12)
@given(st.data())
@pytest.mark.parametrize("config", ["default", "tiny", "b2x16"])
def test_pixels_are_spread(config, data):
    """Every pixel comes to an element of its own, the other lanes being zeros; in any order of the stages."""
    target, rng = vta(config), np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    channels, images = data.draw(st.integers(1, target.config.block)), 3
    count = data.draw(st.sampled_from([(y, x) for y in range(1, 17) for x in range(1, 17)
                                       if y * x * channels <= target.config.block]))
    size = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20))
    pixels = Pixels(count=count, channels=channels, kernel=(1, 1), stride=(1, 1), pad=(0, 0, 0, 0), size=size)
    values = rng.integers(-128, 128, (images, channels, *size), np.int8)
    given_data, selectors = packed_pixels(target, values, pixels), pixels.selectors(target)
    activations = te.placeholder(given_data.shape, "int8", name="data")
    weights = te.placeholder(selectors.shape, "int8", name="weights")
    spread = Spread2d(target=target, data=activations, weights=weights, rows=size[0], columns=size[1])
    s = te.create_schedule(spread.result.op)
    spread.schedule(s)
    program = build(s, [activations, weights, spread.result], target)
    operands = {activations: given_data, weights: selectors}
    got = execute(program, operands, spread.result)
    np.testing.assert_array_equal(got, pack_activations(target, values))
    np.testing.assert_array_equal(execute(program, operands, spread.result, order=data.draw(st.integers(0, 99))), got)


def test_ways_to_fill_a_block_save_steps():
    found = {pixels.count: pixels.steps for pixels in Pixels.choices(vta(), 4, (3, 3), (1, 1), (1, 1, 1, 1), (8, 8))}
    assert found == {(1, 2): 384, (2, 1): 384, (1, 3): 360, (3, 1): 360, (1, 4): 288, (4, 1): 288, (2, 2): 256}  # of 576
    assert not [*Pixels.choices(vta(), 4, (1, 1), (1, 1), (0, 0, 0, 0), (8, 8))]  # a pixel is read for one of the result
    assert not [*Pixels.choices(vta(), 9, (3, 3), (1, 1), (1, 1, 1, 1), (8, 8))]  # two of nine lanes do not fit
    assert not [*Pixels.choices(vta(), 1, (3, 3), (3, 3), (0, 0, 0, 0), (9, 9))]


def test_what_makes_no_sense_is_refused():
    with raises(VtaError, "pixels: count is (0, 1) and must be (down, across), at least 1 each"):
        Pixels(count=(0, 1), channels=1, **SHAPE)
    pixels = Pixels(count=(2, 2), channels=1, **SHAPE)
    with raises(VtaError, "weights of 2 channels and 3 x 3 taps for pixels of 1 channels and a kernel of 3 x 3"):
        pixels.weights(np.zeros((2, 1, 3, 3), np.int64))
    target = vta()
    data = te.placeholder((1, 1, 3, 5, 1, 16), "int8", name="data")
    weights = te.placeholder((2, 2, 16, 16), "int8", name="weights")
    with raises(VtaError, "spread 's': 7 x 9 pixels come of 4 x 5 in one block, not of 3 x 5 in 1"):
        Spread2d(target=target, data=data, weights=weights, rows=7, columns=9, name="s")
    with raises(VtaError, "spread 's': rows is 0 and must be a whole number of at least 1"):
        Spread2d(target=target, data=data, weights=weights, rows=0, columns=9, name="s")
