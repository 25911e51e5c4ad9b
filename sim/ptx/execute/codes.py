"""Numbers that the executor's functions and their caller share: state of warps, faults, columns of the control array."""

from typing import Annotated, Any, NamedTuple

Real = Annotated[Any, "float64"]  # a parameter that machine code takes as float64; others that it has no name for are int64

# Columns of a warp's state.
(W_DEPTH, W_EXITED, W_STATUS, W_BARRIER, W_LANES, W_FAILED, W_COPY_CLOCK, W_GROUP_CLOCK, W_FENCED, W_ORDERED,
 W_COPY_FENCED) = range(11)
WARP_COLUMNS = 11
# Status of a warp.
RUNNING, AT_BARRIER, DONE, WAITING, FAULT = range(5)

# Columns of an entry of a warp's stack; the entry on top is what runs.
S_PC, S_MASK, S_RECONVERGE = range(3)
DEPTH = 192

# Columns of a barrier.
B_ARRIVED, B_EXPECTED, B_WARPS, B_PC = range(4)
BARRIERS = 16
CLOCKS = 96  # warps of a block, and agents beside them, each as a warp of its own
COPY_AGENT, GROUP_AGENT = 32, 64  # the first agent for copies and for products of warpgroups

# Control: what a launch is, and its counters.
(X_CHECKS, X_GRANULE, X_TOP, X_SHARED, X_LOCAL, X_BLOCK, X_BLOCKS, X_LAUNCH_CLOCK, X_BLOCK_CLOCK, X_WARPS, X_THREADS, X_STARTED,
 X_GRID_X, X_GRID_Y, X_WARP, X_IDLE, X_STEPS, X_SECTORS, X_REQUESTS, X_PARAM) = range(20)
CONTROL_COLUMNS = 20

# Memory: where each window begins in the arena.
PARAM_BASE, SHARED_BASE, LOCAL_BASE, GLOBAL_BASE = 0x10000, 0x100000, 0x400000, 0x4000000
SHARED_FIRST = 1024  # shared offsets below are reserved
VALID, DEFINED = 1, 2  # bits of the state of a byte of memory

# Faults.
(OK, OUT_OF_BOUNDS, MISALIGNED, UNDEFINED_REGISTER, UNDEFINED_MEMORY, RACE_READ, RACE_WRITE, DIVERGENT_BARRIER, DEADLOCK, DEEP,
 TRAPPED, WRONG_LANES, NOT_WAITED, BAD_BARRIER, EXITED_BARRIER, BAD_TARGET, WRONG_SPACE, TOO_LONG, BAD_MBARRIER, BAD_DESCRIPTOR,
 NOT_FENCED, UNFENCED_REGISTERS) = range(22)
# Columns of a fault.
E_KIND, E_PC, E_LANE, E_ADDRESS, E_OTHER, E_BYTES, E_WARP, E_CAUSE = range(8)

# Columns of the cause of an undefined register: kind (0: nothing has written it), pc, lane, address, other, bytes.
CAUSE = 6

# An entry of the shadow: who touched a granule of memory, and when.
CLOCK_SHIFT = 13
AGENTS = 4096  # threads of a block, and agents beside them


class Memory(NamedTuple):
    """The arena in several widths, the state of its bytes and the shadow: last writer and two readers of each granule."""

    bytes: Any
    halves: Any
    words: Any
    longs: Any
    state: Any
    state32: Any
    shadow: Any


class Warps(NamedTuple):
    """State of the warps of a block: `ws` columns, stacks, clocks, barriers, and the fault if there is one."""

    state: Any
    stack: Any
    clocks: Any
    barriers: Any
    fault: Any


def failed(fault: Any, kind: Any, lane: Any, address: Any, other: Any, size: Any) -> Any:
    """Write down a fault; returns its kind."""
    fault[E_KIND] = kind
    fault[E_LANE] = lane
    fault[E_ADDRESS] = address
    fault[E_OTHER] = other
    fault[E_BYTES] = size
    return kind
