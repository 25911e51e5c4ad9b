"""Faults of a kernel as sentences: what happened, where in the text, in which block, warp and lane."""

from typing import Any

import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.program import Program
from vtakit.sim.ptx.execute import codes
from vtakit.sim.ptx.execute.codes import AGENTS, CLOCK_SHIFT, GLOBAL_BASE, LOCAL_BASE, PARAM_BASE, SHARED_BASE
from vtakit.sim.ptx.memory import DeviceMemory
from vtakit.sim.ptx.text.syntax import Instruction

_SPACES = {o.GENERIC: "generic", o.GLOBAL: "global", o.SHARED: "shared", o.LOCAL: "local", o.PARAM: "parameter",
           o.CONST: "constant"}


class KernelFault(VtakitError):
    """A kernel that did what no kernel may do."""


def sentence(program: Program, symbols: dict[str, int], grid: tuple[int, int, int], block: tuple[int, int, int],
             x: npt.NDArray[Any], warps: codes.Warps, memory: DeviceMemory) -> str:
    """The sentence of a fault."""
    fault = warps.fault.tolist()
    kind, pc, lane, address, other, size, warp = fault[: codes.E_CAUSE]
    at = int(x[codes.X_BLOCK])
    place = at % grid[0], at // grid[0] % grid[1], at // (grid[0] * grid[1])
    if kind == codes.UNDEFINED_REGISTER:
        lane = next(number for number in range(32) if other >> number & 1)
    where = f"kernel {program.kernel.name}, block {place}, warp {warp}, lane {lane}, {_line(program, pc)}"
    if kind == codes.UNDEFINED_REGISTER:
        why = f"{program.names[address - program.first]} is used, and no value was written to it"
        if fault[codes.E_CAUSE]:
            cause, at_pc, _, its_address, its_other, its_size = fault[codes.E_CAUSE :]
            if cause == codes.NOT_WAITED:
                late = "may not have written it yet: wgmma.wait_group comes first"
                return f"{where}: {program.names[address - program.first]} is used, and {_line(program, at_pc)} {late}"
            loaded = _access(program, at_pc, cause, its_address, its_other, its_size, x, memory)
            why = f"{program.names[address - program.first]} is used, which depends on {_line(program, at_pc)}: {loaded}"
        return f"{where}: {why}"
    if kind in (codes.OUT_OF_BOUNDS, codes.WRONG_SPACE, codes.MISALIGNED, codes.UNDEFINED_MEMORY, codes.RACE_READ,
                codes.RACE_WRITE):
        return f"{where}: {_access(program, pc, kind, address, other, size, x, memory)}"
    if kind == codes.DIVERGENT_BARRIER:
        present = ~int(warps.state[warp, codes.W_EXITED]) & 0xFFFFFFFF
        why = (f"lanes {_lanes(other)} arrive at the barrier without lanes {_lanes(present & ~other)} of their warp, which wait "
               "for ever")
    elif kind == codes.EXITED_BARRIER:
        why = "threads of this warp have exited, and the barrier waits for all of them"
    elif kind == codes.DEADLOCK:
        why = _deadlock(warps, program)
    elif kind == codes.WRONG_LANES:
        why = (f"the lanes {_lanes(address)} of the mask or of the source must take part, and only lanes {_lanes(other)} do")
    else:
        why = {
            codes.DEEP: "its branches diverge more deeply than the emulator's stack", codes.TRAPPED: "the kernel traps",
            codes.BAD_BARRIER: "the barrier's number is not 0 to 15, or the threads that it waits for are no multiple of 32, or "
                               "differ from what others say",
            codes.NOT_FENCED: f"shared memory at {address:#x} is read through a descriptor, and who wrote it made no "
                              "fence.proxy.async after that and before a barrier",
            codes.UNFENCED_REGISTERS: "wgmma.fence must come before the first product, and after registers have changed",
            codes.BAD_TARGET: "the number of the branch's target is outside its table",
        }[kind]
    return f"{where}: {why}"


