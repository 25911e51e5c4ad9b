"""Cuts of large layers, which have few instructions, and tiles that virtual threads share: against NumPy, in several orders."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import vta_fuzz
import vta_operators
from support import raises
from vta_cases import of_data, of_weights
from vta_support import build, execute, values

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.nn.vta import blocking
from vtakit.compiler.nn.vta.blocking import choose
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import Cut, Work
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.insns import MemType, Opcode
from vtakit.hw.isa.program import Program

ORDERS = ("program", "eager", "lazy", *range(5))


@pytest.fixture
def few_instructions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every layer is one whose program would be long, and may take twice as long as it must."""
    monkeypatch.setattr(blocking, "MANY_INSNS", 0)
    monkeypatch.setattr(blocking, "SLACK", 1.0)
    choose.cache_clear()
    yield
    choose.cache_clear()


@pytest.mark.usefixtures("few_instructions")
@pytest.mark.parametrize("operator", ["conv", "dense", "transposed"])
@pytest.mark.parametrize("seed", [*range(len(vta_fuzz.CONFIGS)), *range(vta_fuzz.NAMED_SEEDS + 9, vta_fuzz.NAMED_SEEDS + 15)])
def test_cuts_of_few_instructions(operator, seed):
    vta_fuzz.check(operator, seed)


@pytest.mark.usefixtures("few_instructions")
@pytest.mark.parametrize(("config", "data", "weights", "pad"), [
    ("tiny", (1, 2, 16, 24), (1, 2, 1, 1), 0), ("default", (1, 2, 12, 480), (2, 2, 3, 3), 1),
])
def test_tiles_of_parts_of_several_rows(config, data, weights, pad):
    """Where a scratchpad holds less than a row, or more of a few short ones."""
    target = vta(config)
    layer = convolution(target, data, weights, pad=(pad,) * 4)
    cut = choose(target, layer.work)
    assert cut.rows > 1
    assert cut.columns < data[3]
    check(layer, target)


def test_many_instructions_are_worth_a_hundredth():
    """A cut of fewer instructions is not taken where it takes longer than that, and is where it does not."""
    work = Work(images=8, out_blocks=32, rows=28, columns=28, in_blocks=32, kernel_rows=3, kernel_columns=3, vectors=3, passes=0)
    few, fast = choose(vta(), work), choose(vta(), replace(work, images=1))
    assert fast.out_blocks * fast.rows < few.out_blocks * few.rows
    assert few.cycles <= 8 * fast.cycles * 1.01


def convolution(target: Target, data: tuple[int, ...], weights: tuple[int, ...], **more: object) -> Conv2d:
    return Conv2d(target=target, data=of_data(target, data), weights=of_weights(target, weights),
                  epilogue=Epilogue(shift=5, low=-100), **more)


def check(layer: Conv2d | TransposedConv2d, target: Target, cut: Cut | None = None, threads: int = 1) -> Program:
    """The layer's program leaves NumPy's result in every order."""
    s = te.create_schedule(layer.result.op)
    layer.schedule(s, cut, threads=threads)
    program = build(s, [*layer.inputs, layer.result], target)
    rng = np.random.default_rng(0)
    given = {tensor: values(rng, tensor) for tensor in layer.inputs}
    if isinstance(layer, Conv2d):
        want = vta_operators.conv_reference(layer, given[layer.data], given[layer.weights], given)
    else:
        want = vta_operators.transposed_reference(layer, given)
    for order in ORDERS:
        found = execute(program, given, layer.result, order=order)
        assert np.array_equal(found.reshape(want.shape), want), order
    return program


def loads(program: Program) -> list[tuple[MemType, int]]:
    """The LOADs of inputs and weights, in their order: memory and place."""
    found = [decode(program.config, word) for word in program.insns]
    return [(MemType(insn["memory_type"]), insn["sram_base"]) for insn in found
            if insn.op is Opcode.LOAD and insn["memory_type"] in (MemType.INP, MemType.WGT)]


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("shape", [
    ((1, 2, 9, 9), (6, 2, 3, 3), {"pad": (1, 1, 1, 1)}), ((2, 3, 20, 6), (1, 3, 1, 1), {"stride": (2, 1)}),
    ((1, 6, 12, 5), (3, 2, 3, 3), {"groups": 3}),
])
def test_virtual_threads_share_tiles(threads, copies, shape):
    """Over output blocks, over rows, and over rows of each group."""
    target = vta(copies=copies)
    data, weights, more = shape
    layer = convolution(target, data, weights, **more)
    kernel_rows, kernel_columns = weights[2:]
    cut = Cut(images=1, out_blocks=1, rows=2, columns=3, in_blocks=1, kernel_rows=kernel_rows, kernel_columns=kernel_columns,
              keep=False)
    check(layer, target, cut, threads)


