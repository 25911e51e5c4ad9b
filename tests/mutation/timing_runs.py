"""Runs of the fuzzing on the model with all changes of timing: it imports the RTL, as it is rewritten by then."""

from collections.abc import Callable, Iterable

from mutation.timing_changes import Change
from mutation.timing_verdicts import Verdict

from vtakit.sim.api import Result, run_image
from vtakit.sim.differences import first_cycle
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.fuzz import Case, cases, first_block, options
from vtakit.sim.random_programs import RandomProgram

LENGTH = 40  # as the fuzzing has by default
LONG, LONG_PROGRAMS, LONG_SEED = 2000, 30, 1 << 40  # programs that it does not have


class Runs:
    """Verdicts on changes; `select` plants one, by its number, or none."""

    def __init__(self, select: Callable[[int], None]) -> None:
        self._select = select
        self._wanted: dict[Case, tuple[RandomProgram, Result]] = {}

    def verdict(self, number: int, change: Change, programs: int) -> Verdict:
        """Return the verdict on a change, whose number is its place."""
        found = self._first(number, cases("cycle", ["tiny"], 0, programs, LENGTH))
        if found is not None:
            count, case, text = found
            self._select(number)
            block = first_block(case.program(), case)
            return Verdict(name=change.name, file=change.file, programs=count, difference=text, block=block, moves=True,
                           expected=any(f": {place}{start}" in block for start in change.blocks for place in ("core.", "")))
        longer = (Case(config="tiny", seed=LONG_SEED + n, length=LONG, device="cycle") for n in range(LONG_PROGRAMS))
        found = self._first(number, longer)
        return Verdict(name=change.name, file=change.file, programs=0, difference="" if found is None else found[2], block="",
                       expected=False, moves=found is not None)

    def _first(self, number: int, work: Iterable[Case]) -> tuple[int, Case, str] | None:
        """Return the first case on which the change is noticed, and its place from 1 on."""
        for count, case in enumerate(work, start=1):
            self._select(number)
            if text := self._difference(case):
                self._select(0)
                if self._difference(case) is None:  # or the bound on a run's cycles is too low for the program
                    return count, case, text
        return None

    def _difference(self, case: Case) -> str | None:
        """Return what the fuzzing says of a case; the cycle model runs once for all changes."""
        if case not in self._wanted:
            program = case.program()
            self._wanted[case] = program, _run(program, case, "cycle", data=False)
        program, model = self._wanted[case]
        try:
            return first_cycle(model, _run(program, case, "rtl"))
        except (DeviceError, ProgramFault) as error:
            return str(error)


def _run(program: RandomProgram, case: Case, device: str, **more: object) -> Result:
    return run_image(program.dram, program.insn_addr, program.insn_count, program.config, device, bases=program.bases, trace=True,
                     **options(case), **more)
