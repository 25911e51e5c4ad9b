"""Instructions in which the lanes of a warp see each other."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import OK, WRONG_LANES, failed
from vtakit.sim.ptx.execute.integer import ordering
from vtakit.sim.ptx.opcodes import (
    ACTIVE_MASK,
    ELECT,
    FLAGS,
    IMM,
    KIND,
    MATCH,
    OP,
    REDUX,
    SHFL,
    SIGNED,
    VOTE,
    A,
    B,
    C,
    D,
    E,
    K,
    M,
)


def lowest(mask: Any) -> Any:
    """Number of the lowest bit that is set, or -1."""
    for lane in range(32):
        if (mask >> lane) & 1:
            return np.int64(lane)
    return np.int64(-1)


def across(row: Any, r: Any, lanes: Any, n: Any, active: Any, present: Any, scratch: Any, fault: Any) -> Any:
    """Run an instruction of a warp; `present` lanes have not exited. Every present lane of its mask must take part."""
    op = row[OP]
    if op == ACTIVE_MASK:
        for i in range(n):
            r[row[D] + lanes[i]] = active
        return OK
    for i in range(n):  # E: the mask
        members = r[row[E] + lanes[i]] & 0xFFFFFFFF
        if members & (np.int64(1) << lanes[i]) == 0 or members & present & ~active:
            return failed(fault, WRONG_LANES, lanes[i], members, active, 0)
    if op == SHFL:
        return shuffle(row, r, lanes, n, active, scratch, fault)
    if op == VOTE:
        vote(row, r, lanes, n)
    elif op == MATCH:
        match(row, r, lanes, n)
    elif op == REDUX:
        reduce(row, r, lanes, n)
    elif op == ELECT:
        for i in range(n):
            leader = lowest(r[row[E] + lanes[i]] & active)
            r[row[D] + lanes[i]] = leader
            r[row[A] + lanes[i]] = np.int64(leader == lanes[i])
    return OK


def shuffle(row: Any, r: Any, lanes: Any, n: Any, active: Any, scratch: Any, fault: Any) -> Any:
    """Run shfl.sync: KIND is 0 up, 1 down, 2 bfly, 3 idx; A is the value, B the lane, C the clamp.

    A predicate goes to IMM if that is a register.
    """
    mode = row[KIND]
    for i in range(n):
        scratch[lanes[i]] = r[row[A] + lanes[i]]
    for i in range(n):
        lane = lanes[i]
        by, clamp = r[row[B] + lane] & 31, r[row[C] + lane]
        segment = (clamp >> 8) & 31
        least = lane & segment
        most = least | (clamp & 31 & ~segment)
        if mode == 0:
            source = lane - by
            inside = source >= most
        elif mode == 1:
            source = lane + by
            inside = source <= most
        elif mode == 2:
            source = lane ^ by
            inside = source <= most
        else:
            source = least | (by & ~segment)
            inside = source <= most
        if not inside:
            source = lane
        if (active >> source) & 1 == 0:
            return failed(fault, WRONG_LANES, lane, np.int64(1) << source, active, 1)
        r[row[D] + lane] = scratch[source] & row[M]
        if row[IMM] >= 0:
            r[row[IMM] + lane] = np.int64(inside)
    return OK


def vote(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run vote.sync: KIND is 0 all, 1 any, 2 uni, 3 ballot; FLAGS negates the predicate."""
    for i in range(n):
        members = r[row[E] + lanes[i]]
        ballot, voters = np.int64(0), np.int64(0)
        for j in range(n):
            bit = np.int64(1) << lanes[j]
            if members & bit:
                voters |= bit
                if r[row[A] + lanes[j]] ^ row[FLAGS]:
                    ballot |= bit
        if row[KIND] == 3:
            value = ballot
        elif row[KIND] == 0:
            value = np.int64(ballot == voters)
        elif row[KIND] == 1:
            value = np.int64(ballot != 0)
        else:
            value = np.int64(ballot == voters or ballot == 0)
        r[row[D] + lanes[i]] = value


def match(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run match.sync: KIND is 0 any, 1 all; B is the predicate of `all`, or negative."""
    for i in range(n):
        members = r[row[E] + lanes[i]]
        same, every = np.int64(0), True
        for j in range(n):
            if (members >> lanes[j]) & 1:
                if r[row[A] + lanes[j]] == r[row[A] + lanes[i]]:
                    same |= np.int64(1) << lanes[j]
                else:
                    every = False
        if row[KIND] == 1:
            if not every:
                same = np.int64(0)
            if row[B] >= 0:
                r[row[B] + lanes[i]] = np.int64(every)
        r[row[D] + lanes[i]] = same


def reduce(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run redux.sync: KIND is 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor."""
    kind, k, m, signed = row[KIND], row[K], row[M], row[SIGNED]
    for i in range(n):
        members = r[row[E] + lanes[i]]
        total, first = np.int64(0), True
        for j in range(n):
            if (members >> lanes[j]) & 1 == 0:
                continue
            value = r[row[A] + lanes[j]]
            if signed:
                value = (value << k) >> k
            if first:
                total = value
            elif kind == 0:
                total += value
            elif kind == 1:
                total = value if ordering(value, total, signed) == 1 else total
            elif kind == 2:
                total = value if ordering(value, total, signed) == 4 else total
            elif kind == 3:
                total &= value
            elif kind == 4:
                total |= value
            else:
                total ^= value
            first = False
        r[row[D] + lanes[i]] = total & m
