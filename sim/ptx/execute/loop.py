"""The loop over instructions of one warp."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.atomics import (
    atomic,
)
from vtakit.sim.ptx.execute.bits import (
    bits_of,
)
from vtakit.sim.ptx.execute.codes import (
    BAD_TARGET,
    CAUSE,
    COPY_AGENT,
    E_CAUSE,
    E_PC,
    GROUP_AGENT,
    OK,
    RUNNING,
    S_MASK,
    S_PC,
    S_RECONVERGE,
    TRAPPED,
    UNDEFINED_REGISTER,
    W_COPY_CLOCK,
    W_COPY_FENCED,
    W_DEPTH,
    W_EXITED,
    W_FENCED,
    W_GROUP_CLOCK,
    W_ORDERED,
    W_STATUS,
    WRONG_LANES,
    X_STEPS,
    failed,
)
from vtakit.sim.ptx.execute.control import (
    arrive,
    branch,
    chosen,
    fill,
    popped,
)
from vtakit.sim.ptx.execute.convert import (
    convert,
)
from vtakit.sim.ptx.execute.copies import (
    commit,
    copy_async,
    wait,
)
from vtakit.sim.ptx.execute.definedness import (
    blamed,
    passed_on,
    undefined,
)
from vtakit.sim.ptx.execute.floats import (
    float32,
    floating,
)
from vtakit.sim.ptx.execute.groups import (
    finished,
    multiply_group,
)
from vtakit.sim.ptx.execute.integer import (
    integer,
    pack,
)
from vtakit.sim.ptx.execute.matrix import (
    load_matrices,
    multiply,
)
from vtakit.sim.ptx.execute.memory import (
    load,
    store,
)
from vtakit.sim.ptx.execute.warp import (
    across,
)
from vtakit.sim.ptx.opcodes import (
    BAR_ARRIVE,
    BAR_SYNC,
    BAR_WARP,
    BITS_FIRST,
    BRA,
    BRX,
    CLASS,
    COUNT,
    CP_ASYNC,
    CP_COMMIT,
    CP_WAIT,
    CVT_INT,
    DEF_COUNT,
    DEFS,
    EXIT,
    FENCE,
    FLOAT_END,
    IMM,
    INTEGER_END,
    KIND,
    LD,
    LD_MATRIX,
    LIST,
    MEMORY_END,
    MMA,
    N_ADD,
    NEGATED,
    OP,
    PACK,
    PRED,
    ST,
    ST_MATRIX,
    TARGET,
    TRAP,
    UNDEFINED,
    USE_COUNT,
    WARP_END,
    WG_COMMIT,
    WG_FENCE,
    WG_MMA,
    WG_WAIT,
    A,
    B,
)


def grouped(w: Any, row: Any, init: Any, causes: Any, warps: Any) -> None:
    """Run a commit, a wait or a fence."""
    op = row[OP]
    if op == CP_COMMIT:
        commit(w, W_COPY_CLOCK, warps)
    elif op == CP_WAIT:
        wait(w, W_COPY_CLOCK, COPY_AGENT, row[IMM], warps)
    elif op == WG_COMMIT:
        commit(w, W_GROUP_CLOCK, warps)
    elif op == WG_WAIT:
        finished(wait(w, W_GROUP_CLOCK, GROUP_AGENT, row[IMM], warps), init, causes)
        if row[IMM] == 0:
            warps.state[w, W_ORDERED] = 0
    elif op == WG_FENCE:
        warps.state[w, W_ORDERED] = 1
    elif op == FENCE and row[KIND]:
        warps.state[w, W_FENCED] = warps.clocks[w, w]
        warps.state[w, W_COPY_FENCED] = warps.clocks[w, COPY_AGENT + w]


def control(w: Any, row: Any, lists: Any, r: Any, pc: Any, mask: Any, active: Any, lanes: Any, n: Any, ctl: Any,
            warps: Any) -> Any:
    """Run a branch, an exit or a barrier; the stack's top then says where the warp goes on."""
    op, entry, state = row[OP], warps.stack[w], warps.state[w]
    if op == BRA:
        return branch(w, row, active, mask, pc, row[TARGET], warps)
    if op == BRX:  # one target after another
        index = r[row[A] + lanes[0]]
        if index < 0 or index >= row[COUNT]:
            return BAD_TARGET
        taken = np.int64(0)
        for i in range(n):
            if r[row[A] + lanes[i]] == index:
                taken |= np.int64(1) << lanes[i]
        if taken == mask:
            entry[state[W_DEPTH], S_PC] = lists[row[LIST] + index]
            return OK
        found = branch(w, row, taken, mask, pc - 1, lists[row[LIST] + index], warps)
        return found
    if op == EXIT:
        state[W_EXITED] |= active
        entry[state[W_DEPTH], S_PC] = pc + 1
        popped(w, warps)
        return OK
    entry[state[W_DEPTH], S_PC] = pc + 1
    if op == BAR_SYNC or op == BAR_ARRIVE:
        return arrive(w, pc, active, r[row[A] + lanes[0]], r[row[B] + lanes[0]], op == BAR_SYNC, warps, ctl)
    if op == BAR_WARP:
        members = r[row[A] + lanes[0]]
        if members & ~state[W_EXITED] & 0xFFFFFFFF & ~active:
            return WRONG_LANES
        warps.clocks[w, w] += 1
        return OK
    return TRAPPED if op == TRAP else OK


