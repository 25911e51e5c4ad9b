"""Post-training quantization: from a float ONNX model and sample inputs to a QDQ model, which any ONNX runtime takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import one_of
from vtakit.base.text import counted
from vtakit.base.writing import write_bytes
from vtakit.compiler.frontend.onnx.kinds import kind_of
from vtakit.compiler.frontend.onnx.reader import read_model
from vtakit.compiler.quantize.correction import mean_error
from vtakit.compiler.quantize.errors import QuantizeError
from vtakit.compiler.quantize.network import Network, activations_first, channel_axis, fold_batch_norms
from vtakit.compiler.quantize.parts import Plan
from vtakit.compiler.quantize.plan import plan_of
from vtakit.compiler.quantize.ranges import BITS as ACTIVATION_BITS
from vtakit.compiler.quantize.ranges import DEFAULT_METHOD, METHODS, Histogram, Method, range_of
from vtakit.compiler.quantize.samples import Port, Samples, samples_of
from vtakit.compiler.quantize.scales import lifted, scales_of
from vtakit.compiler.quantize.weights import BITS, Weights, power_of_two_weights, quantized_weights
from vtakit.compiler.quantize.write import Writer
from vtakit.runtime.accuracy import Accuracy, Compared
from vtakit.runtime.bits import Keep, choose_bits
from vtakit.runtime.images import is_tflite
from vtakit.runtime.torch_onnx import onnx_of
from vtakit.runtime.torch_program import named_program
from vtakit.runtime.values import Values, fixed, shapes_of

if TYPE_CHECKING:
    import onnx
    import torch

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]

_COMPARED = 32  # runs that the accuracy is measured on, unless the caller gives arrays of their own


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """A quantized model.

    model    : in ONNX, with QuantizeLinear and DequantizeLinear; `vtakit.compile` makes integers of it
    accuracy : against the float model
    scales   : what 1 means in int8, by value
    """

    model: "onnx.ModelProto"
    accuracy: Accuracy
    scales: dict[str, float]

    def save(self, path: str | Path) -> None:
        """Write the model to a file, whole or not at all."""
        write_bytes(path, self.model.SerializeToString(), "quantized model")

    def __str__(self) -> str:
        return str(self.accuracy)


def quantize(
    model: "str | Path | onnx.ModelProto | torch.export.ExportedProgram",
    calibration: "Mapping[str, Any] | npt.ArrayLike | str | Path", *,
    weights: int = 8, activations: int = 8, keep: Keep = 0, power_of_two: bool = False, symmetric: bool = False,
    method: Method = DEFAULT_METHOD, bias_correction: bool = True, matrices: bool = True,
    evaluation: "Mapping[str, Any] | npt.ArrayLike | str | Path | None" = None, progress: Progress | None = None,
) -> Quantized:
    """Quantize a float model: weights to int8 or fewer bits for each channel, activations to int8 or fewer bits.

    model           : in ONNX, or a program of torch.export (package onnxscript), or the path of either
    calibration     : sample inputs, by name, an array for a single input, or an .npz file; their first dimension counts samples
    weights         : bits of a weight: 8, 4, 2 or 1. The model's int8 weights are then -7 to 7 (4 bits), -1 to 1 (2) or 1 and -1
                      (1), with the scale of least square error. Accelerators with such weights run it: `w4`, `w2`
    activations     : bits of an activation: 8, 4 or 2. Of fewer than 8 a Clip before each QuantizeLinear keeps its numbers -7 to
                      7, or -1 to 1; accelerators with such activations run it: `i4w4`
    keep            : layers whose weights stay at 8 bits: their names, or how many of the most sensitive (`vtakit.runtime.bits`)
    power_of_two    : all scales are powers of two, and a layer's weights have one: a requantization is then a shift, which
                      devices of the published instruction set have (docs/original.md); less exact than a scale for each channel
    symmetric       : activations have no zero points; else those whose range is not symmetric, as behind a Relu, have one
    method          : how a range is chosen from the samples' values (see `vtakit.compiler.quantize.ranges`)
    bias_correction : add to biases the mean shift of the sums that rounding the weights causes. Source: Nagel et al.,
                      "Data-free quantization through weight equalization and bias correction" (ICCV 2019), section 4.2
    matrices        : products of two computed matrices, as attention has them, are of int8, which accelerators multiply; if not,
                      of floating-point numbers, which is more exact
    evaluation      : sample inputs on which the accuracy is measured; some of the calibration's by default
    progress        : is called with the name of a step, how much of it is done, and of how much

    Operators that cannot be quantized stay in floating point. Raises QuantizeError for arrays that do not fit the model or for a
    model that has nothing to quantize, and the errors of `vtakit.compile`.
    """
    if type(weights) is not int or weights not in BITS:
        raise QuantizeError(f"weights={weights!r:.40} is no number of bits that weights can have: {', '.join(map(str, BITS))}")
    if type(activations) is not int or activations not in ACTIVATION_BITS:
        raise QuantizeError(f"activations={activations!r:.40} is no number of bits that activations can have: "
                            f"{', '.join(map(str, ACTIVATION_BITS))}")
    if not isinstance(power_of_two, bool):
        raise QuantizeError(f"power_of_two={power_of_two!r:.40} must be True or False")
    if not isinstance(symmetric, bool):
        raise QuantizeError(f"symmetric={symmetric!r:.40} must be True or False")
    if not isinstance(matrices, bool):
        raise QuantizeError(f"matrices={matrices!r:.40} must be True or False")
    if method not in METHODS:
        raise QuantizeError(f"method={method!r} is no way to choose a range: {one_of(tuple(METHODS), method)}")
    if is_tflite(model):
        raise QuantizeError(f"{str(model)!r} is a TensorFlow Lite model, which its own converter quantizes: give the float model "
                            "in ONNX")
    exported = named_program(model)
    proto, name, folder = read_model(model if exported is None else onnx_of(*exported))
    network = Network(proto, folder)
    ports = _ports(network)
    samples = samples_of(calibration, ports)
    tested = samples.first(_COMPARED) if evaluation is None else samples_of(evaluation, ports, "evaluation")
    _check_float(network, name)
    fold_batch_norms(network)
    activations_first(network)
    real = fixed(network.finished(), samples)
    shapes = shapes_of(real)
    plan = plan_of(network, shapes, matrices=matrices)
    plan.activations, plan.powers = activations, power_of_two
    plan.symmetric = symmetric or power_of_two or activations < 8
    if not plan.anchors:
        raise QuantizeError(f"the model {name!r} has nothing to quantize: no Conv, ConvTranspose, Gemm or MatMul with constant "
                            "weights on float32 data")
    say = progress or (lambda what, done, of: None)
    outputs = [info.name for info in real.graph.output if info.name in shapes]
    layers = choose_bits(network, plan, weights, keep, lambda model: Values(fixed(model, samples), outputs, shapes), samples, say)
    values = Values(real, [*plan.observed, *outputs], shapes)
    ranges, means = _observed(values, network, plan, shapes, samples, say)
    limits = {name: range_of(histogram, method, activations, plan.symmetric) for name, histogram in ranges.items()}
    scales = scales_of(network, plan, limits, shapes)
    numbers = _weights(network, plan, scales)
    biases = _biases(network, plan, numbers, means if bias_correction else {}, shapes)
    names = {at: f"{node.op_type} {node.name or node.output[0]}" for at, node in enumerate(network.nodes)}
    reasons = {names[at]: why for at, why in sorted(plan.left.items())}
    makers = {out: node.op_type for node in network.nodes for out in node.output}
    writer = Writer(network, plan, scales)
    made = writer.write(numbers, biases)
    whole = fixed(made, samples)
    known = shapes_of(whole)
    pairs = {each: writer.result[each] for each in plan.values if writer.result[each] in known} | {each: each for each in outputs}
    given = {each: scales[plan.root(each)] for each in plan.values}
    compared = [Compared(each, makers.get(each, "input"), given.get(each, 0.0)) for each in pairs]
    accuracy = Accuracy(name, compared, outputs, left=list(reasons), layers=layers, reasons=reasons)
    accuracy.agree = {each: 0 for each in outputs if len(shapes[each]) == 2 and shapes[each][1] > 1}
    _compare(accuracy, values, Values(whole, pairs.values(), known), pairs, tested, say)
    return Quantized(made, accuracy, given)


def _ports(network: Network) -> list[Port]:
    """The model's inputs. Raises QuantizeError for one whose first dimension cannot count samples."""
    found = []
    for info in network.graph.input:
        tensor = info.type.tensor_type
        if not tensor.HasField("shape") or not tensor.shape.dim:
            raise QuantizeError(f"input {info.name!r} has no first dimension in the model, which would count samples")
        shape = tuple([int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor.shape.dim])
        found.append(Port(info.name, shape, str(kind_of(tensor.elem_type, f"input {info.name!r}"))))
    if not found:
        raise QuantizeError("the model has no inputs: nothing in it depends on samples")
    return found


