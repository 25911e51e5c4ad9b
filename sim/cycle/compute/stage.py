"""`hw.compute.stage.ComputeStage`: micro-op and accumulator loads, GEMM, ALU and FINISH, overlapped where their order allows."""

from typing import Any

from vtakit.hw.isa.config import MAX_UOP_DEPTH_LOG2
from vtakit.hw.isa.insns import FLAG_QUEUES, MemType, Stage
from vtakit.hw.timing import ALU_STAGES, ARITHMETIC_AHEAD, LOADS_AHEAD, PATIENCE, STORE_PATIENCE
from vtakit.sim.cycle.compute.arithmetic import ARITHMETIC, arithmetic, finishes, result_bank, retired, works
from vtakit.sim.cycle.compute.steps import STEP_GENERATOR, commands_ready, step_generator
from vtakit.sim.cycle.issue.stage import BUSY, IDLE, ISSUE, WAIT_MEMORY, WAIT_NEXT, WAIT_PREV, issue, retire
from vtakit.sim.cycle.load.port import LOAD_PORT, load_port, port_ready
from vtakit.sim.cycle.memory.read_master import COMPUTE
from vtakit.sim.cycle.program import ARITHMETIC_UNIT, LOADS_UNIT, MEMORY_TYPE, place
from vtakit.sim.cycle.state import NONE, record

_POP_PREV, _POP_NEXT, _PUSH_PREV, _PUSH_NEXT = (
    int(FLAG_QUEUES[Stage.COMPUTE, flag]) for flag in ("pop_prev", "pop_next", "push_prev", "push_next"))
_UOP = int(MemType.UOP)
_LOADS = 2 * LOADS_AHEAD
_MOST_UOPS = 1 << MAX_UOP_DEPTH_LOG2
_FIRST_ACC = 1  # target of the port; UOP is 0

COMPUTE_STAGE = record(
    "loads", "begun", "written", "maths", "issued", "retired", "may_write", "uop_in_hand", "waits", "store_waits", "bubbles",
    "loads_queued", "loads_first", "maths_queued", "maths_first", "begin_count", "begin_first",
    maths_before=_LOADS, is_uop=_LOADS, math=ARITHMETIC_AHEAD, loads_before=ARITHMETIC_AHEAD, begin=2, begin_loads=2,
    uops=_MOST_UOPS, issue=ISSUE, port=LOAD_PORT, steps=STEP_GENERATOR, arithmetic=ARITHMETIC,
)


def compute_stage(s: Any, p: Any, tokens: Any, reader: Any, cycle: Any, store_blocked: Any) -> None:
    """One cycle. `store_blocked`: with one copy of ACC, the bank that a STORE reads is taken."""
    port, unit = s.port, s.arithmetic
    pending, loads_done = port.writer.next, s.written  # as of the cycle's begin
    uops_end = port.writer.end if s.uop_in_hand else 0
    acc_end = 0 if s.uop_in_hand else port.writer.end
    retires, step_works = retired(unit, p), works(unit)
    loads_ready = port_ready(port) & (s.loads_queued < _LOADS)
    issue(s.issue, tokens, _POP_PREV, _POP_NEXT, loads_ready, s.maths_queued < ARITHMETIC_AHEAD)
    insn = s.issue.starts
    loading, reckoning = insn >= 0 and s.issue.unit == LOADS_UNIT, insn >= 0 and s.issue.unit == ARITHMETIC_UNIT
    load_port(port, p, p.compute, s.issue.commands, insn if loading else NONE, s.may_write, _FIRST_ACC, result_bank(unit),
              reader.requested == COMPUTE, reader.returned == COMPUTE)
    begins, done = port.writer.begins, port.writer.done
    asks = s.bubbles == 0 and (
        (port.writer.blocked and s.waits == PATIENCE) or (store_blocked and s.store_waits == STORE_PATIENCE))

    _arithmetic(s, p, loads_done, pending, uops_end, acc_end, cycle)
    unit.hold = asks
    s.bubbles = (s.bubbles << 1 | asks) & ((1 << (p.last + 2 + ALU_STAGES)) - 1)
    s.waits = 0 if not port.writer.blocked else min(s.waits + 1, PATIENCE)
    s.store_waits = 0 if not store_blocked else min(s.store_waits + 1, STORE_PATIENCE)

    _order(s, insn, loading, reckoning, begins, done, retires)
    if insn >= 0 or step_works or (not s.issue.none_started and not port.writer.starved):
        s.issue.cause = BUSY
    elif not s.issue.none_started:
        s.issue.cause = WAIT_MEMORY
    elif s.issue.lacks_prev:
        s.issue.cause = WAIT_PREV
    else:
        s.issue.cause = WAIT_NEXT if s.issue.lacks_next else IDLE
    retire(s.issue, tokens, _PUSH_PREV, _PUSH_NEXT, done, retires)


def _arithmetic(s: Any, p: Any, loads_done: Any, pending: Any, uops_end: Any, acc_end: Any, cycle: Any) -> None:
    """Steps and arithmetic, and the slice between the instructions that wait and the loops."""
    unit, steps = s.arithmetic, s.steps
    ready = not unit.has or finishes(unit)
    arithmetic(unit, p, steps.steps, steps.queue.valid, loads_done, pending, acc_end, cycle)
    slice_ready = s.begin_count < 2
    taken, before = NONE, 0
    if s.begin_count and commands_ready(steps):
        taken, before = s.begin[s.begin_first], s.begin_loads[s.begin_first]
        s.begin_first ^= 1
        s.begin_count -= 1
    step_generator(steps, p, s.issue.commands, s, taken, before, loads_done, pending, uops_end, ready)
    if s.maths_queued and slice_ready and s.begun >= s.loads_before[s.maths_first]:
        at = (s.begin_first + s.begin_count) & 1
        s.begin[at], s.begin_loads[at] = s.math[s.maths_first], s.loads_before[s.maths_first]
        s.begin_count += 1
        s.maths_first = (s.maths_first + 1) % ARITHMETIC_AHEAD
        s.maths_queued -= 1


def _order(s: Any, insn: Any, loading: Any, reckoning: Any, begins: Any, done: Any, retires: Any) -> None:
    """Order between loads and arithmetic, by counting both."""
    s.may_write = 0
    if s.loads_queued and not begins:
        before = s.maths_before[s.loads_first]
        s.may_write = s.issued >= before if s.is_uop[s.loads_first] else s.retired + retires >= before
    if begins:
        s.uop_in_hand = s.is_uop[s.loads_first]
        s.loads_first = (s.loads_first + 1) % _LOADS
        s.loads_queued -= 1
    if loading:
        at = (s.loads_first + s.loads_queued) % _LOADS
        s.maths_before[at], s.is_uop[at] = s.maths, s.issue.commands.fields[place(insn) + MEMORY_TYPE] == _UOP
        s.loads_queued += 1
    if reckoning:
        at = (s.maths_first + s.maths_queued) % ARITHMETIC_AHEAD
        s.math[at], s.loads_before[at] = insn, s.loads
        s.maths_queued += 1
    s.loads += loading
    s.maths += reckoning
    s.begun += begins
    s.written += done
    s.issued += s.steps.issued
    s.retired += retires
