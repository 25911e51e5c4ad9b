"""Depthwise convolutions by windows against NumPy: kernels larger than a window, strides, pads of a value, refusals."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import raises
from vta_support import build, execute, values

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.nn.vta.depthwise import Depthwise2d, Parts
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.compiler.nn.vta.strips import WHOLE
from vtakit.compiler.schedule.decisions import DEFAULTS
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.insns import Feature, MemType, Opcode
from vtakit.hw.isa.program import Program

SMALL = ("tiny", "tiny_b2")  # scratchpads of 32 inputs, 16 weights
SHAPE = {"height": 9, "width": 11, "channels": 20, "kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1), "fill": 0}


def depthwise(target: Target, kernels: np.ndarray, shape: dict, rng: np.random.Generator) -> tuple[Depthwise2d, dict]:
    """An operator of two images, and its operands' values."""
    batch, block = target.element("inp")
    channels, kernel = len(kernels), kernels.shape[1:]
    size = 2, -(-channels // block), shape["height"], shape["width"], batch, block
    data = te.placeholder(size, target.dtype("inp"), name="x")
    packed = Parts.of(target, kernel).weights(target, kernels)
    weights = te.placeholder(packed.shape, target.dtype("wgt"), name="w")
    scales = rng.integers(1 << 14, 1 << 16, channels)
    scaled = Requantize(target=target, channels=channels, multiplier=scales, shift=np.full(channels, 25), zero_point=5,
                        bias=rng.integers(-99, 99, channels), largest=1 << 22)
    made = Depthwise2d(target=target, data=data, weights=weights, kernel=kernel, stride=shape["stride"], pad=shape["pad"],
                       fill=shape["fill"], epilogue=Epilogue(requantize=scaled))
    return made, {data: values(rng, data), weights: packed, scaled.parameters: scaled.words.astype(np.int32)}


def reference(made: Depthwise2d, x: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """The sums, tap by tap."""
    batch, block = made.target.element("inp")
    whole = np.zeros((x.shape[1] * block, *made.kernel), np.int64)
    whole[: len(kernels)] = kernels
    above, below, left, right = made.pad
    padded = np.pad(x, ((0, 0), (0, 0), (above, below), (left, right), (0, 0), (0, 0)), constant_values=made.fill)
    total = np.zeros((*x.shape[:2], made.out_height, made.out_width, batch, block), np.int64)
    for dy, dx in np.ndindex(*made.kernel):
        part = padded[:, :, dy:, dx:][:, :, :: made.stride[0], :: made.stride[1]][:, :, : made.out_height, : made.out_width]
        total += part * whole.reshape(-1, block, *made.kernel)[:, :, dy, dx][:, None, None, None]
    return total


def same(name: str, seed: int = 0, strips: bool = False, **changes: object) -> Program:
    """Compile, run and compare an operator; its program.

    strips : in random strips of a random tile, where there are such, in extreme and random orders of the stages
    """
    target, rng, shape = vta(name), np.random.default_rng(seed), SHAPE | changes
    kernels = rng.integers(-128, 128, (shape["channels"], *shape["kernel"]))
    made, operands = depthwise(target, kernels, shape, rng)
    given = {}
    if strips and (able := [chunk for chunk in made.tilings.able if chunk != WHOLE]):
        chunk = able[rng.integers(len(able))]
        fitting = [tile for group in made.tilings.fitting(chunk, 1) for tile in group]
        given = {"depthwise.chunk": [*chunk], "depthwise.tile": [*fitting[rng.integers(len(fitting))]]}
    s = te.create_schedule(made.result.op, decisions=given)
    made.schedule(s)
    program = build(s, [*made.inputs, made.result], target)
    want = made.epilogue.reference(target, reference(made, operands[made.data], kernels), {})
    for order in ("program", "eager", "lazy", seed) if strips else ("program",):
        np.testing.assert_array_equal(execute(program, operands, made.result, order=order), want)
    return program


def count(program: Program) -> Counter:
    return Counter(decode(program.config, word).op for word in program.insns)


@pytest.mark.parametrize("name", ["default", "tiny", "tiny_b2", "blk8", "b2x16", "blk32"])
@pytest.mark.parametrize("changes", [
    {}, {"kernel": (5, 5), "pad": (2, 2, 2, 2)}, {"kernel": (7, 7), "pad": (3, 3, 3, 3), "stride": (2, 2)},
    {"stride": (2, 2), "pad": (0, 1, 0, 1), "height": 20, "width": 23}, {"kernel": (1, 5), "pad": (0, 0, 2, 2), "fill": -3},
    {"kernel": (5, 1), "pad": (0, 0, 0, 0)}, {"kernel": (1, 1), "pad": (0, 0, 0, 0)},
], ids=str)
def test_windows_are_numpys_sums(name, changes):
    if name in SMALL and max(changes.get("kernel", (3, 3))) > 3:
        with raises(VtaError, "… elements of its smallest tile do not fit … scratchpad; enlarge it"):
            same(name, **changes | {"kernel": (7, 9), "pad": (3, 3, 4, 4)})
        return
    ops = count(same(name, **changes))
    assert ops[Opcode.DWCONV]
    assert not ops[Opcode.GEMM] + ops[Opcode.ALU], "the first part of a kernel overwrites, so that nothing is reset"


def test_a_kernel_that_the_window_holds_takes_one_step_a_pixel():
    """Of a block of 16, 3 x 5 taps; rows and columns of pads are steps, too. Each image is cut into two tiles of four rows."""
    program = same("default", channels=16, height=8, width=8, kernel=(3, 5), pad=(1, 1, 2, 2))
    windows = [insn for word in program.insns if (insn := decode(program.config, word)).op is Opcode.DWCONV]
    assert sum(insn["rows"] * (insn["columns"] + 1) for insn in windows) == 2 * 2 * (4 + 2) * (8 + 4)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 16))
