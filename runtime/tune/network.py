"""Networks that are tuned: their tasks, what the whole takes with the decisions found, and the decisions that records have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.compiler.graph.decisions import STAGE
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import Candidate, Tuned, TuneError, alike, decided
from vtakit.runtime.source import Options
from vtakit.runtime.target import Image, Target
from vtakit.runtime.tune.outcome import Cost, Measurer
from vtakit.runtime.tune.records import SHIPPED, Record, Records, digest_of, place_of, versions

ByLayer = Mapping[str, Mapping[str, Any]]
ROUNDS = 3  # compilations with layers put back to their defaults
FORMS = "forms"  # kind of a record: decisions of whole layers with which tasks are tuned
NOISE = {"s": 0.02}  # share by which the time of a layer differs from one compilation to another, by unit of costs
_HARDWARE = ("config", "copies", "without", "system", "isa", "core")  # of a key: the machine, beside what it computes


@dataclass(frozen=True, eq=False)
class Network:
    """A model as the tuner sees it; the graph is as imported.

    threads : of a processor's parallel loops; None for the target's default
    forms   : decisions of whole layers, with which its tasks are made
    plain   : the same network without forms; None if this is it
    """

    graph: Graph
    target: Target
    options: Options
    evaluate: Evaluate
    tuned: Sequence[Tuned]
    threads: int | None = None
    forms: ByLayer = field(default_factory=dict)
    plain: "Network | None" = None

    @classmethod
    def of(
        cls, graph: Graph, target: Target, options: Options, evaluate: Evaluate, threads: int | None = None,
    ) -> "Network":
        """Return a network with its tasks."""
        return cls(graph, target, options, evaluate, target.tasks(graph, options, evaluate, threads), threads)

    def on(self, threads: int) -> "Network":
        """Return the network for another number of threads."""
        return Network.of(self.graph, self.target, self.options, self.evaluate, threads)

    def formed(self, forms: ByLayer) -> "Network":
        """Return the network with decisions of whole layers, and the tasks that it then has."""
        if not forms:
            return self
        given = self.options.decisions
        merged = {layer: {**made, **given.get(layer, {})} for layer, made in forms.items()}
        options = replace(self.options, decisions={**given, **merged})
        return replace(self, tuned=self.target.tasks(self.graph, options, self.evaluate, self.threads), forms=forms, plain=self)

    @cached_property
    def usual(self) -> Image:
        """Return the whole as it is compiled by default."""
        return self.image({}) if self.plain is None else self.plain.usual

    @property
    def key(self) -> dict[str, Any]:
        """Return what decides the cost of the whole: its tasks by default, by layer."""
        if self.plain is not None:
            return self.plain.key
        return {"network": [[digest_of(each.task.key), [*each.layers]] for each in self.tuned]}

    def image(self, decisions: ByLayer) -> Image:
        """Return the whole, compiled with decisions for its layers. Raises VtakitError where that cannot be."""
        options = replace(self.options, decisions={**decisions, **self.options.decisions})
        return self.target.compile(self.graph, options, self.evaluate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The decisions for a whole network, and what it takes with them.

    kept : layers that keep their defaults although their tasks have a cheaper candidate
    """

    decisions: ByLayer
    cost: float
    default: float
    kept: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """Share of the default's cost that is saved."""
        return 1 - self.cost / self.default


def settle(
    network: Network, found: Mapping[int, Candidate], measurer: Measurer, tell: Callable[[str], None] = lambda text: None,
) -> Settled:
    """Measure the whole network with its forms and the best candidates of its tasks; a layer keeps its default where that is
    better there.

    found    : the best candidate by the number of the task; tasks whose default is best are left out
    measurer : measures the default anew beside each other compilation, in turn
    """
    chosen = {layer: dict(made) for layer, made in network.forms.items()}
    for at, each in enumerate(network.tuned):
        for layer in each.layers if at in found else ():
            chosen[layer] = {**chosen.get(layer, {}), **found[at]}
    return settled_of(network, chosen, measurer, tell)


def settled_of(
    network: Network, chosen: ByLayer, measurer: Measurer, tell: Callable[[str], None], before: ByLayer | None = None,
) -> Settled:
    """Measure the network with decisions, without those of layers that take more with them.

    before : decisions of layers beside which others are measured, and that they keep where these are not better; none by default
    """
    tell("the whole network, by default")
    before = before or {}
    usual = network.image(before) if before else network.usual
    (base,) = measurer.costs([usual])
    best, kept = Settled(decisions=before, cost=base.total, default=base.total), list[str]()
    for _ in range(ROUNDS):
        if chosen == before:
            break
        tell("the whole network, tuned")
        try:
            image = network.image(chosen)
        except VtakitError as error:  # together they do not fit, or the accelerator refuses one of them there
            changed = _changed(chosen, before)
            lost = [layer for layer in changed if repr(layer) in str(error)] or changed[:1]
            kept += lost
            chosen = _without(chosen, lost, before)
            continue
        base, cost = measurer.costs([usual, image])
        now = Settled(decisions=dict(chosen), cost=cost.total, default=base.total, kept=tuple(kept))
        if now.gain > best.gain:
            best = now
        worse = _worse(base, cost, _changed(chosen, before), NOISE.get(network.target.unit, 0.0))
        if not worse:
            break
        kept += worse
        chosen = _without(chosen, worse, before)
    return best


def _changed(chosen: ByLayer, before: ByLayer) -> list[str]:
    """Return the layers with other decisions than before."""
    return [layer for layer, values in chosen.items() if values != before.get(layer)]


def _without(chosen: ByLayer, layers: Sequence[str], before: ByLayer) -> ByLayer:
    """Return decisions of which some layers have those of before."""
    return {layer: before[layer] if layer in layers else values for layer, values in chosen.items()
            if layer not in layers or layer in before}


