"""Scales of int8 values, and the quotients between them for which integers and float32 round alike."""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vtakit.compiler.quantize.factors import held, proportion, quotient
from vtakit.compiler.quantize.network import Network, attributes, channel_axis
from vtakit.compiler.quantize.plan import Plan, Shapes
from vtakit.compiler.quantize.weights import NOTHING, fits_residual, least_scale, most_of, power_above

if TYPE_CHECKING:
    import onnx

OF_ZEROS = 1e-8  # the scale of a value that is always 0


def scales_of(network: Network, plan: Plan, limits: Mapping[str, float], shapes: Shapes) -> dict[str, float]:
    """Return the scales of the plan's int8 values, by the root of values with one scale.

    Residuals that do not fit their layer are removed from the plan.

    limits : the greatest magnitude of each of the plan's observed values that int8 should hold
    """
    def first(name: str) -> float:
        most = max(limits[each] for each in limits if plan.root(each) == plan.root(name))
        scale = most / most_of(plan.activations) if most > NOTHING else OF_ZEROS
        return power_above(scale) if plan.powers else _single(scale)
    nodes = list(network.nodes)
    for number, residual in list(plan.residuals.items()):
        node = nodes[residual.anchor]
        weight = network.constants[node.input[1]]
        axis = None if plan.powers else channel_axis(node)
        bits, highest = plan.bits[residual.anchor], plan.highest.get(residual.anchor)
        if not fits_residual(weight, axis, first(node.input[0]), first(residual.skip), bits, highest):
            del plan.residuals[number]
            plan.values[residual.acc] = None
            plan.made.add(residual.acc)
            plan.ends[residual.anchor] = residual.acc
    scales = {plan.root(name): first(name) for name in plan.values}
    return scales if plan.powers else _Quotients(network, plan, scales, shapes).settled()


def lifted(network: Network, plan: Plan, at: int) -> bool:
    """Return whether an anchor's bias need not be a whole number of its sums.

    It has one, and runtimes do not take the layer for one in integers, whose bias would have the sums' unit: their patterns are a
    convolution or product right before its QuantizeLinear, also with a Clip between them that does not reach into int8's range.
    """
    node, makers = list(network.nodes)[at], {name: node for node in network.nodes for name in node.output}
    if node.op_type in ("ConvTranspose", "MatMul"):
        return node.op_type == "ConvTranspose"
    end = plan.ends[at]
    while end != node.output[0]:
        maker = makers[end]
        low = network.constant(maker.input[1]) if len(maker.input) > 1 and maker.input[1] else None
        if maker.op_type != "Clip" or (low is not None and low.min() >= 0):
            return True
        end = maker.input[0]
    return False


def _single(number: float) -> float:
    return float(np.float32(number))


class _Quotients:
    """Scales that are moved, each once, by less than `COARSER`, in the order of the layers that tie them to others."""

    def __init__(self, network: Network, plan: Plan, scales: dict[str, float], shapes: Shapes) -> None:
        self.network, self.plan, self.scales, self.shapes = network, plan, scales, shapes
        self.nodes = list(network.nodes)
        self.fixed: set[str] = set()

    def settled(self) -> dict[str, float]:
        for number, node in enumerate(self.nodes):
            if number in self.plan.residuals:
                self.residual(number)
            elif number in self.plan.ends and number not in self.plan.anchors:
                result = self.plan.root(self.plan.ends[number])
                data = [self.plan.root(name) for name in node.input[:2 if node.op_type == "Add" else 1]]
                if node.op_type == "Add":
                    self.sum(data[0], data[1], result)
                else:
                    self.scaled(data[0], 1 / self.window(node), result)
        return self.scales

    def residual(self, number: int) -> None:
        residual = self.plan.residuals[number]
        node, at = self.nodes[residual.anchor], residual.anchor
        skip, result = self.plan.root(residual.skip), self.plan.root(self.plan.ends[at])
        if skip == result or result in self.fixed or not lifted(self.network, self.plan, at):
            return
        data = self.scales[self.plan.root(node.input[0])]
        bias = self.network.constants[node.input[2]] if len(node.input) > 2 and node.input[2] else None
        weight = self.network.constants[node.input[1]]
        scale = least_scale(weight, channel_axis(node), data, bias, lifted=True, bits=self.plan.bits[at],
                            highest=self.plan.highest.get(at))
        found = quotient(self.scales[skip] / self.scales[result], data * scale / self.scales[result])
        if found is not None:
            self.scales[result] = _single(self.scales[skip] / found)
        self.fixed |= {skip, result}

    def scaled(self, data: str, by: float, result: str) -> None:
        """Choose the scale of `result`, which is `data` times a factor, rounded to int8."""
        self.rounded(self.scales[data] * by, data, result)

    def sum(self, a: str, b: str, result: str) -> None:
        """Two values that are added: multiples of one unit."""
        one, other = (a, b) if b not in self.fixed else (b, a)
        found = proportion(self.scales[one], self.scales[other])
        if found is not None and (a == b or other not in self.fixed):
            self.scales[other] = _single(self.scales[one] / found[0] * found[1])
            self.fixed.add(other)
            self.rounded(self.scales[one] / found[0], one, result)

    def rounded(self, unit: float, data: str, result: str) -> None:
        """Multiples of a unit that depends on the scale of some data."""
        if data != result and result not in self.fixed:
            self.scales[result] = _single(unit / float(held(np.asarray(unit / self.scales[result]))))
        self.fixed |= {data, result}

    def window(self, node: "onnx.NodeProto") -> int:
        """Return the number of elements of which a node takes the mean."""
        if node.op_type == "AveragePool":
            return prod(attributes(node)["kernel_shape"])
        return 1 if node.op_type in ("Relu", "Clip") else prod(self.shapes[node.input[0]][2:])
