"""The pass `stored_maxima`: compiled layers against NumPy, and hand-made programs that it must change or leave alone."""

from itertools import product

import numpy as np
import pytest
from vta_operators import conv_reference
from vta_support import build, execute, values

from vtakit import te
from vtakit.compiler.codegen.vta.pools import stored_maxima
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import Cut
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.pooling import Pooling
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.hw.isa.codec import decode, encode_uop
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.insns import AluOp, Feature, MemType, Opcode, Stage

TINY = NAMED["tiny"]


def pooled(target: Target, pooling: Pooling, size: int = 9, **changes: object) -> tuple[Conv2d, dict]:
    """A 1x1 convolution of two output blocks, pooled and requantized, and its operands' values."""
    rng = np.random.default_rng(0)
    data = te.placeholder((1, 1, size, size, *target.element("inp")), target.dtype("inp"), name="x")
    weights = te.placeholder((2, 1, 1, 1, *target.element("wgt")), target.dtype("wgt"), name="w")
    channels = 2 * target.config.block
    scaled = Requantize(target=target, channels=channels, multiplier=rng.integers(1 << 14, 1 << 16, channels),
                        shift=np.full(channels, 24), zero_point=3, bias=rng.integers(-99, 99, channels), low=-128, high=127,
                        largest=1 << 20)
    layer = Conv2d(target=target, data=data, weights=weights, pooling=pooling, epilogue=Epilogue(requantize=scaled, **changes))
    return layer, {data: values(rng, data), weights: values(rng, weights), scaled.parameters: scaled.words.astype(np.int32)}


def instructions(layer: Conv2d, given: dict, cut: Cut | None = None) -> list:
    """Compile, run and compare the layer; its decoded instructions."""
    s = te.create_schedule(layer.result.op)
    layer.schedule(s, cut)
    program = build(s, [*layer.inputs, layer.result], layer.target)
    want = conv_reference(layer, given[layer.data], given[layer.weights], given)
    np.testing.assert_array_equal(execute(program, given, layer.result).reshape(want.shape), want)
    return [decode(layer.target.config, word) for word in program.insns]


def of_windows(insns: list) -> list:
    """Return the REQUANTs of windows."""
    return [insn for insn in insns if insn.op is Opcode.REQUANT and insn["pool"]]


@pytest.mark.parametrize("name", ["blk8", "b2x16", "default"])
@pytest.mark.parametrize(("edge", "step", "above", "left"), [
    (edge, step, above, left) for edge, step, above, left in product((2, 3, 4), (1, 2), (0, 1), (0, 1))])
