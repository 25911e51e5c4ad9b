"""Facts of several modules together."""

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from vtakit.runtime.memory import Memory, memory_of
from vtakit.runtime.module import Module
from vtakit.runtime.placement import Placement
from vtakit.runtime.target import Target


class Whole(NamedTuple):
    """Facts for a report about all modules; sizes in bytes."""

    target: Target
    params_bytes: int
    arena_bytes: int


def summary_of_all(target: Target, modules: Sequence[Module]) -> Whole:
    """Return the sizes of modules together."""
    images = [module.image for module in modules]
    return Whole(target, sum(image.params_bytes for image in images), sum(image.arena_bytes for image in images))


def memory_of_all(modules: Sequence[Module], model_bytes: int) -> Memory:
    """Return the memory of modules together; `model_bytes` are those of the model that they are compiled from."""
    found = [memory_of(module.image) for module in modules]
    total = {field.name: sum([getattr(each, field.name) for each in found]) for field in fields(Memory)}
    return Memory(**{**total, "graph_bytes": total["graph_bytes"] + model_bytes})


def placement_of_all(name: str, modules: Sequence[Module]) -> Placement:
    """Return where the layers of all modules run; there is a warning only if nothing runs on the accelerator."""
    found = [module.placement for module in modules]
    launches = sum(placement.launches for placement in found)
    warnings = [placement.warning for placement in found if placement.warning]
    left = tuple(dict.fromkeys([each for placement in found for each in placement.left]))
    return Placement(
        name, launches, tuple([layer for each in found for layer in each.accelerator]),
        tuple([layer for each in found for layer in each.cpu]), left, "" if launches or not warnings else warnings[0],
    )
