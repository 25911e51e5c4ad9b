"""The value-flow rule finds every planted overlap of scratch values that a byte-by-byte definition finds, and no other."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from integer_nets import Integers, random_network
from model_support import vta_image

from vtakit.hw.isa.codec import decode, encode, to_bytes
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FORMATS, LOADS, MEMORIES, MemType, Opcode
from vtakit.hw.isa.program import Buffer, BufferKind, Program, Relocation
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim import run
from vtakit.sim.checker import check_program
from vtakit.sim.decode import Decoded
from vtakit.sim.order import execution_order
from vtakit.sim.value_flow import lost_values

PLANTED = 100


def transfers(program: Program) -> list[tuple[int, str, bool, range, int, int]]:
    """(instruction, value, is it a load, rows, stride of a row and its length in bytes) of each transfer of a scratch value."""
    found = []
    for entry in program.relocations:
        if entry.value:
            insn = decode(program.config, program.insns[entry.insn])
            size = MEMORIES[MemType(insn["memory_type"])].bytes_in(program.config)
            first = insn["dram_base"] * size
            found.append((entry.insn, entry.value, insn.op in LOADS, range(insn["y_size"]), insn["x_stride"] * size,
                          insn["x_size"] * size, first))
    return found


def naive(program: Program) -> list[int]:
    """The LOADs of a byte last stored for another value, and the STOREs onto an unread byte of their own: byte by byte."""
    holds: dict[int, str] = {}
    unread: set[int] = set()
    found = []
    for index, value, load, rows, stride, length, first in sorted(transfers(program)):
        at = [first + row * stride + byte for row in rows for byte in range(length)]
        if not load:
            if any(byte in unread and holds[byte] == value for byte in at):
                found.append(index)
            holds |= dict.fromkeys(at, value)
            unread.update(at)
        elif any(holds.get(byte) != value for byte in at):
            found.append(index)
        else:
            unread.difference_update(at)
    return found


def found_in(program: Program) -> list[int]:
    decoded = Decoded(program.config, to_bytes(program.insns))
    faults = list(lost_values(program, decoded, execution_order(decoded)))
    assert {fault.fault for fault in faults} <= {Fault.VALUE_LOST}
    return [fault.index for fault in faults]


def moved(program: Program, value: str, by_bytes: int, only: int | None = None) -> Program:
    """The program with one scratch value, or `only` one transfer of it, elsewhere in its buffer."""
    place = {p.field.name: p for p in FORMATS[Opcode.LOAD].place(program.config)}["dram_base"]
    words = list(program.insns)
    for entry in program.relocations:
        if entry.value == value and only in (None, entry.insn):
            kind = MemType(decode(program.config, words[entry.insn])["memory_type"])
            words[entry.insn] += by_bytes // MEMORIES[kind].bytes_in(program.config) << place.offset
    return replace(program, insns=tuple(words))


@cache
def programs() -> list[Program]:
    """Programs of random networks with several scratch values."""
    found = [part.program for seed in range(12) for part in vta_image(random_network(seed, layers=9)).parts_of(VtaPart)]
    return [program for program in found if len({entry.value for entry in program.relocations}) > 3]


def test_no_value_is_lost_in_what_the_compiler_makes():
    for program in programs():
        assert found_in(program) == naive(program) == []


def test_planted_overlaps_are_found():
    """Values are moved onto others at random; wherever a byte is lost it is found, and a changed result has a fault."""
    rng = np.random.default_rng(0)
    lost = harmless = changed = 0
    for _ in range(20 * PLANTED):
        if lost == PLANTED:
            break
        program = programs()[int(rng.integers(len(programs())))]
        ends: dict[str, tuple[int, int]] = {}
        for _, value, _, rows, stride, length, first in transfers(program):
            last = first + (len(rows) - 1) * stride + length
            low, high = ends.get(value, (first, last))
            ends[value] = min(low, first), max(high, last)
        one, other = (sorted(ends)[at] for at in rng.choice(len(ends), 2, replace=False))
        by = (int(rng.integers(ends[one][0], ends[one][1])) - ends[other][0]) // 64 * 64
        wrong = moved(program, other, by)
        room = max(high for _, high in ends.values()) + max(high - low for low, high in ends.values())
        wrong = replace(wrong, buffers=tuple([
            replace(b, size_bytes=room) if b.kind is BufferKind.SCRATCH else b for b in wrong.buffers]))
        want = naive(wrong)
        assert found_in(wrong) == want
        lost, harmless = lost + bool(want), harmless + (not want)
        if not lost % 4:
            given = {b.name: rng.bytes(b.size_bytes) for b in program.buffers if b.kind is BufferKind.INPUT}
            outputs = [b.name for b in program.buffers if b.kind is BufferKind.OUTPUT]
            good, bad = (run(each, given, order="program").buffers for each in (program, wrong))
            differs = any(good[name] != bad[name] for name in outputs)
            assert want or not differs, "a changed result without a fault"
            changed += differs
    assert lost == PLANTED
    assert harmless > 10
    assert changed > 10


def test_parts_of_a_value_on_its_other_parts_are_found():
    """One STORE is moved onto another of its value: LOADs of what is missing are at fault, and STOREs onto what is unread."""
    rng = np.random.default_rng(1)
    stores: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for number, program in enumerate(programs()):
        for index, value, load, *_, first in transfers(program):
            if not load:
                stores.setdefault((number, value), []).append((index, first))
    stored_in_parts = [(*key, found) for key, found in stores.items() if len({first for _, first in found}) > 1]
    assert len(stored_in_parts) > 3
    for number, value, found in stored_in_parts:
        (one, first), (_, onto) = (found[at] for at in rng.choice(len(found), 2, replace=False))
        wrong = moved(programs()[number], value, onto - first, only=one)
        assert found_in(wrong) == naive(wrong)
        assert found_in(wrong), "a part is nowhere, so a LOAD must miss it"


def small(*insns: tuple[str, dict[str, int]], relocations: tuple[Relocation, ...]) -> Program:
    words = [encode(DEFAULT, op, **fields) for op, fields in insns]
    return Program(config=DEFAULT, insns=tuple(words), relocations=relocations, buffers=(
        Buffer(name="s", size_bytes=256, kind=BufferKind.SCRATCH), Buffer(name="y", size_bytes=16, kind=BufferKind.OUTPUT)))


OUT = {"memory_type": int(MemType.OUT), "y_size": 1, "x_size": 1, "x_stride": 1}
ACC = {"memory_type": int(MemType.ACC), "y_size": 1, "x_size": 1, "x_stride": 1}
INP = {"memory_type": int(MemType.INP), "y_size": 1, "x_size": 1, "x_stride": 1}


@pytest.mark.parametrize(("second", "detail"), [
    ("b", (3, "it reads value 'a' from scratch buffer 's', where value 'b' has been stored since")),
    ("a", (1, "it stores value 'a' in scratch buffer 's' onto a part of it that is unread")),
])
def test_what_is_said_of_a_lost_value(second, detail):
    program = small(
        ("store", OUT), ("store", OUT | {"push_prev": 1}),
        ("load", {"memory_type": int(MemType.UOP), "pop_next": 1, "push_prev": 1}), ("load", INP | {"pop_next": 1}),
        ("finish", {}),
        relocations=(Relocation(0, "s", "a"), Relocation(1, "s", second), Relocation(3, "s", "a")),
    )
    (found,) = check_program(program)
    assert (found.fault, found.index, found.detail) == (Fault.VALUE_LOST, *detail)
    assert "dram_base=@s:a" in str(found)


def test_a_value_may_be_stored_again_once_it_is_read():
    """As in a loop, each of whose iterations has an intermediate of its own."""
    four = OUT | {"x_size": 4}  # elements of OUT, one of ACC
    program = small(
        ("store", four | {"push_prev": 1}), ("load", ACC | {"pop_next": 1, "push_next": 1}), ("store", four | {"pop_prev": 1}),
        ("finish", {}), relocations=(Relocation(0, "s", "a"), Relocation(1, "s", "a"), Relocation(2, "s", "a")))
    assert not check_program(program)


def test_a_buffer_without_names_of_values_is_one_value():
    """Hand-made programs store to it again, and may."""
    assert not check_program(small(("store", OUT), ("store", OUT), ("finish", {}), relocations=(
        Relocation(0, "s"), Relocation(1, "s"))))


def test_scratch_that_nothing_was_stored_to():
    program = small(("load", INP), ("finish", {}), relocations=(Relocation(0, "s"),))
    (fault,) = check_program(program)
    assert (fault.fault, fault.detail) == (
        Fault.VALUE_LOST, "it reads what was stored there from scratch buffer 's', where nothing has been stored")


@pytest.mark.parametrize("op", ["store", "load"])
def test_a_transfer_by_address_over_scratch_is_found(op):
    """Nothing says which value it moves; the same transfer beside the scratch buffer is none of this rule's."""
    for buffer, faults in (("s", [(Fault.DRAM_RANGE, 0)]), ("y", [])):
        program = small((op, OUT if op == "store" else INP), ("finish", {}), relocations=())
        at = program.link().addresses[buffer] // 16  # bytes of an element of either
        program = small((op, (OUT if op == "store" else INP) | {"dram_base": at}), ("finish", {}), relocations=())
        found = check_program(program)
        assert [(fault.fault, fault.index) for fault in found] == faults
        assert all("scratch buffer 's' lies, and is not relocated to it" in fault.detail for fault in found)


def test_a_network_without_branches_needs_two_places():
    net = Integers(seed=1)
    x = net.input(1, 16, 8, 8)
    for _ in range(5):
        x = net.conv(x, 16)
    (part,) = vta_image(net.finish(x)).parts_of(VtaPart)
    assert max(b.size_bytes for b in part.program.buffers if b.kind is BufferKind.SCRATCH) == 2 * 16 * 64
