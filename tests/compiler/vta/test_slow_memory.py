"""Programs for a slow memory: what is loaded ahead, when stores are waited for, and tiles that are chosen for it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_cases import of_data, of_weights
from vta_support import execute, values

import vtakit
from vtakit import te
from vtakit.compiler.codegen.vta.ahead import weights_ahead
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.codegen.vta.tokens import with_tokens
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import Cut
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.hw.isa.insns import MemType, Opcode, Stage
from vtakit.hw.system import SYSTEMS, System

SLOW = System(bandwidth=0.25, latency=60)
TARGET = vta(system=SLOW)
ORDERS = ("program", "eager", "lazy", *range(3))
INP, WGT = int(MemType.INP), int(MemType.WGT)


def load_weights(first: int, count: int, dram: int, rows: int = 1) -> Step:
    """A LOAD of weights, of `rows` rows that are 1000 elements apart in DRAM."""
    fields = {"memory_type": WGT, "sram_base": first, "dram_base": dram, "y_size": rows, "x_size": count, "x_stride": 1000}
    return Step(Opcode.LOAD, fields, Stage.LOAD, (Access("wgt", slice(first, first + rows * count), write=True),), "w")


def load_inputs(first: int) -> Step:
    """A LOAD of four elements of inputs."""
    fields = {"memory_type": INP, "sram_base": first, "y_size": 1, "x_size": 4, "x_stride": 4}
    return Step(Opcode.LOAD, fields, Stage.LOAD, (Access("inp", slice(first, first + 4), write=True),), "x")


def products(weights: slice, inputs: int, steps: int) -> Step:
    """A GEMM of so many steps."""
    accesses = (Access("acc", slice(0, 4), write=True), Access("inp", slice(inputs, inputs + 4), write=False),
                Access("wgt", weights, write=False))
    return Step(Opcode.GEMM, {"iter_out": steps, "iter_in": 1}, Stage.COMPUTE, accesses, uops=(0,))


def groups(count: int, tiles: int, size: int, steps: int, rows: int = 1) -> list[Step]:
    """Weights that are kept for some tiles of inputs, in two places in turn."""
    found = []
    for group in range(count):
        first = group % 2 * size * rows
        found.append(load_weights(first, size, group * size, rows))
        for tile in range(tiles):
            found += [load_inputs(tile % 2 * 4), products(slice(first, first + size * rows), tile % 2 * 4, steps)]
    return found


def chunks(count: int, copies: int, size: int, steps: int) -> list[Step]:
    """Weights of which each LOAD is for one product, in so many places in turn, after products that leave time on the bus."""
    found = [load_inputs(0), products(slice(1000, 1004), 0, 200)] * 20
    for at in range(count):
        first = at % copies * size
        found += [load_inputs(at % copies * 4), load_weights(first, size, at * size),
                  products(slice(first, first + size), at % copies * 4, steps)]
    return found


def seen(steps: list[Step]) -> list[list[int]]:
    """The elements of DRAM that each GEMM finds in its weights."""
    scratch, found = np.full(1024, -1), []
    for step in steps:
        if step.op is Opcode.LOAD and step.fields["memory_type"] == WGT:
            fields = step.fields
            rows, width = fields["y_size"], fields["x_size"]
            box = fields["dram_base"] + fields["x_stride"] * np.arange(rows)[:, None] + np.arange(width)
            scratch[fields["sram_base"]:fields["sram_base"] + rows * width] = box.reshape(-1)
        elif step.op is Opcode.GEMM:
            found.append(scratch[step.accesses[2].elements].tolist())
    return found


def weight_loads(steps: list[Step]) -> int:
    return sum(step.op is Opcode.LOAD and step.fields["memory_type"] == WGT for step in steps)


@pytest.mark.parametrize("rows", [1, 3])
def test_kept_weights_are_loaded_in_pieces_beside_the_products_before(rows):
    steps = groups(3, 6, 16, 400, rows)
    changed = weights_ahead(steps, TARGET)
    assert seen(changed) == seen(steps)
    assert weight_loads(changed) > 3
    runs = [a.stage is Stage.COMPUTE and b.op is Opcode.LOAD and b.fields["memory_type"] == WGT for a, b in pairwise(changed)]
    assert sum(runs) > 3, "pieces stand before the loads of several tiles"


def test_weights_that_products_hide_stay_whole():
    steps = groups(3, 6, 16, 40_000)
    assert weights_ahead(steps, TARGET) == steps


def test_weights_of_each_chunk_stay_where_they_are():
    """Two copies leave them no room to move."""
    steps = groups(8, 1, 16, 400)
    assert weights_ahead(steps, TARGET) == steps


@pytest.mark.parametrize("copies", [2, 4])
def test_the_first_chunks_are_loaded_beside_products_before(copies):
    """As many as there are places for: the rest wait for the products that read what lies there."""
    steps = chunks(12, copies, 36, 2000)
    changed = weights_ahead(steps, TARGET)
    assert seen(changed) == seen(steps)
    whole = [step.fields["dram_base"] // 36 for step in changed if step.op is Opcode.LOAD and step.symbol == "w"
             and step.fields["x_size"] == 36]
    assert whole == [*range(copies, 12)]


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 40), st.sampled_from([10, 400, 5000]))
@settings(max_examples=100)
def test_pieces_of_chunks_change_no_weights(count, copies, size, steps):
    made = chunks(count, copies, size, steps)
    assert seen(weights_ahead(made, TARGET)) == seen(made)


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 40), st.sampled_from([10, 400, 5000]), st.integers(1, 4))
@settings(max_examples=200)
def test_pieces_change_no_weights(count, tiles, size, steps, rows):
    made = groups(count, tiles, size, steps, rows)
    assert seen(weights_ahead(made, TARGET)) == seen(made)


def test_the_compute_stage_waits_for_a_store_before_products_that_it_does_not_concern():
    """Or a LOAD of what was stored waits for the products before it, and the second copy of its buffer is no use."""
    def load(at: int) -> Step:
        accesses = (Access("inp", slice(at % 2 * 4, at % 2 * 4 + 4), write=True), Access("y", slice(at, at + 1), write=False))
        return Step(Opcode.LOAD, {"memory_type": INP}, Stage.LOAD, accesses, "y")

    def store(at: int) -> Step:
        accesses = (Access("acc", slice(100 + at, 101 + at), write=False), Access("y", slice(at, at + 1), write=True))
        return Step(Opcode.STORE, {}, Stage.STORE, accesses, "y")
    count = 6
    steps = [store(at) for at in range(count)]
    for at in range(count):
        steps += [load(at), products(slice(0, 4), at % 2 * 4, 100)]
    ordered = with_tokens(steps, {"inp": 2048, "wgt": 1024, "acc": 2048, "y": 64})
    compute = [step for step in ordered if step.stage is Stage.COMPUTE]
    gemms = [at for at, step in enumerate(compute) if step.op is Opcode.GEMM]
    waits = [at for at, step in enumerate(compute) if step.fields.get("pop_next")]
    assert len(waits) == count - 1, "the first is for two"
    for at in range(2, count):
        assert gemms[at - 2] < waits[at - 1] < gemms[at - 1], "after the products that last used its place, and no later"


@pytest.mark.parametrize("stride", [1, 2])
def test_two_layers_for_a_slow_memory_compute_what_others_do(stride):
    """In every order of the stages."""
    results = []
    for target in (vta(), TARGET):
        first = Conv2d(target=target, data=of_data(target, (1, 4, 9, 9)), weights=of_weights(target, (4, 4, 3, 3)), name="first",
                       pad=(1, 1, 1, 1), epilogue=Epilogue(shift=6))
        second = Conv2d(target=target, data=first.result, weights=of_weights(target, (8, 4, 1, 1), "v"), name="second",
                        stride=(stride, stride), epilogue=Epilogue(shift=5))
        s = te.create_schedule(second.result.op)
        first.schedule(s)
        second.schedule(s)
        args = [*first.inputs, second.weights, second.result]
        program = compile_for(lower(s, args, "net", limits=target.limits), target)
        rng = np.random.default_rng(0)
        given_ = {tensor: values(rng, tensor) for tensor in args[:-1]}
        results += [execute(program, given_, second.result, order=order) for order in ORDERS]
    assert all(np.array_equal(each, results[0]) for each in results)


@pytest.mark.xdist_group("rtl")
def test_device_rtl_has_the_memory_of_the_target():
    cycles, slow_target = [], vta("tiny", system=SLOW)
    cut = Cut(images=1, out_blocks=1, rows=2, columns=2, in_blocks=1, kernel_rows=1, kernel_columns=3, keep=False)
    for target, options in ((vta("tiny"), {}), (slow_target, {}), (slow_target, {"system": "reference"}),
                            (vta("tiny"), {"bandwidth": 25, "latency": 60}), (vta("tiny", system=SYSTEMS["ulx3s"]), {}),
                            (vta("tiny"), {"system": "ulx3s"})):
        layer = Conv2d(target=target, data=of_data(target, (1, 1, 4, 4)), weights=of_weights(target, (2, 1, 3, 3)),
                       epilogue=Epilogue(shift=6))
        s = te.create_schedule(layer.result.op)
        layer.schedule(s, cut)
        function = vtakit.build(s, [*layer.inputs, layer.result], target, device="rtl", **options)
        function(*[np.ones([extent.value for extent in each.shape], np.int8) for each in (*layer.inputs, layer.result)])
        cycles.append(function.counters["cycles"])
    fast, slow, fast_again, slow_again, sdram, sdram_again = cycles
    assert fast == fast_again
    assert sdram == sdram_again > fast
    assert slow == slow_again > 1.5 * fast


def test_tiles_for_a_dram_take_fewer_cycles_than_those_for_the_reference_system():
    """A layer of few products a byte, by the cycle model: writes share the bus, which has a quarter of the bandwidth."""
    cycles = []
    for target in (vta(), vta(system="ulx3s")):
        layer = Conv2d(target=target, data=of_data(target, (1, 16, 28, 28)), weights=of_weights(target, (16, 16, 1, 1)),
                       epilogue=Epilogue(shift=6))
        s = te.create_schedule(layer.result.op)
        layer.schedule(s)
        function = vtakit.build(s, [*layer.inputs, layer.result], target, device="cycle", data=False, system="ulx3s")
        function(*[np.ones([extent.value for extent in each.shape], np.int8) for each in (*layer.inputs, layer.result)])
        cycles.append(function.counters["cycles"])
    usual, chosen = cycles
    assert chosen <= usual
