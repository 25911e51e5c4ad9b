"""Errors in a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from vtakit.base.errors import VtakitError

_SHOWN = 3  # nodes of each unsupported kind that a message names


class ModelError(VtakitError, ValueError):
    """A model that cannot be read, is no valid one, or lacks what is needed to compile it."""


class ElementTypeError(ModelError):
    """A tensor of an element type that vtakit does not have."""


class OperatorSetError(ModelError):
    """A model of an operator set that vtakit does not read."""


class LaterError(ModelError):
    """A fact that only a run has, and compilation of a whole model needs: a size, a value that decides shapes, a trip count.

    position : number of the node at the model's top level at which it was found; -1 for none
    types    : of that node's operands, None for one that is not given
    """

    position: int = -1
    types: tuple[Any, ...] = ()


class OpenShapeError(LaterError):
    """An input of a size or kind that the model leaves open."""


class StagedError(LaterError):
    """A node that runs as a stage of its own: a loop, or an operator of sequences."""


class NotConstantError(LaterError):
    """A value that decides shapes and depends on inputs of the model.

    inputs : their names
    """

    def __init__(self, what: str, inputs: Sequence[str]) -> None:
        self.inputs = tuple(inputs)
        listed = ", ".join(repr(name) for name in inputs)
        plural = "s" if len(inputs) > 1 else ""
        super().__init__(
            f"{what} must be known when the model is compiled, and it depends on the input{plural} {listed}: give "
            f"the value{plural} with vtakit.compile(…, fixed={{name: array}})"
        )


class UnsupportedError(ModelError):
    """A model with nodes that vtakit cannot compile.

    nodes  : what each is unsupported for -> the names of the nodes
    others : what else is wrong with the model or with how it is compiled, the first of which the message says
    """

    def __init__(self, model: str, nodes: Mapping[str, Sequence[str]], others: Sequence[VtakitError] = ()) -> None:
        self.others = tuple(others)
        self.nodes = {what: tuple(names) for what, names in nodes.items()}
        kinds = []
        for what, names in self.nodes.items():
            listed = ", ".join(repr(name) for name in names[:_SHOWN])
            count = f"{len(names)} node{'s' if len(names) > 1 else ''}"
            kinds.append(f"{what} ({count}: {listed}{', …' if len(names) > _SHOWN else ''})")
        beside = f"; besides, {others[0]}" if others else ""
        super().__init__(f"model {model!r} needs what vtakit does not support: {'; '.join(kinds)}{beside}")
