"""A program's cycles: `advance` from the accelerator's reset to the program's end, and what is made of its counts."""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import COUNTERS, CYCLE_CAUSES
from vtakit.hw.params import CoreParams
from vtakit.sim.cycle.control.supervisor import IDLE
from vtakit.sim.cycle.parameters import parameters_of
from vtakit.sim.cycle.program import order_of, table_of
from vtakit.sim.cycle.simulation import ENDED, FULL, RUNNING, SIMULATION, TIMEOUT, advance
from vtakit.sim.cycle.state import NONE, zeros
from vtakit.sim.cycle.surroundings import POLL, WRITE
from vtakit.sim.decode import Decoded, Ints, Memories
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.plain import index_fault
from vtakit.sim.rtl.host import program_settings
from vtakit.sim.rtl.surroundings import Surroundings
from vtakit.sim.trace import Span, Trace

_PLAIN: Any = advance  # as Python runs it
_SLICE_CYCLES = 5_000_000  # between which Ctrl-C is seen: half a second
_PLAIN_SLICE_CYCLES = 5_000
_CHANGES = 1 << 16  # of causes, that are fetched at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Cycles of a run, or of its beginning.

    counters            `cycles`, for each stage what its cycles were spent on, and the beats that were moved
    started, retired    int64 [instructions]: cycles from the program's start; `NONE` for what has not come yet
    changes             int64 [changes, 3]: cycle, stage and cause of each change of cause, if they were asked for
    """

    counters: dict[str, int]
    started: Ints
    retired: Ints
    changes: Ints

    def trace(self, stages: Ints) -> Trace:
        """Return the run as device "rtl" records it; `stages` of the instructions."""
        cycles, names = self.counters["cycles"], tuple(CYCLE_CAUSES)
        instructions, causes = [], []
        for stage in Stage:
            mine = np.flatnonzero((stages == stage) & (self.started != NONE))
            ends = np.where(self.retired[mine] == NONE, cycles, self.retired[mine] + 1)
            spans = zip(self.started[mine].tolist(), ends.tolist(), mine.tolist(), strict=True)
            instructions += [Span(stage=stage, start=start, end=end, index=index) for start, end, index in spans]
            changed = self.changes[self.changes[:, 1] == stage]
            edges = [*changed[:, 0].tolist(), cycles]
            causes += [Span(stage=stage, start=edges[n], end=edges[n + 1], name=names[cause])
                       for n, cause in enumerate(changed[:, 2].tolist())]
        return Trace(cycles=cycles, instructions=tuple(instructions), causes=tuple(causes))


def run_cycles(
    decoded: Decoded, dram: bytearray, insn_addr: int, memories: Memories, core: CoreParams, around: Surroundings, *,
    plain: bool = False, skips: bool = True, rested: bool = False,
) -> Timing:
    """Return the cycles of a checked program; `dram` as it is before, which stays as it is.

    plain, skips, rested   as in `parameters_of`

    Raises `ProgramFault` for a step whose index lies outside its scratchpad, `DeviceError` after `around.max_cycles`; either has
    the trace up to there, if `around.trace`.
    """
    order, firsts = order_of(decoded)
    arguments, outputs = _arguments(decoded, dram, insn_addr, memories, core, around, plain=plain, skips=skips, rested=rested)
    run, cycles = (_PLAIN, _PLAIN_SLICE_CYCLES) if plain else (_compiled().run, _SLICE_CYCLES)
    states = arguments[0]
    changes: list[Ints] = []
    while True:
        ending = run(*arguments, cycles)
        state = states[0] if plain else _Named(states[0])
        if ending != RUNNING:
            changes.append(np.array(outputs[2][:3 * state.changes], np.int64).reshape(-1, 3))
            _clear_changes(states)
        if ending not in (RUNNING, FULL):
            break
    counters = dict(zip(COUNTERS, [int(state.busy_cycles), *(int(count) for count in state.counters)], strict=True))
    counters |= {"read_beats": int(state.memory.read_beats), "write_beats": int(state.memory.write_beats)}
    placed = [np.empty(decoded.count, np.int64) for _ in range(2)]
    for cycles_of, values in zip(placed, outputs[:2], strict=True):
        cycles_of[order] = values
    found = Timing(counters=counters, started=placed[0], retired=placed[1], changes=np.concatenate(changes))
    if ending == ENDED:
        return found
    error = (DeviceError(f"the cycle model has not finished within {around.max_cycles} cycles") if ending == TIMEOUT
             else _index_fault(decoded, order[firsts[Stage.COMPUTE]:], state.core.compute))
    error.trace = found.trace(decoded.stage) if around.trace else None
    raise error


def _index_fault(decoded: Decoded, numbers: Ints, compute: Any) -> ProgramFault:
    """Return the fault of the step at hand in the compute stage; `numbers` of its instructions in the program."""
    index = int(numbers[compute.arithmetic.insn])
    detail = index_fault(decoded.cfg, decode(decoded.cfg, decoded.word(index)), np.array(compute.uops))
    return decoded.fault(Fault.SRAM_RANGE, index, detail or "an index lies outside its scratchpad")


class Steps:
    """The plain model of a program, a cycle at a time; blocks that wait are evaluated too.

    state   a `vtakit.sim.cycle.simulation.SIMULATION`, as it is when a cycle begins
    """

    def __init__(
        self, decoded: Decoded, dram: bytearray, insn_addr: int, memories: Memories, core: CoreParams, around: Surroundings,
    ) -> None:
        self._arguments, _ = _arguments(decoded, dram, insn_addr, memories, core, around, plain=True, skips=False, rested=False)
        self.state = self._arguments[0][0]

    @property
    def busy(self) -> bool:
        """Return True in the cycles in which the program runs."""
        return bool(self.state.supervisor.state != IDLE)

    def step(self) -> bool:
        """Simulate a cycle; returns whether it was the program's last."""
        return bool(_PLAIN(*self._arguments, 1) == ENDED)


