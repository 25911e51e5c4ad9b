"""Products with pads are left out: the sums stay the same, by a naive model of the scratchpads, by NumPy, and on the RTL."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_fuzz import check
from vta_operators import conv_reference
from vta_support import build, execute, values

from vtakit import te
from vtakit.compiler.codegen.vta.inside import leave_out_pads
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.hw.isa.codec import decode_uop, encode_uop
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import MemType, Opcode, Stage
from vtakit.sim.api import run
from vtakit.sim.confirmed import difference_on_rtl
from vtakit.sim.cycle import simulate

ACC, INP = 40, 64  # elements of the game


@st.composite
def loads(draw: st.DrawFn) -> Step:
    """A LOAD of rows with pads, some of them of another value than 0."""
    sizes = {name: draw(st.integers(0, 2)) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    sizes |= {"y_size": draw(st.integers(1, 3)), "x_size": draw(st.integers(1, 3))}
    rows, columns = (sum(sizes[f"{axis}_{name}"] for name in ("pad_0", "size", "pad_1")) for axis in "yx")
    base = draw(st.integers(0, INP - rows * columns))
    fields = {"memory_type": int(MemType.INP), "sram_base": base} | sizes | {"pad_value": draw(st.sampled_from([0, 0, 0, 5]))}
    op = Opcode.PAD_LOAD if fields["pad_value"] else Opcode.LOAD
    return Step(op, fields, Stage.LOAD, (Access("inp", slice(base, base + rows * columns), write=True),), "data")


@st.composite
def gemms(draw: st.DrawFn) -> Step:
    """A GEMM within the first accumulators and inputs, marked or not."""
    fields = {"iter_out": draw(st.integers(1, 5)), "iter_in": draw(st.integers(1, 6))}
    fields |= {f"{name}_{loop}": draw(st.integers(0, 3)) for name in ("dst", "src", "wgt") for loop in ("out", "in")}
    uops = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=6))
    return Step(Opcode.GEMM, fields, Stage.COMPUTE, uops=tuple(encode_uop(DEFAULT, *uop) for uop in uops),
                inside=draw(st.booleans()))


def play(steps: list[Step]) -> np.ndarray:
    """The accumulators in the end; inputs are numbers, and a product is of one number with one more than a weight's place."""
    acc, inp = np.zeros(ACC, np.int64), np.arange(1, INP + 1) * 1000
    for at, step in enumerate(steps):
        if step.op is not Opcode.GEMM:
            f = step.fields
            body = 7919 * (at + 1) + np.arange(f["y_size"] * f["x_size"]).reshape(f["y_size"], f["x_size"])
            box = np.pad(body, ((f["y_pad_0"], f["y_pad_1"]), (f["x_pad_0"], f["x_pad_1"])), constant_values=f["pad_value"])
            inp[step.accesses[0].elements] = box.ravel()
            continue
        for o, i, word in product(range(step.fields["iter_out"]), range(step.fields["iter_in"]), step.uops):
            dst, src, wgt = (at + o * step.fields[f"{name}_out"] + i * step.fields[f"{name}_in"]
                             for name, at in decode_uop(DEFAULT, word).items())
            acc[dst] += inp[src] * (wgt + 1)
    return acc


@settings(max_examples=200, deadline=None)
@given(st.lists(loads() | gemms(), min_size=2, max_size=8))
def test_sums_stay_the_same(steps):
    """LOADs are numbered by their place, so the game is played on programs whose LOADs have kept theirs."""
    steps = sorted(steps, key=lambda step: step.op is Opcode.GEMM)
    found = leave_out_pads(steps, DEFAULT)
    assert (play(found) == play(steps)).all()
    assert sum(step.cycles for step in found) <= sum(step.cycles for step in steps)
    assert [step for step in found if not step.inside] == [step for step in steps if not step.inside]


