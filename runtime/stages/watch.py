"""Observers of a run in stages: counters of the accelerator, times of layers."""

import time
from collections.abc import Mapping
from threading import local
from typing import Any

from vtakit.compiler.graph.compile import Layer
from vtakit.runtime.report.report import Report
from vtakit.runtime.stages.blocks import Env
from vtakit.runtime.stages.source import Compiled
from vtakit.runtime.target import Array
from vtakit.runtime.timed import Timed


class Counting:
    """Keeps the counters of an accelerator's launches, of the last run of each thread."""

    def __init__(self) -> None:
        self._of = local()

    def begin(self) -> None:
        """Forget what an earlier run of this thread counted."""
        self._of.found = []

    def part(self, compiled: Compiled, given: Mapping[str, Array]) -> dict[str, Array]:
        """Run a compiled part."""
        made, counters = compiled.module.run_counted(given)
        self._of.found += counters
        return made

    def step(self, step: Any, env: Env) -> None:
        """Run a step."""
        step.compute(env)

    def last(self) -> list[dict[str, int]]:
        """Return the counters of this thread's last run."""
        return list(getattr(self._of, "found", ()))


class Timing:
    """Times layers and steps; one that runs several times has the sum.

    repeat : runs of each layer, of which the quickest counts
    """

    def __init__(self, repeat: int) -> None:
        self.repeat, self.said = repeat, ""
        self.launches: list[Report] = []
        self._layers: dict[Any, Timed] = {}

    @property
    def layers(self) -> tuple[Timed, ...]:
        """Layers and steps in the order of their first runs."""
        return tuple(self._layers.values())

    def begin(self) -> None:
        """Nothing is kept from an earlier run."""

    def part(self, compiled: Compiled, given: Mapping[str, Array]) -> dict[str, Array]:
        """Time a compiled part's layers, and run it."""
        found = compiled.module.profile(given, repeat=self.repeat)
        self.said = self.said or found.said
        self.launches += found.launches
        for number, timed in enumerate(found.layers):
            self._add((compiled.key, number), timed.layer, timed.seconds)
        return compiled.module.run(given)

    def step(self, step: Any, env: Env) -> None:
        """Time a step."""
        begin = time.perf_counter()
        step.compute(env)
        self._add(id(step), Layer(-1, (step.op,), (step.name,), 0, 0), time.perf_counter() - begin)

    def _add(self, key: Any, layer: Layer, seconds: float) -> None:
        before = self._layers.get(key)
        self._layers[key] = Timed(layer, seconds + (before.seconds if before else 0))
