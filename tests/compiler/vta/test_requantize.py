"""Requantization and residuals: the definition against Python's integers, REQUANT and ALU passes against the definition."""

import random

import numpy as np
import pytest
from support import raises
from vta_support import build, execute, values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.requant import requantized as expression
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.packing import pack_vector
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.requantize import Requantize, skip_multipliers
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.hw.isa.codec import decode, encode_requant
from vtakit.hw.isa.insns import REQUANT_PARAMS, AluOp, Feature, Opcode

ORDERS = ("program", "eager", "lazy", *range(20))
WITHOUT = [Feature(0), Feature.REQUANT, Feature.REQUANT | Feature.OVERWRITE]


def wanted(x: int, bias: int, multiplier: int, shift: int, zero_point: int, low: int, high: int) -> int:
    """One value in integers without a width, worded in another way: to the nearest, and the middle up."""
    nearest = (2 * (x + bias) * multiplier + 2**shift) // 2 ** (shift + 1)
    return min(max(nearest + zero_point, low), high)


def requantized(given: Requantize, x: np.ndarray) -> np.ndarray:
    """[images, blocks, rows, columns, batch, block], value by value; channels beyond the last have a multiplier of 0."""
    found, block = np.empty_like(x), x.shape[-1]
    numbers = [np.broadcast_to(getattr(given, name), given.channels) for name in ("bias", "multiplier", "shift", "zero_point")]
    for at in np.ndindex(x.shape):
        channel = at[1] * block + at[-1]
        own = [int(n[channel]) for n in numbers] if channel < given.channels else [0, 0, 0, 0]
        found[at] = wanted(int(x[at]), *own, *given.clip)
    return found