def _check_float(network: Network, name: str) -> None:
    found = [node.op_type for node in network.nodes if node.op_type in ("QuantizeLinear", "QLinearConv", "QLinearMatMul")]
    if found:
        raise QuantizeError(f"the model {name!r} is quantized already, it has {counted(len(found), 'node')} such as "
                            f"{found[0]}: give the float model")


def _observed(
    real: Values, network: Network, plan: Plan, shapes: Mapping[str, tuple[int, ...]], samples: Samples, say: Progress,
) -> tuple[dict[str, Histogram], dict[str, Array]]:
    """Return the histogram of each value, and the mean over the batch of each anchor's input."""
    nodes = list(network.nodes)
    ranges = {name: Histogram() for name in plan.observed}
    read = list(dict.fromkeys([nodes[at].input[0] for at in plan.anchors]))
    means: dict[str, Array] = {name: np.zeros((1, *shapes[name][1:])) for name in read}
    for done, made in enumerate(real.runs(samples)):
        for name, histogram in ranges.items():
            _check_finite(name, made[name], nodes)
            histogram.add(made[name])
        for name in read:
            means[name] += made[name].mean(0, keepdims=True, dtype=np.float64) / len(samples)
        say("calibrating", done + 1, len(samples))
    return ranges, means


def _check_finite(name: str, array: Array, nodes: "list[onnx.NodeProto]") -> None:
    """Raise QuantizeError for a value of the float model with a nan or infinity, which no range holds."""
    finite = np.isfinite(array)
    if not finite.all():
        at = np.argwhere(~finite)[0].tolist()
        maker = next((node.op_type for node in nodes if name in node.output), "input")
        raise QuantizeError(f"the float model makes {array[tuple(at)]} of the samples, in the value {name!r} ({maker}) at {at}: "
                            "ranges need finite numbers")


