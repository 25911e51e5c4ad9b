"""Operators with default schedules, against NumPy: random shapes in every configuration, and plain arrays through the layouts."""


import numpy as np
import pytest
import vta_fuzz
import vta_operators
from vta_cases import of_data, of_weights
from vta_support import build, execute, values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.fold import choose_fold
from vtakit.compiler.nn.vta.packing import (
    identity,
    pack_activations,
    pack_grouped_transposed_weights,
    pack_transposed_weights,
    pack_vector,
    pack_weights,
    unpack_activations,
)
from vtakit.compiler.nn.vta.pad import Pad2d
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.resize import Resize2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.config import MAX_DEPTH, VTAConfig
from vtakit.hw.isa.insns import MemType, Opcode


@pytest.mark.parametrize("operator", vta_fuzz.OPERATORS)
@pytest.mark.parametrize("seed", [
    *range(len(vta_fuzz.CONFIGS)), *range(vta_fuzz.NAMED_SEEDS, vta_fuzz.NAMED_SEEDS + 3), vta_fuzz.LEGAL_SEEDS + 1,
])
def test_random_operators(operator, seed):
    """Every named configuration with each operator, and any other, in four interleavings."""
    vta_fuzz.check(operator, seed)


def convolve(x, weights, *, groups=1, stride=1, pad=0):
    """A plain convolution, tap by tap: [images, channels, height, width] with [out, in a group, rows, columns]."""
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    outs, ins, rows, columns = weights.shape
    height, width = (size + 2 * pad - tap for size, tap in zip(x.shape[2:], (rows, columns), strict=True))
    found = np.zeros((len(x), outs, height // stride + 1, width // stride + 1), np.int64)
    for out in range(outs):
        group = out // (outs // groups)
        for y in range(rows):
            for z in range(columns):
                part = padded[:, group * ins:(group + 1) * ins, y:y + height + 1:stride, z:z + width + 1:stride]
                found[:, out] += np.einsum("nchw,c->nhw", part, weights[out, :, y, z])
    return found


@pytest.mark.parametrize(("ins", "outs", "groups"), [
    (3, 20, 1), (32, 32, 32), (24, 24, 24), (16, 32, 16), (12, 6, 3), (64, 32, 2), (40, 40, 5), (96, 96, 2),
])
@pytest.mark.parametrize("config", ["default", "b2x16"])
def test_plain_arrays_and_groups(ins, outs, groups, config):
    """Channels that are no whole blocks, depthwise and grouped convolutions."""
    target, rng = vta(config), np.random.default_rng(ins)
    x, weights = rng.integers(-128, 128, (3, ins, 7, 6)), rng.integers(-128, 128, (outs, ins // groups, 3, 3))
    bias = rng.integers(-5000, 5000, outs)
    data, (blocks, left) = pack_activations(target, x), pack_weights(target, weights, groups)
    tensors = [te.placeholder(a.shape, kind, name=name) for a, kind, name in (
        (data, "int8", "data"), (blocks, "int8", "weights"), (pack_vector(target, bias), "int32", "bias"))]
    conv = Conv2d(target=target, data=tensors[0], weights=tensors[1], pad=(1,) * 4, stride=(2, 2), groups=left,
                  epilogue=Epilogue(bias=tensors[2], shift=7))
    s = te.create_schedule(conv.result.op)
    conv.schedule(s)
    given = dict(zip(tensors, (data, blocks, pack_vector(target, bias)), strict=True))
    got = execute(build(s, [*tensors, conv.result], target), given, conv.result)
    got = got.reshape(len(data), -1, *got.shape[-4:])
    want = wrap(convolve(x, weights, groups=groups, stride=2, pad=1) + bias[None, :, None, None] >> 7, 8)
    assert np.array_equal(unpack_activations(got, 3, outs), want)


def test_a_depthwise_convolution_takes_one_step_a_tap():
    target = vta()
    blocks, groups = pack_weights(target, np.ones((64, 1, 3, 3), np.int64), 64)
    assert (blocks.shape, groups) == ((4, 1, 3, 3, 16, 16), 4)


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(4, 2, 1), (3, 2, 1), (5, 3, 0), (2, 2, 0), (3, 1, 1)])
def test_plain_arrays_and_transposed_convolutions(kernel, stride, pad):
    target, rng = vta(), np.random.default_rng(kernel)
    x, weights = rng.integers(-128, 128, (1, 20, 4, 5)), rng.integers(-128, 128, (20, 9, kernel, kernel))
    sizes = [-(-((size - 1) * stride - 2 * pad + kernel) // stride) * stride for size in x.shape[2:]]
    data, blocks = pack_activations(target, x), pack_transposed_weights(target, weights, (stride, stride))
    a, w = te.placeholder(data.shape, "int8", name="data"), te.placeholder(blocks.shape, "int8", name="weights")
    conv = TransposedConv2d(target=target, data=a, weights=w, rows=sizes[0], columns=sizes[1], pad=(pad, pad),
                            epilogue=Epilogue(shift=6))
    s = te.create_schedule(conv.result.op)
    conv.schedule(s)
    got = execute(build(s, [a, w, conv.result], target), {a: data, w: blocks}, conv.result)
    whole = np.zeros((1, 9, *[(size - 1) * stride + kernel + stride + pad for size in x.shape[2:]]), np.int64)
    for y, z in np.ndindex(kernel, kernel):
        whole[:, :, y:y + 3 * stride + 1:stride, z:z + 4 * stride + 1:stride] += np.einsum(
            "nchw,co->nohw", x, weights[:, :, y, z])
    want = wrap(whole[:, :, pad:pad + sizes[0], pad:pad + sizes[1]] >> 6, 8)
    assert np.array_equal(unpack_activations(got.reshape(1, 1, *sizes, 1, 16), 1, 9), want)


@pytest.mark.parametrize(("channels", "outs", "groups", "stride"), [
    (32, 2, 2, (2, 2)), (8, 1, 8, (2, 1)), (12, 3, 4, (1, 2)), (16, 8, 2, (2, 2)), (6, 5, 3, (3, 2)),
])
def test_grouped_transposed_convolutions(channels, outs, groups, stride):
    """Depthwise ones, groups of whole blocks, and groups that are put together; with bias, in interleavings."""
    target, rng, kernel = vta("tiny"), np.random.default_rng(channels), (3, 4)
    x, weights = rng.integers(-128, 128, (1, channels, 3, 5)), rng.integers(-128, 128, (channels, outs, *kernel))
    bias = rng.integers(-5000, 5000, groups * outs)
    packed, left = pack_grouped_transposed_weights(target, weights, stride, groups)
    arrays = pack_activations(target, x), packed, pack_vector(target, bias)
    a, w, c = [te.placeholder(array.shape, kind, name=name) for array, kind, name in zip(
        arrays, ("int8", "int8", "int32"), ("data", "weights", "bias"), strict=True)]
    rows, columns = 3 * stride[0], 5 * stride[1]
    conv = TransposedConv2d(target=target, data=a, weights=w, rows=rows, columns=columns, pad=(1, 0), groups=left,
                            epilogue=Epilogue(bias=c, shift=6))
    program = made(conv)
    whole = np.zeros((1, groups * outs, 3 * stride[0] + 6, 5 * stride[1] + 6), np.int64)
    for group, y, z in np.ndindex(groups, *kernel):
        ins, own = slice(group * channels // groups, (group + 1) * channels // groups), slice(group * outs, (group + 1) * outs)
        whole[:, own, y:y + 2 * stride[0] + 1:stride[0], z:z + 4 * stride[1] + 1:stride[1]] += np.einsum(
            "nchw,co->nohw", x[:, ins], weights[ins, :, y, z])
    want = wrap(whole[:, :, 1:1 + rows, :columns] + bias[None, :, None, None] >> 6, 8)
    for order in ("program", 0, 1):
        got = execute(program, dict(zip((a, w, c), arrays, strict=True)), conv.result, order=order)
        assert np.array_equal(unpack_activations(got.reshape(1, -1, rows, columns, 1, 4), 1, groups * outs), want)


def test_a_large_convolution_compiles_to_a_small_program():
    """7 x 7 x 512, the largest of ResNet-18's: its program has a few hundred instructions, and equals NumPy's result."""
    target = vta()
    data = te.placeholder((1, 32, 7, 7, 1, 16), "int8", name="data")
    weights = te.placeholder((32, 32, 3, 3, 16, 16), "int8", name="weights")
    bias = te.placeholder((32, 1, 16), "int32", name="bias")
    conv = Conv2d(target=target, data=data, weights=weights, pad=(1,) * 4,
                  epilogue=Epilogue(bias=bias, shift=9, low=-128, high=127))
    s = te.create_schedule(conv.result.op)
    conv.schedule(s)
    program = build(s, [*conv.inputs, conv.result], target)
    assert len(program.insns) * 16 + len(program.uops) * 4 < 200_000
    rng = np.random.default_rng(3)
    given = {tensor: values(rng, tensor) for tensor in conv.inputs}
    want = vta_operators.conv_reference(conv, given[data], given[weights], given)
    assert np.array_equal(execute(program, given, conv.result), want)


def made(layer):
    """The program of an operator with its default schedule."""
    s = te.create_schedule(layer.result.op)
    layer.schedule(s)
    return build(s, [*layer.inputs, layer.result], layer.target)


def of(program, name):
    """The instructions of one kind."""
    return [text for text in (disasm(word, program.config) for word in program.insns) if text.startswith(name)]


def test_a_concatenation_loads_each_tensor_once_and_computes_nothing():
    """One product for each element, written over what was there: no reset, no ALU."""
    target = vta()
    data = tuple(of_data(target, (1, blocks, 7, 7), f"part{blocks}") for blocks in (1, 2, 3))
    program = made(Concat2d(target=target, data=data, weights=of_weights(target, ())))
    insns = [decode(program.config, word) for word in program.insns]
    loads = [insn for insn in insns if insn.op is Opcode.LOAD and insn["memory_type"] == MemType.INP]
    assert sum(load["y_size"] * load["x_size"] for load in loads) == 6 * 7 * 7
    assert not of(program, "alu")
    assert not [product for product in of(program, "gemm") if "overwrite" not in product]


def test_a_ratio_that_no_loop_can_be_takes_micro_ops_not_instructions():
    target = vta()
    data, weights = of_data(target, (1, 4, 17, 17)), of_weights(target, ())
    program = made(Resize2d(target=target, data=data, weights=weights, rows=61, columns=59))
    assert len(of(program, "gemm")) < 100  # of 14,396 elements
    assert len(program.uops) < 61 * 59 * 4


@pytest.mark.parametrize("size", [45, 46, 112])
def test_a_global_maximum_of_any_size(size):
    """45 x 45 pixels are the most that the accumulator holds at once."""
    target, rng = vta(), np.random.default_rng(size)
    data = of_data(target, (1, 2, size, size))
    pool = Pool2d(target=target, data=data, kernel=(size, size))
    given = {data: values(rng, data)}
    found = execute(made(pool), given, pool.result)
    assert np.array_equal(found[:, :, 0, 0], given[data].max(axis=(2, 3)))


def test_a_pad_with_zeros_is_the_loads_and_one_with_a_value_is_added():
    target = vta()
    fields = {"target": target, "data": of_data(target, (1, 2, 6, 6)), "weights": of_weights(target, ()), "pad": (1, 1, 1, 1)}
    assert not of(made(Pad2d(**fields)), "alu")
    assert of(made(Pad2d(**fields, value=3)), "alu")


def test_a_folded_first_layer_takes_a_fifth_of_the_products():
    target = vta()
    fold = choose_fold(target, (1, 3, 224, 224), 64, kernel=(7, 7), stride=(2, 2), pad=(3, 3, 3, 3))
    work = fold.work(target, (1, 3, 224, 224), 64)
    assert (fold.taps, work.in_blocks * work.kernel_rows * work.kernel_columns) == ((7, 7), 10)


@pytest.mark.parametrize(("size", "rows", "columns"), [(64, 1, 1), (512, 8, 4), (300, 7, 300)])
def test_what_a_resizing_leaves_out_takes_no_room(size, rows, columns):
    """Of an image larger than the scratchpad only what lies between the values of a tile has a place there."""
    target = vta()
    data, weights = of_data(target, (1, 1, size, size)), of_weights(target, ())
    layer = Resize2d(target=target, data=data, weights=weights, rows=rows, columns=columns)
    given = {data: values(np.random.default_rng(size), data), weights: np.eye(16, dtype=np.int64)}
    found = execute(made(layer), given, layer.result)
    want = given[data][:, :, [y * size // rows for y in range(rows)]][:, :, :, [x * size // columns for x in range(columns)]]
    assert np.array_equal(found, want)


def test_a_scratchpad_larger_than_the_fields_of_a_load_count():
    """Of 65,536 inputs, of which a LOAD takes one less."""
    config = VTAConfig(log_block=2, log_inp_buff_size=18, log_wgt_buff_size=9, log_acc_buff_size=15)
    assert config.inp_depth == MAX_DEPTH
    target = vta(config, copies=1)
    data, weights = of_data(target, (1, 1, 256, 256)), of_weights(target, ())
    layer = SumPool2d(target=target, data=data, weights=weights, kernel=(256, 256), epilogue=Epilogue(shift=16))
    given = {data: values(np.random.default_rng(0), data, 0, 127), weights: np.eye(4, dtype=np.int64)}
    found = execute(made(layer), given, layer.result)
    assert np.array_equal(found, given[data].sum(axis=(2, 3), keepdims=True) >> 16)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)])
def test_products_bring_the_residual_of_a_transposed_convolution(stride):
    """Where a LOAD does not widen activations; the residual has the phases of the result."""
    target, rng = vta("i4w4"), np.random.default_rng(0)
    data, weights = of_data(target, (1, 2, 5, 4)), of_weights(target, (2, 2, *stride, 2, 1))
    skip, one = of_data(target, (1, 2, 5, stride[0], 4, stride[1]), "skip"), of_weights(target, (), "one")
    layer = TransposedConv2d(target=target, data=data, weights=weights, rows=5 * stride[0], columns=4 * stride[1], pad=(1, 0),
                             epilogue=Epilogue(add=skip, add_scale=3, identity=one, shift=3))
    s = te.create_schedule(layer.result.op)
    layer.schedule(s)
    program = build(s, [*layer.inputs, layer.result], target)
    given = {tensor: values(rng, tensor) for tensor in layer.inputs} | {one: identity(target)}
    want = vta_operators.transposed_reference(layer, {each: array for each, array in given.items() if each is not one})
    np.testing.assert_array_equal(execute(program, given, layer.result).reshape(want.shape), want)
