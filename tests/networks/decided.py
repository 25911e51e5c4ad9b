"""Random decisions of a network's compilation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

import vtakit
from vtakit.compiler.graph.decisions import STAGE
from vtakit.compiler.schedule.decisions import Decision, DecisionError

Given = dict[str, dict[str, Any]]
EARLY, LATE = 0.3, 0.6  # the part of the decisions of passes, and of schedules, that a random candidate replaces


def random_decisions(proto: onnx.ModelProto, target: Any, seed: int) -> Given:
    """Draw decisions of a model, one of each layer after another: which there are depends on those before.

    What the rules choose by themselves is given too, so that a later change elsewhere is no change here.
    """
    rng, given = np.random.default_rng([seed, 7]), Given()
    made = [*vtakit.decisions(proto, target)]
    while True:
        open_: dict[str, list[Decision]] = {}
        for layer, decision in made:
            if decision.name not in given.get(layer, {}):
                open_.setdefault(layer, []).append(decision)
        if not open_:
            return given
        early = [(layer, each) for layer, found in open_.items() for each in found if STAGE not in each.name]
        drawn = []
        for layer, decision in early or [(layer, found[0]) for layer, found in open_.items()]:
            change = rng.random() < (EARLY if early else LATE)
            value = decision.candidates[int(rng.integers(len(decision.candidates)))] if change else decision.chosen
            drawn.append((layer, decision.name, value))
        try:
            given, made = _with(proto, target, given, drawn)
        except DecisionError:  # one of them takes another away
            given, made = _with(proto, target, given, drawn[:1])


def _with(
    proto: onnx.ModelProto, target: Any, given: Given, drawn: Sequence[tuple[str, str, Any]],
) -> tuple[Given, list[tuple[str, Decision]]]:
    """Return decisions with further ones, and what is decided then."""
    found = {layer: dict(values) for layer, values in given.items()}
    for layer, name, value in drawn:
        found.setdefault(layer, {})[name] = value
    return found, [*vtakit.decisions(proto, target, decisions=found)]


def changed(proto: onnx.ModelProto, target: Any, given: Given) -> list[str]:
    """Return the names of the decisions that are not the default."""
    return [decision.name for _, decision in vtakit.decisions(proto, target, decisions=given) if not decision.is_default]
