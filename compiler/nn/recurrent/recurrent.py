"""Recurrent layers: LSTM, GRU and the plain one, over sequences [T, B, I]. Source: ONNX LSTM, GRU, RNN."""

from collections.abc import Callable, Sequence

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import Shape, dims, made, same_dtype
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.product.matmul import product
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.compose import scan
from vtakit.compiler.te.language import placeholder, reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

Function = Callable[[Expr], Expr]
ACTIVATIONS: dict[str, Function] = {
    "sigmoid": math.sigmoid, "tanh": math.tanh, "relu": lambda x: maximum(x, 0), "affine": lambda x: x,
    "softsign": lambda x: x / (math.abs(x) + 1), "softplus": lambda x: math.log(math.exp(x) + 1),
    "hardsigmoid": lambda x: maximum(minimum(x * 0.2 + 0.5, 1), 0),
}


class Layer:
    """The operands of a recurrent layer, checked, and one direction of it after another.

    x [T, B, I]   w [D, gates * H, I]   r [D, gates * H, H]   b [D, 2 * gates * H]   h [D, B, H]
    """

    def __init__(
        self, what: str, gates: int, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, h: Tensor | None, direction: str,
        activations: Sequence[str] | None, default: Sequence[str], clip: float | None, more: Sequence[Tensor | None] = (),
    ) -> None:
        check_float(x, what)
        given = [t for t in (w, r, b, h, *more) if t is not None]
        same_dtype(what, x, *given)
        known = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if direction not in known:
            raise OperatorError(f"{what}: direction={direction!r}: give forward, reverse or bidirectional")
        self.reversed = known[direction]
        count = len(self.reversed)
        hidden = dims(r)[-1] if r.ndim == 3 else 0
        if x.ndim != 3 or dims(w) != (count, gates * hidden, dims(x)[2]) or dims(r) != (count, gates * hidden, hidden):
            raise OperatorError(f"{what} ({direction}): data {dims(x)}, weights {dims(w)} and {dims(r)}: give [T, B, I], "
                                f"[{count}, {gates} * H, I] and [{count}, {gates} * H, H]")
        self.what, self.gates, self.hidden = what, gates, hidden
        self.x, self.w, self.r, self.b = x, w, r, b
        self.steps, self.batch = dims(x)[:2]
        self.check("bias", b, (count, 2 * gates * hidden))
        self.check("initial state", h, (count, self.batch, hidden))
        words = [word.lower() for word in (activations or list(default) * count)]
        if len(words) != len(default) * count or any(word not in ACTIVATIONS for word in words):
            raise OperatorError(f"{what}: activations {activations}: give {len(default) * count} of {', '.join(ACTIVATIONS)}")
        self.functions = [[ACTIVATIONS[word] for word in words[at * len(default):(at + 1) * len(default)]] for at in range(count)]
        self.bound = clip
        if not self.steps:
            raise OperatorError(f"{what}: a sequence of no steps, data {dims(x)}: give at least one")

    def check(self, name: str, tensor: Tensor | None, shape: Shape) -> None:
        """Raise OperatorError for an operand of another shape."""
        if tensor is not None and dims(tensor) != shape:
            raise OperatorError(f"{self.what}: {name} of {dims(tensor)}: give {shape}")

    def clipped(self, e: Expr) -> Expr:
        """A sum within the bound, if there is one."""
        return e if not self.bound else maximum(minimum(e, self.bound), -self.bound)

    def start(self, at: int, state: Tensor | None, name: str) -> Tensor:
        """The first row of a state: as given, or zeros."""
        zero = const(0, self.x.dtype)
        return made((1, self.batch, self.hidden), lambda t, b, k: zero if state is None else state(at, b, k), name)

    def state(self, name: str) -> Tensor:
        """Return the placeholder through which the steps read a state."""
        found: Tensor = placeholder((self.steps + 1, self.batch, self.hidden), str(self.x.dtype), name)
        return found

    def inputs(self, at: int) -> Tensor:
        """Return the inputs' contribution to each gate at each step, biases of inputs included: [T, B, gates * H]."""
        width = self.gates * self.hidden
        last = self.steps - 1
        rows = made((self.steps * self.batch, dims(self.x)[2]), lambda p, i: self.x(
            last - p // self.batch if self.reversed[at] else p // self.batch, p % self.batch, i), "rows")
        weights = made((width, dims(self.x)[2]), lambda g, i: self.w(at, g, i), "weights")
        sums = product(rows, weights, self.x.dtype, trans_b=True)
        return made((self.steps, self.batch, width), lambda t, b, g: sums(t * self.batch + b, g) + (
            const(0, self.x.dtype) if self.b is None else self.b(at, g)), "inputs")

    def recur(self, at: int, state: Tensor | Callable[..., Expr], first: int, count: int, name: str) -> Tensor:
        """Return the last state's contribution to gates from `first` on, biases of states included: [T + 1, B, count * H]."""
        k, width = reduce_axis((0, self.hidden), "k"), self.gates * self.hidden
        begin = first * self.hidden
        # Side by side for each step of the sum, since all gates are computed together.
        weights = made((self.hidden, count * self.hidden), lambda i, g: self.r(at, g + begin, i), f"{name}_weights")
        sums = made((self.steps + 1, self.batch, count * self.hidden), lambda t, b, g: sum_of(
            state(t - 1, b, k) * weights(k, g), axis=k), f"{name}_sums")
        bias = self.b
        if bias is None:
            return sums
        return made(dims(sums), lambda t, b, g: sums(t, b, g) + bias(at, g + begin + width), name)

    def run(self, one: Callable[[int], Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """The states of each direction, as all of them [T, D, B, H] of the first state, and the last of each [D, B, H]."""
        states = [one(at) for at in range(len(self.reversed))]
        count, last = len(self.reversed), self.steps - 1

        def every(t: Expr, d: Expr, b: Expr, k: Expr) -> Expr:
            parts = [states[at][0]((last - t if flipped else t) + 1, b, k) for at, flipped in enumerate(self.reversed)]
            return parts[0] if count == 1 else select(d < 1, parts[0], parts[1])

        def final(which: int) -> Tensor:
            def value(d: Expr, b: Expr, k: Expr) -> Expr:
                parts = [state[which](self.steps, b, k) for state in states]
                return parts[0] if count == 1 else select(d < 1, parts[0], parts[1])
            return made((count, self.batch, self.hidden), value, "last")
        whole = made((self.steps, count, self.batch, self.hidden), every, self.what)
        return whole, *[final(which) for which in range(len(states[0]))]


@operator("lstm", kind=Kind.OPAQUE)
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, h: Tensor | None = None, c: Tensor | None = None,
    p: Tensor | None = None, *, direction: str = "forward", activations: Sequence[str] | None = None, clip: float | None = None,
    input_forget: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory; gates in the order input, output, forget, cell.

    x [T, B, I]   w [D, 4H, I]   r [D, 4H, H]   b [D, 8H]   h, c [D, B, H]   p [D, 3H], peepholes of input, output, forget
    input_forget : the forget gate is 1 less the input gate
    Gives all states [T, D, B, H], then the last state and cell [D, B, H].
    Raises OperatorError for shapes, types or words that do not fit.
    """
    layer = Layer("lstm", 4, x, w, r, b, h, direction, activations, ("sigmoid", "tanh", "tanh"), clip, [c, p])
    size, count = layer.hidden, len(layer.reversed)
    layer.check("initial cell", c, (count, layer.batch, size))
    layer.check("peepholes", p, (count, 3 * size))

    def one(at: int) -> Sequence[Tensor]:
        f, g, out = layer.functions[at]
        ins, hs, cs = layer.inputs(at), layer.state("h"), layer.state("c")
        back = layer.recur(at, hs, 0, 4, "gates")

        def gate(number: int, t: Expr, i: Expr, k: Expr, peep: tuple[int, Expr] | None = None) -> Expr:
            total: Expr = ins(t - 1, i, k + number * size) + back(t, i, k + number * size)
            if p is not None and peep is not None:
                total = total + p(at, k + peep[0] * size) * peep[1]
            return layer.clipped(total)

        def cell(t: Expr, i: Expr, k: Expr) -> Expr:
            before = cs(t - 1, i, k)
            take = f(gate(0, t, i, k, (0, before)))
            keep = 1 - take if input_forget else f(gate(2, t, i, k, (2, before)))
            return keep * before + take * g(gate(3, t, i, k))
        shape = (layer.steps + 1, layer.batch, size)
        cells = made(shape, cell, "cells")
        hidden = made(shape, lambda t, i, k: f(gate(1, t, i, k, (1, cells(t, i, k)))) * out(cells(t, i, k)), "hidden")
        states: list[Tensor] = scan([layer.start(at, h, "h0"), layer.start(at, c, "c0")], [hidden, cells], [hs, cs], name="lstm")
        return states
    whole, last, end = layer.run(one)
    return whole, last, end


@operator("gru", kind=Kind.OPAQUE)
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, h: Tensor | None = None, *, direction: str = "forward",
    activations: Sequence[str] | None = None, clip: float | None = None, linear_before_reset: bool = False,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent unit; gates in the order update, reset, hidden.

    x [T, B, I]   w [D, 3H, I]   r [D, 3H, H]   b [D, 6H]   h [D, B, H]
    Gives all states [T, D, B, H], then the last [D, B, H]. Raises OperatorError for shapes, types or words that do not fit.
    """
    layer = Layer("gru", 3, x, w, r, b, h, direction, activations, ("sigmoid", "tanh"), clip)
    size = layer.hidden

    def one(at: int) -> Sequence[Tensor]:
        f, g = layer.functions[at]
        ins, hs = layer.inputs(at), layer.state("h")
        shape = (layer.steps + 1, layer.batch, size)
        back = layer.recur(at, hs, 0, 3 if linear_before_reset else 2, "gates")
        reset = made(shape, lambda t, i, k: f(layer.clipped(ins(t - 1, i, k + size) + back(t, i, k + size))), "reset")
        if not linear_before_reset:
            kept = made(shape, lambda t, i, k: reset(t, i, k) * hs(t - 1, i, k), "kept")
            own = layer.recur(at, lambda t, i, k: kept(t + 1, i, k), 2, 1, "own")

        def value(t: Expr, i: Expr, k: Expr) -> Expr:
            update = f(layer.clipped(ins(t - 1, i, k) + back(t, i, k)))
            add = reset(t, i, k) * back(t, i, k + 2 * size) if linear_before_reset else own(t, i, k)
            new = g(layer.clipped(ins(t - 1, i, k + 2 * size) + add))
            return (1 - update) * new + update * hs(t - 1, i, k)
        states: list[Tensor] = scan([layer.start(at, h, "h0")], [made(shape, value, "hidden")], [hs], name="gru")
        return states
    whole, last = layer.run(one)
    return whole, last


@operator("rnn", kind=Kind.OPAQUE)
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, h: Tensor | None = None, *, direction: str = "forward",
    activations: Sequence[str] | None = None, clip: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Plain recurrent layer, ``f(x @ w.T + h @ r.T + b)``.

    x [T, B, I]   w [D, H, I]   r [D, H, H]   b [D, 2H]   h [D, B, H]
    Gives all states [T, D, B, H], then the last [D, B, H]. Raises OperatorError for shapes, types or words that do not fit.
    """
    layer = Layer("rnn", 1, x, w, r, b, h, direction, activations, ("tanh",), clip)

    def one(at: int) -> Sequence[Tensor]:
        ins, hs = layer.inputs(at), layer.state("h")
        back = layer.recur(at, hs, 0, 1, "gates")
        hidden = made((layer.steps + 1, layer.batch, layer.hidden), lambda t, i, k: layer.functions[at][0](
            layer.clipped(ins(t - 1, i, k) + back(t, i, k))), "hidden")
        states: list[Tensor] = scan([layer.start(at, h, "h0")], [hidden], [hs], name="rnn")
        return states
    whole, last = layer.run(one)
    return whole, last
