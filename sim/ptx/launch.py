"""A launch of a kernel: arguments, special registers, slices of work and what is counted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError, needs
from vtakit.sim.ptx.decode.context import BLOCK_SLOT, SPECIALS, signed64
from vtakit.sim.ptx.decode.program import Program
from vtakit.sim.ptx.execute import codes
from vtakit.sim.ptx.execute.blocks import run_blocks
from vtakit.sim.ptx.execute.codes import DEFINED, LOCAL_BASE, PARAM_BASE, SHARED_BASE, VALID
from vtakit.sim.ptx.faults import KernelFault, sentence
from vtakit.sim.ptx.memory import DeviceMemory
from vtakit.sim.ptx.opcodes import CLASSES, LANES

Dim = tuple[int, int, int]
_SLICE = 5_000_000  # instructions of warps between two looks at Ctrl-C
_LIMIT = 1 << 40
_REALS = 1 << 15  # float64 for the operands of one product
_MOST_THREADS, _MOST_SHARED = 1024, 227 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of a launch.

    warp_instructions, lane_instructions   by class; a lane instruction is one of one lane
    requests                               accesses to memory by warps
    sectors                                32-byte pieces of global memory, counted where neighbouring lanes leave one for another
    """

    warp_instructions: dict[str, int]
    lane_instructions: dict[str, int]
    requests: int
    sectors: int

    @property
    def lanes(self) -> int:
        return sum(self.lane_instructions.values())


