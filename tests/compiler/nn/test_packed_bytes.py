"""Convolutions of bytes and bfloat16 in blocks, against NumPy, by the machine code of each level and by the interpreter."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from codegen_cases import HERE, LEVELS
from codegen_machines import AARCH64, in_c
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import window_kernels
from vtakit.compiler.codegen.llvm.kernels.window_kernels import MEANING
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.conv.packed_bytes_cpu import pixels_of
from vtakit.compiler.nn.conv.packed_weights import ZERO, block_of, packed_weight, packed_words
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.passes import lower_late

CASES = [  # images, channels, height, width, filters, kernel, strides, pads, dilations
    (1, 64, 14, 14, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (1, 32, 7, 7, 48, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (2, 64, 13, 17, 128, (3, 2), (2, 1), (1, 0, 2, 1), (1, 1)),
    (1, 128, 1, 1, 40, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    (1, 16, 5, 56, 16, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    (1, 24, 12, 11, 33, (3, 3), (1, 2), (2, 2, 2, 2), (2, 3)),
]
SHORT = CASES[1:2]
INSTRUCTIONS = {
    "uint8": {"plain": "pmaddwd", "avx2": "vpmaddwd", "avx2-vnni": "vpdpbusd", "avx512": "vpmaddwd", "avx512-bf16": "vpmaddwd",
              "avx512-vnni": "vpdpbusd", "amx": "tdpbusd"},
    "bfloat16": {"plain": "mulps", "avx2": "vfmadd", "avx2-vnni": "vfmadd", "avx512": "vfmadd",
                 "avx512-vnni": "vfmadd", "avx512-bf16": "vdpbf16ps", "amx": "tdpbf16ps"},
}


def convolution(x, w, strides, pads, dilations, fill):
    """Sums in float64, which are exact for integers: x [N, C, H, W], w [K, C, R, S]."""
    top, left, bottom, right = pads
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    reach = [(size - 1) * spread + 1 for size, spread in zip(w.shape[2:], dilations, strict=True)]
    out = [(have - need) // step + 1 for have, need, step in zip(wide.shape[2:], reach, strides, strict=True)]
    found = np.zeros((len(x), len(w), *out))
    for i, j in product(*map(range, w.shape[2:])):
        first, second = i * dilations[0], j * dilations[1]
        rows, columns = (slice(start, start + (count - 1) * step + 1, step)
                         for start, count, step in zip((first, second), out, strides, strict=True))
        part = wide[:, :, rows, columns]
        found += np.einsum("kc,ncyx->nkyx", w[:, :, i, j].astype(np.float64), part)
    return found


def blocks(x, u):
    """Channels in blocks of u; what fills up the last one is no zero, for weights there are."""
    full = np.full((len(x), -(-x.shape[1] // u) * u, *x.shape[2:]), 7, x.dtype)
    full[:, :x.shape[1]] = x
    return np.ascontiguousarray(np.moveaxis(full.reshape(len(x), -1, u, *x.shape[2:]), 2, -1))


def channels(y, count):
    """Of [N, K / v, H, W, v] so many channels in a row."""
    return np.moveaxis(y, -1, 2).reshape(len(y), -1, *y.shape[2:4])[:, :count]


def case(kind, shape):
    """(arrays, attributes, wanted sums) of a convolution."""
    images, depth, height, width, filters, kernel, strides, pads, dilations = shape
    rng = np.random.default_rng(depth * filters)
    x = rng.integers(0, 256, (images, depth, height, width)).astype(np.uint8)
    w = rng.integers(-128, 128, (filters, depth, *kernel)).astype(np.int8)
    fill, together, most = ZERO, 4, 64
    if kind == "bfloat16":
        x, w = ((a.astype(np.float32) / 16).astype(ml_dtypes.bfloat16) for a in (x, w))
        fill, together, most = 0, 2, 32
    u, v = (min(block_of(count), most) for count in (depth, filters))
    words = {"strides": strides, "pads": pads, "dilations": dilations, "fill": fill, "block": v}
    return [blocks(x, u), packed_weight(w, u, v, together)], words, convolution(x, w, strides, pads, dilations, fill)


def made_of(op, arrays, words, target=None):
    """(tensors, schedule, an array for the result)."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"in{at}") for at, a in enumerate(arrays)]
    out = find(op).define(*tensors, **words)
    result = np.full([extent.value for extent in out.shape], 99, np.dtype(str(out.dtype)))
    return [*tensors, out], schedule([out], target), result


def assert_sums(got, wanted):
    if got.dtype == np.float32:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4 * np.abs(wanted).max())
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("level", "shape"), [
    (level, shape) for level in HERE for shape in (CASES if level in ("amx", "avx512-vnni") else CASES[1::2])])
