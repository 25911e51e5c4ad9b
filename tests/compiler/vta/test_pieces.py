"""Boxes as transfers, nests as kernels, expressions as passes, residency and tokens: each against its meaning, played through."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import raises
from vta_support import matmul, matmul_schedule

from vtakit.compiler.codegen.vta.actions import reach
from vtakit.compiler.codegen.vta.alu import passes
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.copies import Dim, Move, in_elements, moves
from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.compiler.codegen.vta.kernels import LARGEST_SHARE, Loop, kernels
from vtakit.compiler.codegen.vta.residency import load_kernels
from vtakit.compiler.codegen.vta.stream import Step
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import IntImm
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.lower import lower
from vtakit.hw.isa.codec import decode, decode_uop, encode
from vtakit.hw.isa.config import DEFAULT, MAX_DEPTH, NAMED
from vtakit.hw.isa.insns import FLAGS, FORMATS, AluOp, Feature, MemType, Opcode, Stage
from vtakit.sim.checker import check_program


def play(move: Move, dram: np.ndarray, sram: np.ndarray) -> None:
    """What a LOAD does (ISA reference, section LOAD)."""
    across = move.x_pad_0 + move.x_size + move.x_pad_1
    at = move.sram_base
    for row in range(move.y_pad_0 + move.y_size + move.y_pad_1):
        values = np.zeros(across, np.int64)
        y = row - move.y_pad_0
        if 0 <= y < move.y_size:
            start = move.dram_base + y * move.x_stride
            values[move.x_pad_0:move.x_pad_0 + move.x_size] = dram[start:start + move.x_size]
        sram[at:at + across] = values
        at += across


@st.composite
def boxes(draw: st.DrawFn) -> tuple[list[Dim], int, int]:
    """A box that is dense in the scratchpad, with any order and pitch in DRAM and zeros on any side."""
    extents = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    zeros = st.tuples(st.sampled_from([0, 0, 1, 2, 16, 17]), st.sampled_from([0, 0, 1, 3, 18]))
    pads = [draw(zeros) if draw(st.booleans()) else (0, 0) for _ in extents]
    if len(extents) > 2:
        pads = [(min(a, 2), min(b, 2)) for a, b in pads]
    order = draw(st.permutations(range(len(extents))))
    pitches, pitch = [0] * len(extents), 1
    for at in reversed(order):
        pitches[at] = pitch
        pitch *= extents[at] + draw(st.integers(0, 2))
    dims, step = [], 1
    for extent, (before, after), dram in reversed([*zip(extents, pads, pitches, strict=True)]):
        whole = before + extent + after
        dims.append(Dim(extent=whole, sram=step, dram=dram, before=before, after=after))
        step *= whole
    return draw(st.permutations(dims)), draw(st.integers(0, 9)), draw(st.integers(0, 9))


@given(boxes())
@settings(max_examples=300)
def test_transfers_fill_a_box_and_nothing_else(case):
    dims, first, start = case
    size = int(np.prod([dim.extent for dim in dims]))
    dram = np.arange(1, 20_000)
    sram, want = np.full(first + size + 9, -1), np.full(first + size + 9, -1)
    for indices in product(*[range(dim.extent) for dim in dims]):
        inside = all(dim.before <= i < dim.extent - dim.after for i, dim in zip(indices, dims, strict=True))
        at = first + sum(i * dim.sram for i, dim in zip(indices, dims, strict=True))
        source = start + sum((i - dim.before) * dim.dram for i, dim in zip(indices, dims, strict=True))
        want[at] = dram[source] if inside else 0
    for move in moves(dims, first, start):
        fields = {name: getattr(move, name) for name in Move.__slots__}
        encode(DEFAULT, "load", memory_type=MemType.INP, **fields)  # every field fits
        play(move, dram, sram)
    assert np.array_equal(sram, want)


def test_few_instructions_for_what_lies_together():
    """Dimensions that follow on each other are one; rows with zeros around are one instruction; the third dimension is a loop."""
    plain = [Dim(extent=4, sram=64, dram=64), Dim(extent=8, sram=8, dram=8), Dim(extent=8, sram=1, dram=1)]
    assert [*moves(plain, 0, 5)] == [Move(sram_base=0, dram_base=5, x_size=256)]
    image = [Dim(extent=2, sram=48, dram=100), Dim(extent=6, sram=8, dram=10, before=1, after=1),
             Dim(extent=8, sram=1, dram=1, before=1)]
    assert [*moves(image, 0, 0)] == [
        Move(sram_base=48 * at, dram_base=100 * at, y_size=4, x_size=7, x_stride=10, y_pad_0=1, y_pad_1=1, x_pad_0=1)
        for at in range(2)]


@pytest.mark.parametrize(("dim", "count"), [
    (Dim(extent=MAX_DEPTH, sram=1, dram=1), 2), (Dim(extent=MAX_DEPTH, sram=1, dram=2), 2),
    (Dim(extent=MAX_DEPTH, sram=1, dram=1, before=MAX_DEPTH), 2), (Dim(extent=MAX_DEPTH, sram=1, dram=1, before=9, after=9), 1),
    (Dim(extent=MAX_DEPTH, sram=1, dram=3, before=20), 2),
], ids=["row", "column", "zeros", "padded row", "padded column"])
def test_a_scratchpad_larger_than_the_fields_count(dim, count):
    """The largest holds one element more than an instruction moves."""
    dram, sram = np.arange(1, 4 * MAX_DEPTH), np.full(MAX_DEPTH, -1)
    found = [*moves([dim], 0, 5)]
    assert len(found) == count
    for move in found:
        encode(DEFAULT, "load", memory_type=MemType.INP, **{name: getattr(move, name) for name in Move.__slots__})
        play(move, dram, sram)
    at = np.arange(MAX_DEPTH)
    inside = (at >= dim.before) & (at < MAX_DEPTH - dim.after)
    assert np.array_equal(sram, np.where(inside, 1 + 5 + (at - dim.before) * dim.dram, 0))


def test_values_as_elements():
    """Loops over 2 x 8 values of an element, in one loop, in two, or in part of a longer one."""
    assert in_elements((3, 16), ((16, 1), (32, 1)), 16) == ((0, 3, (1, 2)),)
    assert in_elements((3, 2, 8), ((16, 8, 1), (16, 8, 1)), 16) == ((0, 3, (1, 1)),)
    assert in_elements((48,), ((1,), (1,)), 16) == ((0, 3, (1, 1)),)
    for extents, steps in (((3, 8), ((16, 1),)), ((3, 16), ((16, 1), (16, 2))), ((3, 16), ((8, 1),)), ((2, 16), ((3, 1),))):
        with pytest.raises(UnfitError):
            in_elements(extents, steps, 16)


steps = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20))
loops = st.lists(st.builds(Loop, st.integers(1, 6), steps), max_size=5)


@given(loops, st.sampled_from(["default", "tiny", "tiny_i4w2"]))
@settings(max_examples=300)
def test_kernels_run_every_iteration_once(nest, name):
    """Micro-ops, hardware loops and instructions together are the nest; their fields fit."""
    cfg = NAMED[name]
    want = sorted(
        tuple(sum(i * loop.steps[at] for i, loop in zip(indices, nest, strict=True)) for at in range(3))
        for indices in product(*[range(loop.extent) for loop in nest])
    )
    got = []
    for kernel in kernels(cfg, Opcode.GEMM, tuple(nest)):
        assert len(kernel.uops) <= max(1, cfg.uop_depth // LARGEST_SHARE)
        encode(cfg, "gemm", **kernel.fields(Opcode.GEMM))
        for o, i, uop in product(range(kernel.outer.extent), range(kernel.inner.extent), kernel.uops):
            got.append(tuple(uop[at] + o * kernel.outer.steps[at] + i * kernel.inner.steps[at] for at in range(3)))
    assert sorted(got) == want


def test_the_longest_loops_become_hardware_loops():
    taps, down, across = Loop(3, (0, 1, 1)), Loop(14, (14, 16, 0)), Loop(14, (1, 1, 0))
    (kernel,) = kernels(DEFAULT, Opcode.GEMM, (taps, down, across))
    assert (kernel.outer, kernel.inner, len(kernel.uops)) == (down, across, 3)
    (kernel,) = kernels(DEFAULT, Opcode.GEMM, (Loop(4, (12, 24, 0)), Loop(12, (1, 2, 0)), taps))  # the first two run on
    assert (kernel.inner.extent, len(kernel.uops)) == (3, 1)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(-9, 9)), max_size=4))
def test_reach_is_what_a_nest_touches(nest):
    want = {100 + sum(i * step for i, (_, step) in zip(at, nest, strict=True)) for at in product(*[range(n) for n, _ in nest])}
    elements = reach(100, tuple(nest))
    got = range(elements.start, elements.stop) if isinstance(elements, slice) else elements.tolist()
    assert sorted(want) == [*got]


A, B = Buffer("A", (16,), INT32, "acc"), Buffer("B", (16,), INT32, "acc")


@pytest.mark.parametrize(("value", "row"), [
    (A[0] + 5, "ADD 5"), (minimum(maximum(A[0] >> 3, -8), 7), "SHR 3, MAX -8, MIN 7"), ((A[0] + B[0]) * 3, "ADD B[0], MUL 3"),
    (B[0] + A[0], "ADD B[0]"), (B[0] + B[1], "0, ADD B[0], ADD B[1]"), (A[0] - 4, "ADD -4"), (9 - A[0], "MUL -1, ADD 9"),
    (A[0] << 2, "SHR -2"), (IntImm(0), "0"), (IntImm(-7), "0, ADD -7"), (IntImm(-(1 << 31)), "0, ADD -32768, SHR -16"),
    (IntImm((1 << 31) - 1), "0, ADD -32768, SHR -16, ADD -1"), (IntImm(100_000), "0, ADD 2, SHR -16, ADD -31072"),
])
def test_expressions_as_passes(value, row):
    found = passes(value, lambda load: load.buffer is A)
    assert ", ".join("0" if p.op is None else f"{p.op.name} {p.load if p.load is not None else p.imm}" for p in found) == row


@pytest.mark.parametrize(("value", "why"), [
    ((A[0] + 1) * (B[0] + 1), "B[0] + 1 needs an accumulator of its own: compute it in a stage before"),
    (A[0] * 40_000, "40000 is no immediate of an ALU instruction, which are -32768 to 32767"),
    (A[0] & 3, "the ALU has no operation for A[0] & 3: it adds, multiplies, shifts, and takes the lesser or greater"),
])
def test_what_the_alu_cannot_do(value, why):
    with raises(UnfitError, why):
        passes(value, lambda load: load.buffer is A)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(8, 24))
@example([6, 7, 1, 7, 8, 2, 6, 7, 5, 7], 8)  # a kernel that is there, though not used yet, once more with those before it
def test_micro_ops_are_resident_when_they_are_used(uses, depth):
    """Every kernel lies where its user says; nothing is loaded that is there."""
    sizes = [1, 2, 3, 8, 5, 1, 4, 7, 2, 6]
    steps = [Step(Opcode.GEMM, {}, Stage.COMPUTE, uops=tuple(100 * kernel + i for i in range(sizes[kernel]))) for kernel in uses]
    new, words = load_kernels(steps, depth)
    memory: list[int | None] = [None] * depth
    for step in new:
        if step.op is Opcode.LOAD:
            base, first, count = step.fields["sram_base"], step.fields["dram_base"], step.fields["x_size"]
            assert memory[base:base + count] != [*words[first:first + count]]
            memory[base:base + count] = words[first:first + count]
        else:
            assert memory[step.fields["uop_bgn"]:step.fields["uop_end"]] == [*step.uops]
    if sum(sizes[kernel] for kernel in set(uses)) <= depth:
        assert sum(step.fields["x_size"] for step in new if step.op is Opcode.LOAD) == len(words)


def program(copies: int):
    target = vta(copies=copies)
    tensors = matmul(target, 8, 6, 8)
    return compile_for(lower(matmul_schedule(target, tensors), [tensors[0], tensors[1], tensors[4]]), target)


@pytest.mark.parametrize("copies", [1, 2])
def test_no_token_is_too_many(copies):
    """Without any one pair of a push and its pop the checker finds a race: each token is needed."""
    whole = program(copies)
    assert not check_program(whole)
    insns = [decode(whole.config, word) for word in whole.insns]
    queues = {
        ("push_next", Stage.LOAD): ("pop_prev", Stage.COMPUTE), ("push_prev", Stage.COMPUTE): ("pop_next", Stage.LOAD),
        ("push_next", Stage.COMPUTE): ("pop_prev", Stage.STORE), ("push_prev", Stage.STORE): ("pop_next", Stage.COMPUTE),
    }
    for (push, giver), (pop, taker) in queues.items():
        gives = [at for at, insn in enumerate(insns) if insn.stage is giver and insn[push]]
        takes = [at for at, insn in enumerate(insns) if insn.stage is taker and insn[pop]]
        assert len(gives) == len(takes) > 0
        for give, take in [*zip(gives, takes, strict=True)][::3]:
            words = [*whole.insns]
            for at, flag in ((give, push), (take, pop)):
                insn = decode(whole.config, words[at])
                words[at] = encode(whole.config, FORMATS[insn.op].name, **{**insn.fields, flag: 0})
            assert check_program(replace(whole, insns=tuple(words))), (push, giver, give, take)
    assert set(FLAGS) == {flag for pair in queues.items() for flag, _ in pair}


def test_tiles_are_cleared_beside_products():
    """Without products that overwrite: where those before take longer, a LOAD of zeros clears a tile; else a reset does."""
    target = vta(without=Feature.OVERWRITE)
    for inner, loads in ((64, 3), (2, 0)):
        tensors = matmul(target, 8, inner, 4)
        found = compile_for(lower(matmul_schedule(target, tensors), [tensors[0], tensors[1], tensors[4]]), target)
        insns = [decode(target.config, word) for word in found.insns]
        clears = [i for i in insns if i.op is Opcode.LOAD and i["memory_type"] == MemType.ACC and i["y_pad_0"]]
        resets = [i for i in insns if i.op is Opcode.GEMM and i["reset"]]
        assert (len(clears), len(clears) + len(resets)) == (loads, 4)
        assert decode_uop(target.config, found.uops[0])["src"] == 0
        assert AluOp.SHR in [i["alu_opcode"] for i in insns if i.op is Opcode.ALU]
