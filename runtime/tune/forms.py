"""Decisions of whole layers that are tried in the whole network, before tasks are tuned with them."""

from collections.abc import Callable
from typing import Any

from vtakit.runtime.tune.network import FORMS, Network, settled_of
from vtakit.runtime.tune.outcome import Measurer
from vtakit.runtime.tune.records import Record, Records, Writer, versions


def try_forms(
    network: Network, measurer: Measurer, records: Records, writer: Writer | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Network:
    """Return the network with the decisions of whole layers that its target lets the tuner try, where a layer gains by them.

    Each layer is measured with them in the whole network, before its task is tuned. They become a record; one of this version
    is not measured again.
    """
    if not network.target.forms:
        return network
    known = [each for each in records.of(network.key, FORMS) if each.versions == versions()]
    if known:
        return network.formed(known[-1].decisions)
    chosen: dict[str, dict[str, Any]] = {}
    for layer, decision in network.target.decisions(network.graph, network.options, network.evaluate):
        others = [value for value in decision.candidates if value != decision.default]
        if decision.name in network.target.forms and decision.is_default and others:
            chosen.setdefault(layer, {})[decision.name] = others[0]
    found = settled_of(network, chosen, measurer, tell)
    if writer is not None:
        writer.add(Record(kind=FORMS, task=network.graph.name, key=network.key, decisions=found.decisions, cost=found.cost,
                          default=found.default, unit=network.target.unit))
    return network.formed(found.decisions)
