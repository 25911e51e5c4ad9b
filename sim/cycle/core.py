"""`hw.core.Core`: fetch, load, compute and store, their queues, behind one AXI4 port."""

from typing import Any

from vtakit.sim.cycle.compute.acc_memory import bank_of
from vtakit.sim.cycle.compute.arithmetic import dst_bank, src_enable
from vtakit.sim.cycle.compute.stage import COMPUTE_STAGE, compute_stage
from vtakit.sim.cycle.compute.steps import reset_step_generator
from vtakit.sim.cycle.fetch.fetch import FETCH_UNIT, ended, fetch
from vtakit.sim.cycle.issue.stage import reset_issue
from vtakit.sim.cycle.issue.token_queue import TOKEN_QUEUES, end_cycle
from vtakit.sim.cycle.load.stage import LOAD_STAGE, load_stage
from vtakit.sim.cycle.memory.read_buffer import reset_read_buffer
from vtakit.sim.cycle.memory.read_master import READ_MASTER, read_master
from vtakit.sim.cycle.memory.write_master import reset_write_master
from vtakit.sim.cycle.state import NONE, record
from vtakit.sim.cycle.store.narrower import reset_narrower
from vtakit.sim.cycle.store.port import stalled
from vtakit.sim.cycle.store.stage import STORE_STAGE, store_stage

CORE = record("finished", "ended", tokens=TOKEN_QUEUES, fetch=FETCH_UNIT, load=LOAD_STAGE, compute=COMPUTE_STAGE,
              store=STORE_STAGE, reader=READ_MASTER)


def reset_core(s: Any, p: Any) -> None:
    """Set the registers that a reset does not clear; the others are 0."""
    reset_read_buffer(s.fetch.buffer, p)
    reset_read_buffer(s.load.port.buffer, p)
    reset_read_buffer(s.compute.port.buffer, p)
    reset_issue(s.load.issue)
    reset_issue(s.compute.issue)
    reset_issue(s.store.issue)
    reset_step_generator(s.compute.steps)
    reset_narrower(s.store.port.narrower, p)
    reset_write_master(s.store.master)


def _empty(issue: Any) -> Any:
    """Return whether no instruction is at hand or under way in a stage."""
    return issue.under_way == 0 and issue.queue.out == 0


def core(s: Any, p: Any, memory: Any, starts: Any, cycle: Any) -> None:
    """One cycle. Who takes from a block comes before it, so that each finds the others as they were when the cycle began."""
    load, compute, store = s.load.issue, s.compute.issue, s.store.issue
    s.ended = s.finished and _empty(load) and _empty(compute) and _empty(store) and ended(s.fetch)
    acc_ready = not src_enable(s.compute.arithmetic, p)
    store_blocked = False
    if p.one_copy:
        port = s.store.port
        acc_ready = acc_ready and dst_bank(s.compute.arithmetic, p, cycle) != bank_of(port.walk.at)
        store_blocked = not acc_ready and port.active and not stalled(port)
    read_master(s.reader, p, memory, s.fetch.buffer, s.compute.port.buffer, s.load.port.buffer)
    store_stage(s.store, p, s.tokens, memory, acc_ready)
    compute_stage(s.compute, p, s.tokens, s.reader, cycle, store_blocked)
    load_stage(s.load, p, s.tokens, s.reader)
    taken = (load.starts != NONE) | (compute.starts != NONE) << 1 | (store.starts != NONE) << 2
    fetch(s.fetch, p, starts, s.reader, load.queue, compute.queue, store.queue, taken)
    end_cycle(s.tokens)
    if compute.finish:
        s.finished = 1