def _arguments(
    decoded: Decoded, dram: bytearray, insn_addr: int, memories: Memories, core: CoreParams, around: Surroundings, *,
    plain: bool, skips: bool, rested: bool,
) -> tuple[list[Any], list[Any]]:
    """Return the arguments of `advance` but the last, and those of them that it fills."""
    _, firsts = order_of(decoded)
    settings = len([*program_settings(insn_addr, decoded.count, memories.bases, memories.window)])
    kinds = np.array([*[WRITE] * (settings + 1), POLL], np.int64)
    inputs: list[Any] = [table_of(decoded), decoded.stage, firsts, np.frombuffer(dram, np.uint8), kinds]
    outputs: list[Any] = [*(np.full(decoded.count, NONE, np.int64) for _ in range(2)), np.zeros(3 * _CHANGES, np.int64)]
    if plain:
        inputs[:] = [values if values.dtype == np.uint8 else values.tolist() for values in inputs]
        outputs[:] = [values.tolist() for values in outputs]
    parameters = parameters_of(core, around, memories, insn_addr, decoded.count, skips=skips, rested=rested, plain=plain)
    return [zeros(SIMULATION, plain=plain), parameters, *inputs, *outputs], outputs


class _Named:
    """A NumPy record, whose fields are attributes as those of plain objects are."""

    def __init__(self, record: Any) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        value = self._record[name]
        return _Named(value) if isinstance(value, np.void) else value


def _clear_changes(states: Any) -> None:
    if isinstance(states, list):
        states[0].changes = 0
    else:
        states["changes"] = 0


def has_machine_code(*, required: bool) -> bool:
    """Return whether numba is there. Raises `VtakitError` where it is missing and `required`."""
    try:
        _compiled()
    except ImportError as error:
        if required:
            cure = "pip install 'vtakit[sim]', or use path 'plain'"
            raise VtakitError(f"the compiled path needs numba ({cure}): {error}") from None
        return False
    return True


def _compiled() -> ModuleType:
    return import_module("vtakit.sim.cycle.compiled")  # numba takes a third of a second to import, and may be absent
