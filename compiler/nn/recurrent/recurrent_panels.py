"""LSTMs whose weights are known when a model is compiled: the four gates of a block of units lie side by side.

The units' order is that of blocks of `v`, the last filled up: a column of gates is [unit // v, gate, unit % v]. What the inputs
add to the gates is one product of all steps, `dense_panels`; here are the steps.
"""

from collections.abc import Sequence

import numpy as np

from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import if_then_else, maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made, same_dtype
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.product.panels import check_stored
from vtakit.compiler.nn.recurrent.recurrent import ACTIVATIONS
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.compose import scan
from vtakit.compiler.te.language import placeholder, reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

GATES, PEEPHOLES = 4, 3
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def gates_in_blocks(array: np.ndarray, block: int) -> np.ndarray:
    """[D, 4 * H, ...] -> [D, ceil(H / v) * 4 * v, ...], zeros for the units that fill up the last block."""
    full = _filled(array, GATES, block)
    directions, _, _, *rest = full.shape
    parts = full.reshape(directions, GATES, -1, block, *rest)
    return np.ascontiguousarray(np.moveaxis(parts, 1, 2)).reshape(directions, -1, *rest)


def peepholes_in_blocks(array: np.ndarray, block: int) -> np.ndarray:
    """An LSTM's peepholes [D, 3 * H] as `lstm_panels` takes them, [D, 3, ceil(H / v), v]."""
    return _filled(array, PEEPHOLES, block).reshape(len(array), PEEPHOLES, -1, block)


