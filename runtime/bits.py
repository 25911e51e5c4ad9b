"""Mixed precision: the bit width of each layer's weights, by sensitivity."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vtakit.base.errors import one_of
from vtakit.base.text import counted
from vtakit.compiler.quantize.errors import QuantizeError
from vtakit.compiler.quantize.network import Network, channel_axis
from vtakit.compiler.quantize.parts import Plan
from vtakit.compiler.quantize.samples import Samples
from vtakit.compiler.quantize.weights import quantized_weights
from vtakit.runtime.accuracy import Compared, Layer
from vtakit.runtime.values import Values

if TYPE_CHECKING:
    import onnx

Keep = int | Sequence[str]
Progress = Callable[[str, int, int], None]

# The greatest weight of a layer that stays at 8 bits beside others of so many: two digits of four bits hold -136 to 119, and
# accelerators with weights of four bits would need a third product for more. Four digits of two bits end at 85, too early.
HIGHEST = {4: 119}
_RUNS = 8  # samples' runs that a layer's loss is measured on


def choose_bits(
    network: Network, plan: Plan, weights: int, keep: Keep, compiled: "Callable[[onnx.ModelProto], Values]", samples: Samples,
    say: Progress,
) -> list[Layer]:
    """Set the bit width of each anchor's weights in the plan; return the layers in order.

    keep     : names of layers that stay at 8 bits, or a number of layers: the most sensitive ones. A layer's sensitivity is the
               signal-to-noise ratio of the network's outputs when the weights of that layer alone have `weights` bits
    compiled : compiles a float model and exposes its outputs

    Raises QuantizeError for an unknown layer, a number of layers out of range, and a `keep` of another type.
    """
    nodes = list(network.nodes)
    names = {at: nodes[at].name or nodes[at].output[0] for at in plan.anchors}
    lost: dict[int, float] = {}
    if not isinstance(keep, int | str | list | tuple):
        raise QuantizeError(f"keep={keep!r:.40} is a {type(keep).__name__}: give a number of layers, or a list of their names")
    if isinstance(keep, int):
        if not 0 <= keep <= len(names):
            raise QuantizeError(f"keep={keep}: the model has {counted(len(names), 'layer')} with weights, give 0 to {len(names)}")
        if weights < 8 and 0 < keep < len(names):
            lost = _losses(network, plan, weights, compiled, samples.first(_RUNS), say)
        kept = sorted(names, key=lambda at: lost.get(at, 0.0))[:keep]
    else:
        wanted = [keep] if isinstance(keep, str) else list(keep)
        for each in wanted:
            if each not in names.values():
                raise QuantizeError(f"keep: no layer with weights is called {each!r:.80}; {one_of(tuple(names.values()), each)}")
        kept = [at for at, name in names.items() if name in wanted]
    plan.bits.update({at: 8 if at in kept else weights for at in names})
    plan.highest.update(dict.fromkeys(kept, HIGHEST[weights]) if weights in HIGHEST else {})
    return [Layer(name, nodes[at].op_type, network.constants[nodes[at].input[1]].size, plan.bits[at], lost.get(at))
            for at, name in names.items()]


def _losses(
    network: Network, plan: Plan, bits: int, compiled: "Callable[[onnx.ModelProto], Values]", samples: Samples, say: Progress,
) -> dict[int, float]:
    """Return each layer's sensitivity: the outputs' signal-to-noise ratio in dB with `bits` bits in that layer alone."""
    nodes = list(network.nodes)
    true = list(compiled(network.finished()).runs(samples))
    found = {}
    for done, at in enumerate(plan.anchors):
        name = nodes[at].input[1]
        weight = network.constants[name]
        network.constants[name] = quantized_weights(weight, channel_axis(nodes[at]), 1.0, None, None, bits=bits).real
        try:
            runs = list(compiled(network.finished()).runs(samples))
        finally:
            network.constants[name] = weight
        compared = Compared("", "", 0.0)
        for first, second in zip(true, runs, strict=True):
            for output in network.outputs:
                if output in first:
                    compared.add(first[output], second[output])
        found[at] = compared.decibels
        say("layers by their loss", done + 1, len(plan.anchors))
    return found