@pytest.mark.parametrize("kind", window_kernels.KINDS)
def test_a_convolution(kind, level, shape):
    arrays, words, wanted = case(kind, shape)
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS[level])
    vtakit.build(s, tensors, LEVELS[level])(*arrays, got)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("kind", window_kernels.KINDS)
def test_the_meaning_of_a_window(kind):
    arrays, words, wanted = case(kind, (1, 32, 3, 4, 16, (2, 2), (1, 1), (1, 0, 0, 1), (1, 1)))
    tensors, s, got = made_of("conv_packed", arrays, words)
    interpret(lower(s, tensors), [*arrays, got], packed=MEANING)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", window_kernels.KINDS)
def test_the_instruction_is_chosen_by_feature(kind, level):
    arrays, words, _ = case(kind, SHORT[0])
    tensors, s, _ = made_of("conv_packed", arrays, words, LEVELS[level])
    text = vtakit.build(s, tensors, LEVELS[level]).compiled.assembly
    made = {word for word in ("tdpbusd", "tdpbf16ps", "vpdpbusd", "vdpbf16ps") if word in text}
    wanted = INSTRUCTIONS[kind][level]
    assert wanted in text
    if not wanted.startswith("tdp"):  # where tile registers are refused, vectors do the same
        assert made <= {wanted}


def test_a_convolution_on_aarch64(tmp_path):
    arrays, words, wanted = case("uint8", SHORT[0])
    target = Target("aarch64-linux-gnu", "", ("+dotprod",), threads=False)
    tensors, s, got = made_of("conv_packed", arrays, words, target)
    in_c(target, AARCH64, tmp_path)(lower_late(lower(s, tensors, "conv")), [*arrays, got])
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("depth", [1, 3, 4])
def test_a_first_convolution(depth, level):
    """Pixels of up to four channels as words, with pads of 128 around."""
    rng = np.random.default_rng(depth)
    x, w = rng.integers(-128, 128, (2, depth, 21, 18), np.int8), rng.integers(-128, 128, (24, depth, 5, 3), np.int8)
    strides, pads = (2, 1), (2, 1, 1, 1)
    tensors, s, words = made_of("pixel_words", [x], {"pads": pads}, LEVELS[level])
    vtakit.build(s, tensors, LEVELS[level])(x, words)
    given = [words, packed_words(w, 32)]
    tensors, s, got = made_of("conv_words", given, {"block": 32, "strides": strides}, LEVELS[level])
    vtakit.build(s, tensors, LEVELS[level])(*given, got)
    wanted = convolution(x.astype(np.int64) + ZERO, w, strides, pads, (1, 1), ZERO)
    np.testing.assert_array_equal(channels(got, 24), wanted)


def test_the_meaning_of_a_window_of_words():
    rng = np.random.default_rng(1)
    x, w = rng.integers(0, 256, (1, 4, 4, 5), np.uint8), rng.integers(-128, 128, (16, 4, 2, 3), np.int8)
    given = [np.ascontiguousarray(np.moveaxis(x, 1, -1)).view(np.uint32)[..., 0], packed_words(w, 16)]
    tensors, s, got = made_of("conv_words", given, {"block": 16})
    interpret(lower(s, tensors), [*given, got], packed=MEANING)
    np.testing.assert_array_equal(channels(got, 16), convolution(x, w, (1, 1), (0,) * 4, (1, 1), 0))


def test_tiles_divide_an_image():
    assert [pixels_of(size, size) for size in (112, 56, 28, 14, 7, 1, 13, 17, 37)] == [
        (1, 28), (1, 28), (2, 28), (2, 14), (7, 7), (1, 1), (1, 13), (1, 17), (1, 37)]


def test_what_does_not_fit_is_refused():
    arrays, words, _ = case("uint8", SHORT[0])
    x, w = (te.placeholder(a.shape, str(a.dtype), name="p") for a in arrays)
    with raises(OperatorError, "conv_packed of uint8 by uint8: give uint8 by int8, or bfloat16 by bfloat16"):
        find("conv_packed").define(x, te.placeholder(arrays[1].shape, "uint8"), **words)
    with raises(OperatorError, "conv_packed: data (1, 1, 7, 7, 32) and weights (3, 1, 3, 3, 8, 16, 4) do not fit blocks of 24"):
        find("conv_packed").define(x, w, **{**words, "block": 24})
    with raises(CodegenError, "window_u8s8s32 of 6 channels: it takes 4 at a time, so give a multiple of that"):
        window_kernels.window("uint8", (1, 4), 16, (1, 3, 3, 6))
    with raises(CodegenError, "a window of int8: there are those of uint8 and bfloat16"):
        window_kernels.window("int8", (1, 4), 16, (1, 3, 3, 8))
