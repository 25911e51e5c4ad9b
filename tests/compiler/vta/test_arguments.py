"""Arguments that operators refuse: one sentence each, when the operator is made and not later."""

import numpy as np
import pytest
from support import raises
from vta_support import build

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.nn.vta.binary import Binary2d
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.fold import Fold, choose_fold
from vtakit.compiler.nn.vta.packing import (
    concat_weights,
    first_lane,
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
from vtakit.compiler.nn.vta.requantize import Requantize, skip_multipliers
from vtakit.compiler.nn.vta.resize import Resize2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.hw.isa.insns import Feature

TARGET = vta()
DATA = te.placeholder((1, 2, 8, 8, 1, 16), "int8", name="data")
SMALL = te.placeholder((1, 2, 4, 8, 1, 16), "int8", name="small")
FLAT = te.placeholder((64, 8, 8), "int8", name="flat")
WIDE = te.placeholder((1, 2, 8, 8, 1, 16), "int16", name="wide")
TAPS = te.placeholder((2, 2, 2, 2, 2, 2, 16, 16), "int8", name="taps")
EYE = te.placeholder((16, 16), "int8", name="eye")
IMAGE = np.zeros((1, 3, 8, 8), np.int8)


def of(made, **fields):
    """An operator of a class; the fields that it must have are there."""
    own = {"target": TARGET, "data": DATA, "weights": EYE} | fields
    return made(**own)


def scheduled(**how):
    """A convolution, scheduled so."""
    layer = of(Conv2d, weights=te.placeholder((2, 2, 3, 3, 16, 16), "int8", name="weights"))
    layer.schedule(te.create_schedule(layer.result.op), **how)


def of_two(**fields):
    return Binary2d(**({"target": TARGET, "a": DATA, "b": DATA, "weights": (EYE, EYE)} | fields))


@pytest.mark.parametrize(("make", "message"), [
    (lambda: of(SumPool2d, data=FLAT),
     "sum pooling 'sum_pool': flat … (64, 8, 8) … activations … [images, blocks, height, width, 1, 16]"),
    (lambda: of(Pool2d, data=FLAT),
     "pooling 'pool': flat … (64, 8, 8) … activations … [images, blocks, height, width, 1, 16]"),
    (lambda: of(Pad2d, data=WIDE, pad=(0, 0, 0, 0)),
     "pad 'pad': wide … int16 … activations … int8"),
    (lambda: of(SumPool2d, kernel=(9, 1)),
     "sum pooling 'sum_pool': … window … 9 x 1 … larger … padded image … 8 x 8 …"),
    (lambda: of(SumPool2d, stride=(0, 1)),
     "sum pooling 'sum_pool': stride is (0, 1) … (down, across) … at least 1 …"),
    (lambda: of(Pool2d, kind="mean"), "pooling 'pool': the kind 'mean' … neither … 'max' … 'sum'"),
    (lambda: of(Pad2d, pad=(0, -1, 0, 0)),
     "pad 'pad': pad is (0, -1, 0, 0) … (above, below, left, right) … at least 0 …"),
    (lambda: of(SumPool2d, pad=(1, 1)),
     "sum pooling 'sum_pool': pad is (1, 1) … (above, below, left, right) … at least 0 …"),
    (lambda: of(Pool2d, kernel=3), "pooling 'pool': kernel is 3 … (down, across) … at least 1 …"),
    (lambda: of(Pad2d, pad=(1, 1, 1, 1), value=200), "pad 'pad': the value 200 … no int8 … -128 to 127"),
    (lambda: of(Resize2d, rows=0, columns=4), "resize 'resize': rows is 0 … whole number … at least 1"),
    (lambda: of(Resize2d, rows=4, columns=1.5), "resize 'resize': columns is 1.5 … whole number … at least 1"),
    (lambda: of(Pad2d, pad=(1, 1, 1, 1), value=1.5), "pad 'pad': the value is 1.5 … whole number"),
    (lambda: of(Pool2d, data=None),
     "pooling 'pool': data is None … tensor … placeholder … operator's result"),
    (lambda: of(Pool2d, data=te.placeholder((1, 0, 8, 8, 1, 16), "int8", name="none")),
     "pooling 'pool': none … (1, 0, 8, 8, 1, 16) … no values … give … one block … one pixel"),
    (lambda: of(SumPool2d, weights=None),
     "sum pooling 'sum_pool': weights is None … tensor … placeholder … operator's result"),
    (lambda: of(SumPool2d, name=None), "an operator's name is None … text"),
    (lambda: of(SumPool2d, epilogue=None), "sum_pool: the epilogue is None … Epilogue"),
    (lambda: of(SumPool2d, target="default"), "an operator's target is 'default' … vta(...) …"),
    (lambda: of(Concat2d, data=DATA), f"concatenation 'concat': data is {DATA!r:.40} … tuple of tensors"),
    (lambda: of(Concat2d, data=(DATA,), weights=None),
     "concatenation 'concat': weights is None … tensor … placeholder … operator's result"),
    (lambda: of_two(weights=EYE), f"operator 'binary': weights are {EYE!r:.40} … two tensors … a … b"),
    (lambda: of_two(weights=(EYE,)),
     f"operator 'binary': weights are {(EYE,)!r:.40} … two tensors … a … b"),
    (lambda: of(TransposedConv2d, weights=TAPS, rows=16, columns=16, pad=1),
     "transposed convolution 'deconv': pad is 1 … (above, left) … whole numbers … at least 0"),
    (lambda: of(TransposedConv2d, weights=TAPS, rows=16, columns=16, pad=(0, -1)),
     "transposed convolution 'deconv': a side of the pad is -1 … whole number … at least 0"),
    (lambda: of(TransposedConv2d, weights=TAPS, rows=15, columns=16),
     "transposed convolution 'deconv': … result … 15 x 16 … no whole number … 2 x 2 … larger …"),
    (lambda: Epilogue(requantize=3), "the epilogue's requantize is 3 … Requantize"),
    (lambda: Epilogue(shift=1.5), "the epilogue's shift is 1.5 … whole number … tensor"),
    (lambda: Epilogue(low=1.5), "the epilogue's low is 1.5 … whole number"),
    (lambda: Epilogue(add=3), "the epilogue's add is 3 … tensor"),
    (lambda: Epilogue(shift=np.int64(40)), "a shift by 40 bits: give 0 to 31"),
    (lambda: Epilogue(scale=np.int64(0)), "a scale of 0 makes every value 0: leave the operator out"),
    (lambda: Requantize(target=TARGET, channels=0),
     "requant: the number of channels is 0 … whole number … at least 1"),
    (lambda: Requantize(target="default", channels=4),
     "a requantization's target is 'default' … vta(...) …"),
    (lambda: Requantize.by_scale(target="default", scale=0.1),
     "a requantization's target is 'default' … vta(...) …"),
    (lambda: Requantize(target=TARGET, channels=4, largest=-5),
     "requant: largest is -5 … whole number … at least 0"),
    (lambda: Requantize(target=TARGET, channels=4, low=1.5), "requant: low is 1.5 … whole number"),
    (lambda: Requantize.by_scale(target=TARGET, scale="a"), "scales are 'a' … positive numbers"),
    (lambda: Requantize.by_scale(target=TARGET, scale=[]), "scales are of shape (0,): give a number, or one for each channel"),
    (lambda: of(Concat2d, data=()), "concatenation 'concat': … nothing to join … give … one tensor"),
    (lambda: of(Concat2d, data=(DATA, SMALL)),
     "concatenation 'concat': small … 1 images … 4 x 8 … data … 1 … 8 x 8"),
    (lambda: of_two(b=SMALL),
     "operator 'binary': data … (1, 2, 8, 8, 1, 16) … small … (1, 2, 4, 8, 1, 16) … dimension … 1"),
    (lambda: of_two(kind="div"), "operator 'binary': the kind 'div' … add, sub, mul, max, min"),
    (lambda: of(TransposedConv2d, rows=16, columns=16),
     ("transposed convolution 'deconv': eye … (16, 16) … weights … [out blocks, "
      "in blocks, stride, stride, taps, taps, 16, 16]")),
    (lambda: of(SumPool2d, weights=te.placeholder((16, 8), "int8", name="half")),
     "sum pooling 'sum_pool': weights … (16, 8) … int8 … one element … (16, 16) … int8"),
    (lambda: identity(TARGET, 128), "a scale of 128 is no weight of 8 bits"),
    (lambda: first_lane(vta("tiny_i4w2"), 2), "a scale of 2 is no weight of 2 bits"),
    (lambda: concat_weights(vta({"LOG_WGT_WIDTH": 0, "LOG_WGT_BUFF_SIZE": 15}), (20, 12)),
     "weights … one bit … cannot join … (20, 12) channels … whole blocks … 16"),
    (lambda: Fold(kernel=(3, 3), taps=(4, 1)), "fold: (4, 1) taps … kernel … (3, 3) … give … 1 …"),
    (lambda: Fold(kernel=(3, 3), taps=(3, 1), pad=(0, 0, -1, 0)),
     "fold: pad is (0, 0, -1, 0) … (above, below, left, right) … at least 0 …"),
    (lambda: choose_fold(TARGET, (1, 3, 4, 9), 64, kernel=(7, 7)),
     "the kernel of 7 x 7 taps … larger … padded image … 4 x 9 …"),
    (lambda: choose_fold(TARGET, (3, 9, 9), 64, kernel=(7, 7)),
     "fold: the shape is (3, 9, 9) and must be (images, channels, height, width)"),
    (lambda: choose_fold(TARGET, (1, 3, 9, 0), 64, kernel=(7, 7)),
     "fold: an extent of the shape is 0 … whole number … at least 1"),
    (lambda: choose_fold(TARGET, (1, 3, 9, 9), 0, kernel=(7, 7)),
     "fold: the number of output channels is 0 … whole number … at least 1"),
    (lambda: choose_fold(TARGET, (1, 3, 9, 9), 64, kernel=7), "fold: kernel is 7 … (down, across) … at least 1 …"),
    (lambda: Fold(kernel=(3, 3), taps=(3, 3)).activations(TARGET, IMAGE[0]),
     "activations … (3, 8, 8) … [images, channels, height, width]"),
    (lambda: Fold(kernel=(3, 3), taps=(3, 3)).weights(TARGET, IMAGE[0]),
     "weights … (3, 8, 8) … [out channels, channels, rows, columns]"),
    (lambda: pack_activations(TARGET, IMAGE[0]),
     "activations … (3, 8, 8) … [images, channels, height, width]"),
    (lambda: pack_activations(TARGET, [[1]]), "activations … [[1]] … [images, channels, height, width]"),
    (lambda: pack_activations("default", IMAGE), "a layout's target is 'default' … vta(...) …"),
    (lambda: pack_vector(TARGET, IMAGE), "a vector's values … (1, 3, 8, 8) … [channels]"),
    (lambda: pack_weights(TARGET, IMAGE[0]),
     "weights … (3, 8, 8) … [out channels, in channels a group, rows, columns]"),
    (lambda: pack_weights(TARGET, IMAGE, 0), "the number of groups is 0 … whole number … at least 1"),
    (lambda: pack_transposed_weights(TARGET, IMAGE[0], (2, 2)),
     "weights … (3, 8, 8) … [in channels, out channels, rows, columns]"),
    (lambda: pack_transposed_weights(TARGET, IMAGE, 2),
     "transposed weights: stride is 2 … (down, across) … at least 1 …"),
    (lambda: pack_grouped_transposed_weights(TARGET, IMAGE, (2, 2), 0),
     "the number of groups is 0 … whole number … at least 1"),
    (lambda: unpack_activations(IMAGE, 1, 3),
     ("packed activations … (1, 3, 8, 8) … [image blocks, channel blocks, height, width, batch, "
      "block]")),
    (lambda: unpack_activations(pack_activations(TARGET, IMAGE), 5, 3),
     "5 images … at most 1"),
    (lambda: unpack_activations(pack_activations(TARGET, IMAGE), 1, 17),
     "17 channels … at most 16"),
    (lambda: skip_multipliers([0.0], 1.0), "a scale of 0.0: scales are positive numbers"),
    (lambda: skip_multipliers([1.0], "a"), "scales are 'a' … positive numbers"),
    (lambda: skip_multipliers([1.0], float("nan")), "a scale of nan: scales are positive numbers"),
    (lambda: Requantize(target=TARGET, channels=4, name=3), "a requantization's name is 3 … text"),
    (lambda: of_two(kind=["add"]), "operator 'binary': the kind ['add'] … add, sub, mul, max, min"),
    (lambda: of(SumPool2d).schedule(None), "sum_pool: the schedule is None … te.create_schedule …"),
    (lambda: scheduled(threads=33), "threads … 33 … copies=2 … 32"),
    (lambda: scheduled(cut=0), "conv: the cut is 0 … Cut … vtakit.compiler.nn.vta.cuts"),
])
def test_arguments(make, message):
    with raises(VtaError, message):
        make()


def vector(shape, kind="int32"):
    return te.placeholder(shape, kind, name="vector")


@pytest.mark.parametrize(("fields", "message"), [
    ({"bias": vector((32,))}, "sum_pool: the epilogue's bias, vector, … (32,) of int32 … must be (2, 1, 16) of int32"),
    ({"bias": vector((4, 1, 16))},
     "sum_pool: the epilogue's bias, vector, … (4, 1, 16) of int32 … must be (2, 1, 16) of int32"),
    ({"shift": vector((2, 1, 16), "int8")},
     "sum_pool: the epilogue's shift, vector, … (2, 1, 16) of int8 … must be (2, 1, 16) of int32"),
    ({"scale": vector((1, 2, 8, 1, 1, 16), "int8")},
     ("sum_pool: the epilogue's scale, vector, … (1, 2, 8, 1, 1, 16) of int8 … must be (2, 1, 16) of int32 or (1, "
      "2, 8, 8, 1, 16) of int8")),
    ({"add": SMALL},
     "sum_pool: the epilogue's add, small, … (1, 2, 4, 8, 1, 16) of int8 … must be (1, 2, 8, 8, 1, 16) of int8"),
    ({"bias": 2**40}, "sum_pool: the epilogue's bias … 1099511627776 … accumulators … 32 bits … give -2147483648 to 2147483647"),
    ({"low": -2**33}, "sum_pool: the epilogue's low … -8589934592 … accumulators … 32 bits … give -2147483648 to 2147483647"),
    ({"requantize": Requantize(target=TARGET, channels=40)},
     "sum_pool: … requantization … 40 channels … result … 2 blocks … 16"),
    ({"requantize": Requantize(target=vta("i4w4"), channels=32)},
     "sum_pool: … requantization … another device … operator … one target"),
    ({"bias": 1 << 15}, "sum_pool: the epilogue's bias … 32768 … ALU … -32768 to 32767 … tensor … each channel"),
    ({"high": -40_000},
     "sum_pool: the epilogue's high … -40000 … ALU … -32768 to 32767 …"),
])
def test_epilogues_that_do_not_go_with_the_result(fields, message):
    with raises(VtaError, message):
        _ = of(SumPool2d, epilogue=Epilogue(**fields)).result


def test_a_requantization_of_another_device():
    """One with REQUANT for a device without; the other way round, the ALU does it on either."""
    with raises(VtaError, "sum_pool: … requantization … another device … operator … one target"):
        _ = of(SumPool2d, target=vta(without=Feature.REQUANT), epilogue=Epilogue(
            requantize=Requantize(target=TARGET, channels=32))).result
    numbers = Requantize(target=vta(without=Feature.REQUANT), channels=32, largest=100)
    assert of(SumPool2d, epilogue=Epilogue(requantize=numbers)).result.name == "sum_pool"


def test_numbers_of_numpy_are_numbers():
    """In operators of any kind; the program is that of Python's."""
    def program(number):
        layer = Conv2d(
            target=TARGET, data=DATA, weights=te.placeholder((2, 2, 3, 3, 16, 16), "int8", name="weights"), groups=number(1),
            stride=(number(2), number(2)), pad=(number(1),) * 4,
            epilogue=Epilogue(bias=number(3), scale=number(2), shift=number(4), low=number(-3), high=number(99)))
        s = te.create_schedule(layer.result.op)
        layer.schedule(s)
        return build(s, [*layer.inputs, layer.result], TARGET)
    assert program(np.int64) == program(np.int8) == program(int)


def test_a_scale_of_next_to_nothing_makes_zero_points():
    numbers = Requantize.by_scale(target=TARGET, scale=[1e-30, 0.5], zero_point=3)
    assert numbers.reference(np.array([[[[2**31 - 1]], [[9]]]])).tolist() == [[[[3]], [[8]]]]