def test_any_shape(data, seed):
    name = data.draw(st.sampled_from(["default", "tiny", "tiny_b2", "blk8", "b2x16"]))
    taps = st.integers(1, 3 if name in SMALL else 7)
    kernel = data.draw(st.tuples(taps, taps))
    pad = tuple(data.draw(st.integers(0, max(0, taps - 1))) for taps in kernel for _ in range(2))
    pad = (pad[0], pad[1], pad[2], pad[3])
    height, width = (max(data.draw(st.integers(1, 24)), taps - before - after) for taps, before, after in zip(
        kernel, pad[::2], pad[1::2], strict=True))
    same(name, seed, height=height, width=width,
         kernel=kernel, pad=pad, stride=data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4))),
         channels=data.draw(st.integers(1, 40)), fill=data.draw(st.integers(-128, 127)) if any(pad) else 0)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 16))
def test_any_strips(data, seed):
    """Strips of any rows, with rows of pads that stay in INP, and with those that do not."""
    name = data.draw(st.sampled_from(["default", "tiny", "tiny_b2", "blk8", "b2x16"]))
    most = 3 if name in SMALL else 5
    kernel = data.draw(st.tuples(st.integers(1, most), st.integers(1, most)))
    pad = tuple(data.draw(st.integers(0, max(0, taps - 1))) for taps in kernel for _ in range(2))
    height, width = data.draw(st.integers(5, 40)), data.draw(st.integers(5, 10 if name in SMALL else 50))
    same(name, seed, strips=True, height=height, width=width, kernel=kernel, pad=(pad[0], pad[1], pad[2], pad[3]),
         stride=data.draw(st.tuples(st.integers(1, 3), st.integers(1, 2))), channels=data.draw(st.integers(1, 40)),
         fill=data.draw(st.integers(-128, 127)) if any(pad) else 0)


def test_strips_load_rows_once_and_pads_once():
    """Of two blocks of 56 x 56 pixels: two tiles of 56 x 28 each, of which the columns in the middle are loaded twice."""
    made = made_of(vta("default"), channels=32, height=56, width=56)
    assert made.decide(DEFAULTS) == ((1, 1, 56, 28), (7, 1))
    s = te.create_schedule(made.result.op)
    made.schedule(s)
    insns = [decode(vta("default").config, word) for word in build(s, [*made.inputs, made.result], vta("default")).insns]
    loads = [at for at, insn in enumerate(insns) if insn.op is Opcode.LOAD and insn["memory_type"] == MemType.INP]
    assert sum(insns[at]["y_size"] * insns[at]["x_size"] for at in loads) == 2 * 2 * 56 * 29 * 2  # images, blocks
    for side in ("y_pad_0", "y_pad_1"):
        assert sum(insns[at][side] for at in loads) == 1, "all tiles have rows of pads in the same place"
    assert [insns[at]["y_size"] for at in loads[:8]] == [8, 7, 7, 7, 7, 7, 7, 6], "each ends behind the last row of a strip"
    steps = [at for at, insn in enumerate(insns) if insn.op is Opcode.DWCONV]
    assert steps[3] < loads[8] < steps[4], "the next tile's first rows replace what the first two strips read"


def made_of(target: Target, **changes: object) -> Depthwise2d:
    shape = SHAPE | changes
    kernels = np.ones((shape["channels"], *shape["kernel"]), np.int64)
    return depthwise(target, kernels, shape, np.random.default_rng(0))[0]


def test_what_an_operator_cannot_be():
    with raises(VtaError, "depthwise convolution 'depthwise': this device has no DWCONV: use a Conv2d … groups …"):
        made_of(vta("default", without=Feature.DWCONV))
    with raises(VtaError, "… a stride of (5, 1); windows move by at most 4"):
        made_of(vta("default"), stride=(5, 1))
    with raises(VtaError, "… the kernel of 7 x 7 taps is larger than the padded image"):
        made_of(vta("default"), kernel=(7, 7), pad=(0, 0, 0, 0), height=6)
    with raises(VtaError, "… the weights are of 2 blocks and 6 parts, and it has 2 and 1"):
        other = made_of(vta("default"), kernel=(5, 6), pad=(2, 2, 2, 2))
        larger = made_of(vta("default"), kernel=(6, 11), pad=(3, 3, 5, 5)).weights
        Depthwise2d(target=vta("default"), data=other.data, weights=larger, kernel=(3, 3), epilogue=other.epilogue)
    with raises(VtaError, "… weights of a depthwise convolution … channels, rows, columns …"):
        Parts.of(vta("default"), (3, 3)).weights(vta("default"), np.zeros((3, 3), np.int8))
