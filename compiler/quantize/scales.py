"""Scales of int8 values, and the quotients between them for which integers and float32 round alike."""

from collections.abc import Mapping
from functools import reduce
from math import prod
from operator import or_
from typing import TYPE_CHECKING

import numpy as np

from vtakit.compiler.quantize.factors import SYMMETRIC_BITS, held, proportion, quotient
from vtakit.compiler.quantize.network import Network, attributes, channel_axis
from vtakit.compiler.quantize.parts import Plan, Shapes
from vtakit.compiler.quantize.ranges import Range
from vtakit.compiler.quantize.weights import NOTHING, fits_residual, least_scale, most_of, power_above

if TYPE_CHECKING:
    import onnx

LAST = 254  # steps of a range with a zero point, from -127 on
_OF_TWO = ("Add", "Mul", "MatMul")  # operators of two int8 values
OF_ZEROS = 1e-8  # the scale of a value that is always 0
# Chosen, not measured: CUT is far above the rounding of a float32 bound (128 * 2**-24 steps) and far below half a step; beyond
# ONE_SIDED a zero point would make steps finer by less than a twentieth. `benchmarks/quantization_peers.py --folder FOLDER`
# (docs/quantization.md) has the results that both lead to.
CUT = 0.01  # steps of int8, by which a bound must cut off some of its range
ONE_SIDED = 0.95  # share: width of a range by that of the symmetric one around it, from which on the zero point is 0


def scales_of(network: Network, plan: Plan, limits: Mapping[str, Range], shapes: Shapes) -> dict[str, float]:
    """Return the scales of the plan's int8 values, by the root of values with one scale; the plan gets their zero points.

    Residuals that do not fit their layer are removed from the plan.

    limits : the range of each of the plan's observed values that int8 should hold
    """
    def whole(name: str) -> Range:
        return reduce(or_, [limits[each] for each in limits if plan.root(each) == plan.root(name)])

    def first(name: str) -> float:
        held = whole(name)
        if held.most <= NOTHING:
            return power_above(OF_ZEROS) if plan.powers else _single(OF_ZEROS)
        sided = _sided(plan, held) and plan.root(name) not in even
        scale = (held.high - held.low) / LAST if sided else held.most / most_of(plan.activations)
        return power_above(scale) if plan.powers else _single(scale)
    nodes = list(network.nodes)
    even: set[str] = set()  # what sums, means and products of int8 make: a zero point would bring roundings nearer to halves
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
    even |= {plan.root(name) for name in network.outputs if name in plan.values}  # room for numbers that no sample had
    for number in plan.ends.keys() - set(plan.anchors):
        added = nodes[number].input if nodes[number].op_type in ("Add", "MatMul") else ()
        even |= {plan.root(name) for name in (*added, plan.ends[number])}
    scales = {plan.root(name): first(name) for name in plan.values}
    if not plan.powers:
        scales = _Quotients(network, plan, scales, shapes).settled()
    plan.zeros = {root: 0 if root in even else _zero(plan, whole(root), scale) for root, scale in scales.items()}
    return scales


def _sided(plan: Plan, held: Range) -> bool:
    """Return whether a range is worth a zero point."""
    return not plan.symmetric and held.high - held.low < ONE_SIDED * 2 * held.most


def _zero(plan: Plan, held: Range, scale: float) -> int:
    """Return the zero point with which a range lies in the middle of int8, or near its end where it ends at 0.

    Where it begins at 0 the zero point is -127, not -128: onnxruntime drops a Relu that cuts nothing off and computes the
    layer in integers, where a factor of few bits and a bias of parts (`lifted`) do not decide roundings.
    """
    if held.most <= NOTHING or not _sided(plan, held):
        return 0
    if not held.low or not held.high:
        return 127 if held.low else -127
    return int(np.clip(np.rint(-0.5 - (held.high + held.low) / 2 / scale), -128, 127))


def lifted(network: Network, plan: Plan, at: int, scales: Mapping[str, float]) -> bool:
    """Return whether an anchor's bias need not be a whole number of its sums.

    It has one, and runtimes do not take the layer for one in integers, whose bias would have the sums' unit: their patterns are a
    convolution or product right before its QuantizeLinear, also with a Relu or Clip between them that cuts off nothing.
    """
    node, makers = list(network.nodes)[at], {name: node for node in network.nodes for name in node.output}
    if node.op_type in ("ConvTranspose", "MatMul"):
        return node.op_type == "ConvTranspose"
    end = plan.ends[at]
    scale, zero = scales[plan.root(end)], plan.zeros[plan.root(end)]
    while end != node.output[0]:
        maker = makers[end]
        if maker.op_type not in ("Clip", "Relu"):
            return True
        low, high = (network.constant(name) if name else None for name in [*maker.input[1:], "", ""][:2])
        if maker.op_type == "Relu":
            low = np.zeros(())
        cut = low is not None and low.min() > scale * (-128 - zero) + CUT * scale
        if cut or (high is not None and high.max() < scale * (127 - zero) - CUT * scale):
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
                data = [self.plan.root(name) for name in node.input[:2 if node.op_type in _OF_TWO else 1]]
                if node.op_type == "Add":
                    self.sum(data[0], data[1], result)
                elif node.op_type in _OF_TWO:
                    self.rounded(self.scales[data[0]] * self.scales[data[1]], data[0], result)
                    self.fixed.add(data[1])
                else:
                    self.scaled(data[0], 1 / self.window(node), result)
        return self.scales

    def residual(self, number: int) -> None:
        residual = self.plan.residuals[number]
        node, at = self.nodes[residual.anchor], residual.anchor
        skip, result = self.plan.root(residual.skip), self.plan.root(self.plan.ends[at])
        if skip == result or result in self.fixed or node.op_type == "MatMul":
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
            self.scales[result] = _single(unit / float(held(np.asarray(unit / self.scales[result]), bits=SYMMETRIC_BITS)))
        self.fixed |= {data, result}

    def window(self, node: "onnx.NodeProto") -> int:
        """Return the number of elements of which a node takes the mean."""
        if node.op_type == "AveragePool":
            return prod(attributes(node)["kernel_shape"])
        return 1 if node.op_type in ("Relu", "Clip") else prod(self.shapes[node.input[0]][2:])
