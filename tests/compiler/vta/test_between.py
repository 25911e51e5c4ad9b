"""STOREs between products: what is stored stays the same, by a naive model of the accumulators, by NumPy, and on the RTL."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_operators import conv_reference
from vta_support import build, execute, values

from vtakit import te
from vtakit.compiler.codegen.vta.between import MOST_GROUPS, stores_between
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import Cut
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.hw.isa.codec import decode_uop, encode_uop
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import MemType, Opcode, Stage
from vtakit.sim.api import run
from vtakit.sim.confirmed import difference_on_rtl
from vtakit.sim.cycle import simulate

ACC = 24  # elements of the game


def touched(step: Step, name: str) -> np.ndarray:
    """The elements that an instruction touches with an operand."""
    turns = product(range(step.fields["iter_out"]), range(step.fields["iter_in"]), step.uops)
    return np.unique([decode_uop(DEFAULT, word)[name] + o * step.fields[f"{name}_out"] + i * step.fields[f"{name}_in"]
                      for o, i, word in turns])


@st.composite
def computing(draw: st.DrawFn) -> Step:
    """A GEMM, or an ALU instruction that adds accumulators, or a number."""
    fields = {f"iter_{loop}": draw(st.integers(1, 3)) for loop in ("out", "in")}
    fields |= {f"{name}_{loop}": draw(st.integers(0, 4)) for name in ("dst", "src") for loop in ("out", "in")}
    uops = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=4))
    words = tuple(encode_uop(DEFAULT, *uop, 0) for uop in uops)
    if draw(st.booleans()):
        step = Step(Opcode.GEMM, fields | {"wgt_out": 0, "wgt_in": 0}, Stage.COMPUTE, uops=words)
        step.accesses = (Access("acc", touched(step, "dst"), write=True), Access("inp", touched(step, "src"), write=False))
        return step
    number = draw(st.booleans())
    step = Step(Opcode.ALU, fields | ({"use_imm": 1, "imm": 3} if number else {}), Stage.COMPUTE, uops=words)
    step.accesses = (Access("acc", touched(step, "dst"), write=True),)
    if not number:
        step.accesses += (Access("acc", touched(step, "src"), write=False),)
    return step


@st.composite
def loads(draw: st.DrawFn) -> Step:
    """A LOAD of accumulators, or of inputs."""
    rows, width, base = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(0, ACC - 12))
    kind = draw(st.sampled_from([MemType.ACC_8BIT, MemType.INP]))
    first, stage = draw(st.integers(0, 5)), Stage.LOAD if kind is MemType.INP else Stage.COMPUTE
    fields = {"memory_type": int(kind), "sram_base": base, "dram_base": first, "y_size": rows, "x_size": width}
    fields |= {"x_stride": width + draw(st.integers(0, 2))} if rows > 1 else {}
    memory = "inp" if kind is MemType.INP else "acc"
    last = first + (rows - 1) * fields.get("x_stride", 0) + width
    own = Access(memory, slice(base, base + rows * width), write=True)
    return Step(Opcode.LOAD, fields, stage, (own, Access("data", slice(2 * first, 2 * last), write=False)), "data")


@st.composite
def stores(draw: st.DrawFn) -> list[Step]:
    """The STOREs of a tile."""
    size, base, marked = draw(st.integers(1, 4)), draw(st.integers(0, 4)), draw(st.sampled_from([True, True, False]))
    found = [Step(Opcode.REQUANT, {"x_size": size, "sram_base": at}, Stage.STORE, (
        Access("acc", slice(at, at + size), write=False),), between=marked) for at in range(base, ACC - size + 1, size)]
    return found[:draw(st.integers(1, 10))]


def play(steps: list[Step]) -> tuple[list[tuple[int, list[int]]], list[int]]:
    """Return the elements that are stored, and the accumulators in the end. A LOAD's elements are numbers: DRAM places."""
    acc, inp, found = np.zeros(ACC, np.int64), np.zeros(64, np.int64), []
    for step in steps:
        f = step.fields
        if step.stage is Stage.STORE:
            found.append((f["sram_base"], acc[step.accesses[0].elements].tolist()))
        elif step.op is Opcode.LOAD:
            rows = [f.get("dram_base", 0) + row * f.get("x_stride", 0) + np.arange(f["x_size"]) for row in range(f["y_size"])]
            (inp if f["memory_type"] == MemType.INP else acc)[step.accesses[0].elements] = np.concatenate(rows) * 1000 + 7
            assert step.accesses[1].elements == slice(2 * int(rows[0][0]), 2 * int(rows[-1][-1]) + 2)
        else:
            assert set(touched(step, "dst")) == set(step.accesses[0].indices)
            for o, i, word in product(range(f["iter_out"]), range(f["iter_in"]), step.uops):
                dst, src = (decode_uop(DEFAULT, word)[name] + o * f[f"{name}_out"] + i * f[f"{name}_in"]
                            for name in ("dst", "src"))
                acc[dst] = acc[dst] * (step.op is Opcode.GEMM) + (inp[src] if step.op is Opcode.GEMM else (
                    f["imm"] + acc[dst] * 3 if f.get("use_imm") else acc[dst] * 2 + acc[src]))
    return found, acc.tolist()


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(computing().map(lambda step: [step]), loads().map(lambda step: [step]), stores()), max_size=10))
def test_what_is_stored_stays_the_same(pieces):
    steps = [step for piece in pieces for step in piece]
    if any(touched(step, "dst").max() >= ACC or touched(step, "src").max() >= ACC for step in steps if step.uops):
        return
    found = stores_between(steps, DEFAULT)
    assert play(found) == play(steps)
    assert sum(step.cycles for step in found) == sum(step.cycles for step in steps)
    assert len({id(step.fields) for step in found}) == len(found)  # tokens are written into them


