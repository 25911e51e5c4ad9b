"""The tests that each mutant meets: the repository's own of the RTL, and its random programs, one call each."""

import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest
import test_random_cycles
import test_rtl
import test_rtl_faults
import test_rtl_host

from vtakit.sim import Result, fuzz, run_image
from vtakit.sim.differences import first_difference
from vtakit.sim.random_programs import RandomProgram

MODULES = (test_rtl, test_rtl_faults, test_rtl_host, test_random_cycles)
RANDOM = "test_random_programs_give_the_definitions_results"  # it shrinks what fails; `_programs` runs the same ones
PROGRAMS, CHUNK = 300, 25
FAILURES = (Exception, pytest.fail.Exception)


@dataclass(frozen=True, slots=True)
class Check:
    """One call; whatever it raises kills the mutant."""

    name: str
    run: Callable[[], object]


def passed_by_the_original(other_model: type[Exception]) -> tuple[list[Check], str]:
    """The checks that this model can run, the fastest first; and which one fails, if one does.

    A check that raises `other_model` wants another one.
    """
    usable = []
    for check in _checks():
        began = time.monotonic()
        try:
            check.run()
        except other_model:
            continue
        except FAILURES as error:
            return [], f"{check.name}: {_said(error)}"
        usable.append((time.monotonic() - began, check))
    return [check for _, check in sorted(usable, key=lambda timed: timed[0])], ""


def first_failure(checks: Sequence[Check]) -> tuple[str, str]:
    """The first check that fails, and what it says; ("", "") if all pass."""
    for check in checks:
        try:
            check.run()
        except FAILURES as error:
            return check.name, _said(error)
    return "", ""


def _said(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def _checks() -> Iterator[Check]:
    for first in range(0, PROGRAMS, CHUNK):
        yield Check(f"random programs {first} to {first + CHUNK - 1}", partial(_programs, first))
    for module in MODULES:
        for name, function in vars(module).items():
            if name.startswith("test_") and name != RANDOM and getattr(function, "__module__", "") == module.__name__:
                yield from _calls(name, function)


def _calls(name: str, function: Callable[..., object]) -> Iterator[Check]:
    """A call for each combination of the parameters; none if the test wants a fixture."""
    axes: list[list[dict[str, Any]]] = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args[0], list(mark.args[1])
            axes.append([{names: v} if isinstance(names, str) else dict(zip(names, v, strict=True)) for v in values])
    for parts in itertools.product(*axes):
        arguments = {key: value for part in parts for key, value in part.items()}
        if set(inspect.signature(function).parameters) == set(arguments):
            told = ", ".join(map(str, arguments.values()))
            yield Check(f"{name}[{told}]" if told else name, partial(function, **arguments))


@cache
def _wanted(seed: int) -> tuple[fuzz.Case, RandomProgram, Result]:
    case = fuzz.Case(config="tiny", seed=seed, length=40, device="rtl")
    program = case.program()
    return case, program, run_image(program.dram, program.insn_addr, program.insn_count, program.config, bases=program.bases)


def _programs(first: int) -> None:
    """Random programs with the memory's latency and stalls by seed, on the mutant and the functional simulator."""
    for seed in range(first, first + CHUNK):
        case, p, want = _wanted(seed)
        got = run_image(p.dram, p.insn_addr, p.insn_count, p.config, "rtl", bases=p.bases, **fuzz.options(case))
        difference = first_difference(got, want)
        assert difference is None, difference