def _filled(array: np.ndarray, parts: int, block: int) -> np.ndarray:
    """[D, parts * H, ...] -> [D, parts, ceil(H / v) * v, ...]."""
    directions, rows, *rest = array.shape
    hidden = rows // parts
    full = np.zeros((directions, parts, -(-hidden // block) * block, *rest), array.dtype)
    full[:, :, :hidden] = array.reshape(directions, parts, hidden, *rest)
    return full


def recurrent_panels(weight: np.ndarray, block: int) -> np.ndarray:
    """An LSTM's recurrent weights [D, 4 * H, H] as `lstm_panels` takes them."""
    directions, _, hidden = weight.shape
    parts = gates_in_blocks(weight, block).reshape(directions, -1, GATES * block, hidden)
    return np.ascontiguousarray(np.moveaxis(parts, 2, 3))


@operator("lstm_panels", kind=Kind.OPAQUE)
def lstm_panels(
    inputs: Tensor, weight: Tensor, h: Tensor | None = None, c: Tensor | None = None, p: Tensor | None = None, *,
    direction: str = "forward", activations: Sequence[str] | None = None, clip: float | None = None, input_forget: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The steps of `lstm`, given what inputs and biases add to the gates.

    inputs  [T, B, D * ceil(H / v) * 4 * v]      in the order of `gates_in_blocks`
    weight  [D, ceil(H / v), H, 4 * v]           made by `recurrent_panels`; for float32 also of 16 bits, `STORED`
    h, c    [D, B, H]
    p       [D, 3, ceil(H / v), v]               made by `peepholes_in_blocks`
    Gives all states [T, D, B, H], then the last state and cell [D, B, H].
    Raises OperatorError for shapes, types or words that do not fit.
    """
    check_float(inputs, "lstm_panels")
    same_dtype("lstm_panels", inputs, *[state for state in (h, c, p) if state is not None])
    check_stored("lstm_panels", weight.dtype, inputs)
    flips = DIRECTIONS.get(direction, ())
    count, blocks, size, width = dims(weight) if weight.ndim == 4 else (0,) * 4
    lanes = width // GATES
    if not flips or len(flips) != count or inputs.ndim != 3 or -(-size // max(lanes, 1)) != blocks or width % GATES or (
            dims(inputs)[2] != count * blocks * width):
        raise OperatorError(f"lstm_panels ({direction}): inputs {dims(inputs)} and weights {dims(weight)} do not fit: give "
                            "[T, B, D * ceil(H / v) * 4 * v] and [D, ceil(H / v), H, 4 * v]")
    steps, batch, _ = dims(inputs)
    for state in (h, c):
        if state is not None and dims(state) != (count, batch, size):
            raise OperatorError(f"lstm_panels: a first state of {dims(state)}: give {(count, batch, size)}")
    if p is not None and dims(p) != (count, PEEPHOLES, blocks, lanes):
        raise OperatorError(f"lstm_panels: peepholes of {dims(p)}: give {(count, PEEPHOLES, blocks, lanes)}")
    words = [word.lower() for word in (activations or ["sigmoid", "tanh", "tanh"] * count)]

    def one(at: int) -> tuple[Tensor, Tensor]:
        f, g, out = [ACTIVATIONS[word] for word in words[3 * at:3 * at + 3]]
        shape = (steps + 1, batch, blocks, lanes)
        hs, cs = [placeholder(shape, str(inputs.dtype), name) for name in ("h", "c")]
        k = reduce_axis((0, size), "k")
        kind = inputs.dtype
        sums = made((steps + 1, batch, blocks, width), lambda t, b, n, lane: sum_of(
            hs(t - 1, b, k // lanes, k % lanes) * weight(at, n, k, lane).astype(kind), axis=k), "gates", tag="step_panels")

        def gate(number: int, t: Expr, unit: tuple[Expr, ...], seen: Expr | None = None) -> Expr:
            b, n, lane = unit
            step = steps - t if flips[at] else t - 1
            total = inputs(step, b, ((at * blocks + n) * GATES + number) * lanes + lane) + sums(t, b, n, number * lanes + lane)
            if p is not None and seen is not None:
                total = total + p(at, number, n, lane) * seen
            return maximum(minimum(total, clip), -clip) if clip else total

        def cell(t: Expr, *unit: Expr) -> Expr:
            before = cs(t - 1, *unit)
            take = f(gate(0, t, unit, before))
            keep = 1 - take if input_forget else f(gate(2, t, unit, before))
            return keep * before + take * g(gate(3, t, unit))
        cells = made(shape, cell, "cells")
        hidden = made(shape, lambda t, *unit: f(gate(1, t, unit, cells(t, *unit))) * out(cells(t, *unit)), "hidden")
        first = [_first(state, at, shape, size, inputs.dtype) for state in (h, c)]
        found: tuple[Tensor, Tensor] = tuple(scan(first, [hidden, cells], [hs, cs], name="lstm"))
        return found
    states = [one(at) for at in range(count)]

    def unit(state: Tensor, t: Expr | int, b: Expr, k: Expr) -> Expr:
        found: Expr = state(t, b, k // lanes, k % lanes)
        return found

    def every(t: Expr, d: Expr, b: Expr, k: Expr) -> Expr:
        parts = [unit(states[at][0], (steps - 1 - t if flipped else t) + 1, b, k) for at, flipped in enumerate(flips)]
        return parts[0] if count == 1 else select(d < 1, parts[0], parts[1])

    def last(which: int) -> Tensor:
        def value(d: Expr, b: Expr, k: Expr) -> Expr:
            parts = [unit(state[which], steps, b, k) for state in states]
            return parts[0] if count == 1 else select(d < 1, parts[0], parts[1])
        return made((count, batch, size), value, "last")
    return made((steps, count, batch, size), every, "lstm"), last(0), last(1)


def _first(state: Tensor | None, at: int, shape: tuple[int, ...], size: int, kind: DType) -> Tensor:
    """The first row of a state in blocks: as given, or zeros."""
    _, batch, blocks, lanes = shape

    def value(t: Expr, b: Expr, n: Expr, lane: Expr) -> Expr:
        unit, zero = n * lanes + lane, const(0, kind)
        if state is None:
            return zero
        return if_then_else(unit < size, state(at, b, unit), zero) if size % lanes else state(at, b, unit)
    return made((1, batch, blocks, lanes), value, "first")
