"""Bit-serial convolutions and products against the convolution of the integers, by machine code and by the interpreter."""

import re

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS, X86
from codegen_machines import AARCH64, in_c
from hypothesis import given, settings
from hypothesis import strategies as some
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels.bit_kernels import MEANING, bit_dot, bit_pack
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.conv.bit_weights import Encoding, encoding_of, excess, packed_bits, words_of
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.passes import lower_late

COUNTING = LEVELS | {"avx512-popcount": Target(X86, "x86-64-v4", ("+avx512vnni", "+avx512vpopcntdq", "-prefer-256-bit"))}
RUNNING = [*HERE, *(["avx512-popcount"] if Target.host().runs(COUNTING["avx512-popcount"]) else [])]
BEST = RUNNING[-1]
NUMBERS = {  # an encoding, and the numbers that it holds
    Encoding("unipolar", 1): range(2), Encoding("unipolar", 2): range(4), Encoding("unipolar", 4): range(16),
    Encoding("bipolar", 1): range(-1, 2, 2), Encoding("bipolar", 2): range(-3, 4, 2), Encoding("bipolar", 4): range(-15, 16, 2),
    Encoding("ternary", 1): range(-1, 2), Encoding("ternary", 2): range(-3, 4),
    Encoding("signed", 2): range(-2, 2), Encoding("signed", 3): range(-4, 4), Encoding("signed", 4): range(-8, 8),
}
PLAIN = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}


def convolution(x, w, strides, pads, dilations, fill):
    """The naive definition: x [N, C, H, W] and w [K, C, R, S] of int64."""
    top, left, bottom, right = pads
    wide = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    (down, across), (rows, columns) = dilations, w.shape[2:]
    out = [(have - (size - 1) * spread - 1) // step + 1
           for have, size, spread, step in zip(wide.shape[2:], w.shape[2:], dilations, strides, strict=True)]
    found = np.zeros((len(x), len(w), *out), np.int64)
    for y, z in np.ndindex(*out):
        first, second = y * strides[0], z * strides[1]
        part = wide[:, :, first:first + (rows - 1) * down + 1:down, second:second + (columns - 1) * across + 1:across]
        found[:, :, y, z] = np.tensordot(part, w, ((1, 2, 3), (1, 2, 3)))
    return found


