"""Programs of one loop IR for memories of different rates, made once where the code generator makes the same.

The code generator reads the bytes a cycle of the memory in two places: weights that load for longer than their products take have
another place (`sites.py`), and LOADs of weights that products do not hide are made in pieces (`ahead.py`). Both are noted while a
program is made. It is also that of a faster memory if no LOAD was made in pieces, as none is where loads take less time, and if
the same weights are slow there. `tuner_truth.py` compares one candidate in 20 with a program of its own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.stmt import Function
from vtakit.hw.isa.program import Program
from vtakit.runtime.tune.cycles import code_of

_GENERATOR: Any = import_module("vtakit.compiler.codegen.vta.compile")
_WALK: Any = import_module("vtakit.compiler.codegen.vta.sites")._Walk


class Programs:
    """Programs of a loop IR for targets that differ in the memory's rate; ask for the slowest first."""

    def __init__(self, function: Function, targets: Mapping[str, Target]) -> None:
        self._function, self._targets = function, targets
        self._fits: dict[str, Program] = {}  # by the name of a target whose program is made

    def of(self, name: str) -> Program:
        """Return the program for a target. Raises Refused as `code_of`."""
        if name not in self._fits:
            target, differ = self._targets[name], set[str]()
            rate = target.system.bytes_a_cycle
            with self._noted(target, differ):
                program = code_of(self._function, target, 60, check=False)
            self._fits |= {other: program for other, each in self._targets.items() if other == name or (
                other not in self._fits and other not in differ and each.system.bytes_a_cycle >= rate)}
        return self._fits[name]

    @contextmanager
    def _noted(self, target: Target, differ: set[str]) -> Iterator[None]:
        """Add the names of targets for which a program that is made inside may not be the same."""
        is_slow, weights_ahead = _WALK._is_slow, _GENERATOR.weights_ahead

        def noted_slow(walk: Any, data: Any, site: Any) -> bool:
            found: bool = is_slow(walk, data, site)
            for name, other in self._targets.items():
                walk.target = replace(walk.target, system=other.system)
                if is_slow(walk, data, site) != found:
                    differ.add(name)
            walk.target = target
            return found

        def noted_ahead(steps: list[Any], given: Target) -> list[Any]:
            found: list[Any] = weights_ahead(steps, given)
            if len(found) != len(steps) or any(one is not other for one, other in zip(found, steps, strict=True)):
                differ.update(self._targets)
            return found
        _WALK._is_slow = noted_slow
        _GENERATOR.weights_ahead = noted_ahead
        try:
            yield
        finally:
            _WALK._is_slow = is_slow
            _GENERATOR.weights_ahead = weights_ahead
