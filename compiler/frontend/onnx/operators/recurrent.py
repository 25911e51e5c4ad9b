"""Recurrent layers."""

from typing import Any

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("LSTM")
def lstm(n: OnnxNode) -> list[Value]:
    given = _attributes(n, input_forget=bool(n.attr("input_forget", 0)))
    states = [_first(n, n.maybe(at)) for at in (5, 6)]
    return _results(n, n.all("lstm", _first(n, n[0]), n[1], n[2], n.maybe(3), *states, n.maybe(7), **given))


@converts("GRU")
def gru(n: OnnxNode) -> list[Value]:
    given = _attributes(n, linear_before_reset=bool(n.attr("linear_before_reset", 0)))
    return _results(n, n.all("gru", _first(n, n[0]), n[1], n[2], n.maybe(3), _first(n, n.maybe(5)), **given))


@converts("RNN")
def rnn(n: OnnxNode) -> list[Value]:
    return _results(n, n.all("rnn", _first(n, n[0]), n[1], n[2], n.maybe(3), _first(n, n.maybe(5)), **_attributes(n)))


def _attributes(n: OnnxNode, **more: Any) -> dict[str, Any]:
    """Return the attributes that all recurrent layers share."""
    if n.attr("activation_alpha") or n.attr("activation_beta"):
        raise n.unsupported("with parameters of its activations")
    hidden = n.attr("hidden_size")
    if hidden is not None and n.shape(2)[-1:] != (hidden,):
        raise n.unsupported(f"with hidden_size {hidden} and recurrent weights of the shape {list(n.shape(2))}")
    if n.has(4):
        steps = n.shape(0)[n.attr("layout", 0)]
        if any(length != steps for length in n.ints(4)):
            raise n.unsupported("of sequences that are shorter than the input")
    words = n.attr("activations")
    return {
        "direction": n.attr("direction", "forward"), "clip": n.attr("clip"),
        "activations": None if words is None else tuple([word.lower() for word in words]), **more,
    }


def _first(n: OnnxNode, value: Value | None) -> Value | None:
    """With time, or the direction, as the first dimension; layout 1 has the batch there."""
    return n.apply("transpose", value, perm=(1, 0, 2)) if value is not None and n.attr("layout", 0) else value


def _results(n: OnnxNode, made: tuple[Value, ...]) -> list[Value]:
    if not n.attr("layout", 0):
        return list(made)
    return [n.apply("transpose", made[0], perm=(2, 0, 1, 3)), *[n.apply("transpose", each, perm=(1, 0, 2)) for each in made[1:]]]