def blocks(x, u):
    """Bytes x + 128 with channels in blocks of u; what fills up the last one is any number."""
    full = np.full((len(x), -(-x.shape[1] // u) * u, *x.shape[2:]), 0xA5, np.uint8)
    full[:, :x.shape[1]] = x + 128
    return np.ascontiguousarray(np.moveaxis(full.reshape(len(x), -1, u, *x.shape[2:]), 2, -1))


def compute(op, arrays, attrs, target, decisions=None, *, by_interpreter=False):
    """Return the results of an operator on arrays, with the default schedule but for `decisions`."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"in{at}") for at, a in enumerate(arrays)]
    out = find(op).define(*tensors, **attrs)
    result = np.full([extent.value for extent in out.shape], 99, np.dtype(str(out.dtype)))
    s = schedule([out], target, decisions)
    if by_interpreter:
        interpret(lower(s, [*tensors, out]), [*arrays, result], packed=MEANING)
    else:
        vtakit.build(s, [*tensors, out], target)(*arrays, result)
    return result, s


def check(shape, filters, kernel, planes, encoding, *, low=0, fill=0, u=64, v=64, level=BEST, decisions=None, seed=0,
          by_interpreter=False, strides, pads, dilations):
    """Compare a convolution of random numbers with the naive one; return its schedule."""
    rng = np.random.default_rng(seed)
    x = rng.integers(low, low + (1 << planes), shape)
    w = rng.choice(NUMBERS[encoding], (filters, shape[1], *kernel))
    packing = {"planes": planes, "channels": shape[1], "zero": 128 + low, "pads": pads, "fill": 128 + fill}
    bits, _ = compute("pack_bits", [blocks(x, u)], packing, COUNTING[level], by_interpreter=by_interpreter)
    sums, s = compute("conv_bits", [bits, packed_bits(w, encoding, u, v)],
                      {"block": v, "encoding": encoding.name, "strides": strides, "dilations": dilations},
                      COUNTING[level], decisions, by_interpreter=by_interpreter)
    off = excess(w, encoding, planes) - low * w.sum((1, 2, 3))
    got = np.moveaxis(sums, -1, 2).reshape(len(sums), -1, *sums.shape[2:4])[:, :filters] - off[:, None, None]
    np.testing.assert_array_equal(got, convolution(x, w, strides, pads, dilations, fill))
    return s


@pytest.mark.parametrize("encoding", NUMBERS, ids=lambda e: f"{e.name}{e.digits}")
@pytest.mark.parametrize("planes", [1, 2, 4])
def test_all_bits_and_encodings(planes, encoding):
    check((1, 64, 5, 9), 32, (3, 3), planes, encoding, v=32, **PLAIN)


@pytest.mark.parametrize("encoding", [
    Encoding("unipolar", 2), Encoding("bipolar", 1), Encoding("ternary", 1), Encoding("signed", 3)], ids=lambda e: e.name)
@pytest.mark.parametrize("level", RUNNING)
def test_every_level(level, encoding):
    check((2, 128, 6, 7), 48, (3, 3), 2, encoding, v=16, level=level, **PLAIN)


@pytest.mark.parametrize("level", RUNNING)
def test_counts_that_a_byte_does_not_hold_are_widened(level):
    """128 words of 4 planes in one call: every byte counts 8 bits of each."""
    encoding, x = Encoding("unipolar", 1), np.full((1, 8 * 64, 1, 2), 15)
    w = np.ones((16, 8 * 64, 2, 1), np.int64)
    x = np.repeat(x, 2, axis=2)
    bits, _ = compute("pack_bits", [blocks(x, 64)], {"planes": 4, "zero": 128}, COUNTING[level])
    sums, _ = compute("conv_bits", [bits, packed_bits(w, encoding, 64, 16)], {"block": 16, "encoding": "unipolar"},
                      COUNTING[level], {"sums.steps": 8})
    assert (sums == 15 * 8 * 64 * 2).all()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=some.data())
def test_random_shapes_and_options(data):
    """Any sizes, strides, pads and dilations; data below 0; pads that are no zeros; channels that fill no words."""
    def pick(low, high):
        return data.draw(some.integers(low, high))
    kernel, dilations = (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2))
    reach = [(size - 1) * spread + 1 for size, spread in zip(kernel, dilations, strict=True)]
    pads = tuple(pick(0, 2) for _ in range(4))
    sizes = [max(1, need - pads[at] - pads[at + 2]) + pick(0, 7) for at, need in enumerate(reach)]
    planes, u, v = pick(1, 4), *(data.draw(some.sampled_from((16, 32, 64))) for _ in "uv")
    low = pick(-8, 3)
    check((pick(1, 2), pick(1, 80), *sizes), pick(1, 40), kernel, planes, data.draw(some.sampled_from(list(NUMBERS))), low=low,
          fill=low + pick(0, (1 << planes) - 1), u=u, v=v, level=data.draw(some.sampled_from(RUNNING)), seed=pick(0, 1 << 16),
          strides=(pick(1, 2), pick(1, 3)), pads=pads, dilations=dilations)


@pytest.mark.slow
def test_random_decisions():
    rng = np.random.default_rng(5)
    tried = set()
    for _ in range(16):
        chosen: dict[str, object] = {}
        sizes, encoding = rng.choice([6, 7, 14], 2), list(NUMBERS)[rng.integers(len(NUMBERS))]
        level = RUNNING[rng.integers(len(RUNNING))]
        while True:
            s = check((1, 128, *sizes), 64, (1, 3), 2, encoding, decisions=chosen, level=level, strides=(1, 1), pads=(0, 1, 0, 1),
                      dilations=(1, 1))
            left = [one for one in s.decisions if one.name not in chosen]
            if not left:
                break
            chosen[left[0].name] = left[0].candidates[rng.integers(len(left[0].candidates))]
        tried.add(tuple(map(str, chosen.values())))
    assert len(tried) > 8


@pytest.mark.parametrize("encoding", [
    Encoding("unipolar", 2), Encoding("bipolar", 2), Encoding("ternary", 1), Encoding("signed", 2)], ids=lambda e: e.name)
def test_the_interpreter_computes_the_same(encoding):
    check((1, 20, 2, 3), 16, (2, 2), 2, encoding, low=-1, fill=0, u=16, v=16, by_interpreter=True, strides=(1, 1),
          pads=(1, 0, 0, 1), dilations=(1, 1))


@pytest.mark.parametrize("rows", [1, 3, 28])
def test_a_product_of_matrices_is_a_row_of_pixels(rows):
    """[M, C] by [C, K] as NHWC of one row: the result [1, 1, 1, M, K] has the rows of the product, as all filters are a block."""
    rng = np.random.default_rng(rows)
    x, w, encoding = rng.integers(0, 4, (rows, 96)), rng.integers(-1, 2, (96, 64)), Encoding("ternary", 1)
    weight = packed_bits(w.T[:, :, None, None], encoding, 96, 64)
    bits, _ = compute("pack_bits", [x.astype(np.uint8).reshape(1, 1, 1, rows, 96)], {"planes": 2}, COUNTING[BEST])
    sums, _ = compute("conv_bits", [bits, weight], {"block": 64, "encoding": "ternary"}, COUNTING[BEST])
    off = excess(w.T, encoding, 2)
    np.testing.assert_array_equal(sums.reshape(rows, 64) - off, x @ w)


def test_channels_and_filters_in_one_block_are_nhwc():
    rng = np.random.default_rng(2)
    x, w, encoding = rng.integers(0, 2, (2, 5, 6, 96)), rng.choice([-1, 1], (64, 96, 3, 3)), Encoding("bipolar", 1)
    bits, _ = compute("pack_bits", [x.astype(np.uint8)[:, None]], {"planes": 1, "pads": (1,) * 4}, COUNTING[BEST])
    sums, _ = compute("conv_bits", [bits, packed_bits(w, encoding, 96, 64)], {"block": 64, "encoding": "bipolar"}, COUNTING[BEST])
    want = convolution(np.moveaxis(x, -1, 1), w, (1, 1), (1,) * 4, (1, 1), 0)
    np.testing.assert_array_equal(sums[:, 0] - excess(w, encoding, 1), np.moveaxis(want, 1, -1))


@pytest.mark.parametrize("encoding", NUMBERS, ids=lambda e: f"{e.name}{e.digits}")
def test_an_encoding_holds_its_numbers_and_no_others(encoding):
    numbers = NUMBERS[encoding]
    words_of(np.array(numbers), encoding)
    outside = {*range(-20, 20)} - {*numbers}
    for number in outside:
        with raises(OperatorError, f"a weight of {number} is no number of {encoding.digits} {encoding.name} digits: these are …"):
            words_of(np.array([numbers[0], number]), encoding)


@pytest.mark.parametrize(("numbers", "encoding"), [
    ([0, 1], ("unipolar", 1)), ([0, 0], ("unipolar", 1)), ([3, 1], ("unipolar", 2)), ([-1, 1], ("bipolar", 1)),
    ([-1, 0, 1], ("ternary", 1)), ([-1, -1], ("bipolar", 1)), ([-3, 1], ("bipolar", 2)), ([-2, 1], ("signed", 2)),
    ([-2, 0, 2], ("ternary", 2)), ([-7, 7, 2], ("ternary", 3)), ([-8, 7], ("signed", 4)), ([-128, 127], ("signed", 8)),
])
def test_the_encoding_with_the_fewest_products_is_chosen(numbers, encoding):
    found = encoding_of(np.array(numbers, np.int8))
    assert found == encoding
    words_of(np.array(numbers), found)


def test_every_int8_has_an_encoding():
    rng = np.random.default_rng(1)
    for _ in range(300):
        low, high = sorted(rng.integers(-128, 128, 2).tolist())
        words_of(rng.integers(low, high + 1, 6), encoding_of(np.arange(low, high + 1)))


@pytest.mark.parametrize(("level", "made", "absent"), [
    ("avx512-popcount", "vpopcntd", "vpshufb"), ("avx512", "vpshufb", "vpopcntd"), ("avx2", "vpshufb", "vpopcntd"),
    ("avx2-vnni", "vpdpbusd", "vpopcntd"), ("plain", "psrlw", "pshufb"),
])
def test_the_instruction_is_chosen_by_feature(level, made, absent):
    a, b = te.placeholder((1, 4, 4, 2, 2), "uint32", name="a"), te.placeholder((2, 1, 1, 2, 1, 1, 32), "uint32", name="b")
    out = find("conv_bits").define(a, b, block=64, encoding="bipolar")
    text = vtakit.build(schedule([out], COUNTING[level]), [a, b, out], COUNTING[level]).compiled.assembly
    assert made in text
    assert absent not in text


def test_one_instruction_matches_ternary_digits():
    """(x ^ v) & m: the table 0x28 and its permutations are one VPTERNLOG, where AND and XOR would be two."""
    a, b = te.placeholder((1, 4, 4, 2, 1), "uint32", name="a"), te.placeholder((2, 1, 1, 2, 1, 2, 32), "uint32", name="b")
    out = find("conv_bits").define(a, b, block=64, encoding="ternary")
    target = COUNTING["avx512-popcount"]
    text = vtakit.build(schedule([out], target), [a, b, out], target).compiled.assembly
    counts = {word: sum(word in line for line in text.splitlines()) for word in ("vpternlog", "vpopcntd", "vpxord")}
    assert counts["vpternlog"] == counts["vpopcntd"] > 0
    assert counts["vpxord"] <= 1  # sums that begin at 0


@pytest.mark.parametrize(("features", "made"), [((), "cnt"), (("+dotprod",), "udot"), (("+dotprod", "+i8mm"), "usdot")])
def test_on_aarch64(tmp_path, features, made):
    """Bits of bytes are counted by CNT, and added by dot products where there are some. A machine in QEMU runs the code."""
    rng, encoding = np.random.default_rng(7), Encoding("signed", 2)
    x, w = rng.integers(0, 4, (1, 64, 3, 4)), rng.integers(-2, 2, (16, 64, 2, 2))
    target = Target("aarch64-linux-gnu", "", features, threads=False)
    bits, _ = compute("pack_bits", [blocks(x, 64)], {"planes": 2, "zero": 128}, COUNTING[BEST])
    arrays = [bits, packed_bits(w, encoding, 64, 16)]
    tensors = [te.placeholder(a.shape, "uint32", name=f"in{at}") for at, a in enumerate(arrays)]
    out = find("conv_bits").define(*tensors, block=16, encoding="signed")
    low, got = lower_late(lower(schedule([out], target), [*tensors, out], "conv")), np.zeros((1, 1, 2, 3, 16), np.int32)
    assert f"\t{made}\t" in compile_for(low, target).assembly
    in_c(target, AARCH64, tmp_path)(low, [*arrays, got])
    want = convolution(x, w, (1, 1), (0,) * 4, (1, 1), 0)
    np.testing.assert_array_equal(np.moveaxis(got[:, 0], -1, 1), want)


PLANES = te.placeholder((1, 8, 8, 2, 2), "uint32", name="planes")
WEIGHTS = te.placeholder((2, 3, 3, 2, 1, 1, 32), "uint32", name="w")
BYTES = te.placeholder((1, 2, 8, 8, 64), "uint8", name="x")


@pytest.mark.parametrize(("op", "operands", "attrs", "says"), [
    ("conv_bits", (PLANES, WEIGHTS), {"block": 64, "encoding": "trinary"}, "conv_bits of 'trinary' weights: the encodings are"),
    ("conv_bits", (PLANES, WEIGHTS), {"block": 64, "encoding": "ternary"}, "do not fit blocks of 64"),
    ("conv_bits", (PLANES, WEIGHTS), {"block": 48, "encoding": "bipolar"}, "do not fit blocks of 48"),
    ("conv_bits", (BYTES, WEIGHTS), {"block": 64, "encoding": "bipolar"}, "(2, 3, 3, 2, 1, 1, 32): give uint32 data of five"),
    ("conv_bits", (PLANES, WEIGHTS), {"block": 64, "encoding": "bipolar", "dilations": (4, 4)}, "a window of 3 with dilation 4"),
    ("conv_bits", (te.placeholder((1, 8, 8, 2, 9), "uint32"), WEIGHTS), {"block": 64, "encoding": "bipolar"},
     "9 planes of data and 1 digits of weights: give at most 8"),
    ("pack_bits", (PLANES,), {"planes": 2}, "pack_bits takes uint8 data of five dimensions, not uint32(1, 8, 8, 2, 2)"),
    ("pack_bits", (te.placeholder((1, 1, 8, 8, 48), "uint8"),), {"planes": 2}, "blocks of 48 channels; give at most 32, or a"),
    ("pack_bits", (BYTES,), {"planes": 9}, "9 planes of data less 0: give 1 to 8 planes, 0 to 255"),
    ("pack_bits", (BYTES,), {"planes": 2, "zero": 256}, "2 planes of data less 256: give 1 to 8 planes, 0 to 255"),
    ("pack_bits", (BYTES,), {"planes": 2, "channels": 64}, "does not hold 64 channels in blocks of 64"),
    ("pack_bits", (BYTES,), {"planes": 2, "zero": 128, "fill": 132}, "pads of 132 less 128: 2 planes hold 0 to 3"),
    ("pack_bits", (BYTES,), {"planes": 2, "pads": (1, 1)}, "pack_bits: pads [1, 1]: give 4 numbers"),
])
def test_what_does_not_fit(op, operands, attrs, says):
    with pytest.raises(OperatorError, match=re.escape(says)):
        find(op).define(*operands, **attrs)


@pytest.mark.parametrize(("make", "says"), [
    (lambda: bit_dot("binary", 1, 1, 16, 1), "bit_dot of 'binary' weights: the encodings are unipolar, bipolar, ternary, signed"),
    (lambda: bit_dot("bipolar", 9, 1, 16, 1), "bit_dot of 9 planes, 1 digits, 16 filters and 1 steps: give at least 1 of each"),
    (lambda: bit_dot("bipolar", 1, 1, 0, 1), "bit_dot of 1 planes, 1 digits, 0 filters and 1 steps: give at least 1 of each"),
    (lambda: bit_pack(33, 1, 0), "bit_pack of 33 channels in 1 planes, less 0: give 1 to 32 channels"),
    (lambda: bit_pack(32, 1, -1), "bit_pack of 32 channels in 1 planes, less -1: give 1 to 32 channels"),
])
def test_records_of_sizes_that_do_not_fit(make, says):
    with pytest.raises(CodegenError, match=re.escape(says)):
        make()


@pytest.mark.parametrize(("u", "v", "says"), [(48, 64, "blocks of 48 channels; give 1 to 32, or a multiple"),
                                             (64, 40, "blocks of 40 filters; give 1 to 32, or a multiple")])
def test_blocks_that_words_do_not_fill(u, v, says):
    with pytest.raises(OperatorError, match=says):
        packed_bits(np.ones((64, 64, 1, 1), np.int8), Encoding("unipolar", 1), u, v)


def test_an_encoding_of_too_many_digits():
    for encoding in (Encoding("ternary", 9), Encoding("binary", 1)):
        with raises(OperatorError, "weights as … digits: the encodings are unipolar, bipolar, ternary, signed; give 1 to 8 …"):
            words_of(np.array([1]), encoding)
