"""Find a smaller network that has the same fault."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from networks.recipe import INPUT, Recipe, Step

Faulty = Callable[[Recipe], bool]
_ORDERS = 3  # random orders that are tried of each smaller network


def shrunk(recipe: Recipe, faulty: Faulty, seconds: float = 60) -> Recipe:
    """Return the smallest network that was found within a time: each step back to a fault is tried until none is left."""
    deadline = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for smaller in _smaller(recipe):
            if time.monotonic() > deadline:
                return recipe
            found = next((each for each in _reordered(smaller) if faulty(each)), None)
            if found is not None:
                recipe, again = found, True
                break
    return recipe


def _reordered(recipe: Recipe) -> Iterator[Recipe]:
    """The network with its nodes in some orders: one that is smaller has other random ones."""
    yield recipe
    if recipe.order.startswith("random"):
        for more in range(1, _ORDERS):
            yield replace(recipe, again=recipe.again + more)


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Networks with less in them: large steps first."""
    if len(recipe.outputs) > 1:
        for output in recipe.outputs:
            yield replace(recipe, outputs=(output,)).tidy()
        for at in range(len(recipe.outputs)):
            yield replace(recipe, outputs=recipe.outputs[:at] + recipe.outputs[at + 1:]).tidy()
    for output in recipe.outputs:  # what it is made of in its place
        rest = [other for other in recipe.outputs if other is not output]
        for before in recipe.steps[output[0]].needs:
            yield replace(recipe, outputs=(*rest, (before, False))).tidy()
    for at, step in reversed([*enumerate(recipe.steps)]):
        if step.op != INPUT:
            yield _with(recipe, at, Step(INPUT, (), step.shape, step.scale))
    for at, step in enumerate(recipe.steps):
        for before in step.needs:
            other = recipe.steps[before]
            if other.shape == step.shape and not other.bare:  # other scales are no longer exact
                yield replace(_without(recipe, at, before), exact=recipe.exact and other.scale == step.scale)
    for at, step in enumerate(recipe.steps):
        if step.skip is not None:
            yield _with(recipe, at, replace(step, skip=None))
        if step.act:
            yield _with(recipe, at, replace(step, act=()))
        if step.weights is not None and step.weights.bias is not None:
            yield _with(recipe, at, replace(step, weights=replace(step.weights, bias=None)))
        if step.weights is not None and np.any(step.weights.numbers != 1) and not step.weights.scales.ndim:
            yield _with(recipe, at, replace(step, weights=replace(step.weights, numbers=np.ones_like(step.weights.numbers))))
    if recipe.paired:
        yield replace(recipe, paired=False)
    if recipe.naming != "plain":
        yield replace(recipe, naming="plain")
    if recipe.order != "drawn":
        yield replace(recipe, order="drawn")


def _with(recipe: Recipe, at: int, step: Step) -> Recipe:
    return replace(recipe, steps=(*recipe.steps[:at], step, *recipe.steps[at + 1:])).tidy()


def _without(recipe: Recipe, at: int, instead: int) -> Recipe:
    """Readers of one value read another."""
    def changed(step: Step) -> Step:
        return replace(step, reads=tuple([instead if value == at else value for value in step.reads]),
                       skip=instead if step.skip == at else step.skip)
    outputs = tuple([(instead if value == at else value, whole) for value, whole in recipe.outputs])
    return replace(recipe, steps=tuple([changed(step) for step in recipe.steps]), outputs=outputs).tidy()
