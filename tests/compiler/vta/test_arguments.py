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
     ("sum pooling 'sum_pool': flat has the shape (64, 8, 8), but activations of this configuration are [images, "
      "blocks, height, width, 1, 16]")),
    (lambda: of(Pool2d, data=FLAT),
     ("pooling 'pool': flat has the shape (64, 8, 8), but activations of this configuration are [images, blocks, "
      "height, width, 1, 16]")),
    (lambda: of(Pad2d, data=WIDE, pad=(0, 0, 0, 0)),
     "pad 'pad': wide is of int16, but activations of this configuration are int8"),
    (lambda: of(SumPool2d, kernel=(9, 1)),
     "sum pooling 'sum_pool': the window of 9 x 1 pixels is larger than the padded image of 8 x 8 pixels"),
    (lambda: of(SumPool2d, stride=(0, 1)),
     "sum pooling 'sum_pool': stride is (0, 1) and must be (down, across), at least 1 each"),
    (lambda: of(Pool2d, kind="mean"), "pooling 'pool': the kind 'mean' is neither 'max' nor 'sum'"),
    (lambda: of(Pad2d, pad=(0, -1, 0, 0)),
     "pad 'pad': pad is (0, -1, 0, 0) and must be (above, below, left, right), at least 0 each"),
    (lambda: of(SumPool2d, pad=(1, 1)),
     "sum pooling 'sum_pool': pad is (1, 1) and must be (above, below, left, right), at least 0 each"),
    (lambda: of(Pool2d, kernel=3), "pooling 'pool': kernel is 3 and must be (down, across), at least 1 each"),
    (lambda: of(Pad2d, pad=(1, 1, 1, 1), value=200), "pad 'pad': the value 200 is no int8, which are -128 to 127"),
    (lambda: of(Resize2d, rows=0, columns=4), "resize 'resize': rows is 0 and must be a whole number of at least 1"),
    (lambda: of(Resize2d, rows=4, columns=1.5), "resize 'resize': columns is 1.5 and must be a whole number of at least 1"),
    (lambda: of(Pad2d, pad=(1, 1, 1, 1), value=1.5), "pad 'pad': the value is 1.5 and must be a whole number"),
    (lambda: of(Pool2d, data=None),
     "pooling 'pool': data is None and must be a tensor: a placeholder, or an operator's result"),
    (lambda: of(Pool2d, data=te.placeholder((1, 0, 8, 8, 1, 16), "int8", name="none")),
     "pooling 'pool': none has the shape (1, 0, 8, 8, 1, 16), of no values: give at least one block and one pixel"),
    (lambda: of(SumPool2d, weights=None),
     "sum pooling 'sum_pool': weights is None and must be a tensor: a placeholder, or an operator's result"),
    (lambda: of(SumPool2d, name=None), "an operator's name is None and must be text"),
    (lambda: of(SumPool2d, epilogue=None), "sum_pool: the epilogue is None and must be an Epilogue"),
    (lambda: of(SumPool2d, target="default"), "an operator's target is 'default' and must be what vta(...) makes"),
    (lambda: of(Concat2d, data=DATA), f"concatenation 'concat': data is {DATA!r:.40} and must be a tuple of tensors"),
    (lambda: of(Concat2d, data=(DATA,), weights=None),
     "concatenation 'concat': weights is None and must be a tensor: a placeholder, or an operator's result"),
    (lambda: of_two(weights=EYE), f"operator 'binary': weights are {EYE!r:.40} and must be two tensors, for a and for b"),
    (lambda: of_two(weights=(EYE,)),
     f"operator 'binary': weights are {(EYE,)!r:.40} and must be two tensors, for a and for b"),
    (lambda: of(TransposedConv2d, weights=TAPS, rows=16, columns=16, pad=1),
     "transposed convolution 'deconv': pad is 1 and must be (above, left), whole numbers of at least 0"),
    (lambda: of(TransposedConv2d, weights=TAPS, rows=16, columns=16, pad=(0, -1)),
     "transposed convolution 'deconv': a side of the pad is -1 and must be a whole number of at least 0"),
    (lambda: of(TransposedConv2d, weights=TAPS, rows=15, columns=16),
     ("transposed convolution 'deconv': a result of 15 x 16 is no whole number of strides of 2 x 2: make it larger and leave "
      "the rest away")),
    (lambda: Epilogue(requantize=3), "the epilogue's requantize is 3 and must be a Requantize"),
    (lambda: Epilogue(shift=1.5), "the epilogue's shift is 1.5 and must be a whole number or a tensor"),
    (lambda: Epilogue(low=1.5), "the epilogue's low is 1.5 and must be a whole number"),
    (lambda: Epilogue(add=3), "the epilogue's add is 3 and must be a tensor"),
    (lambda: Epilogue(shift=np.int64(40)), "a shift by 40 bits: give 0 to 31"),
    (lambda: Epilogue(scale=np.int64(0)), "a scale of 0 makes every value 0: leave the operator out"),
    (lambda: Requantize(target=TARGET, channels=0),
     "requant: the number of channels is 0 and must be a whole number of at least 1"),
    (lambda: Requantize(target="default", channels=4),
     "a requantization's target is 'default' and must be what vta(...) makes"),
    (lambda: Requantize.by_scale(target="default", scale=0.1),
     "a requantization's target is 'default' and must be what vta(...) makes"),
    (lambda: Requantize(target=TARGET, channels=4, largest=-5),
     "requant: largest is -5 and must be a whole number of at least 0"),
    (lambda: Requantize(target=TARGET, channels=4, low=1.5), "requant: low is 1.5 and must be a whole number"),
    (lambda: Requantize.by_scale(target=TARGET, scale="a"), "scales are 'a' and must be positive numbers"),
    (lambda: Requantize.by_scale(target=TARGET, scale=[]), "scales are of shape (0,): give a number, or one for each channel"),
    (lambda: of(Concat2d, data=()), "concatenation 'concat': there is nothing to join: give at least one tensor"),
    (lambda: of(Concat2d, data=(DATA, SMALL)),
     "concatenation 'concat': small has 1 images of 4 x 8 pixels, but data has 1 of 8 x 8"),
    (lambda: of_two(b=SMALL),
     ("operator 'binary': data has the shape (1, 2, 8, 8, 1, 16) and small (1, 2, 4, 8, 1, 16): each dimension must be "
      "the other's, or 1")),
    (lambda: of_two(kind="div"), "operator 'binary': the kind 'div' is none of add, sub, mul, max, min"),
    (lambda: of(TransposedConv2d, rows=16, columns=16),
     ("transposed convolution 'deconv': eye has the shape (16, 16), but weights of this configuration are [out blocks, "
      "in blocks, stride, stride, taps, taps, 16, 16]")),
    (lambda: of(SumPool2d, weights=te.placeholder((16, 8), "int8", name="half")),
     "sum pooling 'sum_pool': weights are (16, 8) of int8, but one element of this configuration is (16, 16) of int8"),
    (lambda: identity(TARGET, 128), "a scale of 128 is no weight of 8 bits"),
    (lambda: first_lane(vta("tiny_i4w2"), 2), "a scale of 2 is no weight of 2 bits"),
    (lambda: concat_weights(vta({"LOG_WGT_WIDTH": 0, "LOG_WGT_BUFF_SIZE": 15}), (20, 12)),
     ("weights of one bit, which are 0 or -1, cannot join tensors of (20, 12) channels: each but the last must fill "
      "whole blocks of 16")),
    (lambda: Fold(kernel=(3, 3), taps=(4, 1)), "fold: (4, 1) taps at once of a kernel of (3, 3): give from 1 to all of them"),
    (lambda: Fold(kernel=(3, 3), taps=(3, 1), pad=(0, 0, -1, 0)),
     "fold: pad is (0, 0, -1, 0) and must be (above, below, left, right), at least 0 each"),
    (lambda: choose_fold(TARGET, (1, 3, 4, 9), 64, kernel=(7, 7)),
     "the kernel of 7 x 7 taps is larger than the padded image of 4 x 9 pixels"),
    (lambda: choose_fold(TARGET, (3, 9, 9), 64, kernel=(7, 7)),
     "fold: the shape is (3, 9, 9) and must be (images, channels, height, width)"),
    (lambda: choose_fold(TARGET, (1, 3, 9, 0), 64, kernel=(7, 7)),
     "fold: an extent of the shape is 0 and must be a whole number of at least 1"),
    (lambda: choose_fold(TARGET, (1, 3, 9, 9), 0, kernel=(7, 7)),
     "fold: the number of output channels is 0 and must be a whole number of at least 1"),
    (lambda: choose_fold(TARGET, (1, 3, 9, 9), 64, kernel=7), "fold: kernel is 7 and must be (down, across), at least 1 each"),
    (lambda: Fold(kernel=(3, 3), taps=(3, 3)).activations(TARGET, IMAGE[0]),
     "activations are of shape (3, 8, 8) and must be an array [images, channels, height, width]"),
    (lambda: Fold(kernel=(3, 3), taps=(3, 3)).weights(TARGET, IMAGE[0]),
     "weights are of shape (3, 8, 8) and must be an array [out channels, channels, rows, columns]"),
    (lambda: pack_activations(TARGET, IMAGE[0]),
     "activations are of shape (3, 8, 8) and must be an array [images, channels, height, width]"),
    (lambda: pack_activations(TARGET, [[1]]), "activations are [[1]] and must be an array [images, channels, height, width]"),
    (lambda: pack_activations("default", IMAGE), "a layout's target is 'default' and must be what vta(...) makes"),
    (lambda: pack_vector(TARGET, IMAGE), "a vector's values are of shape (1, 3, 8, 8) and must be an array [channels]"),
    (lambda: pack_weights(TARGET, IMAGE[0]),
     "weights are of shape (3, 8, 8) and must be an array [out channels, in channels a group, rows, columns]"),
    (lambda: pack_weights(TARGET, IMAGE, 0), "the number of groups is 0 and must be a whole number of at least 1"),
    (lambda: pack_transposed_weights(TARGET, IMAGE[0], (2, 2)),
     "weights are of shape (3, 8, 8) and must be an array [in channels, out channels, rows, columns]"),
    (lambda: pack_transposed_weights(TARGET, IMAGE, 2),
     "transposed weights: stride is 2 and must be (down, across), at least 1 each"),
    (lambda: pack_grouped_transposed_weights(TARGET, IMAGE, (2, 2), 0),
     "the number of groups is 0 and must be a whole number of at least 1"),
    (lambda: unpack_activations(IMAGE, 1, 3),
     ("packed activations are of shape (1, 3, 8, 8) and must be an array [image blocks, channel blocks, height, width, batch, "
      "block]")),
    (lambda: unpack_activations(pack_activations(TARGET, IMAGE), 5, 3),
     "5 images of activations that are packed for at most 1"),
    (lambda: unpack_activations(pack_activations(TARGET, IMAGE), 1, 17),
     "17 channels of activations that are packed for at most 16"),
    (lambda: skip_multipliers([0.0], 1.0), "a scale of 0.0: scales are positive numbers"),
    (lambda: skip_multipliers([1.0], "a"), "scales are 'a' and must be positive numbers"),
    (lambda: skip_multipliers([1.0], float("nan")), "a scale of nan: scales are positive numbers"),
    (lambda: Requantize(target=TARGET, channels=4, name=3), "a requantization's name is 3 and must be text"),
    (lambda: of_two(kind=["add"]), "operator 'binary': the kind ['add'] is none of add, sub, mul, max, min"),
    (lambda: of(SumPool2d).schedule(None), "sum_pool: the schedule is None and must be what te.create_schedule makes"),
    (lambda: scheduled(threads=33), "threads is 33, and with copies=2 of each one's buffers there can be 32"),
    (lambda: scheduled(cut=0), "conv: the cut is 0 and must be a Cut of vtakit.compiler.nn.vta.cuts"),
])
def test_arguments(make, message):
    with raises(VtaError, message):
        make()