def products(conv: Conv2d, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sums of a convolution of one group, tap by tap."""
    above, below, left, right = conv.pad
    padded = np.pad(data, ((0, 0), (0, 0), (above, below), (left, right), (0, 0), (0, 0)))
    total = 0
    for y, x in np.ndindex(*weights.shape[2:4]):
        part = padded[:, :, y:y + (conv.out_height - 1) * conv.stride[0] + 1:conv.stride[0],
                      x:x + (conv.out_width - 1) * conv.stride[1] + 1:conv.stride[1]]
        total = total + np.einsum("ncyxbk,ocjk->noyxbj", part, weights[:, :, y, x])
    return total


def random_numbers(rng: np.random.Generator, target: Target, channels: int, products: int) -> Requantize:
    """Scales that spread sums of so many products over the output's type, each channel its own."""
    most = products << target.config.inp_bits + target.config.wgt_bits - 2
    return Requantize.by_scale(
        target=target, scale=rng.uniform(0.5, 40, channels) * 2.0**target.config.out_bits / most / 4, largest=most,
        bias=rng.integers(-most // 8 - 1, most // 8 + 1, channels), zero_point=int(rng.integers(-2, 2)),
        low=-(1 << target.config.out_bits - 1) + 1,
    )


def stored(target: Target, count: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Accumulators from DRAM, stored by REQUANT with parameters from DRAM: a schedule by hand."""
    element, acc = target.element("acc"), target.dtype("acc")
    x = te.placeholder((2, count, *element), acc, name="x")
    words = te.placeholder((2, 3, *element), acc, name="words")
    value = te.compute(x.shape, lambda *at: x(*at) + 1, name="value")
    out = te.compute(x.shape, lambda o, y, b, k: expression(
        target.config, value[o, y, b, k], [words[o, w, b, k] for w in range(3)]).astype(target.dtype("out")), name="out")
    s = te.create_schedule(out.op)
    s[value].set_scope("acc")
    for stage in (s[s.cache_read(x, "acc", [value])], s[value], s[s.cache_read(words, "acc", [out])]):
        stage.compute_at(s[out], out.op.axis[0])
    s[out].tensorize(out.op.axis[2], target.requant)
    return s, [x, words, out]


@pytest.mark.parametrize("config", ["default", "i4w4", "tiny_b2"])
def test_the_expression_is_what_requant_does(config):
    """Any words, also those that no numbers make: the loop program's definition, the device, and integers without a width."""
    target, rng = vta(config), np.random.default_rng(0)
    s, (x, words, out) = stored(target, 4)
    given = {t: values(rng, t) for t in (x, words)}
    given[words][:, 2] &= ~32  # shifts below 32, or nearly all results are 0
    shown = np.zeros([e.value for e in out.shape], np.int8)
    interpret(lower(te.create_schedule(out.op), [x, words, out]), {
        t.name: a for t, a in ((x, given[x].astype(np.int32)), (words, given[words].astype(np.int32)), (out, shown))})
    got = execute(build(s, [x, words, out], target), given, out)
    for at in np.ndindex(got.shape):
        lane = sum(int(given[words][at[0], w, at[2], at[3]]) % 2**32 << 32 * w for w in range(3))
        own = REQUANT_PARAMS.unpack(target.config, lane & sum(
            (1 << p.width) - 1 << p.offset for p in REQUANT_PARAMS.place(target.config)))
        value = wrap(np.int64(given[x][at] + 1), 32)
        want = wrap(np.int64(wanted(int(value), *own.values())), target.config.out_bits)
        assert (int(got[at]), int(shown[at])) == (want, want), at


def test_words_of_two_tensors_are_no_parameters():
    target = vta()
    element = target.element("acc")
    tensors = [te.placeholder((4, *element), "int32", name=name) for name in "xabc"]
    out = te.compute((4, *element), lambda y, b, k: expression(
        target.config, tensors[0][y, b, k], [t[y, b, k] for t in tensors[1:]]).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    for tensor in tensors:
        s[s.cache_read(tensor, "acc", [out])].compute_at(s[out], out.op.axis[0])
    s[out].tensorize(out.op.axis[1], target.requant)
    with pytest.raises(VtaError) as caught:
        compile_for(lower(s, [*tensors, out]), target)
    assert str(caught.value).partition("\n\n")[0] == (
        "the words of its parameters are not three elements one after another, and its table behind them: keep them in one "
        "tensor of shape […, 3, batch, block] and read that with cache_read into acc")


def test_it_costs_no_steps_and_one_instruction_a_block():
    """No reset, no ALU: products that overwrite, then a REQUANT for each block of channels of a tile."""
    target, rng = vta(), np.random.default_rng(1)
    conv = convolution(target, random_numbers(rng, target, 64, 64 * 9))
    program = made(conv)
    insns = [decode(target.config, word) for word in program.insns]
    assert not any(insn.op in (Opcode.ALU, Opcode.STORE) or (insn.op is Opcode.GEMM and insn["reset"]) for insn in insns)
    assert program.features == Feature.REQUANT | Feature.OVERWRITE
    assert sum(insn.op is Opcode.REQUANT for insn in insns) == 4


def convolution(target: Target, requantize: Requantize, *, images: int = 1, size: int = 7, **rest) -> Conv2d:
    """3 x 3 with pads, 4 blocks of channels to those that are requantized."""
    batch, block = target.element("inp")
    outs = requantize.parameters.shape[0].value
    data = te.placeholder((images, 4, size, size, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((outs, 4, 3, 3, block, block), target.dtype("wgt"), name="weights")
    return Conv2d(target=target, data=data, weights=weights, pad=(1,) * 4, epilogue=Epilogue(requantize=requantize, **rest))


def made(layer):
    """The program of a layer with its default schedule; the checker has nothing against it."""
    s = te.create_schedule(layer.result.op)
    layer.schedule(s)
    return build(s, [*layer.inputs, layer.result], layer.target)


@pytest.mark.parametrize("without", WITHOUT)
@pytest.mark.parametrize(("config", "images", "stride"), [("default", 1, 1), ("b2x16", 2, 2), ("tiny_b2", 1, 1), ("i4w4", 3, 1)])
def test_convolutions(config, images, stride, without):
    """Each channel its own numbers, the last block not full; in every interleaving."""
    target, rng = vta(config, without=without), np.random.default_rng(images)
    block = target.config.block
    numbers = random_numbers(rng, target, 3 * block - 2, 9 * 4 * block)
    plain = convolution(target, numbers, images=images)
    conv = Conv2d(target=target, data=plain.data, weights=plain.weights, pad=plain.pad, stride=(stride,) * 2,
                  epilogue=plain.epilogue)
    given = {conv.data: values(rng, conv.data), conv.weights: values(rng, conv.weights), numbers.parameters: numbers.words}
    sums = products(conv, given[conv.data], given[conv.weights])
    want = requantized(numbers, sums)
    assert len(np.unique(want)) > 5
    assert np.array_equal(conv.epilogue.reference(target, sums, given), want)
    program = made(conv)
    assert (Feature.REQUANT in program.features) is not bool(without)
    for order in ORDERS if images == 1 else ORDERS[:5]:
        assert np.array_equal(execute(program, given, conv.result, order=order), want)


@pytest.mark.parametrize("config", ["tiny_acc16", "tiny_i16", "tiny_i4w2"])
def test_configurations_without_requant(config):
    """Other accumulators and outputs: the same definition by ALU passes, with multipliers of as many bits as are exact."""
    target, rng = vta(config), np.random.default_rng(2)
    block = target.config.block
    data = te.placeholder((1, 1, 4, 4, *target.element("inp")), target.dtype("inp"), name="data")
    weights = te.placeholder((2, 1, 1, 1, block, block), target.dtype("wgt"), name="weights")
    numbers = Requantize.by_scale(target=target, scale=rng.uniform(4, 8, 2 * block) / 16, largest=2 * block, zero_point=1, low=-3,
                                  bias=rng.integers(-3, 3, 2 * block))
    conv = Conv2d(target=target, data=data, weights=weights, epilogue=Epilogue(requantize=numbers))
    given = {data: values(rng, data, -2, 2), weights: values(rng, weights, -1, 1), numbers.parameters: numbers.words}
    want = requantized(numbers, products(conv, given[data], given[weights]))
    assert len(np.unique(want)) > 2
    assert np.array_equal(execute(made(conv), given, conv.result), want)


@pytest.mark.parametrize("without", WITHOUT[:2])
def test_a_residual_with_a_scale_for_each_channel(without):
    """Sums and residual on one scale, zero points folded into the bias, relu by the bounds.

    Off by at most one from reals, or by two where the ALU is exact with only eight bits of the scale.
    """
    target, rng = vta(without=without), np.random.default_rng(4)
    scale, skip_scale, out_scale, skip_zero = rng.uniform(2e-4, 4e-4, 60), 0.05, 0.3, 7
    by = skip_multipliers(scale, skip_scale)
    bias = rng.integers(-9000, 9000, 60)
    numbers = Requantize.by_scale(target=target, scale=scale / out_scale, bias=bias - skip_zero * by, zero_point=-128, low=-128,
                                  largest=(576 << 14) + 128 * int(by.max()))
    skip = te.placeholder((1, 4, 7, 7, 1, 16), "int8", name="skip")
    by_tensor = te.placeholder((4, 1, 16), "int32", name="by")
    conv = convolution(target, numbers, add=skip, add_scale=by_tensor)
    given = {t: values(rng, t) for t in (conv.data, conv.weights, skip)}
    given |= {by_tensor: pack_vector(target, by), numbers.parameters: numbers.words}
    sums = products(conv, given[conv.data], given[conv.weights])
    want = requantized(numbers, sums + given[skip] * given[by_tensor][None, :, None, None])
    assert np.array_equal(conv.epilogue.reference(target, sums, given), want)
    program = made(conv)
    for order in ORDERS[:6]:
        assert np.array_equal(execute(program, given, conv.result, order=order), want)
    channels = [np.append(a, np.zeros(4)).reshape(1, 4, 1, 1, 1, 16) for a in (scale, bias)]
    real = (sums + channels[1]) * channels[0] + (given[skip] - skip_zero) * skip_scale
    off = abs(np.clip(np.rint(real / out_scale) - 128, -128, 127) - want)
    assert off[np.broadcast_to(channels[0] > 0, off.shape)].max() <= (2 if without else 1)


@pytest.mark.parametrize(("kernel", "added"), [(3, 0), (1, 196)])
def test_sums_begin_with_a_residual_that_their_products_hide(kernel, added):
    """It takes no addition; where a tile has few products for each element it is added after them."""
    target = vta()
    numbers = Requantize.by_scale(target=target, scale=np.full(64, 1e-3), largest=1 << 20)
    skip, data, weights = (te.placeholder(shape, "int8", name=name) for name, shape in (
        ("skip", (1, 4, 7, 7, 1, 16)), ("data", (1, 4, 6 + kernel, 6 + kernel, 1, 16)),
        ("weights", (4, 4, kernel, kernel, 16, 16))))
    layer = Conv2d(target=target, data=data, weights=weights, epilogue=Epilogue(add=skip, add_scale=5, requantize=numbers))
    insns = [decode(target.config, word) for word in made(layer).insns]
    fields = [insn.fields for insn in insns if insn.op is Opcode.ALU and insn.fields["alu_opcode"] == AluOp.ADD]
    assert sum(f["iter_out"] * f["iter_in"] * (f["uop_end"] - f["uop_bgn"]) for f in fields) == added


@pytest.mark.parametrize("without", WITHOUT[:2])
def test_other_operators_have_it_too(without):
    """A depthwise convolution of groups, an average pooling, a transposed convolution."""
    target, rng = vta(without=without), np.random.default_rng(5)
    data = te.placeholder((2, 3, 6, 6, 1, 16), "int8", name="data")
    each = te.placeholder((3, 1, 3, 3, 16, 16), "int8", name="weights")
    both = te.placeholder((2, 3, 2, 2, 2, 2, 16, 16), "int8", name="weights")

    def numbers(channels: int, count: int) -> Epilogue:
        return Epilogue(requantize=random_numbers(rng, target, channels, count))
    grouped = Conv2d(target=target, data=data, weights=each, pad=(1,) * 4, groups=3, epilogue=numbers(40, 144))
    pooled = Pool2d(target=target, data=data, kernel=(2, 2), stride=(2, 2), kind="sum", epilogue=numbers(48, 1))
    phased = TransposedConv2d(target=target, data=data, weights=both, rows=12, columns=12, pad=(1, 1), epilogue=numbers(32, 192))
    given = {t: values(rng, t) for t in (data, each, both)}
    x = given[data]
    window = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0), (0, 0)))
    sums = {grouped: sum(np.einsum("ncyxbk,cjk->ncyxbj", window[:, :, i:i + 6, j:j + 6], given[each][:, 0, i, j])
                         for i, j in np.ndindex(3, 3)),
            pooled: x.reshape(2, 3, 3, 2, 3, 2, 1, 16).sum(axis=(3, 5))}
    whole = np.zeros((2, 2, 16, 16, 1, 16), np.int64)
    for py, px, ty, tx in np.ndindex(2, 2, 2, 2):
        y, z = py + 2 * (1 - ty), px + 2 * (1 - tx)
        whole[:, :, y:y + 12:2, z:z + 12:2] += np.einsum("ncyxbk,ocjk->noyxbj", x, given[both][:, :, py, px, ty, tx])
    sums[phased] = whole[:, :, 1:13, 1:13]
    for layer, total in sums.items():
        own = layer.epilogue.requantize
        got = execute(made(layer), {t: given.get(t, own.words) for t in layer.inputs}, layer.result)
        assert np.array_equal(got.reshape(total.shape), requantized(own, total)), layer.name


def test_the_hardware_leaves_the_same():
    target, rng = vta(), np.random.default_rng(6)
    numbers = random_numbers(rng, target, 64, 576)
    conv = convolution(target, numbers, images=2, add=te.placeholder((2, 4, 7, 7, 1, 16), "int8", name="skip"), add_scale=50)
    given = {t: values(rng, t) for t in conv.inputs} | {numbers.parameters: numbers.words}
    program = made(conv)
    assert np.array_equal(execute(program, given, conv.result, device="rtl"), execute(program, given, conv.result))


def test_images_of_one_pixel_are_stored_block_by_block():
    """A product of 64 rows and 4 blocks of columns: a REQUANT for each block of a tile, not for each row."""
    target, rng = vta(), np.random.default_rng(7)
    numbers = random_numbers(rng, target, 64, 64)
    data = te.placeholder((64, 4, 1, 1, 1, 16), "int8", name="data")
    weights = te.placeholder((4, 4, 1, 1, 16, 16), "int8", name="weights")
    layer = Conv2d(target=target, data=data, weights=weights, epilogue=Epilogue(requantize=numbers))
    program = made(layer)
    assert sum(decode(target.config, word).op is Opcode.REQUANT for word in program.insns) < 64
    given = {t: values(rng, t) for t in (data, weights)} | {numbers.parameters: numbers.words}
    want = requantized(numbers, np.einsum("ncyxbk,ocjk->noyxbj", given[data], given[weights][:, :, 0, 0]))
    assert np.array_equal(execute(program, given, layer.result), want)


def test_the_definition_in_integers():
    """Extremes of every field, against integers without a width."""
    target, rng = vta(), random.Random(8)
    ends = {"bias": (-2**31, 2**31 - 1), "multiplier": (0, 2**16 - 1), "shift": (0, 63), "zero_point": (-128, 127)}
    numbers = {name: np.array([rng.choice((low, high, rng.randint(low, high))) for _ in range(400)])
               for name, (low, high) in ends.items()}
    given = Requantize(target=target, channels=400, **numbers, low=-100, high=99)
    x = np.array([[rng.choice((-2**31, 2**31 - 1, 0, rng.randint(-9999, 9999))) for _ in range(400)]])
    want = [wanted(int(x[0, c]), *[int(n[c]) for n in numbers.values()], -100, 99) for c in range(400)]
    assert given.reference(x).tolist() == [want]
    words = [encode_requant(target.config, **{name: int(n[17]) for name, n in numbers.items()}, low=-100, high=99)]
    assert (given.words[1, :, 0, 1] & 0xFFFFFFFF).tolist() == [*words[0]]


@pytest.mark.parametrize("without", WITHOUT[:2])
def test_scales_are_met_as_closely_as_the_device_can(without):
    target = vta(without=without)
    scale = np.geomspace(2e-5, 0.9, 50)
    found = Requantize.by_scale(target=target, scale=scale, largest=1000)
    error = abs(np.asarray(found.multiplier) / 2.0 ** np.asarray(found.shift) / scale - 1)
    assert error.max() <= (2**-16 if not without else 2**-13)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"low": 5, "high": 4}, "requant: … clip … 5 to 4 … -128 to 127 …"),
    ({"high": 200}, "requant: … clip … -128 to 200 … -128 to 127 …"),
    ({"bias": [1, 2, 3]}, "requant: bias … (3,) … int64 … integer … 2 channels"),
    ({"bias": 0.5}, "requant: bias … () … float64 … integer … 2 channels"),
    ({"multiplier": 1 << 16}, "requant: requant parameters.multiplier … 65536 … 0 to 65535 …"),
    ({"without": Feature.REQUANT, "shift": 32},
     "requant: … multiplier … 1 … shift … 32 … below 32"),
    ({"without": Feature.REQUANT, "multiplier": 2, "shift": 3},
     ("requant: … no REQUANT … overflow … 4294967298 … accumulators … 2147483647 … fewer bits … `largest` …")),
])
def test_numbers_that_cannot_be(arguments, message):
    target = vta(without=arguments.pop("without", Feature(0)))
    with raises(VtaError, message):
        Requantize(target=target, channels=2, **arguments)