def test_virtual_threads_share_tiles_of_a_transposed_convolution():
    target = vta(copies=1)
    layer = TransposedConv2d(target=target, data=of_data(target, (1, 2, 5, 5)), rows=10, columns=10,
                             weights=of_weights(target, (4, 2, 2, 2, 2, 2)), epilogue=Epilogue(shift=4))
    cut = Cut(images=1, out_blocks=2, rows=5, columns=5, in_blocks=1, kernel_rows=2, kernel_columns=2, keep=False)
    check(layer, target, cut, threads=2)


def test_a_virtual_thread_loads_all_of_its_data_before_the_next_does():
    """So no thread waits for the memory of another: inputs and weights of one, then those of the other, for each chunk."""
    target = vta(copies=1)
    layer = convolution(target, (1, 4, 8, 8), (4, 4, 1, 1))
    cut = Cut(images=1, out_blocks=2, rows=8, columns=8, in_blocks=2, kernel_rows=1, kernel_columns=1, keep=False)
    found = loads(check(layer, target, cut, threads=2))
    assert [memory for memory, _ in found] == [MemType.INP, MemType.WGT] * 4
    assert [place for _, place in found] == [0, 0, 128, 4] * 2


def test_only_what_is_too_large_has_one_copy():
    """A layer's tiles take more than half of the accumulators; those of the next layer still have two places."""
    target = vta()
    first = convolution(target, (1, 4, 32, 32), (4, 4, 1, 1))
    second = Conv2d(target=target, data=first.result, weights=of_weights(target, (1, 4, 1, 1), "more"), name="second")
    s = te.create_schedule(second.result.op)
    for layer, blocks, rows in ((first, 4, 10), (second, 1, 4)):
        layer.schedule(s, Cut(images=1, out_blocks=blocks, rows=rows, columns=32, in_blocks=1, kernel_rows=1, kernel_columns=1,
                              keep=False))
    program = build(s, [*first.inputs, second.weights, second.result], target)
    stores = [insn["sram_base"] for insn in (decode(target.config, word) for word in program.insns) if insn.op is Opcode.STORE]
    assert len(set(stores[-8:])) == 2


@pytest.mark.parametrize(("make", "message"), [
    (lambda layer, s: layer.schedule(s, threads=5),
     "conv: 5 virtual threads, and no dimension has more than 1 tiles: give fewer threads, or a cut of smaller tiles"),
    (lambda layer, s: layer.schedule(s, threads=0), "threads is 0 and must be a whole number of at least 1"),
    (lambda layer, s: layer.schedule(s, 3), "conv: the cut is 3 and must be a Cut of vtakit.compiler.nn.vta.cuts"),
    (lambda layer, s: Cut(images=1, out_blocks=0, rows=1, columns=1, in_blocks=1, kernel_rows=1, kernel_columns=1, keep=False),
     "a cut: out_blocks is 0 and must be a whole number of at least 1"),
])
def test_cuts_and_threads_that_there_are_not(make, message):
    layer = convolution(vta(), (1, 1, 2, 2), (1, 1, 1, 1))
    with raises(VtaError, message):
        make(layer, te.create_schedule(layer.result.op))


@pytest.mark.parametrize(("sizes", "chunk", "message"), [
    ((1, 1), None, "pooling 'pool': the sizes of a tile are (1, 1) and must be (images, blocks, rows, columns), at least 1 each"),
    ((1, 1, 0, 1), None,
     "pooling 'pool': the sizes of a tile are (1, 1, 0, 1) and must be (images, blocks, rows, columns), at least 1 each"),
    ((1, 1, 1, 1), (2,), "pooling 'pool': chunk is (2,) and must be (down, across), at least 1 each"),
])
def test_tiles_that_there_are_not(sizes, chunk, message):
    pool = Pool2d(target=vta(), data=of_data(vta(), (1, 2, 4, 4)), kernel=(2, 2), stride=(2, 2))
    with raises(VtaError, message):
        pool.schedule(te.create_schedule(pool.result.op), sizes, chunk)
