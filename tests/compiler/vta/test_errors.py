"""Schedules that the accelerator cannot run: one sentence each, and where in the program it is."""

from dataclasses import replace

import pytest
from support import raises, says
from vta_cases import of_data, of_weights
from vta_support import matmul, matmul_schedule

from vtakit import te
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.vta.binary import Binary2d
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.errors import ConfigError

TARGET = vta()


def first_line(schedule, args, target=TARGET) -> str:
    """What the error says, without the program; which has one marked line."""
    with pytest.raises(VtaError) as caught:
        compile_for(lower(schedule, args), target)
    what, _, rest = str(caught.value).partition("\n\n")
    assert not rest or sum(line.startswith("-->") for line in rest.splitlines()) == 1
    return what


def elementwise(value, kind="int32", shape=(4, 1, 16), scope="acc"):
    """A stage in a scope that computes `value` of an operand there, stored to DRAM."""
    a = te.placeholder(shape, kind, name="a")
    c = te.compute(shape, lambda *i: value(a, *i), name="c")
    out = te.compute(shape, lambda *i: c(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[c].set_scope(scope)
    s[s.cache_read(a, scope, [c])].compute_at(s[out], out.op.axis[0])
    s[c].compute_at(s[out], out.op.axis[0])
    return s, [a, out]


def test_a_scratchpad_that_overflows():
    tensors = matmul(TARGET, 64, 64, 64)
    s = te.create_schedule(tensors[4].op)
    for tensor in tensors[2:4]:
        s[tensor].set_scope("acc")
    y, x, b, j = tensors[2].op.axis
    ko, ki = tensors[2].op.reduce_axis
    s[tensors[2]].reorder(ko, y, x, b, j, ki)
    s[tensors[2]].tensorize(b, TARGET.gemm)
    for tensor, scope in ((tensors[0], "inp"), (tensors[1], "wgt")):
        s.cache_read(tensor, scope, [tensors[2]])
    assert says(first_line(s, [tensors[0], tensors[1], tensors[4]]),
                "the inp scratchpad … 2048 … data_inp (4096) … 4096 … smaller tiles … inner loop")


@pytest.mark.parametrize(("value", "message"), [
    (lambda a, i, r, j: a[i, r, j] & 3,
     "… ALU … no operation … a_acc[i2] & 3 … adds, multiplies, shifts …"),
    (lambda a, i, r, j: a[i, r, 15 - j] + 1,
     "… not … whole elements of 16 … reorder … innermost …"),
    (lambda a, i, r, j: a[i, r, j] + 70_000,
     "70000 … no immediate … ALU … -32768 to 32767"),
])
def test_arithmetic_that_there_is_not(value, message):
    s, args = elementwise(value)
    assert says(first_line(s, args), message)


def test_other_scopes_are_only_loaded():
    s, args = elementwise(lambda a, *i: a(*i) + 1, "int8", scope="inp")
    assert says(first_line(s, args),
                "c in inp … a_inp[i2] + int8(1) … only the accumulator … inp … loaded … cache_read")


def test_what_is_written_to_dram_comes_from_the_accumulator():
    a = te.placeholder((4, 1, 16), "int8", name="a")
    out = te.compute(a.shape, lambda *i: a(*i) + 1, name="out")
    assert says(first_line(te.create_schedule(out.op), [a, out]),
                "… DRAM … copy of accumulators … a[i0 * 16 + i2] + int8(1) … compute … scope acc")


def test_types_are_the_configurations():
    s, args = elementwise(lambda a, *i: a(*i) + 1, "int16")
    assert says(first_line(s, args), "a_acc … int16 … accelerator … int32 …")


def test_shapes_are_numbers():
    n = te.var("n")
    a = te.placeholder((n, 1, 16), "int32", name="a")
    c = te.compute(a.shape, lambda *i: a(*i) + 1, name="c")
    out = te.compute(a.shape, lambda *i: c(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[c].set_scope("acc")
    s[s.cache_read(a, "acc", [c])].compute_at(s[out], out.op.axis[0])
    s[c].compute_at(s[out], out.op.axis[0])
    assert says(first_line(s, [a, out]), "n … not known …")


def conv(target: Target = TARGET, **changes) -> Conv2d:
    given = {
        "data": te.placeholder((1, 2, 8, 8, 1, 16), "int8", name="data"),
        "weights": te.placeholder((2, 2, 3, 3, 16, 16), "int8", name="weights"), **changes,
    }
    return Conv2d(target=target, **given)


def test_operators_refuse_shapes_that_do_not_fit_together():
    with raises(VtaError, "convolution 'conv': 2 input and 2 output blocks … not … 3 groups … 2 input blocks"):
        conv(groups=3)
    with raises(VtaError, "convolution 'conv': data … (1, 2, 8, 8, 1, 16) … [images, blocks, height, width, 2, 16]"):
        conv(vta("b2x16"))
    with raises(VtaError, "convolution 'conv': weights … (64, 32, 3, 3) … [out blocks, in blocks, rows, columns, 16, 16]"):
        conv(weights=te.placeholder((64, 32, 3, 3), "int8", name="weights"))
    with raises(VtaError, "convolution 'conv': weights … int16 … weights … int8"):
        conv(weights=te.placeholder((2, 2, 3, 3, 16, 16), "int16", name="weights"))
    for groups in (0, "2", 1.0):
        with raises(VtaError, f"convolution 'conv': groups is {groups!r} … whole number … at least 1"):
            conv(groups=groups)
    with raises(VtaError, "convolution 'conv': … kernel … 3 x 3 … larger … padded image … 2 x 8 …"):
        conv(data=te.placeholder((1, 2, 2, 8, 1, 16), "int8", name="data"))
    with raises(VtaError, "convolution 'conv': stride is (0, 1) … (down, across) … at least 1 …"):
        conv(stride=(0, 1))
    with raises(VtaError, "a shift by 40 bits: give 0 to 31"):
        Epilogue(shift=40)
    with raises(VtaError, "a clip from 3 to 1: give the lower bound first"):
        Epilogue(low=3, high=1)
    with raises(VtaError, "data: … not load activations … accumulator … 8-bit inputs … 32-bit accumulators"):
        target = vta("i4w4")
        te.create_schedule(Pool2d(target=target, data=te.placeholder((1, 1, 4, 4, 1, 16), "int4", name="data")).result.op)


def test_no_blocking_fits():
    target = vta(replace(NAMED["tiny"], log_acc_buff_size=5), copies=40)  # two accumulators
    data = te.placeholder((1, 1, 4, 4, 1, 4), "int8", name="data")
    weights = te.placeholder((1, 1, 1, 1, 4, 4), "int8", name="weights")
    bias, scale = (te.placeholder((1, 1, 4), "int32", name=name) for name in ("bias", "scale"))
    layer = Conv2d(target=target, data=data, weights=weights, epilogue=Epilogue(bias=bias, scale=scale))
    with raises(VtaError, "no part … fits … 3 … more than … 2 … acc scratchpad … enlarge …"):
        layer.schedule(te.create_schedule(layer.result.op))
    pool = Pool2d(target=target, data=data, kernel=(2, 2), epilogue=Epilogue(bias=bias))
    with raises(VtaError, "pool: … 3 … smallest tile … not … 2 … acc scratchpad … enlarge …"):
        pool.schedule(te.create_schedule(pool.result.op))


def test_no_tile_fits():
    target = vta(replace(NAMED["tiny"], log_acc_buff_size=5))  # two accumulators
    data, weights = of_data(target, (1, 1, 4, 4)), of_weights(target, ())
    bias, scale = (te.placeholder((1, 1, 4), "int32", name=name) for name in ("bias", "scale"))
    pool = SumPool2d(target=target, data=data, weights=weights, kernel=(4, 4), epilogue=Epilogue(bias=bias, scale=scale))
    with raises(VtaError, "sum_pool: … 3 … smallest tile … not … 2 … acc scratchpad … enlarge …"):
        pool.schedule(te.create_schedule(pool.result.op))
    two = Binary2d(target=target, a=data, b=data, weights=(weights, weights))
    with raises(VtaError, "binary: … 3 … smallest tile … not … 2 … acc scratchpad … enlarge …"):
        two.schedule(te.create_schedule(two.result.op))


def test_targets():
    for copies in (0, 65, "2", 1.5):
        with raises(VtaError, f"copies is {copies!r} … whole number … 1 to 64"):
            vta(copies=copies)
    with pytest.raises(ConfigError, match="unknown configuration 'deflaut'"):
        vta("deflaut")


def test_options_of_targets():
    with raises(VtaError, "'foo' … no option … known: copies, core, isa, system, without"):
        vta("default", foo=1)
    with raises(VtaError, "without … 3 … Feature … vtakit.hw.isa.insns …"):
        vta("default", without=3)


def test_scopes_and_threads_that_there_are_not():
    s, args = elementwise(lambda a, *i: a(*i) + 1, scope="accu")
    assert says(first_line(s, args), "a_accu … scope 'accu' … accelerator … not have … use inp, wgt, acc, or none …")
    s, args = elementwise(lambda a, *i: a(*i) + 1)
    s[args[1]].bind(args[1].op.axis[0], te.thread_axis("threadIdx.x"))
    assert says(first_line(s, args), "… loop … threadIdx.x … accelerator … no such threads … bind … vthread")


def test_a_size_in_a_scratchpad_is_a_number():
    n = te.var("n")
    a = te.placeholder((n, 1, 16), "int32", name="a")
    c = te.compute(a.shape, lambda *i: a(*i) + 1, name="c")
    out = te.compute(a.shape, lambda *i: c(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[c].set_scope("acc")
    s.cache_read(a, "acc", [c])
    assert says(first_line(s, [a, out]), "a_acc in acc … int64(n) * int64(16) … not known … sizes … numbers")


def test_the_place_in_the_program_is_marked():
    tensors = matmul(TARGET, 4, 2, 2)
    s = matmul_schedule(TARGET, tensors)
    s[tensors[2]].set_scope("inp")
    with pytest.raises(VtakitError, match="the operand acc is in the scope acc, but sums is in inp"):
        lower(s, [tensors[0], tensors[1], tensors[4]])
