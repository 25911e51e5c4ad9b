"""Winograd convolutions: against onnxruntime's and float64, for tiles that hang over, other processors, and what follows them."""

import numpy as np
import pytest
from nn_support import blocks, channels, empty, floats, onnx_run, placeholders, run, run_group
from support import raises

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.stmt import For, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.conv.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.conv.winograd import Transforms, winograd_weight
from vtakit.compiler.nn.conv.winograd_forms import Conv3x3, best_tile, cut
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.runtime.cpu import openmp

BOUND = 2e-5  # of the greatest difference by the greatest result, that the documents promise
WIDE, NARROW = Machine(l1_bytes=48 << 10, l2_bytes=2 << 20), Machine(vector_bytes=32, vector_registers=16)

CASES = [  # data, filters, block, pads
    ((1, 32, 8, 8), 32, 16, (1, 1, 1, 1)),
    ((2, 24, 13, 9), 37, 16, (1, 1, 1, 1)),
    ((1, 20, 7, 11), 16, 8, (0, 0, 0, 0)),
    ((3, 16, 5, 3), 48, 16, (2, 1, 0, 1)),
    ((1, 12, 3, 30), 8, 4, (0, 1, 0, 1)),
    ((1, 64, 14, 14), 64, 16, (1, 1, 1, 1)),
]


