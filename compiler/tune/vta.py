"""Tasks of the accelerator: one for each different operator of a network."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.vta.made import RESULT
from vtakit.compiler.graph.vta.place import Region, place
from vtakit.compiler.graph.vta.region import BETWEEN, LEFT_OUT, PADS, STORES, Operator, operator_of
from vtakit.compiler.graph.vta.signals import as_signals
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.nn.vta.blocking import THREADS, candidates
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import CHUNK, TILE, Cut, Cuts, Work, insns_of
from vtakit.compiler.nn.vta.epilogue import shape_of
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.compiler.schedule.decisions import Decisions, Named
from vtakit.compiler.te.save import save_json
from vtakit.compiler.tune.space import listed
from vtakit.compiler.tune.table import Table
from vtakit.compiler.tune.task import Candidate, Tuned, identity
from vtakit.compiler.tune.vta_amounts import Amounts, amounts_of_elements, amounts_of_products

MOST_INSNS = 20_000  # of a candidate, by the estimate: longer programs take seconds to make, and their fetches alone much time


@dataclass(frozen=True, eq=False)
class VtaTask:
    """An operator of the accelerator, whose space is the decisions of its schedule.

    name : of the first layer that it is
    """

    name: str
    target: Target
    operator: Operator

    @property
    def layer(self) -> Layer:
        """Return the operator as the library has it."""
        return self.operator.made.layer

    @cached_property
    def key(self) -> Mapping[str, Any]:
        """Return what decides its cycles; a pad's number does not."""
        pads: dict[str, Any] = {"fill": 0} if getattr(self.layer, "fill", 0) else {}
        text = save_json([replace(self.layer, **pads).result, list(self.operator.given)])
        return {
            "target": "vta", "operator": type(self.layer).__name__,
            "expression": hashlib.sha256(text.encode()).hexdigest()[:24],
            "shapes": {"in": [shape_of(tensor) for tensor in self.layer.operands], "out": shape_of(self.layer.result)},
            "config": self.target.config.to_dict(), "copies": self.target.copies, "without": int(self.target.without),
            "system": self.target.system.to_dict(), "isa": str(self.target.isa), "core": dict(self.target.core),
        } | ({PADS: LEFT_OUT} if isinstance(self.layer, Conv2d) and self.layer.inside else {}) | (
            {STORES: BETWEEN} if self.layer.stores_between else {})

    def decide(self, decisions: Decisions) -> None:
        """Make the decisions of the schedule. Raises DecisionError for a value that is no candidate."""
        self.layer.decide(Named(decisions, RESULT))

    def lower(self, given: Candidate) -> Function:
        """Return the loop IR of a candidate. Raises VtaError, LowerError or VerifyError where the accelerator cannot run it."""
        return self.operator.function(self.target, given)

    def cut(self, given: Candidate) -> Cut:
        """Return the sizes of a candidate's tiles and chunks, of an operator that is a sum of products."""
        found: Cut = self._decided(given)[0]
        return found

    def estimate(self, given: Candidate) -> float:
        """Return the cycles that the schedule rule expects."""
        return float(self._amounts([self._decided(given)]).cycles[0])

    def features(self, given: Candidate) -> npt.NDArray[np.float32]:
        """Return ratios of amounts that do not grow with the operator."""
        row: npt.NDArray[np.float32] = self._amounts([self._decided(given)]).features(self.target)[0]
        return row

    def alike(self, given: Candidate) -> str:
        """Return text that is equal for candidates of equal programs: copies decide which tiles fit, not what they are."""
        return identity({name: value for name, value in given.items() if name != f"{RESULT}.copies"})

    @cached_property
    def table(self) -> Table:
        """Return all candidates with different programs."""
        layer = _tiled(self.layer)
        if isinstance(layer, Conv2d | TransposedConv2d):
            return self._products(layer.work)
        first = {self.alike(each): each for each in listed(self)}
        rows = [*first.values()]
        amounts = self._amounts([self._decided(each) for each in rows])
        return Table(amounts.features(self.target), amounts.cycles, lambda at: dict(rows[at]))

    def _products(self, work: Work) -> Table:
        """Return the table of sums of products: what fits with one copy also has the cuts that fit with more."""
        one = replace(self.target, copies=1)
        found = {count: each for count in THREADS if (each := candidates(one, work, count)) is not None}
        cuts = Cuts(**{name.name: np.concatenate([getattr(each.cuts, name.name) for each in found.values()])
                       for name in fields(Cuts)})
        threads = np.concatenate([np.full(len(each.cuts.rows), count) for count, each in found.items()])
        short = insns_of(work, cuts) <= MOST_INSNS
        cuts, threads = (cuts.take(short), threads[short]) if short.any() else (cuts, threads)
        amounts = amounts_of_products(work, cuts, threads, self.target)

        def candidate(at: int) -> dict[str, Any]:
            cut = cuts.cut(at, 0)
            return {
                f"{RESULT}.threads": int(threads[at]), f"{RESULT}.copies": int(amounts.copies[at]),
                f"{RESULT}.tile": [getattr(cut, name) for name in TILE],
                f"{RESULT}.chunk": [getattr(cut, name) for name in CHUNK], f"{RESULT}.keep": cut.keep}
        return Table(amounts.features(self.target), amounts.cycles, candidate)

    def _decided(self, given: Candidate) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self.layer.decide(Named(Decisions(given), RESULT))
        return found

    def _amounts(self, decided: Sequence[tuple[Any, Any]]) -> Amounts:
        layer = _tiled(self.layer)
        if isinstance(layer, Conv2d | TransposedConv2d):
            cuts = Cuts(**{one.name: np.array([getattr(cut, one.name) for cut, _ in decided], np.int64) for one in fields(Cuts)})
            return amounts_of_products(layer.work, cuts, np.array([threads for _, threads in decided]), self.target)
        return amounts_of_elements(layer, layer.tilings, decided, self.target)


def _tiled(layer: Layer) -> Any:
    """Return the layer that is tiled: itself, or the one that joined channels go through."""
    return layer.layer if isinstance(layer, Concat2d) else layer


def tasks_of(graph: Graph, target: Target, decisions: ModelDecisions | None = None) -> list[Tuned]:
    """Return the operators of a graph that the accelerator runs, equal ones together, in the order of the graph."""
    decisions = ModelDecisions() if decisions is None else decisions
    found: dict[str, tuple[VtaTask, list[str]]] = {}
    for part in place(as_signals(graph, target), target, decisions=decisions).parts:
        for unit in part.units if isinstance(part, Region) else ():
            assert isinstance(part, Region)
            layer = decisions.kernel(unit.nodes)
            task = VtaTask(layer, target, operator_of(part, unit, target, decisions))
            found.setdefault(repr(task.key), (task, []))[1].append(layer)
    return [Tuned(task, tuple(layers)) for task, layers in found.values()]
