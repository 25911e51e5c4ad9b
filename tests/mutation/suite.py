"""The tests that each mutant meets: the repository's own of the RTL, and its random programs, one call each."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import test_random_cycles
import test_rtl
import test_rtl_host
from vtakit.sim import fuzz

MODULES = (test_rtl, test_rtl_host, test_random_cycles)
RANDOM = "test_random_programs_give_the_definitions_results"  # shrinks what fails; `_programs` does not
PROGRAMS, CHUNK = 150, 25  # as many as the test runs of this configuration


@dataclass(frozen=True, slots=True)
class Check:
    """One call; whatever it raises kills the mutant."""

    name: str
    run: Callable[[], object]


def checks() -> list[Check]:
    """Every check, in the tests' order."""
    found = [
        Check(f"random programs {first} to {first + CHUNK - 1}", lambda first=first: _programs(first))
        for first in range(0, PROGRAMS, CHUNK)
    ]
    for module in MODULES:
        for name, function in vars(module).items():
            if name.startswith("test_") and name != RANDOM and function.__module__ == module.__name__:
                found += _calls(module, name, function)
    return found


def _calls(module: ModuleType, name: str, function: Callable[..., object]) -> Iterator[Check]:
    """A call for each combination of the parameters; none if the test wants a fixture."""
    axes: list[list[dict[str, Any]]] = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args[0], list(mark.args[1])
            axes.append([{names: v} if isinstance(names, str) else dict(zip(names, v, strict=True)) for v in values])
    combinations = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*axes)]
    if set(inspect.signature(function).parameters) != set(combinations[0]):
        return
    for arguments in combinations:
        told = ", ".join(str(value) for value in arguments.values())
        yield Check(f"{name}[{told}]" if told else name, lambda arguments=arguments: function(**arguments))


@cache
def _wanted(seed: int) -> tuple[Any, Any]:
    case = fuzz.Case(config="tiny", seed=seed, length=40, device="rtl")
    program = fuzz.random_program(case.load(), seed, case.length)
    return program, fuzz._run(program, "fsim", path="compiled")


def _programs(first: int) -> None:
    """Random programs with the memory's latency and stalls by seed, on the mutant and the functional simulator."""
    for seed in range(first, first + CHUNK):
        program, want = _wanted(seed)
        case = fuzz.Case(config="tiny", seed=seed, length=40, device="rtl")
        got = fuzz._run(program, "rtl", **fuzz._options(case))
        assert not isinstance(got, str), got
        difference = fuzz.first_difference(got, want)
        assert difference is None, difference
