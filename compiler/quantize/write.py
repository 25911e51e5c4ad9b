"""The quantized model in ONNX: QuantizeLinear and DequantizeLinear around what becomes int8."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.quantize.factors import PARTS
from vtakit.compiler.quantize.network import Network
from vtakit.compiler.quantize.parts import MOVES, Plan
from vtakit.compiler.quantize.weights import Weights, most_of

if TYPE_CHECKING:
    import onnx


class Writer:
    """Puts what a plan quantizes into a network.

    result : what the dequantized form of each value is called
    """

    def __init__(self, network: Network, plan: Plan, scales: Mapping[str, float]) -> None:
        self.network, self.plan, self.scales = network, plan, scales
        self.nodes: list[onnx.NodeProto] = []
        self.result: dict[str, str] = {}
        self.source: dict[str, str] = {}
        bounded = set(MOVES) - {"Pad"}  # whose results have the bounds of what they read
        self.moved = {name for node in network.nodes if node.op_type in bounded for name in node.output}
        for name in plan.values:
            given = name in network.outputs and name in plan.made  # an output keeps its name
            self.source[name] = network.new_name(f"{name}_QuantizeLinear_Input") if given else name
            self.result[name] = name if given else network.new_name(f"{name}_DequantizeLinear_Output")

    def write(self, weights: Mapping[int, Weights], biases: Mapping[int, npt.NDArray[Any]]) -> "onnx.ModelProto":
        """The model.

        weights, biases : of the anchors, by the number of their node; biases are real numbers
        """
        network, plan = self.network, self.plan
        nodes = list(network.nodes)
        for info in network.graph.input:
            if info.name in plan.values:
                self.pair(info.name)
        for number, node in enumerate(nodes):
            data = node.input[0] if node.input else ""
            for at, name in enumerate(node.input):
                if name in plan.values:
                    node.input[at] = self.result[name] if name in plan.made or number in plan.whole else name
            if number in weights:
                self.anchor(node, self.scales[plan.root(data)], weights[number], biases.get(number))
            made = list(node.output)
            for at, name in enumerate(made):
                node.output[at] = self.source.get(name, name)
            self.nodes.append(node)
            for name in made:
                if name in plan.values:
                    self.pair(name)
        network.set_nodes(self.nodes)
        return network.finished()

    def pair(self, name: str) -> None:
        """Quantize and dequantize an activation."""
        from onnx import helper

        names = [self.network.new_name(f"{name}{end}") for end in ("_scale", "_zero_point", "_QuantizeLinear_Output")]
        self.network.constants[names[0]] = np.asarray(self.scales[self.plan.root(name)], np.float32)
        self.network.constants[names[1]] = np.asarray(self.plan.zeros[self.plan.root(name)], np.int8)
        source, most = self.source[name], most_of(self.plan.activations)
        if self.plan.activations < 8 and name not in self.moved:  # the greatest numbers of fewer bits are bounds
            clipped, *bounds = (self.network.new_name(f"{name}{end}") for end in ("_Clip_Output", "_low", "_high"))
            for bound, sign in zip(bounds, (-1, 1), strict=True):
                self.network.constants[bound] = np.float32(sign * most) * self.network.constants[names[0]]
            self.nodes.append(helper.make_node("Clip", [source, *bounds], [clipped], f"{name}_Clip"))
            source = clipped
        self.nodes += [
            helper.make_node("QuantizeLinear", [source, *names[:2]], names[2:], f"{name}_QuantizeLinear"),
            helper.make_node("DequantizeLinear", [names[2], *names[:2]], [self.result[name]], f"{name}_DequantizeLinear"),
        ]

    def anchor(self, node: "onnx.NodeProto", step: float, weights: Weights, bias: npt.NDArray[Any] | None) -> None:
        """Give an anchor, whose data has the scale `step`, quantized weights and biases."""
        scale = weights.scale if weights.scale.size > 1 else weights.scale.reshape(())
        node.input[1] = self.parameter(node.input[1], weights.numbers, scale, weights.axis)
        if bias is not None:
            unit = (np.float32(step) * weights.scale).astype(np.float32)
            numbers = np.rint(bias / unit.astype(np.float64)).astype(np.int32)
            if weights.lift is not None:
                unit, numbers = unit / np.float32(PARTS), (PARTS * numbers + weights.lift).astype(np.int32)
            held = node.input[2] if len(node.input) > 2 and node.input[2] else f"{node.output[0]}_bias"
            while len(node.input) < 3:
                node.input.append("")
            node.input[2] = self.parameter(held, numbers, unit if unit.size > 1 else unit.reshape(()), 0)

    def parameter(self, name: str, numbers: npt.NDArray[Any], scale: npt.NDArray[Any], axis: int) -> str:
        """Integers and what dequantizes them; its result."""
        from onnx import helper

        held = self.network.new_name(f"{name}_quantized")
        step, result = self.network.new_name(f"{held}_scale"), self.network.new_name(f"{held}_DequantizeLinear_Output")
        self.network.constants |= {held: numbers, step: np.asarray(scale, np.float32)}
        node = helper.make_node("DequantizeLinear", [held, step], [result], result)
        if scale.size > 1:
            node.attribute.append(helper.make_attribute("axis", axis))
        self.nodes.append(node)
        return result