def _line(program: Program, pc: int) -> str:
    """An instruction with its line."""
    line = int(program.code[max(0, pc), o.LINE])
    text = next((each.text for each in program.kernel.body if isinstance(each, Instruction) and each.line == line), "")
    return f"PTX line {line} ({' '.join(text.split())})"


def _access(program: Program, pc: int, kind: int, address: int, other: int, size: int, x: npt.NDArray[Any],
            memory: DeviceMemory) -> str:
    """The clause of an access to memory that may not be."""
    row = program.code[pc].tolist()
    space = _SPACES.get(row[o.KIND2], "") if o.LD <= row[o.OP] <= o.RED else ""
    if row[o.OP] == o.CP_ASYNC:
        space = "global" if address >= GLOBAL_BASE else "shared"
    elif row[o.OP] in (o.LD_MATRIX, o.ST_MATRIX, o.WG_MMA):
        space = "shared"
    access = f"{size} bytes at {space} address {address:#x}"
    if kind == codes.OUT_OF_BOUNDS:
        return f"{access} lie outside {_nearest(program, space, address, memory)}"
    if kind == codes.WRONG_SPACE:
        return f"{access} belong to another space: cvta makes an address generic, or one of a space"
    if kind == codes.MISALIGNED:
        return f"{access} must be at a multiple of {size}"
    if kind == codes.UNDEFINED_MEMORY:
        return f"{access} are read, and nothing has written them all: {_nearest(program, space, address, memory)}"
    return _race(kind, access, other, x)


def _lanes(mask: int) -> str:
    """Lanes of a mask as ranges."""
    found, lane = [], 0
    while lane < 32:
        if mask >> lane & 1:
            last = lane
            while mask >> (last + 1) & 1 and last < 31:
                last += 1
            found.append(str(lane) if last == lane else f"{lane} to {last}")
            lane = last
        lane += 1
    return ", ".join(found) or "none"


def _nearest(program: Program, space: str, address: int, memory: DeviceMemory) -> str:
    """The buffer or variable nearest to an address."""
    if space == "generic":
        for name, base, top in (("parameter", PARAM_BASE, SHARED_BASE), ("shared", SHARED_BASE, LOCAL_BASE),
                                ("local", LOCAL_BASE, GLOBAL_BASE)):
            if base <= address < top:
                space, address = name, address - base
    if space in ("shared", "local", "parameter"):
        short = {"parameter": "param"}.get(space, space)
        variables = [each for each in (*program.kernel.variables, *(v for _, v in program.shared)) if each.space == short]
        if not variables:
            return f"{space} memory"
        near = min(variables, key=lambda each: max(program.offsets[each.name] - address,
                                                   address - program.offsets[each.name] - each.size))
        return f"the {space} variable {near.name} of {near.size} bytes at {program.offsets[near.name]:#x}"
    found = memory.buffer_near(address)
    return "every buffer" if found is None else f"the nearest buffer, {found[1]} bytes at {found[0]:#x}"


def _race(kind: int, access: str, entry: int, x: npt.NDArray[Any]) -> str:
    thread = (entry >> 1) % AGENTS
    if thread >= 1024:
        warp = (thread >> 5) % 32
        what = "an asynchronous copy" if thread >> 5 < codes.GROUP_AGENT else "a product of warpgroups"
        who = f"{what} of warp {warp}, for which this thread has not waited,"
    elif entry < int(x[codes.X_BLOCK_CLOCK]) << CLOCK_SHIFT:
        who = f"a thread of an earlier block (warp {thread >> 5}, lane {thread & 31})"
    else:
        who = f"warp {thread >> 5}, lane {thread & 31} of the same block"
    verb = "read" if kind == codes.RACE_READ else "written"
    return f"race: {access} are {verb}, and {who} touches them with no barrier between"


def _deadlock(warps: codes.Warps, program: Program) -> str:
    waiting = []
    for warp, state in enumerate(warps.state.tolist()):
        if state[codes.W_STATUS] == codes.AT_BARRIER:
            waiting.append(f"warp {warp} waits at barrier {state[codes.W_BARRIER]}")
        elif state[codes.W_STATUS] == codes.DONE:
            waiting.append(f"warp {warp} has exited")
    return "no warp can go on: " + "; ".join(waiting[:8])