def conv_program(config, size, blocks, kernel, pad, stride=1, fill=0, inside=False, **options):
    """A convolution with bias and clip, its program, and the operands' tensors."""
    target = vta(config, **options)
    batch, block = target.element("inp")
    data = te.placeholder((1, blocks, *size, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((blocks, blocks, *kernel, block, block), target.dtype("wgt"), name="weights")
    bias = te.placeholder((blocks, batch, block), target.dtype("acc"), name="bias")
    conv = Conv2d(target=target, data=data, weights=weights, pad=pad, stride=(stride, stride), fill=fill, inside=inside,
                  epilogue=Epilogue(bias=bias, shift=5, low=0, high=127))
    s = te.create_schedule(conv.result.op)
    conv.schedule(s)
    return conv, build(s, [data, weights, bias, conv.result], target)


def counted(program, target):
    """Counters of the cycle model."""
    image = program.link()
    return simulate(program.config, image.dram, image.insn_addr, image.insn_count, data=False, **target.simulated).counters


@pytest.mark.parametrize(("size", "blocks", "kernel", "pad", "stride"), [
    ((14, 14), 16, (3, 3), (1, 1, 1, 1), 1), ((7, 7), 32, (3, 3), (1, 1, 1, 1), 1), ((28, 28), 8, (3, 3), (1, 1, 1, 1), 1),
    ((14, 14), 16, (3, 3), (0, 1, 0, 1), 2), ((7, 7), 4, (5, 5), (2, 2, 2, 2), 1), ((9, 12), 4, (1, 5), (0, 0, 2, 2), 1),
])
def test_only_products_within_the_image_are_computed(size, blocks, kernel, pad, stride):
    """A layer takes a step for each tap of each pixel that lies within the image, and its cycles fall nearly as much."""
    (conv, plain), (_, less) = (conv_program("default", size, blocks, kernel, pad, stride, inside=inside) for inside in (
        False, True))
    rng = np.random.default_rng(1)
    given_ = {tensor: values(rng, tensor) for tensor in conv.operands} | {
        conv.epilogue.bias: values(rng, conv.epilogue.bias, -1000, 1000)}
    want = conv_reference(conv, given_[conv.data], given_[conv.weights], given_)
    for program in (plain, less):
        assert np.array_equal(execute(program, given_, conv.result), want)
    before, after = (counted(program, conv.target) for program in (plain, less))
    rows, columns = (sum(0 <= at * stride + tap - front < extent for at in range(count) for tap in range(taps))
                     for count, taps, front, extent in zip((conv.height, conv.width), kernel, pad[::2], size, strict=True))
    assert before["gemm_counter"] == conv.height * conv.width * kernel[0] * kernel[1] * blocks**2
    assert rows * columns * blocks**2 <= after["gemm_counter"] <= 1.005 * rows * columns * blocks**2
    saved = before["gemm_counter"] - after["gemm_counter"]
    assert before["cycles"] - after["cycles"] >= 0.7 * saved


def test_pads_of_another_value_are_multiplied():
    (_, plain), (_, same) = (conv_program("default", (14, 14), 2, (3, 3), (1, 1, 1, 1), fill=-3, inside=inside) for inside in (
        False, True))
    assert plain.insns == same.insns


@pytest.mark.parametrize("config", ["tiny", "compact", "i4w4"])
def test_the_rtl_has_the_bytes_and_cycles_of_the_models(config):
    conv, program = conv_program(config, (9, 12), 2, (3, 3), (1, 1, 1, 1), inside=True)
    _, plain = conv_program(config, (9, 12), 2, (3, 3), (1, 1, 1, 1))
    assert counted(program, conv.target)["gemm_counter"] < counted(plain, conv.target)["gemm_counter"]
    rng = np.random.default_rng(2)
    inputs = {each.name: rng.bytes(each.size_bytes) for each in program.buffers if each.kind.name == "INPUT"}
    model = run(program, inputs, device="cycle")
    assert difference_on_rtl(program, inputs, model) is None
    assert model.buffers[conv.result.name] == run(plain, inputs).buffers[conv.result.name]


def test_weights_whose_products_are_all_left_out_are_not_loaded_over_others():
    """On a slow bus, LOADs of weights move up; one of a chunk of which nothing is left stays before the next in its place."""
    assert "instructions" in check("digits", 8059)
