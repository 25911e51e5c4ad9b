"""Registers without a value: who reads one, why it has none, and which results then have none either.

Compilers leave values undefined, and compute with them, where nothing looks at the result. So a fault is only the use of such a
value as an address, in memory, as a predicate or by other lanes.
"""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    CAUSE,
    E_CAUSE,
    E_PC,
    UNDEFINED_REGISTER,
    failed,
)
from vtakit.sim.ptx.opcodes import (
    AND,
    BFI,
    COUNT,
    DEF_COUNT,
    DEFS,
    LIST,
    OP,
    OR,
    PACK,
    PRMT,
    SELP,
    USE_COUNT,
    USES,
    A,
    B,
    C,
    K,
)


def undefined(row: Any, lists: Any, init: Any, active: Any) -> Any:
    """Return the active lanes for which an operand is undefined."""
    missing = np.int64(0)
    for at in range(row[USES], row[USES] + row[USE_COUNT]):
        missing |= active & ~init[lists[at]]
    return missing


def blamed(row: Any, lists: Any, init: Any, causes: Any, active: Any, pc: Any, fault: Any) -> Any:
    """Write down why an operand is undefined."""
    for at in range(row[USES], row[USES] + row[USE_COUNT]):
        slot = lists[at]
        missing = active & ~init[slot]
        if missing:
            fault[E_PC] = pc
            failed(fault, UNDEFINED_REGISTER, 0, slot, missing, 0)
            fault[E_CAUSE] = causes[slot, 0]
            if causes[slot, 0]:
                for column in range(CAUSE):
                    fault[E_CAUSE + column] = causes[slot, column]
            return


def passed_on(row: Any, r: Any, lists: Any, init: Any, causes: Any, lanes: Any, n: Any, missing: Any) -> Any:
    """Return the lanes whose result is undefined, and note why.

    A choice needs what it takes; 0 and x is 0, 1 or x is 1; what is put together from parts is undefined if all parts are.
    """
    op, lost = row[OP], missing
    if op == SELP or ((op == AND or op == OR) and row[K] == 63):
        lost = np.int64(0)
        a, b, c = row[A] >> 5, row[B] >> 5, row[C] >> 5
        for i in range(n):
            lane = lanes[i]
            x, y, z = (init[a] >> lane) & 1, (init[b] >> lane) & 1, (init[c] >> lane) & 1
            if op == SELP:
                fine = z and (x if r[row[C] + lane] else y)
            else:
                sure = np.int64(op == OR)
                fine = (x and y) or (x and r[row[A] + lane] == sure) or (y and r[row[B] + lane] == sure)
            if not fine:
                lost |= np.int64(1) << lane
    elif op == PRMT or op == BFI:
        lost = missing & ~init[row[A] >> 5] & ~init[row[B] >> 5]
    elif op == PACK:
        for part in range(row[COUNT]):
            lost &= ~init[lists[row[LIST] + part] >> 5]
    for at in range(row[USES], row[USES] + row[USE_COUNT]):
        if missing & ~init[lists[at]]:
            for to in range(row[DEFS], row[DEFS] + row[DEF_COUNT]):
                for column in range(CAUSE):
                    causes[lists[to], column] = causes[lists[at], column]
    return lost