def launch(program: Program, symbols: dict[str, int], grid: Dim, block: Dim, args: Sequence[Any], memory: DeviceMemory, *,
           shared: int = 0, checks: bool = True, plain: bool = False, limit: int = _LIMIT) -> Counters:
    """Run a kernel; `symbols` are addresses of its module's variables, `shared` the bytes of dynamic shared memory.

    `plain` runs the definition in Python, `limit` bounds the instructions of all warps together.
    """
    threads, blocks = int(np.prod(block)), int(np.prod(grid))
    name = program.kernel.name
    _bounded(name, grid, block, threads, program, shared)
    warps = -(-threads // LANES)
    mem = memory.arrays(program.granule)
    _write_params(program, args, mem)
    x = np.zeros(codes.CONTROL_COLUMNS, np.int64)
    shared_end = program.shared_bytes + shared
    for column, value in (
        (codes.X_CHECKS, int(checks)), (codes.X_GRANULE, program.granule), (codes.X_TOP, memory.top),
        (codes.X_SHARED, shared_end),
        (codes.X_LOCAL, program.local_bytes), (codes.X_BLOCKS, blocks), (codes.X_LAUNCH_CLOCK, memory.clock),
        (codes.X_WARPS, warps),
        (codes.X_THREADS, threads), (codes.X_GRID_X, grid[0]), (codes.X_GRID_Y, grid[1]), (codes.X_PARAM, _param_bytes(program)),
    ):
        x[column] = value
    regs = np.zeros((warps, program.registers * LANES), np.int64)
    _write_specials(regs, grid, block, program.local_bytes, shared, shared_end)
    _write_constants(regs, program, symbols)
    init = np.zeros((warps, program.registers), np.int64)
    init[:, : program.first] = 0xFFFFFFFF
    causes = np.zeros((warps, program.registers, codes.CAUSE), np.int64)
    ranges = np.array([(SHARED_BASE + at, SHARED_BASE + at + (shared if each.external else each.size))
                       for at, each in program.shared], np.int64).reshape(-1, 2)
    state = codes.Warps(np.zeros((warps, codes.WARP_COLUMNS), np.int64), np.zeros((warps, codes.DEPTH, 3), np.int64),
                        np.full((warps, codes.CLOCKS), memory.clock - 1, np.int64), np.zeros((codes.BARRIERS, 4), np.int64),
                        np.zeros(codes.E_CAUSE + codes.CAUSE, np.int64))
    counts, scratch = np.zeros((len(CLASSES), 2), np.int64), np.zeros((3, 4096), np.int64)
    values = (program.code, program.lists, regs, regs.view(np.float32), init, causes, program.first, mem, x, state, counts,
              ranges, BLOCK_SLOT,
              scratch, np.zeros(_REALS, np.float64))
    run = _plain if plain else _compiled()
    status = codes.RUNNING
    while status == codes.RUNNING:
        status = run(min(_SLICE, limit + 1), *values)
        if x[codes.X_STEPS] > limit:
            raise KernelFault(f"kernel {name}: it has run {x[codes.X_STEPS]} instructions of warps, more than the limit "
                              f"of {limit}")
    memory.clock = int(max(state.clocks.max(), state.state[:, [codes.W_COPY_CLOCK, codes.W_GROUP_CLOCK]].max())) + 2
    mem.state[SHARED_BASE : SHARED_BASE + shared_end] = 0
    mem.state[LOCAL_BASE : LOCAL_BASE + program.local_bytes * threads] = 0
    if status == codes.FAULT:
        raise KernelFault(sentence(program, symbols, grid, block, x, state, memory))
    by_class = {each: counts[number] for number, each in enumerate(CLASSES)}
    return Counters(
        warp_instructions={each: int(count[0]) for each, count in by_class.items()},
        lane_instructions={each: int(count[1]) for each, count in by_class.items()},
        requests=int(x[codes.X_REQUESTS]), sectors=int(x[codes.X_SECTORS]))


def _compiled() -> Callable[..., int]:
    with needs("machine code of the emulator of PTX", "sim"):
        from vtakit.sim.ptx.compiled import run
    return run


def _plain(*args: Any) -> int:
    with np.errstate(all="ignore"):
        return int(run_blocks(*args))


def _bounded(name: str, grid: Dim, block: Dim, threads: int, program: Program, shared: int) -> None:
    if min(*grid, *block) < 1:
        raise VtakitError(f"kernel {name}: the grid {grid} and the block {block} must have sizes of at least 1")
    if threads > _MOST_THREADS:
        raise VtakitError(f"kernel {name}: a block of {block} has {threads} threads, and at most {_MOST_THREADS} may be")
    limits = program.kernel.limits
    if "reqntid" in limits and (*limits["reqntid"], 1, 1)[:3] != tuple(block):
        raise VtakitError(f"kernel {name}: its .reqntid asks for blocks of {limits['reqntid']}, and the launch has {block}")
    if "maxntid" in limits and threads > int(np.prod(limits["maxntid"])):
        raise VtakitError(f"kernel {name}: its .maxntid allows {limits['maxntid']} threads, and the launch has {block}")
    if program.local_bytes * -(-threads // LANES) * LANES > codes.GLOBAL_BASE - LOCAL_BASE:
        raise VtakitError(f"kernel {name}: {threads} threads with {program.local_bytes} bytes of local memory each need more "
                          f"than the {codes.GLOBAL_BASE - LOCAL_BASE} bytes that the emulator has for a block")
    if program.shared_bytes + shared > codes.SHARED_FIRST + _MOST_SHARED + 16 * len(program.shared):
        raise VtakitError(f"kernel {name}: {program.shared_bytes + shared - codes.SHARED_FIRST} bytes of shared memory are more "
                          f"than {_MOST_SHARED}")


def _param_bytes(program: Program) -> int:
    return max((at + each.size for at, each in program.params), default=0)


def _write_params(program: Program, args: Sequence[Any], mem: codes.Memory) -> None:
    if len(args) != len(program.params):
        raise VtakitError(f"kernel {program.kernel.name} has {len(program.params)} parameters, and {len(args)} arguments are "
                          "given")
    for (offset, param), value in zip(program.params, args, strict=True):
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, np.ndarray | np.generic):
            data = value.tobytes()
        elif isinstance(value, float):
            data = (np.float32(value) if param.size == 4 else np.float64(value)).tobytes()
        else:
            data = (int(value) % (1 << 8 * param.size)).to_bytes(param.size, "little")
        if len(data) != param.size:
            raise VtakitError(f"kernel {program.kernel.name}: the parameter {param.name} has {param.size} bytes, and its "
                              f"argument {len(data)}")
        at = PARAM_BASE + offset
        mem.bytes[at : at + len(data)] = np.frombuffer(data, np.uint8)
        mem.state[at : at + len(data)] = VALID | DEFINED


def _write_specials(regs: npt.NDArray[np.int64], grid: Dim, block: Dim, local: int, dynamic: int, shared: int) -> None:
    warps = len(regs)
    thread = np.arange(warps * LANES)
    lane = thread % LANES
    values: dict[str, npt.NDArray[np.int64] | int] = {
        "%tid.x": thread % block[0], "%tid.y": thread // block[0] % block[1], "%tid.z": thread // (block[0] * block[1]),
        "%laneid": lane, "%warpid": thread // LANES, "%nwarpid": warps, "%nsmid": 1,
        "%lanemask_eq": 1 << lane, "%lanemask_lt": (1 << lane) - 1, "%lanemask_le": (2 << lane) - 1,
        "%lanemask_gt": 0xFFFFFFFF & ~((2 << lane) - 1), "%lanemask_ge": 0xFFFFFFFF & ~((1 << lane) - 1),
        "%dynamic_smem_size": dynamic, "%total_smem_size": shared - codes.SHARED_FIRST, "%cluster_nctarank": 1,
        "%local_window": LOCAL_BASE + thread * local,
    }
    for axis, number in zip("xyz", range(3), strict=True):
        values |= {f"%ntid.{axis}": block[number], f"%nctaid.{axis}": grid[number], f"%cluster_nctaid.{axis}": 1,
                   f"%nclusterid.{axis}": grid[number]}
    for name, value in values.items():
        slot = SPECIALS.index(name)
        regs[:, slot * LANES : (slot + 1) * LANES] = np.broadcast_to(value, warps * LANES).reshape(warps, LANES)


def _write_constants(regs: npt.NDArray[np.int64], program: Program, symbols: dict[str, int]) -> None:
    first = program.first - len(program.constants)
    for number, (symbol, value) in enumerate(program.constants, first):
        base = program.offsets[symbol] if symbol in program.offsets else symbols[symbol] if symbol else 0
        regs[:, number * LANES : (number + 1) * LANES] = signed64(base + value)
