"""`hw.compute.arithmetic.Arithmetic`: steps in, accumulator elements written; stages count cycles from a step's acceptance."""

from typing import Any

from vtakit.hw.timing import ALU_STAGES
from vtakit.sim.cycle.compute.acc_memory import bank_of
from vtakit.sim.cycle.state import NONE, record

_RING = 16  # more than the stages of the deepest pipeline

# gemms, alus, reads, uses, ends: bit n is the hardware's flag at stage n; reads, uses: a pass reads src, dst from ACC.
# part, parts, doubles, half: `hw.compute.passes`.
ARITHMETIC = record("has", "dst", "src", "is_alu", "emits", "last", "fault", "insn", "loads_before", "unwritten", "delay", "hold",
                    "gemms", "alus", "reads", "uses", "ends", "part", "parts", "doubles", "half",
                    "result_valid", "result_index", "replaced", "failed", at=_RING)


def works(s: Any) -> Any:
    """Return whether a step is at hand that waits for no load."""
    return s.has and not s.unwritten


def accepts(s: Any) -> Any:
    """Return whether the step at hand enters the pipeline."""
    return s.has and not s.unwritten and s.delay == 0 and not s.hold


def finishes(s: Any) -> Any:
    """Return whether the last pass of the step at hand enters the pipeline."""
    return accepts(s) and _is_last(s)


def _is_last(s: Any) -> Any:
    return s.part == s.parts - 1 and (not s.doubles or s.half != 0)


def retired(s: Any, p: Any) -> Any:
    """Return whether the last result of an instruction is in ACC."""
    return s.ends >> (p.last + ALU_STAGES + 2) & 1


def src_enable(s: Any, p: Any) -> Any:
    """Return whether a step reads ACC's second port in this cycle."""
    stage = p.last - 3
    now = accepts(s) and s.is_alu and s.src >= 0 and not s.half
    return now if stage == 0 else (s.reads >> stage & 1) != 0


def dst_bank(s: Any, p: Any, cycle: Any) -> Any:
    """Return the bank of ACC that is read for dst in this cycle, or NONE."""
    stage = p.last - 3
    if stage == 0:
        return bank_of(s.dst) if accepts(s) and _uses(s) else NONE
    return bank_of(s.at[(cycle - stage) % _RING]) if s.uses >> stage & 1 else NONE


def _uses(s: Any) -> Any:
    """Return whether the pass at hand reads dst."""
    return (not s.doubles or s.half != 0) if s.is_alu else s.emits and _is_last(s)


def result_bank(s: Any) -> Any:
    """Return the bank of ACC that a result is written to in this cycle, or NONE."""
    return bank_of(s.result_index) if s.result_valid and not s.replaced else NONE


def arithmetic(s: Any, p: Any, steps: Any, valid: Any, loads_done: Any, pending: Any, end: Any, cycle: Any) -> None:
    """One cycle. A step is at hand in `steps` if `valid`; the others as in `step_generator`, of accumulator elements."""
    accepted, finished = accepts(s), finishes(s)
    last = p.last
    if accepted:
        if s.fault:
            s.failed = 1
        s.at[cycle % _RING] = s.dst
        s.alus |= s.is_alu and finished
        s.gemms |= not s.is_alu and s.emits and finished
        s.reads |= s.is_alu and s.src >= 0 and not s.half
        s.uses |= _uses(s) != 0
        s.ends |= s.last and finished
        if not s.doubles or s.half:
            s.part, s.half = s.part + 1, 0
        else:
            s.half = 1
    s.result_valid = s.replaced = 0
    if s.gemms >> last & 1:
        s.result_valid, s.result_index = 1, s.at[(cycle - last) % _RING]
    elif s.alus >> (last + ALU_STAGES) & 1:
        s.result_valid, s.result_index = 1, s.at[(cycle - last - ALU_STAGES) % _RING]
    if s.result_valid:
        s.replaced = (s.gemms >> (last - 1) & 1) != 0 and s.at[(cycle - last + 1) % _RING] == s.result_index
    if not s.has or finished:
        if valid:
            _take(s, p, steps, finished and s.is_alu, (s.alus & 2) != 0, s.at[(cycle - 1) % _RING])
        s.has = valid
    elif s.delay:
        s.delay -= 1
    if s.has:
        s.unwritten = s.loads_before != loads_done and (
            pending <= s.dst < end or (s.is_alu != 0 and s.src >= 0 and pending <= s.src < end))
    kept = (1 << (last + ALU_STAGES + 2)) - 1  # a bit more, once shifted: `retired`
    s.gemms, s.alus, s.ends = (s.gemms & kept) << 1, (s.alus & kept) << 1, (s.ends & kept) << 1
    s.reads, s.uses = (s.reads & kept) << 1, (s.uses & kept) << 1


def _take(s: Any, p: Any, steps: Any, follows_alu: Any, alu_before: Any, dst_before: Any) -> None:
    """Take the next step at hand; the two before it, the one at hand now and one of an ALU, decide how long it must wait."""
    n = steps.first
    dst, src, is_alu = steps.dst[n], steps.src[n], steps.is_alu[n] != 0
    if follows_alu and (not is_alu or s.dst == dst or s.dst == src):
        s.delay = ALU_STAGES
    else:
        s.delay = alu_before and (not is_alu or dst_before == dst or dst_before == src)
    s.dst, s.src, s.is_alu, s.emits, s.last, s.fault = dst, src, is_alu, steps.emits[n], steps.last[n], steps.fault[n]
    s.insn, s.loads_before = steps.insn[n], steps.loads_before[n]
    s.part, s.parts, s.half = 0, steps.parts[n], 0
    s.doubles = p.one_copy and is_alu and src >= 0 and not steps.fault[n] and bank_of(dst) == bank_of(src)
