"""Confirmation of candidates for the accelerator: the RTL runs their programs, with the cycles and bytes of the models or not."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.compiler.tune.task import Candidate, Refused, alike
from vtakit.compiler.tune.vta import VtaTask
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.runtime.tune.cycles import cycles_of, program_of
from vtakit.runtime.tune.outcome import Outcome
from vtakit.runtime.tune.records import Record, Records, Writer, versions
from vtakit.sim.api import run
from vtakit.sim.confirmed import SAMPLE_CYCLES, difference_on_rtl
from vtakit.sim.faults import DeviceError, ProgramFault

KIND = "confirmed"  # of a record
MOST_CYCLES = SAMPLE_CYCLES  # of a candidate that the RTL runs, if nothing else is asked for


@dataclass(slots=True)
class Confirmed:
    """Outcomes of the best candidates on the RTL.

    outcomes : by the number of the task: cycles, or an error of kind "wrong"
    long     : tasks whose candidates take more cycles than the RTL was to run
    missing  : the reason why the RTL runs nothing here; "" if it does
    most     : cycles that the RTL was to run
    """

    most: int
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    long: list[int] = field(default_factory=list)
    missing: str = ""

    @property
    def wrong(self) -> list[int]:
        """Return the tasks whose candidates differ on the RTL."""
        return [at for at, each in self.outcomes.items() if each.error]

    def __str__(self) -> str:
        right = len(self.outcomes) - len(self.wrong)
        parts = [f"the RTL confirms {counted(right, 'candidate')}, every cycle and byte"] if right else []
        if self.long:
            takes = "takes" if len(self.long) == 1 else "take"
            parts.append(f"{counted(len(self.long), 'candidate')} {takes} more than {self.most:,} cycles, which --confirm sets, "
                         "and the RTL did not run them")
        if self.missing:
            parts.append(f"the RTL did not run the best candidates: {self.missing}")
        return "; ".join(parts)


def confirm(
    tasks: Sequence[Any], found: Mapping[int, Candidate], most_cycles: int = MOST_CYCLES, *, records: Records | None = None,
    writer: Writer | None = None, tell: Callable[[str], None] = lambda text: None,
) -> Confirmed:
    """Run candidates on the RTL, and add a record for each; one that the records have already is not run again.

    tasks : of a network; those that are not of the accelerator are left out
    found : a candidate by the number of its task
    most_cycles : of a candidate that is run; 0 for none
    """
    done = Confirmed(most_cycles)
    for at, given in found.items() if most_cycles else ():
        task = tasks[at]
        if not isinstance(task, VtaTask):
            continue
        outcome = _known(task, given, records)
        if outcome is None:
            tell(task.name)
            try:
                outcome = on_rtl(task, given, most_cycles)
            except VtakitError as error:
                done.missing = str(error).partition("\n")[0]
                return done
            if outcome is not None and writer is not None:
                writer.add(Record(kind=KIND, task=task.name, key=task.key, decisions=given, cost=outcome.cost,
                                  error=outcome.error, seconds=round(outcome.seconds, 4)))
        if outcome is None:
            done.long.append(at)
        else:
            done.outcomes[at] = outcome
    return done


def on_rtl(task: VtaTask, given: Candidate, most_cycles: int = MOST_CYCLES) -> Outcome | None:
    """Return the outcome of a candidate on the RTL with random operands; None if it takes more than `most_cycles`.

    An error of kind "wrong" has the first difference between the RTL and device "cycle".

    Raises VtakitError where there is no RTL, as without Verilator.
    """
    begin = time.perf_counter()
    try:
        program = program_of(task, given)
        if cycles_of(program, task.target) > most_cycles:
            return None
    except Refused as error:
        return Outcome(None, 0.0, f"wrong: {error}", time.perf_counter() - begin)
    inputs = _operands(program, crc32(repr(sorted(given.items())).encode()))
    try:
        model = run(program, inputs, device="cycle", **task.target.simulated)
        difference = difference_on_rtl(program, inputs, model, **task.target.simulated)
    except (DeviceError, ProgramFault) as error:
        return Outcome(None, 0.0, f"wrong: {error}", time.perf_counter() - begin)
    if difference is not None:
        return Outcome(None, 0.0, f"wrong: on the RTL, {difference}", time.perf_counter() - begin)
    return Outcome(float(model.counters["cycles"]), 0.0, "", time.perf_counter() - begin)


def _operands(program: Program, seed: int) -> dict[str, bytes]:
    rng = np.random.default_rng(seed)
    return {each.name: rng.bytes(each.size_bytes) for each in program.buffers if each.kind is BufferKind.INPUT}


def _known(task: VtaTask, given: Candidate, records: Records | None) -> Outcome | None:
    """Return the outcome that records of this version have of a candidate on the RTL."""
    for each in records.of(task.key, KIND) if records is not None else ():
        if each.versions == versions() and alike(task, each.decisions) == alike(task, given):
            return Outcome(each.cost, 0.0, each.error, each.seconds)
    return None
