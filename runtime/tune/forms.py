"""Decisions of whole layers that are tried in the whole network, before tasks are tuned with them."""

from collections.abc import Callable

from vtakit.runtime.tune.network import FORMS, ByLayer, Network, settled_of
from vtakit.runtime.tune.outcome import Measurer
from vtakit.runtime.tune.records import Record, Records, Writer, versions


def try_forms(
    network: Network, measurer: Measurer, records: Records, writer: Writer | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Network:
    """Return the network with the decisions of whole layers that its target lets the tuner try, where a layer gains by them.

    Each layer is measured with them in the whole network, before its task is tuned: one decision after another, each with those
    before it. They become a record; one of this version is not measured again.
    """
    if not network.target.forms:
        return network
    known = [each for each in records.of(network.key, FORMS) if each.versions == versions()]
    if known:
        return network.formed(known[-1].decisions)
    forms: ByLayer = {}
    default = cost = 0.0
    listed = [*network.target.decisions(network.graph, network.options, network.evaluate)]
    for name in network.target.forms:
        chosen = {layer: dict(made) for layer, made in forms.items()}
        for layer, decision in listed:
            others = [value for value in decision.candidates if value != decision.default]
            if decision.name == name and decision.is_default and others:
                chosen.setdefault(layer, {})[name] = others[0]
        found = settled_of(network, chosen, measurer, tell, forms)
        forms, cost, default = found.decisions, found.cost, default or found.default
    if writer is not None:
        writer.add(Record(kind=FORMS, task=network.graph.name, key=network.key, decisions=forms, cost=cost, default=default,
                          unit=network.target.unit))
    return network.formed(forms)