def _worse(base: Cost, cost: Cost, layers: Iterable[str], noise: float) -> list[str]:
    """Return the layers that take more than before, by more than so large a share."""
    before, after = ({name: own for names, own in each.layers.items() for name in names} for each in (base, cost))
    return [layer for layer in layers if after.get(layer, 0) > (1 + noise) * before.get(layer, 0)]


def network_record(network: Network, settled: Settled, seed: int) -> Record:
    """Return the record of a whole network."""
    return Record(kind="network", task=network.graph.name, key=network.key, decisions=settled.decisions, cost=settled.cost,
                  default=settled.default, seed=seed, unit=network.target.unit)


@dataclass(frozen=True, slots=True)
class Covered:
    """The decisions that records have for a network.

    said : what was covered and what was not, in one line
    """

    decisions: ByLayer
    said: str


def covered(network: Network, records: Records, name: str) -> Covered:
    """Return the decisions for the layers of a network, and a line that says what has none, and what is of another version.

    The record of the whole network comes first; without one, each task has the cheapest of its trials. If there is none for the
    network's threads, those for others are taken, and the line says so.

    name : of the file, for the line
    """
    asked, network = network, _recorded(network, records)
    whole = [each for each in records.of(network.key, "network") if each.cost is not None]
    whole = [each for each in whole if each.versions == versions()] or whole
    old, illegal, missing, elsewhere = 0, list[str](), list[str](), 0
    other = _other_hardware(records)
    verdict = whole[-1] if whole else None
    network = _as_recorded(network, records, verdict)
    found = {layer: dict(made) for layer, made in network.forms.items()}
    for each in network.tuned:
        best = records.best(each.task.key)
        if best is None:
            missing += each.layers
            elsewhere += len(each.layers) if _computed(each.task.key) in other else 0
            continue
        old += len(each.layers) if best.versions != versions() else 0
        try:
            usual = defaults(each.task)
            for layer in each.layers:
                values = best.decisions if verdict is None else _of_stages(verdict.decisions.get(layer, {})) or usual
                decided(each.task, values)
                if alike(each.task, values) != alike(each.task, usual):
                    found[layer] = {**found.get(layer, {}), **values}
        except (DecisionError, TypeError, AttributeError, ValueError):
            for layer in each.layers:
                found.pop(layer, None)
            illegal += each.layers
    count = sum(len(each.layers) for each in network.tuned)
    has = "has" if len(found) == 1 else "have"
    parts = [(f"tuned: {name} has records of {count - len(missing)} of {counted(count, 'layer')}, and {len(found)} {has} "
              "decisions other than the default")]
    if found and network.threads is not None and network.threads != asked.threads:
        parts.append(f"they were measured with {counted(network.threads, 'thread')}")
    if verdict is None and found:
        parts.append("the whole network was not measured with them")
    if old:
        parts.append(f"those of {counted(old, 'layer')} were measured with another version of vtakit: tune again to be sure")
    if illegal:
        parts.append(f"those of {_names(illegal)} are not legal in this version and were left out")
    if elsewhere:
        parts.append(f"records for another configuration or memory, as {counted(elsewhere, 'layer')} would have, were not used")
    if missing:
        parts.append(f"without records: {_names(missing)}")
    return Covered(found, "; ".join(parts))


def _of_stages(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decisions of a layer's schedule, without those of the whole layer."""
    return {name: value for name, value in values.items() if STAGE in name}


def _as_recorded(network: Network, records: Records, verdict: Record | None) -> Network:
    """Return the network with the decisions of whole layers that its verdict has, or those with which its tasks were tuned."""
    known = [verdict] if verdict is not None else [
        each for each in records.of(network.key, FORMS) if each.versions == versions()][-1:]
    forms = {layer: own for each in known for layer, values in each.decisions.items() if isinstance(values, Mapping) and (
        own := {name: value for name, value in values.items() if STAGE not in name})}
    try:
        return network.formed(forms)
    except DecisionError:  # of another version, or of a damaged file
        return network


def _recorded(network: Network, records: Records) -> Network:
    """Return the network for its own threads if records have any of its tasks, else for other threads if they have those."""
    counts = {each.key["threads"] for each in records if isinstance(each.key.get("threads"), int)} - {network.threads}
    if _has_any(network, records):
        return network
    return next((other for count in sorted(counts, reverse=True) if _has_any(other := network.on(count), records)), network)


def _has_any(network: Network, records: Records) -> bool:
    return any(records.best(each.task.key) is not None for each in network.tuned)


def _names(layers: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(map(repr, layers[:most]))
    return shown if len(layers) <= most else f"{shown} and {len(layers) - most} more"


def _computed(key: Mapping[str, Any]) -> str:
    """Return what a task computes, whatever the hardware."""
    return repr([(name, key[name]) for name in sorted(key) if name not in (*_HARDWARE, "expression")])


def _other_hardware(records: Records) -> set[str]:
    return {_computed(each.key) for each in records if each.kind == "trial"}


def read_tuned(tuned: object) -> tuple[Records, str]:
    """Return the records that a caller gives as a path, as records, or as "shipped", and a name for messages.

    Raises TuneError for anything else, and what `Records.read` raises.
    """
    if isinstance(tuned, Records):
        return tuned, "the records"
    if not isinstance(tuned, str) and not hasattr(tuned, "__fspath__"):
        raise TuneError(f"tuned is {tuned!r:.40}: give {SHIPPED!r} for the records of this package, or the path of a file that "
                        "`vtakit tune --records` wrote")
    return Records.read(place_of(tuned)), str(tuned)