def run_warp(w: Any, budget: Any, code: Any, lists: Any, r: Any, f: Any, init: Any, causes: Any, mem: Any, ctl: Any, warps: Any,
             counts: Any,
             lanes: Any, picked: Any, scratch: Any, reals: Any) -> Any:
    """Run up to `budget` instructions of a warp, while its status is RUNNING; returns how many ran, or -1 for a fault."""
    state, fault = warps.state[w], warps.fault
    current, n, steps = np.int64(-1), 0, 0
    while steps < budget and state[W_STATUS] == RUNNING:
        entry = warps.stack[w, state[W_DEPTH]]
        pc, mask = entry[S_PC], entry[S_MASK]
        if pc == entry[S_RECONVERGE]:
            state[W_DEPTH] -= 1
            popped(w, warps)
            continue
        if mask != current:
            n = fill(lanes, mask)
            current = mask
        row = code[pc]
        op = row[OP]
        steps += 1
        active, count, who = mask, n, lanes
        if row[PRED] >= 0:
            missing = mask & ~init[row[PRED] >> 5]
            if missing:
                fault[E_PC] = pc
                failed(fault, UNDEFINED_REGISTER, 0, row[PRED] >> 5, missing, 0)
                for column in range(CAUSE):
                    fault[E_CAUSE + column] = causes[row[PRED] >> 5, column]
                return -1
            active = chosen(r, row[PRED], row[NEGATED], lanes, n)
            if active != mask:
                count = fill(picked, active)
                who = picked
                if count == 0 and op != BRA:
                    entry[S_PC] = pc + 1
                    continue
        counts[row[CLASS], 0] += 1
        counts[row[CLASS], 1] += count
        found, lost = OK, np.int64(0)
        if row[USE_COUNT]:
            missing = undefined(row, lists, init, active)
            if missing:
                if op >= FLOAT_END:
                    blamed(row, lists, init, causes, active, pc, fault)
                    return -1
                lost = passed_on(row, r, lists, init, causes, who, count, missing)
        if op < INTEGER_END:
            if op >= PACK:
                pack(row, r, lists, who, count)
            elif op >= BITS_FIRST:
                bits_of(row, r, who, count)
            else:
                integer(row, r, who, count)
        elif op < N_ADD:
            float32(row, r, f, who, count)
        elif op < CVT_INT:
            floating(row, r, who, count)
        elif op < FLOAT_END:
            convert(row, r, who, count)
        elif op == LD:
            lost = load(row, r, lists, who, count, w, mem, ctl, warps.clocks, fault)
            if lost < 0:
                fault[E_PC] = pc
                return -1
            if lost:
                fault[E_PC] = pc
                for at in range(row[DEFS], row[DEFS] + row[DEF_COUNT]):
                    for column in range(CAUSE):
                        causes[lists[at], column] = fault[column]
        elif op == ST:
            found = store(row, r, lists, who, count, w, mem, ctl, warps.clocks, fault)
        elif op == UNDEFINED:
            lost = active
            for at in range(row[DEFS], row[DEFS] + row[DEF_COUNT]):
                causes[lists[at], 0] = 0
        elif op == LD_MATRIX or op == ST_MATRIX:
            found = load_matrices(row, r, lists, active, w, mem, ctl, warps.clocks, op == ST_MATRIX, fault)
        elif op == CP_ASYNC:
            found = copy_async(row, r, who, count, w, mem, ctl, warps)
        elif op < MEMORY_END:
            found = atomic(row, r, who, count, w, mem, ctl, warps.clocks, fault)
        elif op == MMA:
            found = multiply(row, r, lists, active, reals, fault)
        elif op == WG_MMA:
            found = multiply_group(row, r, lists, active, w, mem, ctl, warps, init, causes, pc, reals)
            if found == OK:
                entry[S_PC] = pc + 1
                continue
        elif op < WARP_END:
            found = across(row, r, who, count, active, ~state[W_EXITED] & 0xFFFFFFFF, scratch, fault)
        elif op >= CP_COMMIT:
            grouped(w, row, init, causes, warps)
        else:
            found = control(w, row, lists, r, pc, mask, active, who, count, ctl, warps)
            if found != OK:
                fault[E_PC] = pc
                failed(fault, found, who[0], r[row[A] + who[0]] if row[A] >= 0 else 0, active, 0)
                return -1
            continue
        if found != OK:
            fault[E_PC] = pc
            return -1
        for at in range(row[DEFS], row[DEFS] + row[DEF_COUNT]):
            init[lists[at]] = (init[lists[at]] | active) & ~lost
        entry[S_PC] = pc + 1
    ctl[X_STEPS] += steps
    return steps
