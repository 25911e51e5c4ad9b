"""Products that overwrite, and LOADs that move up: what programs leave is the same, played through on an accumulator."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_support import build, matmul, matmul_schedule

from vtakit.compiler.codegen.vta.early import clear_early, load_early
from vtakit.compiler.codegen.vta.overwrite import overwrite
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.hw.isa.codec import decode, decode_uop, encode_uop
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import Feature, MemType, Opcode, Stage
from vtakit.hw.isa.program import Program

SIZE = 24  # accumulators of the game


def touched(step: Step) -> list[tuple[int, int, int]]:
    """(dst, src, wgt) of every step of a GEMM or ALU instruction, in order (ISA reference)."""
    found = []
    for o, i, word in product(range(step.fields["iter_out"]), range(step.fields["iter_in"]), step.uops):
        dst, src, wgt = (at + o * step.fields.get(f"{name}_out", 0) + i * step.fields.get(f"{name}_in", 0)
                         for name, at in decode_uop(DEFAULT, word).items())
        found.append((dst, src, wgt))
    return found


def play(steps: list[Step]) -> tuple[np.ndarray, list[np.ndarray]]:
    """What is left in the accumulator, and what each STORE has read; it begins with garbage, and a product is src * 100 + wgt."""
    acc, seen = np.arange(-SIZE, 0) * 1000, []
    for step in steps:
        if step.op is Opcode.STORE:
            seen.append(acc[step.accesses[0].elements].copy())
        elif step.op is Opcode.LOAD:
            where = step.accesses[0].elements
            acc[where] = step.fields.get("dram_base", 0) + np.arange(where.stop - where.start) if step.symbol else 0
        else:
            for dst, src, wgt in touched(step):
                if step.fields.get("reset"):
                    acc[dst] = 0
                elif step.op is Opcode.ALU:
                    acc[dst] += 7
                elif step.fields.get("overwrite"):
                    acc[dst] = src * 100 + wgt
                else:
                    acc[dst] += src * 100 + wgt
    return acc, seen


@st.composite
def gemms(draw: st.DrawFn) -> Step:
    """A reset, a product or an ALU instruction within the first accumulators; its access is what it touches or more."""
    op, reset = draw(st.sampled_from([(Opcode.GEMM, 1), (Opcode.GEMM, 0), (Opcode.GEMM, 0), (Opcode.ALU, 0)]))
    steps = st.sampled_from([0, 0, 1, 2, 4])
    fields = {"reset": reset, "iter_out": draw(st.integers(1, 3)), "iter_in": draw(st.integers(1, 3))}
    for loop in ("out", "in"):
        fields |= {f"dst_{loop}": draw(steps), f"src_{loop}": draw(steps), f"wgt_{loop}": draw(steps)}
    words = draw(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4))
    step = Step(op, fields, Stage.COMPUTE, uops=tuple(encode_uop(DEFAULT, *word) for word in words))
    dst = [place[0] for place in touched(step)]
    step.accesses = (Access("acc", slice(min(dst), max(dst) + 1 + draw(st.integers(0, 1))), write=True),)
    return step


@st.composite
def tiles(draw: st.DrawFn) -> list[Step]:
    """A reset of a tile and a product for all of it, as the compiler makes them; a hardware loop of it may add."""
    first, across, taps = draw(st.integers(0, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    out = draw(st.integers(1, 3))
    tile = (Access("acc", slice(first, first + across * out), write=True),)
    reset = {"reset": 1, "iter_out": 1, "iter_in": across * out, "dst_in": 1}
    adds_in_loop = draw(st.booleans())
    loops = {"iter_out": draw(st.integers(1, 3)), "src_out": 3} if adds_in_loop else {"iter_out": out, "dst_out": across}
    blocks = out if adds_in_loop else 1
    words = tuple(encode_uop(DEFAULT, first + block * across, tap, block) for tap in range(taps) for block in range(blocks))
    return [Step(Opcode.GEMM, reset, Stage.COMPUTE, tile, uops=(encode_uop(DEFAULT, first),)),
            Step(Opcode.GEMM, loops | {"iter_in": across, "dst_in": 1, "src_in": 1}, Stage.COMPUTE, tile, uops=words)]


@st.composite
def usual(draw: st.DrawFn) -> list[Step]:
    """Tiles one after another, with anything before and between."""
    found = []
    for reset, products in draw(st.lists(tiles(), min_size=1, max_size=3)):
        found += [*draw(st.lists(gemms(), max_size=2)), reset, *draw(st.lists(gemms(), max_size=1)), products]
    return found


def stored() -> Step:
    return Step(Opcode.STORE, {}, Stage.STORE, (Access("acc", slice(0, SIZE), write=False),))


@given(st.one_of(st.lists(gemms(), max_size=7), usual()))
@settings(max_examples=400)
def test_products_that_overwrite_leave_what_a_reset_and_sums_leave(steps):
    want, _ = play(steps)
    got, _ = play(overwrite(steps, DEFAULT))
    assert np.array_equal(got, want)


@given(tiles())
@settings(max_examples=100)
def test_a_reset_goes_where_products_take_its_whole_tile(steps):
    assert not any(step.fields.get("reset") for step in overwrite(steps, DEFAULT))


@st.composite
def loads(draw: st.DrawFn) -> Step:
    """A LOAD of accumulators from DRAM."""
    first = draw(st.integers(0, SIZE - 4))
    where = Access("acc", slice(first, first + draw(st.integers(1, 4))), write=True)
    fields = {"memory_type": int(MemType.ACC), "dram_base": draw(st.integers(0, 99))}
    dram = Access("x", slice(fields["dram_base"], fields["dram_base"] + 4), write=False)
    return Step(Opcode.LOAD, fields, Stage.COMPUTE, (where, dram), "x")


@given(st.lists(st.one_of(gemms(), gemms(), loads(), st.builds(stored)), max_size=12))
@settings(max_examples=300)
def test_loads_and_clears_that_move_up_change_nothing(steps):
    want, seen = play(steps)
    for change in (load_early, clear_early, lambda s: load_early(clear_early(overwrite(s, DEFAULT)))):
        got, also = play(change(steps))
        assert np.array_equal(got, want)
        assert all(np.array_equal(a, b) for a, b in zip(seen, also, strict=True))


def long_product(first: int) -> Step:
    """1000 steps on ten accumulators."""
    return Step(Opcode.GEMM, {"iter_out": 100, "iter_in": 10, "dst_in": 1}, Stage.COMPUTE,
                (Access("acc", slice(first, first + 10), write=True),), uops=(encode_uop(DEFAULT, first),))


def test_a_load_moves_no_further_than_hides_it():
    """Eight elements take 18 * 8 + 128 = 272 steps: less than one of the products."""
    load = Step(Opcode.LOAD, {"memory_type": int(MemType.ACC)}, Stage.COMPUTE, (Access("acc", slice(16, 24), write=True),), "x")
    steps = [long_product(0), long_product(0), load]
    assert load_early(steps) == [steps[0], load, steps[1]]


def test_a_load_stays_behind_the_store_of_what_it_reads():
    load = Step(Opcode.LOAD, {"memory_type": int(MemType.ACC)}, Stage.COMPUTE, (
        Access("acc", slice(16, 24), write=True), Access("x", slice(0, 8), write=False)), "x")
    store = Step(Opcode.STORE, {}, Stage.STORE, (
        Access("acc", slice(10, 12), write=False), Access("x", slice(4, 6), write=True)), "x")
    steps = [long_product(0), store, load]
    assert load_early(steps) == steps


@pytest.mark.parametrize("without", [Feature(0), Feature.OVERWRITE])
def test_a_program_without_the_feature_has_no_such_instruction(without):
    target: Target = vta(without=without)
    tensors = matmul(target, 4, 4, 4)
    program: Program = build(matmul_schedule(target, tensors), [tensors[0], tensors[1], tensors[4]], target)
    found = [decode(target.config, word) for word in program.insns]
    assert any(insn.op is Opcode.GEMM and insn["overwrite"] for insn in found) is not bool(without)
    assert (Feature.OVERWRITE in program.features) is not bool(without)