@pytest.mark.parametrize(("call", "message"), [
    (lambda t: Requantize.by_scale(target=t, scale=[1.0, -2.0]), "a scale of -2.0: scales are positive numbers"),
    (lambda t: Requantize.by_scale(target=t, scale=1e5), "a scale of 100000: a multiplier of 16 bits reaches 65535"),
    (lambda _: skip_multipliers([1e-3, 1.0], 0.1), (
        "the residual's scale 0.1 is 0 to 100 times that of the accumulators; it can be added where it is 1 to 8,388,607 times "
        "as large")),
    (lambda _: Epilogue(add_scale=3), "add_scale is given and add is not: there is nothing to scale"),
])
def test_scales_that_cannot_be(call, message):
    with raises(VtaError, message):
        call(vta())


@pytest.mark.parametrize(("without", "message"), [
    (Feature.REQUANT, "this device has no REQUANT: compute what is stored in stages of scope acc"),
    (Feature.ALU_MUL, "this device's ALU has no MUL: use other operations, such as shifts"),
])
def test_a_device_that_lacks_what_a_schedule_uses(without, message):
    """A schedule made for one device, compiled for another."""
    target, rng = vta(), np.random.default_rng(9)
    conv = convolution(target, random_numbers(rng, target, 64, 576), scale=3)
    s = te.create_schedule(conv.result.op)
    conv.schedule(s)
    with pytest.raises(VtaError) as caught:
        compile_for(lower(s, [*conv.inputs, conv.result]), vta(without=without))
    assert str(caught.value).partition("\n\n")[0] == message