def test_a_tile_is_computed_and_stored_block_by_block():
    words = tuple(encode_uop(DEFAULT, block * 4, tap, tap) for block in range(3) for tap in range(2))
    read = [Access(memory, slice(0, 2), write=False) for memory in ("inp", "wgt")]
    gemm = Step(Opcode.GEMM, {"iter_out": 1, "iter_in": 4, "dst_in": 1}, Stage.COMPUTE, uops=words,
                accesses=(Access("acc", slice(0, 12), write=True), *read))
    tile = [Step(Opcode.REQUANT, {}, Stage.STORE, (Access("acc", slice(at, at + 4), write=False),), between=True)
            for at in (0, 4, 8)]
    found = stores_between([gemm, *tile, gemm], DEFAULT)
    assert [step.op.name for step in found] == ["GEMM", "REQUANT"] * 3 + ["GEMM"] * 3
    assert [step.accesses[0].elements for step in found if step.op is Opcode.GEMM] == [
        slice(0, 4), slice(4, 8), slice(8, 12)] * 2
    many = [Step(Opcode.REQUANT, {}, Stage.STORE, (Access("acc", slice(at, at + 1), write=False),), between=True)
            for at in range(12)]
    assert sum(step.op is Opcode.GEMM for step in stores_between([gemm, *many], DEFAULT)) <= MOST_GROUPS


