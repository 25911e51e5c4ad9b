"""Convolutions of bytes and bfloat16 in blocks, against NumPy, by the machine code of each level and by the interpreter."""

from dataclasses import replace
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from amx_model import PERMITTED, REFUSED, TileRegisters
from codegen_cases import HERE, LEVELS
from codegen_machines import AARCH64, in_c
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.compile import compile_for, translate
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import dot_kernels, tile_kernels
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.conv.packed_bytes_cpu import pixels_of
from vtakit.compiler.nn.conv.packed_weights import ZERO, block_of, packed_groups, packed_weight, packed_words, reach_of
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cpu.function import Function

CASES = [  # images, channels, height, width, filters, kernel, strides, pads, dilations
    (1, 64, 14, 14, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (1, 32, 7, 7, 48, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (2, 64, 13, 17, 128, (3, 2), (2, 1), (1, 0, 2, 1), (1, 1)),
    (1, 128, 1, 1, 40, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    (1, 16, 5, 56, 16, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    (1, 24, 12, 11, 33, (3, 3), (1, 2), (2, 2, 2, 2), (2, 3)),
]
SHORT = CASES[1:2]
BY_TILES = {"sums.form": "tiles"}
MEANING = {**dot_kernels.MEANING, **tile_kernels.MEANING}
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


def made_of(op, arrays, words, target=None, decisions=None):
    """(tensors, schedule, an array for the result)."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"in{at}") for at, a in enumerate(arrays)]
    out = find(op).define(*tensors, **words)
    result = np.full([extent.value for extent in out.shape], 99, np.dtype(str(out.dtype)))
    return [*tensors, out], schedule([out], target, decisions), result


def assert_sums(got, wanted):
    if got.dtype == np.float32:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4 * np.abs(wanted).max())
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("level", "shape"), [
    (level, shape) for level in HERE for shape in (CASES if level in ("amx", "avx512-vnni") else CASES[1::2])])
@pytest.mark.parametrize("kind", ["uint8", "bfloat16"])
def test_a_convolution(kind, level, shape):
    arrays, words, wanted = case(kind, shape)
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS[level])
    vtakit.build(s, tensors, LEVELS[level])(*arrays, got)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("level", ["avx512-vnni", "amx"])
@pytest.mark.parametrize("kind", ["uint8", "bfloat16"])
def test_the_meaning_of_a_convolution(kind, level):
    """By the interpreter: dot products of one step by vectors, and tile registers."""
    arrays, words, wanted = case(kind, (1, 32, 3, 4, 16, (2, 2), (1, 1), (1, 0, 0, 1), (1, 1)))
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS[level], BY_TILES if level == "amx" else {})
    interpret(lower(s, tensors), [*arrays, got], packed=MEANING)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("answer", [PERMITTED, REFUSED])
@pytest.mark.parametrize("kind", ["uint8", "bfloat16"])
@pytest.mark.parametrize("shape", [*CASES[:3], CASES[4]])
def test_tile_registers(shape, kind, answer):
    """By a model of the instructions, and by the vectors that take their place where the system refuses them."""
    arrays, words, wanted = case(kind, shape)
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS["amx"], BY_TILES)
    registers = TileRegisters(answer)
    registers.function(vtakit.build(s, tensors, LEVELS["amx"]).compiled)(*arrays, got)
    assert not registers.errors
    assert any(registers.counts.values()) is (answer == PERMITTED)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize(("kind", "shape", "form"), [
    ("uint8", CASES[0], "tiles"), ("uint8", CASES[1], "vectors"), ("uint8", CASES[3], "vectors"), ("bfloat16", CASES[1], "tiles"),
])
def test_tile_registers_are_used_where_they_are_full(kind, shape, form):
    """Rows of 7 pixels by 8 steps of bytes fill a quarter of a tile register, 16 steps of bfloat16 half of it."""
    arrays, words, _ = case(kind, shape)
    _, s, _ = made_of("conv_packed", arrays, words, LEVELS["amx"])
    assert {one.name: one.chosen for one in s.decisions}["sums.form"] == form


def test_sums_stay_in_tile_registers_over_the_reduction():
    """Seven rows of seven pixels, two at a time: each product loads its data, and the weights are loaded for two."""
    arrays, words, _ = case("uint8", SHORT[0])
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS["amx"], BY_TILES)
    compiled = vtakit.build(s, tensors, LEVELS["amx"]).compiled
    registers = TileRegisters()
    registers.function(compiled)(*arrays, got)
    rows, parts, positions = 7, 3, 9
    made = {name: registers.counts[name] // parts for name in ("tilezero", "tdpbusd", "tilestored64", "tileloadd64")}
    assert made == {"tilezero": rows, "tilestored64": rows, "tdpbusd": rows * positions,
                    "tileloadd64": (rows + -(-rows // 2)) * positions}


@pytest.mark.parametrize("kind", ["uint8", "bfloat16", "uint32"])
def test_random_decisions_of_tile_registers(kind):
    rng = np.random.default_rng(3)
    for _ in range(6):
        sizes, strides = (int(rng.integers(1, 9)), int(rng.choice([6, 14, 20, 32]))), (1, int(rng.integers(1, 3)))
        if kind == "uint32":
            x, w = rng.integers(0, 256, (1, 4, *sizes), np.uint8), rng.integers(-128, 128, (64, 4, 1, 3), np.int8)
            arrays = [np.ascontiguousarray(np.moveaxis(x, 1, -1)).view(np.uint32)[..., 0], packed_words(w, 64)]
            op, words, wanted = "conv_words", {"block": 64, "strides": strides}, convolution(x, w, strides, (0,) * 4, (1, 1), 0)
        else:
            op, (arrays, words, wanted) = "conv_packed", case(kind, (1, 64, *sizes, 64, (1, 3), strides, (0,) * 4, (1, 1)))
        given = {"sums.form": "tiles"}
        while True:
            tensors, s, got = made_of(op, arrays, words, LEVELS["amx"], given)
            left = [one for one in s.decisions if one.name not in given]
            if not left:
                break
            given[left[0].name] = left[0].candidates[int(rng.integers(len(left[0].candidates)))]
        registers = TileRegisters()
        registers.function(vtakit.build(s, tensors, LEVELS["amx"]).compiled)(*arrays, got)
        assert not registers.errors
        assert registers.counts["tilezero"] > 0
        assert_sums(channels(got, 64), wanted)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["uint8", "bfloat16"])
def test_the_instruction_is_chosen_by_feature(kind, level):
    arrays, words, _ = case(kind, SHORT[0])
    wanted = INSTRUCTIONS[kind][level]
    tensors, s, _ = made_of("conv_packed", arrays, words, LEVELS[level], BY_TILES if wanted.startswith("tdp") else {})
    text = vtakit.build(s, tensors, LEVELS[level]).compiled.assembly
    made = {word for word in ("tdpbusd", "tdpbf16ps", "vpdpbusd", "vdpbf16ps") if word in text}
    assert wanted in text
    if not wanted.startswith("tdp"):  # where tile registers are refused, vectors do the same
        assert made <= {wanted}


def test_a_convolution_on_aarch64(tmp_path):
    arrays, words, wanted = case("uint8", SHORT[0])
    target = Target("aarch64-linux-gnu", "", ("+dotprod",), threads=False)
    tensors, s, got = made_of("conv_packed", arrays, words, target)
    in_c(target, AARCH64, tmp_path)(lower_late(lower(s, tensors, "conv")), [*arrays, got])
    assert_sums(channels(got, wanted.shape[1]), wanted)


DOT = """
define internal <4 x i32> @model_KIND(<4 x i32> %c, <16 x i8> %a, <16 x i8> %b) {
  %x = AS <16 x i8> %a to <16 x i32>
  %y = sext <16 x i8> %b to <16 x i32>
  %p = mul <16 x i32> %x, %y
  %p0 = shufflevector <16 x i32> %p, <16 x i32> %p, <4 x i32> <i32 0, i32 4, i32 8, i32 12>
  %p1 = shufflevector <16 x i32> %p, <16 x i32> %p, <4 x i32> <i32 1, i32 5, i32 9, i32 13>
  %p2 = shufflevector <16 x i32> %p, <16 x i32> %p, <4 x i32> <i32 2, i32 6, i32 10, i32 14>
  %p3 = shufflevector <16 x i32> %p, <16 x i32> %p, <4 x i32> <i32 3, i32 7, i32 11, i32 15>
  %s0 = add <4 x i32> %c, %p0
  %s1 = add <4 x i32> %s0, %p1
  %s2 = add <4 x i32> %s1, %p2
  %s3 = add <4 x i32> %s2, %p3
  ret <4 x i32> %s3
}
"""


def grouped(channels, groups, stride=1, size=7):
    """(arrays, attributes, wanted sums) of a convolution of groups, of uint8."""
    rng = np.random.default_rng(channels + groups)
    x = rng.integers(0, 256, (2, channels, size, size)).astype(np.uint8)
    w = rng.integers(-128, 128, (channels, channels // groups, 3, 3)).astype(np.int8)
    block, reach, around = block_of(channels), reach_of(channels, groups), ((stride, stride), (1, 1, 1, 1), (1, 1), ZERO)
    words = dict(zip(("strides", "pads", "dilations", "fill"), around, strict=True)) | {"block": block, "reach": reach}
    parts = zip(np.split(x, groups, 1), np.split(w, groups), strict=True)
    wanted = np.concatenate([convolution(data, kernels, *around) for data, kernels in parts], 1)
    return [blocks(x, block), packed_groups(w, groups, block, reach, 4)], words, wanted


GROUPED = [(64, 8), (48, 3, 2), (64, 2), (128, 2), (256, 2), (208, 26)]  # channels, groups, stride


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("shape", GROUPED)
def test_groups(shape, level):
    arrays, words, wanted = grouped(*shape)
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS[level])
    vtakit.build(s, tensors, LEVELS[level])(*arrays, got)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("level", ["avx512-vnni", "amx"])
@pytest.mark.parametrize("shape", [(32, 4, 1, 3), (64, 2, 1, 3)])
def test_the_meaning_of_groups(shape, level):
    arrays, words, wanted = grouped(*shape)
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS[level], BY_TILES if level == "amx" else {})
    interpret(lower(s, tensors), [*arrays, got], packed=MEANING)
    assert_sums(channels(got, wanted.shape[1]), wanted)


@pytest.mark.parametrize("answer", [PERMITTED, REFUSED])
@pytest.mark.parametrize("shape", GROUPED[::2])
def test_groups_by_tile_registers(shape, answer):
    arrays, words, wanted = grouped(*shape)
    tensors, s, got = made_of("conv_packed", arrays, words, LEVELS["amx"], BY_TILES)
    registers = TileRegisters(answer)
    registers.function(vtakit.build(s, tensors, LEVELS["amx"]).compiled)(*arrays, got)
    assert not registers.errors
    assert_sums(channels(got, wanted.shape[1]), wanted)


def test_channels_that_filters_of_groups_read():
    """A multiple of a group, and of the filters whose weights lie together."""
    assert [reach_of(*each) for each in ((48, 6), (64, 8), (32, 2), (64, 2), (128, 2), (256, 2), (256, 1), (16, 4))] == [
        16, 32, 32, 32, 64, 128, 256, 16]
    assert [reach_of(*each) for each in ((48, 2), (72, 3), (96, 4))] == [0, 0, 0]


@pytest.mark.parametrize(("features", "kind", "extend"), [
    (("+dotprod",), "sdot", "sext"), (("+dotprod", "+i8mm"), "usdot", "zext")])
@pytest.mark.parametrize("shape", [SHORT[0], CASES[3]])
def test_dot_products_of_another_processor(shape, features, kind, extend):
    """Its instruction is replaced by what it does, so that any machine runs the code; sums of signed bytes alone are mended."""
    arrays, words, wanted = case("uint8", shape)
    target = Target("aarch64-linux-gnu", "", features, threads=False)
    tensors, s, got = made_of("conv_packed", arrays, words, target)
    compiled = compile_for(lower_late(lower(s, tensors, "conv")), target)
    name = f"@llvm.aarch64.neon.{kind}.v4i32.v16i8"
    assert name in compiled.text
    lines = [line for line in compiled.text.splitlines() if not (line.startswith("declare") and name in line)]
    text = "\n".join(lines).replace(name, f"@model_{kind}") + DOT.replace("KIND", kind).replace("AS", extend)
    here = Target(Target.host().triple, "", (), threads=False)
    Function(replace(compiled, text=text, target=here, code=translate(text, here, "object")), {}, ())(*arrays, got)
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
    with raises(CodegenError, "dot of int8: it takes uint8, bfloat16, uint32"):
        dot_kernels.dot("int8", 16)
    with raises(CodegenError, "dot of 0 filters and 1 steps: give at least 1"):
        dot_kernels.dot("uint8", 0)
    with raises(CodegenError, "a product of int8: it takes uint8, bfloat16, uint32"):
        tile_kernels.product("int8", tile_kernels.Group(1, 16, 16, 16))
    for group in (tile_kernels.Group(2, 32, 32, 16), tile_kernels.Group(2, 16, 32, 17)):
        with raises(CodegenError, f"{group}: tile registers do not hold that"):
            tile_kernels.product("uint8", group)
