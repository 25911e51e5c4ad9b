"""Recurrent layers, whole: PyTorch would write each of their steps out."""

from collections.abc import Sequence

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.graph.ir import Value

_LSTM, _GRU = (0, 3, 1, 2), (1, 0, 2)  # ONNX's gates i o f c and z r h, of PyTorch's i f g o and r z n


def _gates(n: AtenNode, weight: Value, order: Sequence[int]) -> Value:
    """The gates' rows of a weight or bias in another order."""
    rows = weight.type.shape[0] // len(order)
    parts = n.all("split", weight, axis=0, sizes=(rows,) * len(order))
    return n.apply("concat", *(parts[at] for at in order), axis=0)


def _stacked(n: AtenNode, parts: Sequence[Value]) -> Value:
    """One part, or both directions', with the direction as the first dimension."""
    rows = [n.reshape(part, (1, *part.type.shape)) for part in parts]
    return rows[0] if len(rows) == 1 else n.apply("concat", *rows, axis=0)


def _layers(n: AtenNode, op: str, order: Sequence[int], states: Sequence[Value]) -> list[Value | None]:
    """All layers one after the other; each state is [layers * directions, N, H]."""
    x, params, ways = n.value("input"), n["params"], 2 if n["bidirectional"] else 1
    each = 4 if n["has_biases"] else 2
    if len(params) != each * ways * n["num_layers"]:
        n.unsupported("with projections")
    if n["train"] and n["dropout"]:
        n.unsupported("with dropout in training")
    if n["batch_first"]:
        x = n.apply("transpose", x, perm=(1, 0, 2))
    lasts: list[list[Value]] = [[] for _ in states]
    for layer in range(n["num_layers"]):
        first = layer * ways
        mine = [params[(first + way) * each : (first + way + 1) * each] for way in range(ways)]
        w, r = (_stacked(n, [_gates(n, part[at], order) for part in mine]) for at in (0, 1))
        bias = None
        if n["has_biases"]:
            both = [n.apply("concat", _gates(n, part[2], order), _gates(n, part[3], order), axis=0) for part in mine]
            bias = _stacked(n, both)
        initial = [
            n.apply("slice", state, starts=(first,), ends=(first + ways,), axes=(0,), steps=(1,)) for state in states
        ]
        extra = {"linear_before_reset": True} if op == "gru" else {}
        y, *last = n.all(op, x, w, r, bias, *initial, direction="bidirectional" if ways == 2 else "forward", **extra)
        time, _, batch, hidden = y.type.shape  # [T, directions, N, H]
        x = n.reshape(n.apply("transpose", y, perm=(0, 2, 1, 3)), (time, batch, ways * hidden))
        for kept, state in zip(lasts, last, strict=False):
            kept.append(state)
    output = n.apply("transpose", x, perm=(1, 0, 2)) if n["batch_first"] else x
    return [output, *(kept[0] if len(kept) == 1 else n.apply("concat", *kept, axis=0) for kept in lasts)]


@converts("lstm.input")
def lstm(n: AtenNode) -> list[Value | None]:
    return _layers(n, "lstm", _LSTM, n["hx"])


@converts("gru.input")
def gru(n: AtenNode) -> list[Value | None]:
    return _layers(n, "gru", _GRU, [n.value("hx")])