def test_square_windows_are_the_requants(name, edge, step, above, left):
    """Four by four windows in tiles of four shapes: every REQUANT has windows, and no ALU instruction is left."""
    size = (3 * step + edge - above, 3 * step + edge - left)  # four windows each way
    pooling = Pooling(kernel=(edge, edge), stride=(step, step), pad=(above, 0, left, 0))
    target = vta(name)
    rng = np.random.default_rng(0)
    layer, given = pooled(target, pooling)
    data = te.placeholder((1, 1, *size, *target.element("inp")), target.dtype("inp"), name="x")
    layer = Conv2d(target=target, data=data, weights=layer.weights, pooling=pooling, epilogue=layer.epilogue)
    given = {tensor: of for tensor, of in given.items() if tensor.name != "x"} | {data: values(rng, data)}
    assert (layer.out_height, layer.out_width) == (4, 4)
    for rows, columns in ((2, 2), (1, 4), (2, 4), (3, 2)):
        cut = Cut(images=1, out_blocks=1, rows=rows, columns=columns, in_blocks=1, kernel_rows=1, kernel_columns=1, keep=False)
        insns = instructions(layer, given, cut)
        if left and columns == 4:  # then the accumulator has no column of pads
            assert any(insn.op is Opcode.ALU for insn in insns)
            continue
        assert not [insn for insn in insns if insn.op is Opcode.ALU]
        stores = [insn for insn in insns if insn.op is Opcode.REQUANT]
        assert len(of_windows(insns)) == len(stores) == 2 * -(-4 // rows) * -(-4 // columns)
        assert {(insn["pool"], insn["pool_step"]) for insn in stores} == {(edge - 1, step - 1)}


@pytest.mark.parametrize(("pooling", "cut", "changes"), [
    (Pooling(kernel=(3, 3), stride=(2, 2)), (2, 3), {}),  # of four columns the last tile has one, in rows of another length
    (Pooling(kernel=(3, 3), stride=(2, 2), pad=(1, 1, 1, 1)), (5, 5), {}),  # a row of pads below
    (Pooling(kernel=(2, 3), stride=(2, 2)), (2, 2), {}), (Pooling(kernel=(3, 3), stride=(3, 3)), (3, 3), {}),
    (Pooling(kernel=(3, 3), stride=(2, 1)), (2, 7), {}), (Pooling(kernel=(3, 3), stride=(2, 2)), (4, 4), {"low": 5}),
], ids=str)
def test_other_maxima_stay_the_alus(pooling, cut, changes):
    layer, given = pooled(vta(), pooling, **changes)
    insns = instructions(layer, given, Cut(images=1, out_blocks=1, rows=cut[0], columns=cut[1], in_blocks=1, kernel_rows=1,
                                           kernel_columns=1, keep=False))
    assert any(insn.op is Opcode.ALU and insn["alu_opcode"] == AluOp.MAX for insn in insns)


@pytest.mark.parametrize("left", [0, 1])
def test_maxima_lie_in_the_next_copy_of_their_accumulators(left):
    """Two tiles nearly fill the accumulator: both copies are used, and maxima that REQUANT cannot find are right, too."""
    target = vta("tiny")
    pooling = Pooling(kernel=(2, 2), stride=(1, 1), pad=(0, 0, left, 0))
    columns = target.depth("acc") // 2 // 2 - 3  # of a result of two rows; a tile of one takes two rows of the convolution
    layer, given = pooled(target, pooling)
    rng = np.random.default_rng(1)
    data = te.placeholder((1, 1, 3, columns + 1 - left, *target.element("inp")), target.dtype("inp"), name="x")
    layer = Conv2d(target=target, data=data, weights=layer.weights, pooling=pooling, epilogue=layer.epilogue)
    given = {tensor: of for tensor, of in given.items() if tensor.name != "x"} | {data: values(rng, data)}
    cut = Cut(images=1, out_blocks=1, rows=1, columns=columns, in_blocks=1, kernel_rows=1, kernel_columns=1, keep=False)
    insns = instructions(layer, given, cut)
    stores = [insn["sram_base"] for insn in insns if insn.op is Opcode.REQUANT]
    assert len(stores) == 4
    assert len(set(stores)) == 2, "tiles take turns"
    assert len(of_windows(insns)) == (0 if left else 4)


def test_a_device_without_windows_has_none():
    layer, given = pooled(vta(without=Feature.POOL), Pooling(kernel=(2, 2), stride=(2, 2)))
    assert not of_windows(instructions(layer, given))
    layer, given = pooled(vta(), Pooling(kernel=(2, 2), stride=(2, 2)))
    assert of_windows(instructions(layer, given))


@pytest.mark.parametrize("images", [1, 2])
def test_a_clipped_sum_with_a_residual_is_no_maximum(images):
    """In an accumulator scratchpad that is full: the residual's place is not that of maxima."""
    target = vta("tiny_b2", copies=3)
    rng = np.random.default_rng(0)
    data = te.placeholder((images, 2, 9, 15, *target.element("inp")), target.dtype("inp"), name="x")
    weights = te.placeholder((3, 2, 1, 1, *target.element("wgt")), target.dtype("wgt"), name="w")
    pooling = Pooling(kernel=(3, 2), stride=(2, 1), pad=(2, 0, 0, 0))
    fields = {"target": target, "data": data, "weights": weights, "stride": (2, 1), "pad": (1, 2, 0, 0), "pooling": pooling}
    plain = Conv2d(**fields)
    shape = images, 3, plain.out_height, plain.out_width, *target.element("inp")
    added = te.placeholder(shape, "int8", name="added")
    layer = Conv2d(**fields, epilogue=Epilogue(add=added, low=-1))
    given = {tensor: values(rng, tensor) for tensor in (data, weights, added)}
    s = te.create_schedule(layer.result.op)
    layer.schedule(s)
    program = build(s, [*layer.inputs, layer.result], target)
    want = conv_reference(layer, given[data], given[weights], given)
    for order in ("program", "eager", "lazy"):
        assert np.array_equal(execute(program, given, layer.result, order=order).reshape(want.shape), want)


def random_pooled(seed: int, *names: str) -> tuple[Conv2d, dict]:
    """Draw a convolution with requantized maxima of square windows, of any size, taps, pads, groups and images."""
    rng = np.random.default_rng(seed)
    target = vta(str(rng.choice(names or ("default", "blk8", "b2x16"))))
    edge, step, above, left = int(rng.integers(2, 5)), int(rng.integers(1, 3)), *(int(n) for n in rng.integers(0, 2, 2))
    kernel, stride, pad = int(rng.choice([1, 3])), int(rng.choice([1, 1, 2])), int(rng.integers(0, 2))
    count = [int(n) for n in rng.integers(1, 13, 2)]
    height, width = (((n - 1) * step + edge - lacks - 1) * stride + kernel - 2 * pad + int(rng.integers(0, stride))
                     for n, lacks in zip(count, (above, left), strict=True))
    if min(height, width) < 1:
        return random_pooled(seed + 1_000_000, *names)
    groups, ins, outs, images = (int(rng.choice(choices)) for choices in ((1, 1, 2), (1, 2, 3), (1, 2, 4), (1, 1, 2)))
    data = te.placeholder((images, groups * ins, height, width, *target.element("inp")), target.dtype("inp"), name="x")
    weights = te.placeholder((groups * outs, ins, kernel, kernel, *target.element("wgt")), target.dtype("wgt"), name="w")
    channels = groups * outs * target.config.block
    scaled = Requantize(target=target, channels=channels, multiplier=rng.integers(1 << 14, 1 << 16, channels), low=-128, high=127,
                        shift=np.full(channels, 26), zero_point=3, bias=rng.integers(-99, 99, channels), largest=1 << 22)
    layer = Conv2d(target=target, data=data, weights=weights, stride=(stride, stride), pad=(pad,) * 4, groups=groups,
                   pooling=Pooling(kernel=(edge, edge), stride=(step, step), pad=(above, 0, left, 0)),
                   epilogue=Epilogue(requantize=scaled))
    return layer, {data: values(rng, data), weights: values(rng, weights), scaled.parameters: scaled.words.astype(np.int32)}


def test_random_layers():
    """With default schedules; the ALU pools where tiles are as wide as the result and padded, or have unequal columns."""
    stored = sum(bool(of_windows(instructions(*random_pooled(seed)))) for seed in range(40))
    assert stored >= 20


@pytest.mark.rtl
@pytest.mark.xdist_group("rtl-default")
@pytest.mark.parametrize("seed", range(6))
def test_random_layers_on_the_hardware(seed):
    layer, given = random_pooled(seed, "default")
    s = te.create_schedule(layer.result.op)
    layer.schedule(s)
    program = build(s, [*layer.inputs, layer.result], layer.target)
    want = conv_reference(layer, given[layer.data], given[layer.weights], given)
    np.testing.assert_array_equal(execute(program, given, layer.result, device="rtl").reshape(want.shape), want)


def reset(first: int, count: int) -> Step:
    return Step(Opcode.GEMM, {"reset": 1, "iter_out": 1, "iter_in": count, "dst_in": 1}, Stage.COMPUTE,
                (Access("acc", slice(first, first + count), write=True),), uops=(encode_uop(TINY, first),))


def alu(op: AluOp, dst: int, src: int, count: int = 1, **fields: int) -> Step:
    """One operation on `count` accumulators, two apart where they are read."""
    read = Access("acc", np.arange(src, src + 2 * count, 2), write=False)
    return Step(Opcode.ALU, {"alu_opcode": op, "iter_out": 1, "iter_in": count, "dst_in": 1, "src_in": 2} | fields, Stage.COMPUTE,
                (Access("acc", slice(dst, dst + count), write=True), read), uops=(encode_uop(TINY, dst, src),))


def store(op: Opcode, first: int, count: int = 2) -> Step:
    return Step(op, {"memory_type": MemType.OUT, "sram_base": first, "y_size": 1, "x_size": count}, Stage.STORE,
                (Access("acc", slice(first, first + count), write=False), Access("acc", slice(28, 31), write=False)), "y")


MAXIMA = [reset(20, 2), alu(AluOp.ADD, 20, 0, 2), *(alu(AluOp.MAX, 20, src, 2) for src in (1, 4, 5))]  # of an image of 2 x 4


def test_a_chain_becomes_fields():
    (made,) = stored_maxima([*MAXIMA, store(Opcode.REQUANT, 20)], TINY)
    assert {name: made.fields[name] for name in ("sram_base", "pool", "pool_step")} == {"sram_base": 0, "pool": 1, "pool_step": 1}
    assert made.accesses[0] == Access("acc", slice(0, 8), write=False)


@pytest.mark.parametrize("steps", [
    [*MAXIMA, store(Opcode.REQUANT, 20), store(Opcode.STORE, 20)],
    [*MAXIMA, store(Opcode.REQUANT, 20), alu(AluOp.ADD, 10, 20)],
    [*MAXIMA, store(Opcode.REQUANT, 20), alu(AluOp.ADD, 20, 10, 2)],
    [*MAXIMA, store(Opcode.REQUANT, 20), store(Opcode.REQUANT, 19)],
    [*MAXIMA, reset(4, 1), store(Opcode.REQUANT, 20)],
    [*MAXIMA, alu(AluOp.ADD, 5, 10), store(Opcode.REQUANT, 20)],
    [*MAXIMA[:-1], store(Opcode.REQUANT, 20)],
    [MAXIMA[0], *MAXIMA[2:], store(Opcode.REQUANT, 20)],
    [*MAXIMA, alu(AluOp.MAX, 20, 0, 1, use_imm=1, imm=3), store(Opcode.REQUANT, 20)],
    [*MAXIMA, alu(AluOp.MAX, 21, 8), store(Opcode.REQUANT, 20)],
    [MAXIMA[0], alu(AluOp.ADD, 20, 0, 2, use_imm=1, imm=-128), *(alu(AluOp.MAX, 20, src, 2) for src in (0, 1, 4, 5)),
     store(Opcode.REQUANT, 20)],
], ids=["stored", "read", "changed", "read in part", "source reset", "source changed", "three taps", "without the first",
        "a constant", "another tap", "a floor"])
def test_chains_that_something_else_meets_stay(steps):
    assert stored_maxima(steps, TINY) == steps
