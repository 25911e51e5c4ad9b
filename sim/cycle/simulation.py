"""The whole simulation, cycle by cycle: host and memory around the accelerator, as `advance` of `sim/rtl/harness.cpp` has it."""

from typing import Any

import numpy as np

from vtakit.hw.isa.config import UOP_BYTES
from vtakit.sim.cycle.control.supervisor import BEGIN, IDLE, REGISTERS, SUPERVISOR, registers, supervisor
from vtakit.sim.cycle.core import CORE, core, reset_core
from vtakit.sim.cycle.dram import CHIP
from vtakit.sim.cycle.load.targets import TARGETS
from vtakit.sim.cycle.program import keep
from vtakit.sim.cycle.state import record
from vtakit.sim.cycle.surroundings import (
    HOST,
    MEMORY,
    MOST_CREDIT,
    RANDOM,
    drive_host,
    drive_memory,
    seed_random,
    write_data,
)

RUNNING, ENDED, TIMEOUT, FAILED, FULL = range(5)  # what `advance` returns; FULL: no room for more changes of causes
CAUSES = 5

PARAMETERS = record(
    "bus_bits", "bus_bytes", "bus_bytes_log2", "outstanding", "burst_beats", "buffer_beats", "requantizes", "last",
    "gemm_passes", "mul_passes", "one_copy",
    "inp_depth", "wgt_depth", "acc_depth", "dst_at", "dst_mask", "src_at", "src_mask", "wgt_at", "wgt_mask",
    "out_bytes", "out_bytes_log2", "out_parts", "out_lanes", "table_rows", "insn_addr", "insn_count",
    "latency", "memory_outstanding", "bandwidth", "stall", "patience", "seed_high", "seed_low", "max_cycles", "trace", "skips",
    "rested", dram=CHIP, bases=6, load=TARGETS, compute=TARGETS,
)
SIMULATION = record("begun", "busy_cycles", "changes", "delivered", delivered_to=3, last_causes=3, counters=3 * CAUSES,
                    random=RANDOM, memory=MEMORY, host=HOST, registers=REGISTERS, supervisor=SUPERVISOR, core=CORE)


def advance(
    states: Any, parameters: Any, table: Any, stages: Any, firsts: Any, dram: Any, kinds: Any, started: Any, retired: Any,
    changes: Any, cycles: Any,
) -> Any:
    """Simulate so many cycles, or until the program has ended.

    states, parameters  a `SIMULATION` and its `PARAMETERS`, each alone in an array or list
    table, stages       int64 [instructions, WORDS] and [instructions]: of the program (`sim.cycle.program`)
    dram                where micro-ops are read
    kinds               the host's list of accesses, of which the last but one starts the program, and the last waits for its end
    started, retired    int64 [instructions]: the cycles are put there, stage by stage, from each stage's place in `firsts` on
    changes             int64 [3 * n]: cycle, stage and cause of each change, if `trace`
    """
    s, p = states[0], parameters[0]
    memory, host = s.memory, s.host
    if not s.begun:
        s.begun = 1
        seed_random(s.random, p.seed_high, p.seed_low)
        reset_core(s.core, p)
        memory.cycle = -1
        memory.read_credit = memory.write_credit = MOST_CREDIT if p.rested else 0
        drive_memory(memory, p, s.random, False)
        drive_host(host, p, s.random, kinds)
    for _ in range(cycles):
        if memory.cycle >= p.max_cycles:
            return TIMEOUT
        state = s.supervisor.state
        busy = state != IDLE
        starts = False
        if not busy or p.stall:  # the host decides nothing else, once it has started the program
            starts = registers(s.registers, host, kinds, busy, memory.cycle > 0)
        ended = False
        if state >= BEGIN:
            core(s.core, p, memory, state == BEGIN, s.busy_cycles)
            write_data(memory, p)
            _note(s.core, firsts, started, retired, s.busy_cycles)
            _deliver(s, table, stages)
            if s.core.compute.port.writer.uops:
                _write_uops(s.core.compute.uops, s.core.compute.port.writer, dram)
            ended = s.core.ended
            if s.core.compute.arithmetic.failed:
                return FAILED
        if busy:
            _count(s, p, changes)
            s.busy_cycles += 1
        supervisor(s.supervisor, starts, ended)
        if busy and s.supervisor.state == IDLE:
            return ENDED
        drive_memory(memory, p, s.random, busy)
        if not busy or p.stall:
            drive_host(host, p, s.random, kinds)
        if p.trace and (s.changes + 3) * 3 > len(changes):
            return FULL
    return RUNNING


def _count(s: Any, p: Any, changes: Any) -> None:
    """Count what each stage did in this cycle."""
    running = s.supervisor.state >= BEGIN
    for stage in range(3):
        issue = s.core.load.issue if stage == 0 else s.core.compute.issue if stage == 1 else s.core.store.issue
        cause = issue.cause if running else CAUSES - 1
        s.counters[stage * CAUSES + cause] += 1
        if p.trace and (s.busy_cycles == 0 or cause != s.last_causes[stage]):
            s.last_causes[stage] = cause
            at = 3 * s.changes
            changes[at], changes[at + 1], changes[at + 2] = s.busy_cycles, stage, cause
            s.changes += 1


def _note(s: Any, first: Any, started: Any, retired: Any, cycle: Any) -> None:
    """Note which instructions start and retire in this cycle."""
    if s.load.issue.starts >= 0:
        started[first[0] + s.load.issue.starts] = cycle
    if s.load.issue.retires >= 0:
        retired[first[0] + s.load.issue.retires] = cycle
    if s.compute.issue.starts >= 0:
        started[first[1] + s.compute.issue.starts] = cycle
    if s.compute.issue.retires >= 0:
        retired[first[1] + s.compute.issue.retires] = cycle
    if s.store.issue.starts >= 0:
        started[first[2] + s.store.issue.starts] = cycle
    if s.store.issue.retires >= 0:
        retired[first[2] + s.store.issue.retires] = cycle


def _deliver(s: Any, table: Any, stages: Any) -> None:
    """Give fetch the stage of the instruction that is decoded, and a stage the fields of the one that goes there."""
    core = s.core
    if core.fetch.sent:
        n = s.delivered
        if stages[n] == 0:
            keep(core.load.issue.commands, s.delivered_to[0], table[n])
        elif stages[n] == 1:
            keep(core.compute.issue.commands, s.delivered_to[1], table[n])
        else:
            keep(core.store.issue.commands, s.delivered_to[2], table[n])
        s.delivered_to[stages[n]] += 1
        s.delivered += 1
    if s.delivered < len(stages):
        core.fetch.stage = stages[s.delivered]


def _write_uops(uops: Any, writer: Any, dram: Any) -> None:
    for n in range(writer.uops):
        word: Any = 0
        if writer.uops_from >= 0:
            for byte in range(UOP_BYTES):
                word |= np.int64(dram[writer.uops_from + n * UOP_BYTES + byte]) << 8 * byte
        uops[writer.uops_at + n] = int(word)