def conv_program(config, size, blocks, kernel, cut, between, *, skip=False, inside=False, keep=False):
    """A convolution whose REQUANTs store, its program for a slow bus, and its operands' values."""
    target = vta(config, system={"bandwidth": 0.25, "latency": 60})
    batch, block = target.element("inp")
    data = te.placeholder((1, 2, *size, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((blocks, 2, *kernel, block, block), target.dtype("wgt"), name="weights")
    rng, pad = np.random.default_rng(5), (kernel[0] // 2,) * 2 + (kernel[1] // 2,) * 2
    add = te.placeholder((1, blocks, *size, batch, block), target.dtype("inp"), name="skip") if skip else None
    by = te.placeholder((blocks, batch, block), target.dtype("acc"), name="by") if skip else None
    numbers = Requantize(target=target, channels=blocks * block, bias=rng.integers(-900, 900, blocks * block),
                         multiplier=rng.integers(20, 90, blocks * block), shift=13, zero_point=3,
                         low=-(1 << target.config.out_bits - 1), high=(1 << target.config.out_bits - 1) - 1)
    conv = Conv2d(target=target, data=data, weights=weights, pad=pad, inside=inside, between=between,
                  epilogue=Epilogue(add=add, add_scale=by, requantize=numbers))
    s = te.create_schedule(conv.result.op)
    tile = dict(zip(("images", "out_blocks", "rows", "columns", "in_blocks", "kernel_rows", "kernel_columns"), cut, strict=True))
    conv.schedule(s, Cut(**tile, keep=keep))
    given_ = {tensor: values(rng, tensor) for tensor in (data, weights, *([add] if add is not None else []))}
    given_ |= {numbers.parameters: numbers.words} | ({by: values(rng, by, 1, 90)} if by is not None else {})
    return conv, build(s, [*conv.inputs, conv.result], target), given_


def counted(program, target):
    """Counters of the cycle model."""
    image = program.link()
    return simulate(program.config, image.dram, image.insn_addr, image.insn_count, data=False, **target.simulated).counters


@pytest.mark.parametrize(("size", "blocks", "kernel", "cut", "skip"), [
    ((14, 14), 16, (3, 3), (1, 8, 14, 14, 1, 3, 3), False), ((14, 14), 16, (3, 3), (1, 8, 14, 14, 1, 3, 3), True),
    ((7, 7), 64, (1, 1), (1, 32, 7, 7, 2, 1, 1), False), ((9, 12), 5, (3, 3), (1, 2, 5, 12, 2, 3, 3), True),
    ((14, 14), 10, (1, 3), (1, 10, 14, 14, 1, 1, 3), False),
])
@pytest.mark.parametrize("inside", [False, True])
def test_a_layer_has_the_same_bytes(size, blocks, kernel, cut, skip, inside):
    conv, plain, given_ = conv_program("default", size, blocks, kernel, cut, False, skip=skip, inside=inside)
    _, between, _ = conv_program("default", size, blocks, kernel, cut, True, skip=skip, inside=inside)
    want = conv_reference(conv, given_[conv.data], given_[conv.weights], given_)
    for program in (plain, between):
        assert np.array_equal(execute(program, given_, conv.result), want)
    assert len(between.insns) > len(plain.insns)
    assert counted(between, conv.target)["gemm_counter"] == counted(plain, conv.target)["gemm_counter"]


def test_stores_are_hidden_where_a_tile_fills_the_accumulator():
    """Two tiles of 1,568 accumulators: a store takes 12,544 cycles of the bus, and the products of a chunk 14,112."""
    conv, plain, _ = conv_program("default", (14, 14), 16, (3, 3), (1, 8, 14, 14, 1, 3, 3), False)
    _, between, _ = conv_program("default", (14, 14), 16, (3, 3), (1, 8, 14, 14, 1, 3, 3), True)
    before, after = (counted(program, conv.target)["cycles"] for program in (plain, between))
    assert before - after > 0.8 * 2 * 7 / 8 * 12_544


@pytest.mark.parametrize(("config", "size", "kernel", "tile"), [
    ("tiny", (2, 3), (1, 1), (1, 2, 2, 3)), ("compact", (6, 6), (3, 3), (1, 3, 6, 6))])
def test_the_rtl_has_the_bytes_and_cycles_of_the_models(config, size, kernel, tile):
    cut, skip = (*tile, 1, *kernel), config != "tiny"
    conv, program, _ = conv_program(config, size, 6, kernel, cut, True, skip=skip, inside=True)
    _, plain, _ = conv_program(config, size, 6, kernel, cut, False, skip=skip)
    assert len(program.insns) > len(plain.insns)
    rng = np.random.default_rng(2)
    inputs = {each.name: rng.bytes(each.size_bytes) for each in program.buffers if each.kind.name == "INPUT"}
    model = run(program, inputs, device="cycle")
    assert difference_on_rtl(program, inputs, model) is None
    assert model.buffers[conv.result.name] == run(plain, inputs).buffers[conv.result.name]
