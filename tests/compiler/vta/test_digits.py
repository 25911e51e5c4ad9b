"""Weights of more bits than a device's: their digits, and operators with them against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import raises
from vta_cases import of_data, of_weights
from vta_support import build, execute, values

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import Cut
from vtakit.compiler.nn.vta.depthwise import Depthwise2d, Parts
from vtakit.compiler.nn.vta.digits import Higher, digits_of
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.insns import MemType, Opcode


@settings(max_examples=200)
@given(st.lists(st.integers(-(1 << 15), (1 << 15) - 1), min_size=1, max_size=9), st.sampled_from([2, 4, 8]))
def test_digits_stand_for_the_weights(numbers, bits):
    found, whole = digits_of(np.array(numbers), bits), np.zeros(len(numbers), np.int64)
    for digit in found:
        assert digit.numbers.min() >= -1 << bits - 1
        assert digit.numbers.max() < 1 << bits - 1
        whole = whole + digit.numbers << digit.shift
    assert whole.tolist() == numbers
    assert not found[-1].shift


@pytest.mark.parametrize(("bits", "numbers", "count"), [
    (4, [-8, 7], 1), (4, [-9], 2), (4, [-136, 119], 2), (4, [120], 3), (4, [-128, 127], 3), (4, [-137], 3),
    (2, [-7, 5], 2), (2, [-7, 7], 3), (2, [-128, 85], 4), (2, [-128, 127], 5), (8, [-128, 127], 1), (8, [128], 2), (4, [0], 1),
])
def test_as_few_digits_as_can_be(bits, numbers, count):
    assert len(digits_of(np.array(numbers), bits)) == count


def test_one_bit_is_no_digit():
    with raises(VtaError, "weights of one bit, 0 and -1, are no digits of positive numbers"):
        digits_of(np.array([1]), 1)


@pytest.mark.parametrize(("name", "most"), [("w4", 119), ("w4", 127), ("w2", 127), ("i4w4", 119)])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5)])
def test_depthwise_convolutions_with_digits_are_numpys(name, most, kernel):
    target, rng = vta(name), np.random.default_rng(most)
    kernels = rng.integers(-128, most, (40, *kernel), endpoint=True)
    kernels[0, 0, 0] = most
    data = of_data(target, (1, 3, 30, 29))
    *higher, last = digits_of(Parts.of(target, kernel).weights(target, kernels), target.config.wgt_bits)
    weights, above = of_weights(target, last.numbers.shape[:2]), [
        Higher(of_weights(target, digit.numbers.shape[:2], f"digit{at}"), digit.shift) for at, digit in enumerate(higher)]
    made = Depthwise2d(target=target, data=data, weights=weights, higher=tuple(above), kernel=kernel, pad=(1, 1, 2, 2),
                       epilogue=Epilogue(shift=6))
    s = te.create_schedule(made.result.op)
    made.schedule(s)
    known = {data: values(rng, data), weights: last.numbers}
    known |= {each.weights: digit.numbers for each, digit in zip(above, higher, strict=True)}
    program = build(s, [*made.inputs, made.result], target)
    whole = np.zeros((48, *kernel), np.int64)
    whole[:40] = kernels
    padded = np.pad(known[data], ((0, 0), (0, 0), (1, 1), (2, 2), (0, 0), (0, 0)))
    total = sum(padded[:, :, dy:dy + made.out_height, dx:dx + made.out_width] * whole.reshape(
        3, 16, *kernel)[:, :, dy, dx][:, None, None, None] for dy, dx in np.ndindex(kernel))
    want = made.epilogue.reference(target, total, {})
    np.testing.assert_array_equal(execute(program, known, made.result), want)
    assert Opcode.DWCONV in {decode(program.config, word).op for word in program.insns}


def test_digits_of_other_shapes():
    target = vta("w4")
    with raises(VtaError, "convolution 'conv': digits of its weights are [1, 1, 1, 1, 16, 16] of int4 and "
                "[1, 1, 3, 3, 16, 16] of int4: give them one shape and type"):
        Conv2d(target=target, data=of_data(target, (1, 1, 4, 4)), weights=of_weights(target, (1, 1, 3, 3)),
               higher=(Higher(of_weights(target, (1, 1, 1, 1)), 4),))


@pytest.mark.parametrize(("chunk", "times"), [(2, 1), (1, 2)])
def test_digits_share_the_data_of_one_chunk(chunk, times):
    """If the whole reduction is one chunk, its data is loaded once, else once for each digit."""
    target = vta("w4")
    data, weights, above = (of_data(target, (1, 2, 20, 20)), of_weights(target, (1, 2, 3, 3)),
                            of_weights(target, (1, 2, 3, 3), "above"))
    made = Conv2d(target=target, data=data, weights=weights, higher=(Higher(above, 4),), pad=(1, 1, 1, 1),
                  epilogue=Epilogue(shift=9))
    s, cut = te.create_schedule(made.result.op), Cut(
        images=1, out_blocks=1, rows=20, columns=20, in_blocks=chunk, kernel_rows=3, kernel_columns=3, keep=False)
    made.schedule(s, cut)
    insns = [decode(target.config, word) for word in build(s, [*made.inputs, made.result], target).insns]
    loads = [insn for insn in insns if insn.op is Opcode.LOAD and insn["memory_type"] == MemType.INP]
    assert sum(insn["y_size"] * insn["x_size"] for insn in loads) == times * 2 * 400