def _weights(network: Network, plan: Plan, scales: Mapping[str, float]) -> dict[int, Weights]:
    """The anchors' weights as integers."""
    nodes = list(network.nodes)
    skips = {each.anchor: scales[plan.root(each.skip)] for each in plan.residuals.values()}
    found = {}
    for at in plan.anchors:
        node = nodes[at]
        bias = network.constants[node.input[2]] if len(node.input) > 2 and node.input[2] else None
        if plan.powers:
            found[at] = power_of_two_weights(
                network.constants[node.input[1]], scales[plan.root(node.input[0])], bias, skips.get(at), plan.bits[at])
            continue
        found[at] = quantized_weights(
            network.constants[node.input[1]], channel_axis(node), scales[plan.root(node.input[0])], bias, skips.get(at),
            scales[plan.root(plan.ends[at])], lifted=lifted(network, plan, at, scales), bits=plan.bits[at],
            highest=plan.highest.get(at), zero=plan.zeros[plan.root(plan.ends[at])])
    return found


def _biases(
    network: Network, plan: Plan, weights: Mapping[int, Weights], means: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[int, Array]:
    """The anchors' biases, less the mean of what rounding their weights adds to their sums."""
    nodes = list(network.nodes)
    moved: dict[int, Array] = {}
    for at in plan.anchors if means else []:
        node = nodes[at]
        error = weights[at].real - network.constants[node.input[1]]
        moved[at] = mean_error(node, means[node.input[0]], error, shapes[node.output[0]])
    found = {}
    for at in plan.anchors:
        node = nodes[at]
        given = network.constants[node.input[2]] if len(node.input) > 2 and node.input[2] else None
        if node.op_type == "MatMul" or (given is None and at not in moved and weights[at].lift is None):
            continue
        width = shapes[node.output[0]][-1 if node.op_type == "Gemm" else 1]
        start = np.zeros(width) if given is None else np.broadcast_to(given.astype(np.float64).reshape(-1), (width,))
        found[at] = start - moved.get(at, 0.0)
    return found


def _compare(
    accuracy: Accuracy, real: Values, quantized: Values, pairs: Mapping[str, str], samples: Samples, say: Progress
) -> None:
    """Run both models on samples; `pairs` has what the quantized model calls each value."""
    both = zip(real.runs(samples), quantized.runs(samples), strict=True)
    for done, (first, second) in enumerate(both):
        for value in accuracy.values:
            value.add(first[value.name], second[pairs[value.name]])
        for each in accuracy.agree:
            accuracy.agree[each] += int(np.sum(first[each].argmax(1) == second[each].argmax(1)))
        accuracy.samples += samples.batch
        say("comparing", done + 1, len(samples))
