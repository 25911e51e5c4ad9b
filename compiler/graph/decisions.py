"""Decisions of a model, by layer: those of graph passes, of each kernel's schedule, and where a layer runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from vtakit.base.errors import one_of
from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_JSON_BYTES
from vtakit.base.reading import read_bytes
from vtakit.compiler.graph.ir import Node
from vtakit.compiler.schedule.decisions import Decision, DecisionError, Decisions, plain

ByLayer = Mapping[str, Mapping[str, Any]]  # layer -> name of a decision -> value
Given = ByLayer | str | Path  # or a JSON file of that
STAGE = "."  # in the names of decisions about a stage of a schedule


def read_decisions(given: object) -> dict[str, dict[str, Any]]:
    """Return decisions as plain data: layer -> name -> value; of None, that there are none.

    given : a mapping, or the path of a JSON file that holds one, as `vtakit decisions -o` writes

    Raises DecisionError for anything that is not made of mappings of text, with numbers, truth values, text and lists in them,
    and VtakitError for a file that cannot be read.
    """
    if given is None:
        return {}
    if isinstance(given, str | Path):
        return _read_file(Path(given))
    if not isinstance(given, Mapping):
        raise DecisionError(f"decisions are {given!r:.40}: give a mapping of layers, such as {{'conv1': {{'winograd': 0}}}}")
    found: dict[str, dict[str, Any]] = {}
    for layer in sorted(given, key=str):
        values = given[layer]
        if not isinstance(layer, str):
            raise DecisionError(f"a layer of the decisions is {layer!r:.40}: layers are text, such as 'conv1'")
        if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
            raise DecisionError(f"the decisions of layer {layer!r:.40} are {values!r:.40}: give a mapping of names to values")
        for name, value in values.items():
            if not _is_plain(value):
                raise DecisionError(f"layer {layer!r:.80}: decision {name!r:.80} is {value!r:.40}: give a number, a truth value, "
                                    "text, or a list of these")
        found[layer] = {name: plain(values[name]) for name in sorted(values)}
    return found


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    what = f"the file of decisions {str(path)!r}"
    try:
        found = read_json(read_bytes(path, "the file of decisions", MAX_JSON_BYTES), most_bytes=MAX_JSON_BYTES)
        if isinstance(found, Mapping):
            return read_decisions(found)
    except DecisionError as error:
        raise DecisionError(f"{what}: {error}") from None
    except ValueError as error:
        raise DecisionError(f"{what} is no JSON: {error}") from None
    raise DecisionError(f'{what} holds no object of layers, such as {{"conv1": {{"winograd": 0}}}}')


def _is_plain(value: object, depth: int = 2) -> bool:
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating)


class ModelDecisions:
    """Decisions of the layers of a model: values that are given, and all that passes and schedules have asked for.

    A layer has the name of its first node, or of what that makes if it has none. Where several share a name, the second is called
    "conv#2", in the order of the graph.

    layers : by name
    """

    __slots__ = ("_kernels", "layers")

    def __init__(self, given: ByLayer | None = None) -> None:
        self.layers = {layer: Decisions(values) for layer, values in (given or {}).items()}
        self._kernels: dict[str, None] = {}  # in the order of the graph

    def choose(
        self, of: Node | Sequence[Node], name: str, candidates: Sequence[Any], default: Any, rule: Callable[..., Any],
    ) -> Any:
        """Return the value of a decision that is made before schedules: the given one, or the default.

        of   : the node, or nodes, that it is about
        rule : the function that asks

        Raises DecisionError for a given value that is no candidate.
        """
        nodes = (of,) if isinstance(of, Node) else of
        layer = _numbered(name_of(nodes), lambda label: label in self.layers and name in self.layers[label].made)
        with of_layer(layer):
            return self.layers.setdefault(layer, Decisions()).choose(name, candidates, default, rule.__name__)

    def kernel(self, nodes: Sequence[Node]) -> str:
        """Return the layer of nodes that become one kernel: another one for each call."""
        layer = _numbered(name_of(nodes), lambda label: label in self._kernels)
        self._kernels[layer] = None
        return layer

    def given(self, layer: str) -> dict[str, Any]:
        """Return the values that are given for the stages of a layer's schedule."""
        return {name: value for name, value in self.layers[layer].given.items() if STAGE in name} if layer in self.layers else {}

    def add(self, layer: str, made: Mapping[str, Decision]) -> None:
        """Add what a layer's schedule has decided."""
        if made:
            self.layers.setdefault(layer, Decisions()).made.update(made)

    def take(self, other: "ModelDecisions") -> None:
        """Become what a copy has become."""
        self.layers, self._kernels = other.layers, other._kernels

    def check(self) -> None:
        """Raise DecisionError for a given decision that nothing asked for."""
        having = [layer for layer, decisions in self.layers.items() if decisions.made]
        for layer, decisions in self.layers.items():
            if not decisions.made:
                raise DecisionError(
                    f"layer {layer!r:.80} has no decisions here: {one_of(having, layer) if having else 'none has'}")
            with of_layer(layer):
                decisions.check()

    def copy(self) -> "ModelDecisions":
        """Return decisions of their own, with the same given and made."""
        new = ModelDecisions()
        new.layers = {layer: decisions.copy() for layer, decisions in self.layers.items()}
        new._kernels = self._kernels.copy()
        return new

    def __iter__(self) -> Iterator[tuple[str, Decision]]:
        """Yield each layer's decisions with its name, in the order of the graph."""
        known = [layer for layer in self._kernels if layer in self.layers]
        for layer in dict.fromkeys([*known, *self.layers]):
            for decision in self.layers[layer]:
                yield layer, decision


@contextmanager
def of_layer(layer: str, stage: str = "", shown: str = "") -> Iterator[None]:
    """Name the layer in a DecisionError, and its stage as decisions of layers have it, `shown`."""
    try:
        yield
    except DecisionError as error:
        told = str(error).replace(f"decision '{stage}{STAGE}", f"decision '{shown}{STAGE}") if stage else str(error)
        raise DecisionError(f"layer {layer!r:.80}: {told}") from None


def name_of(nodes: Sequence[Node]) -> str:
    """Return the name of the first node that has one, else of what the first makes."""
    return next((node.name for node in nodes if node.name), nodes[0].outputs[0].name)


def _numbered(name: str, taken: Callable[[str], bool]) -> str:
    count, label = 1, name
    while taken(label):
        count += 1
        label = f"{name}#{count}"
    return label