def close(got: np.ndarray, want: np.ndarray) -> None:
    """Within half of what is promised."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() < BOUND / 2 * np.abs(want).max()


def float64(x: np.ndarray, w: np.ndarray, pads: tuple[int, ...]) -> np.ndarray:
    """The convolution of one image in float64."""
    top, left, bottom, right = pads
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    return np.einsum("ncyxab,kcab->nkyx", windows, w.astype(np.float64), optimize=True)


@pytest.mark.parametrize("tile", [2, 4])
def test_the_matrices_make_a_convolution(tile):
    """``y[i] = d[i] g[0] + d[i + 1] g[1] + d[i + 2] g[2]``."""
    made = Transforms.of(tile)
    rng = np.random.default_rng(0)
    d, g = rng.standard_normal(tile + 2), rng.standard_normal(3)
    got = made.result @ ((made.filter @ g) * (made.data @ d))
    np.testing.assert_allclose(got, np.convolve(d, g[::-1], "valid"), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(("shape", "filters", "v", "pads"), CASES)
def test_a_winograd_convolution(tile, shape, filters, v, pads):
    x, w = floats(*shape), floats(filters, shape[1], 3, 3, seed=1)
    want = onnx_run("Conv", x, w, pads=pads)
    weight = winograd_weight(blocked_weight(w, v, v), tile)
    for how in ("default", "plain"):
        close(channels(run("conv_winograd", blocks(x, v), weight, how=how, pads=pads), filters), want)


@pytest.mark.parametrize("tile", [2, 4])
def test_what_follows_is_done_to_each_tile(tile):
    x, w = floats(2, 32, 6, 10), floats(32, 32, 3, 3, seed=1)
    bias, skip = floats(32, 1, 1), floats(2, 32, 6, 10, seed=2)
    arrays = [blocks(x, 16), winograd_weight(blocked_weight(w, 16, 16), tile), blocked_vectors(bias, 16, 0), blocks(skip, 16)]
    given = placeholders(tuple(arrays))
    add, relu = find("add").define, find("relu").define
    out = relu(add(add(find("conv_winograd").define(*given[:2], pads=(1,) * 4), given[2]), given[3]))
    want = np.maximum(onnx_run("Conv", x, w, pads=(1,) * 4) + bias + skip, 0)
    for how in ("default", "interpreter"):
        (got,) = run_group(arrays, given, [out], how)
        close(channels(got, 32), want)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("positive", [False, True], ids=["normal", "after relu"])
@pytest.mark.parametrize(("depth", "size"), [(64, 28), (512, 14), (2048, 8)])
def test_the_error_is_bounded(tile, positive, depth, size):
    x, w = floats(1, depth, size, size), floats(32, depth, 3, 3, seed=1)
    if positive:
        x = np.maximum(x, np.float32(0))
    want = float64(x, w, (1,) * 4)
    got = run("conv_winograd", blocks(x, 16), winograd_weight(blocked_weight(w, 16, 16), tile), pads=(1,) * 4)
    close(channels(got, 32), want)


def test_another_processor():
    """Registers of 32 bytes, 16 of them."""
    x, w = floats(1, 24, 9, 14), floats(32, 24, 3, 3, seed=1)
    arrays = [blocks(x, 8), winograd_weight(blocked_weight(w, 8, 8), 4)]
    given = placeholders(tuple(arrays))
    out = find("conv_winograd").define(*given, pads=(1,) * 4)
    got = empty(out)
    interpret(lower(schedule([out], Target("x86_64-unknown-linux-gnu", "x86-64-v3")), [*given, out]), [*arrays, got])
    close(channels(got, 32), onnx_run("Conv", x, w, pads=(1,) * 4))


def test_large_images_come_in_groups():
    """Of several rows of tiles, whose products are cut to what is left at the end."""
    x, w = floats(1, 64, 60, 60), floats(48, 64, 3, 3, seed=1)
    assert cut(15, 15, 36, 64, 3, WIDE).rows < 15
    got = run("conv_winograd", blocks(x, 16), winograd_weight(blocked_weight(w, 16, 16), 4), pads=(1,) * 4)
    close(channels(got, 48), onnx_run("Conv", x, w, pads=(1,) * 4))


@pytest.mark.parametrize(("images", "wanted"), [(9, 1), (2, 2)])
def test_many_groups_are_shared_out_among_threads(images, wanted):
    """Then one loop is parallel; of few groups the points of the data are, and the products."""
    x, w = floats(images, 16, 8, 8), floats(128, 16, 3, 3, seed=1)
    arrays = blocks(x, 16), winograd_weight(blocked_weight(w, 16, 16), 4)
    given = placeholders(arrays)
    out = find("conv_winograd").define(*given, pads=(1,) * 4)
    made = lower(schedule([out]), [*given, out])
    assert sum(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(made.body)) == wanted
    found = []
    for threads in (1, 2, 3):
        with openmp.Limit(threads):
            found.append(run("conv_winograd", *arrays, pads=(1,) * 4))
    assert all(np.array_equal(found[0], other) for other in found[1:])
    close(channels(found[0], 128), onnx_run("Conv", x, w, pads=(1,) * 4))


def test_weights_from_afar():
    """More than a second-level cache holds: two blocks of them at a time."""
    x, w = floats(1, 272, 8, 8), floats(256, 272, 3, 3, seed=1)
    assert cut(2, 2, 36, 272, 16, WIDE).blocks == 2
    got = run("conv_winograd", blocks(x, 16), winograd_weight(blocked_weight(w, 16, 16), 4), pads=(1,) * 4)
    close(channels(got, 256), onnx_run("Conv", x, w, pads=(1,) * 4))


def test_the_form_of_each_layer():
    """As measured (docs/winograd.md): tiles of 4 until the weights of their 36 points weigh more than what they save."""
    layers = {64: 56, 128: 28, 256: 14, 512: 7}
    assert [best_tile(Conv3x3(1, depth, depth, size, size), WIDE) for depth, size in layers.items()] == [4, 4, 4, 2]
    assert best_tile(Conv3x3(1, 16, 64, 7, 7), WIDE) == 0
    assert best_tile(Conv3x3(1, 64, 64, 224, 224), WIDE) == best_tile(Conv3x3(1, 512, 512, 28, 28), WIDE) == 4


def test_the_form_on_a_processor_with_one_multiply_add_in_a_cycle():
    """What multiplies less gains more there, and weights come faster; those that do not stay in its third level do not."""
    half = machine_of(Target("x86_64-linux-gnu", "znver4"))
    assert (half.fmas_per_cycle, half.l3_bytes_per_cycle, half.l2_bytes) == (1, 20, 1 << 20)
    layers = {64: 56, 128: 28, 256: 14, 512: 7}
    assert [best_tile(Conv3x3(1, depth, depth, size, size), half) for depth, size in layers.items()] == [4, 4, 4, 2]
    assert [best_tile(Conv3x3(1, depth, depth, 7, 7), half) for depth in (64, 128)] == [4, 4]
    assert machine_of(Target("x86_64-linux-gnu", "znver4", ("-avx512f",))).fmas_per_cycle == 2  # of narrower vectors
    assert machine_of(Target("x86_64-linux-gnu", "znver3")).fmas_per_cycle == 2


@pytest.mark.parametrize("machine", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_cut_fits(machine):
    for down, across, points, depth, count in ((14, 14, 36, 64, 4), (7, 7, 16, 256, 16), (1, 1, 36, 3, 1), (9, 31, 36, 48, 5)):
        made = cut(down, across, points, depth, count, machine)
        assert down % made.rows == count % made.blocks == 0
        assert made.tiles <= made.rows * across
        assert made.tiles * made.blocks + made.blocks + 1 <= machine.vector_registers


def test_what_does_not_fit_together_is_told():
    x, w, direct = placeholders((floats(1, 2, 5, 5, 16), floats(2, 4, 4, 2, 16, 16), floats(2, 2, 3, 3, 16, 16)))
    conv = find("conv_winograd").define
    with raises(OperatorError, "conv_winograd: data (1, 2, 5, 5, 16) and weights (2, 2, 3, 3, 16, 16): data has five dimensions, "
                               "the last its block's, and weights six, the second and third both 4 or 6"):
        conv(x, direct)
    more = placeholders((floats(1, 3, 5, 5, 16),))[0]
    with raises(OperatorError, "conv_winograd: data (1, 3, 5, 5, 16) of float32 and weights (2, 4, 4, 2, 16, 16) do not have the "
                               "same channels of floating point"):
        conv(more, w)
    small = placeholders((floats(1, 2, 1, 5, 16),))[0]
    with raises(OperatorError, "conv_winograd: a window of 3 with dilation 1 does not fit spatial dimension 0 of 1 with pads 0 "
                               "and 0"):
        conv(small, w)
