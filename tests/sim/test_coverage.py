"""Coverage counts what a program reaches, worked out by hand; and random programs reach the declared bins."""

from itertools import chain

import pytest

from vtakit.hw.isa.codec import encode, encode_uop, to_bytes
from vtakit.hw.isa.config import NAMED, UOP_BYTES
from vtakit.hw.isa.insns import MEMORIES, AluOp, MemType, Stage
from vtakit.sim.bins import GROUPS
from vtakit.sim.coverage import Coverage, cover
from vtakit.sim.fuzz import cases
from vtakit.sim.random_programs import RandomProgram
from vtakit.sim.trace import Span, Trace

TINY = NAMED["tiny"]
RUNS = {"memory", "waits"}  # counted of runs on the RTL
CODE_AT = 1 << 13


def program(*words, uops=()):
    """Micro-ops at byte 0, instructions behind the data."""
    table = b"".join(encode_uop(TINY, **uop).to_bytes(UOP_BYTES, "little") for uop in uops)
    dram = table.ljust(CODE_AT, b"\0") + to_bytes([*words, encode(TINY, "finish")])
    bases = {kind.name.lower(): 0 for kind in MEMORIES}
    return RandomProgram(config=TINY, dram=dram, insn_addr=CODE_AT, insn_count=len(words) + 1, bases=bases)


def reached(group, *words, uops=()):
    return dict(cover([program(*words, uops=uops)]).counts[group])


def load(kind, **fields):
    return encode(TINY, "load", memory_type=kind, **fields)


UOPS = load(MemType.UOP, x_size=4, y_size=1)


def alu(op=AluOp.ADD, **fields):
    return encode(TINY, "alu", alu_opcode=op, **{"uop_end": 1, "iter_out": 1, "iter_in": 1} | fields)


def gemm(**fields):
    return encode(TINY, "gemm", **{"uop_end": 1, "iter_out": 1, "iter_in": 1} | fields)


def test_pads_and_shape():
    words = load(MemType.INP, x_size=2, y_size=3, x_stride=5, x_pad_0=1), load(MemType.WGT, x_size=1, y_pad_0=1, y_pad_1=2)
    assert reached("pads", *words) == {("LOAD INP", "left"): 1, ("LOAD WGT", "several"): 1}
    assert reached("shape", *words) == {("LOAD INP", "many", "many", "gaps"): 1, ("LOAD WGT", "0", "1", "overlap"): 1}


def test_flags_of_work_and_of_tokens_only():
    words = load(MemType.INP, x_size=1, y_size=1, push_next=1), load(MemType.UOP, pop_prev=1, push_next=1), gemm(iter_in=0)
    assert reached("load flags", *words) == {("LOAD INP", "push_next"): 1}
    assert reached("compute flags", *words) == {("tokens only", "pop_prev push_next"): 1, ("tokens only", "none"): 1}


def test_loops_and_immediates():
    words = gemm(reset=1, iter_out=0, iter_in=3), alu(AluOp.SHR, use_imm=1, imm=-32, uop_end=2), alu(AluOp.MUL, use_imm=1, imm=0)
    assert reached("gemm", *words) == {("reset", "0", "many", "1"): 1}
    assert reached("alu", *words) == {("SHR", "immediate", "1", "1", "many"): 1, ("MUL", "immediate", "1", "1", "1"): 1}
    assert reached("immediate", *words) == {("SHR", "minus the width or less"): 1, ("MUL", "0"): 1}


def test_hazards_by_distance_across_instructions():
    uops = [{"dst": 3, "src": 3, "wgt": 0}, {"dst": 5, "src": 3, "wgt": 0}]
    # Steps: multiply 3, multiply 5, ADD 3 += 3 (dst and src written two steps ago), MUL 5 *= 3 (src one ago, dst two ago).
    words = UOPS, gemm(uop_end=2), alu(), alu(AluOp.MUL, uop_bgn=1, uop_end=2)
    assert reached("hazard", *words, uops=uops) == {
        ("multiply", "alu dst", "2"): 1, ("multiply", "alu src", "2"): 1, ("alu", "MUL src", "1"): 1,
        ("multiply", "MUL dst", "2"): 1,
    }


def test_a_reset_reads_nothing_and_far_writes_count_as_far():
    words = UOPS, gemm(reset=1), gemm(reset=1), gemm(iter_in=9, dst_in=1, reset=1), gemm()
    assert reached("hazard", *words, uops=[{"dst": 0, "src": 0, "wgt": 0}]) == {("reset", "multiply dst", "7 or more"): 1}