def vector(shape, kind="int32"):
    return te.placeholder(shape, kind, name="vector")


@pytest.mark.parametrize(("fields", "message"), [
    ({"bias": vector((32,))}, "sum_pool: the epilogue's bias, vector, is (32,) of int32, but must be (2, 1, 16) of int32"),
    ({"bias": vector((4, 1, 16))},
     "sum_pool: the epilogue's bias, vector, is (4, 1, 16) of int32, but must be (2, 1, 16) of int32"),
    ({"shift": vector((2, 1, 16), "int8")},
     "sum_pool: the epilogue's shift, vector, is (2, 1, 16) of int8, but must be (2, 1, 16) of int32"),
    ({"scale": vector((1, 2, 8, 1, 1, 16), "int8")},
     ("sum_pool: the epilogue's scale, vector, is (1, 2, 8, 1, 1, 16) of int8, but must be (2, 1, 16) of int32 or (1, "
      "2, 8, 8, 1, 16) of int8")),
    ({"add": SMALL},
     "sum_pool: the epilogue's add, small, is (1, 2, 4, 8, 1, 16) of int8, but must be (1, 2, 8, 8, 1, 16) of int8"),
    ({"bias": 2**40}, ("sum_pool: the epilogue's bias is 1099511627776, and accumulators of this configuration have 32 bits: "
                       "give -2147483648 to 2147483647")),
    ({"low": -2**33}, ("sum_pool: the epilogue's low is -8589934592, and accumulators of this configuration have 32 bits: "
                       "give -2147483648 to 2147483647")),
    ({"requantize": Requantize(target=TARGET, channels=40)},
     "sum_pool: the requantization is for 40 channels, but the result has 2 blocks of 16"),
    ({"requantize": Requantize(target=vta("i4w4"), channels=32)},
     "sum_pool: the requantization is for another device than the operator: make both with one target"),
    ({"bias": 1 << 15}, ("sum_pool: the epilogue's bias is 32768, and ALU instructions hold numbers of -32768 to 32767: give one "
                         "of those, or a tensor with a number for each channel")),
    ({"high": -40_000},
     "sum_pool: the epilogue's high is -40000, and ALU instructions hold numbers of -32768 to 32767: give one of those"),
])
def test_epilogues_that_do_not_go_with_the_result(fields, message):
    with raises(VtaError, message):
        _ = of(SumPool2d, epilogue=Epilogue(**fields)).result


def test_a_requantization_of_another_device():
    """One with REQUANT for a device without; the other way round, the ALU does it on either."""
    with raises(VtaError, "sum_pool: the requantization is for another device than the operator: make both with one target"):
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
