"""Measurement of candidates for the accelerator: exact cycles of a program by the cycle model."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.vta.compile import UNFIT
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.compiler.tune.task import Refused, TuneError
from vtakit.compiler.tune.vta import VtaTask
from vtakit.compiler.tune.vta_floors import floor_of
from vtakit.hw.isa.program import Program
from vtakit.runtime.report.sections import layers_of
from vtakit.runtime.tune.forked import in_children
from vtakit.runtime.tune.outcome import Cost, Outcome
from vtakit.runtime.tune.records import digest_of
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim.api import Result
from vtakit.sim.checker import check_program
from vtakit.sim.cycle import simulate
from vtakit.sim.faults import DeviceError

LIMIT_SECONDS = 120.0  # of compilation
SLOWER = 4  # times the best so far, after which a candidate's run is ended


class _Late(Exception):
    """Compilation has taken too long."""


def program_of(task: VtaTask, given: Mapping[str, Any], limit_seconds: float = LIMIT_SECONDS, *, check: bool = True) -> Program:
    """Return the program of a candidate.

    check : whether the static checker looks at it; compilation of a network checks what is chosen

    Raises Refused where the accelerator cannot run it, the static checker finds a fault, or compilation takes too long.
    """
    return code_of(function_of(task, given), task.target, limit_seconds, check=check)


def function_of(task: VtaTask, given: Mapping[str, Any]) -> Function:
    """Return the loop IR of a candidate. Raises Refused where the accelerator cannot run it."""
    try:
        return task.lower(given)
    except DecisionError:
        raise
    except UNFIT as error:
        raise _refused(error) from None


def code_of(function: Function, target: Target, limit_seconds: float = LIMIT_SECONDS, *, check: bool = True) -> Program:
    """Return the program of a candidate's loop IR, which does not depend on the memory system. Raises Refused as `program_of`."""
    end = time.monotonic() + limit_seconds

    def tell(done: int, of: int) -> None:
        if time.monotonic() > end:
            raise _Late
    try:
        program = compile_for(function, target, tell)
    except UNFIT as error:
        raise _refused(error) from None
    except _Late:
        raise Refused(f"its program is not made within {limit_seconds:g} s") from None
    if check and (faults := check_program(program)):
        raise Refused(f"the static checker finds a fault in its program: {faults[0]}")
    return program


def _refused(error: Exception) -> Refused:
    return Refused(str(error).partition("\n")[0])


def cycles_of(program: Program, target: Target, max_cycles: int | None = None) -> int:
    """Return the cycles of a program on a target's core and memory. Raises DeviceError for more than `max_cycles`."""
    more: dict[str, Any] = {} if max_cycles is None else {"max_cycles": max_cycles}
    return _simulated(program, target, **more).counters["cycles"]


def image_cycles(parts: Sequence[VtaPart], target: Target) -> Cost:
    """Return the cycles of the programs of a model, together and by layer."""
    total, layers = 0.0, dict[tuple[str, ...], float]()
    for part in parts:
        program = part.program
        found = _simulated(program, target, trace=True)
        total += found.counters["cycles"]
        measured = layers_of("all", program, found.counters, found.trace)
        if len(measured) == len(part.layers):
            for each, layer in zip(measured, part.layers, strict=True):
                layers[layer.names] = layers.get(layer.names, 0.0) + (each.cycles or 0)
    return Cost(total, layers)


def _simulated(program: Program, target: Target, **options: Any) -> Result:
    image = program.link()
    return simulate(program.config, image.dram, image.insn_addr, image.insn_count, data=False, **target.simulated, **options)


class Cycles:
    """A `Measurer` that compiles candidates and counts their cycles, in children of this process.

    workers : children at a time; 1 for none, and this process measures
    A candidate that runs for several times the cycles of the best of the batches before is ended; one whose products or loads
    alone take that long is not compiled.
    """

    def __init__(self, workers: int = 2, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._workers, self._limit_seconds = workers, limit_seconds
        self._best: dict[str, float] = {}  # by the digest of a task's key
        self._costs: dict[Any, Cost] = {}
        self._warm = False

    def measure(self, task: Any, candidates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number and the outcome of each candidate, as they end."""
        if not isinstance(task, VtaTask):
            raise TuneError(f"task {getattr(task, 'name', task)!r:.80} is none of the accelerator, whose cycles are measured")
        best = self._best.get(digest_of(task.key))
        work = partial(_outcome, task, candidates, None if best is None else int(SLOWER * best), self._limit_seconds)
        numbers = [*range(len(candidates))]
        if numbers and not self._warm:  # machine code of the cycle model, which children then have
            self._warm = True
            yield self._noted(task, numbers[0], work(numbers.pop(0)))
        if self._workers > 1 and len(numbers) > 1:
            found = in_children(work, numbers, self._workers, 2 * self._limit_seconds)
        else:
            found = ((at, work(at)) for at in numbers)
        for at, outcome in found:
            yield self._noted(task, at, outcome)

    def _noted(self, task: VtaTask, at: int, outcome: Outcome) -> tuple[int, Outcome]:
        if outcome.cost is not None:
            name = digest_of(task.key)
            self._best[name] = min(outcome.cost, self._best.get(name, outcome.cost))
        return at, outcome

    def costs(self, images: Sequence[Any]) -> list[Cost]:
        """Return the cycles of whole models. A model that was counted before has the same ones again."""
        for image in images:
            if image not in self._costs:
                (self._costs[image],) = image.target.costs([image])
        return [self._costs[image] for image in images]

    def close(self) -> None:
        """Forget the best."""
        self._best.clear()


def _outcome(
    task: VtaTask, candidates: Sequence[Mapping[str, Any]], max_cycles: int | None, limit_seconds: float, at: int,
) -> Outcome:
    """Return the outcome of one candidate."""
    begin = time.perf_counter()
    cost, error = None, ""
    try:
        if max_cycles is not None and (floor := floor_of(task, candidates[at])) > max_cycles:
            late = f"timeout: its products or loads take {floor} cycles at least, and {max_cycles} are {SLOWER} times the best"
            return Outcome(None, 0.0, late, time.perf_counter() - begin)
        program = program_of(task, candidates[at], limit_seconds, check=False)
        cost = float(cycles_of(program, task.target, max_cycles))
    except Refused as refused:
        error = f"refused: {refused}"
    except DeviceError as late:
        error = f"timeout: {late}"
    return Outcome(cost, 0.0, error, time.perf_counter() - begin)