def test_overlap_of_loads_and_arithmetic():
    acc = load(MemType.ACC, x_size=2, y_size=1, sram_base=4)
    uops = [{"dst": 3, "src": 0, "wgt": 0}, {"dst": 5, "src": 0, "wgt": 0}]
    words = UOPS, gemm(), acc, gemm(uop_bgn=1, uop_end=2)
    assert reached("overlap", *words, uops=uops) == {
        ("LOAD UOP", "just after", "the same"): 1, ("LOAD ACC", "just before", "others"): 1,
        ("LOAD ACC", "just after", "the same"): 1,
    }


def test_pages_and_beats():
    """Rows of 12 bytes from bytes 4,084 and 4,092: one ends a page, one crosses."""
    words = [load(MemType.INP, x_size=3, y_size=2, x_stride=2, dram_base=1021)]
    assert reached("page", *words) == {("LOAD INP", "ends a page"): 1, ("LOAD INP", "crosses"): 1}
    beats = reached("beats", *words)
    assert {bits: n for (_, bits, first, beats), n in beats.items() if (first, beats) == ("inside", "1")} == {
        "128": 1, "256": 1, "512": 1,
    }
    assert {bits: n for (_, bits, first, beats), n in beats.items() if (first, beats) == ("inside", "2 to 15")} == {
        "64": 2, "128": 1, "256": 1, "512": 1,
    }
    assert sum(beats.values()) == 8


def spans(stage, *ends):
    """Causes of a stage that follow one another: names and where they end."""
    starts = [0, *(end for _, end in ends)]
    return tuple(Span(stage=stage, start=start, end=end, name=name) for start, (name, end) in zip(starts, ends, strict=False))


def test_runs_and_merging():
    one, two = Coverage(), cover([program(gemm())])
    trace = Trace(cycles=30, instructions=(
        Span(stage=Stage.LOAD, start=2, end=12, index=0), Span(stage=Stage.COMPUTE, start=14, end=20, index=1),
    ), causes=(
        *spans(Stage.LOAD, ("idle", 2), ("busy", 5), ("wait_memory", 11), ("busy", 12), ("wait_memory", 20), ("idle", 30)),
        *spans(Stage.COMPUTE, ("wait_next", 3), ("wait_prev", 14), ("busy", 20), ("idle", 30)),
    ))
    ran = program(load(MemType.INP, x_size=1, y_size=1), gemm())
    one.add_run(ran, {"stall": 0, "latency": 200, "outstanding": 1}, trace)
    one.merge(two)
    assert one.counts["memory"] == {("none", "100 or more", "1"): 1}
    assert one.counts["waits"] == {
        ("LOAD INP", "busy"): 2, ("LOAD INP", "wait_memory"): 1, ("GEMM", "wait_prev before it"): 1, ("GEMM", "busy"): 1,
    }
    report = one.as_json()
    assert report["programs"] == 1
    assert report["groups"]["gemm"]["counts"] == {"multiply, 1, 1, 1": 1}
    assert (report["groups"]["gemm"]["hit"], report["groups"]["gemm"]["reachable"]) == (1, 81)
    assert len(report["groups"]["gemm"]["holes"]) == 80


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_count_is_a_declared_bin(group, random_coverage):
    declared = {each for each, reason in group.bins() if not reason}
    assert set(random_coverage.counts[group.name]) <= declared


@pytest.fixture(scope="module")
def random_coverage():
    work = cases("fsim", [*NAMED, "any"], 0, 1000, 40)  # "fsim": a random configuration for each
    return cover(case.program() for case in work)


def test_random_programs_reach_nearly_all(random_coverage):
    """The long run is benchmarks/program_coverage.py: 5,000 programs reach every bin."""
    groups = {name: g for name, g in random_coverage.as_json()["groups"].items() if name not in RUNS}
    full = {"pads", "load flags", "store flags", "configuration", "gemm", "immediate", "overlap", "page"}
    assert {name: groups[name]["holes"] for name in full if groups[name]["holes"]} == {}
    hit, reachable = (sum(g[what] for g in groups.values()) for what in ("hit", "reachable"))
    assert hit > 0.97 * reachable, list(chain.from_iterable(g["holes"] for g in groups.values()))
