"""A recipe as an ONNX model: in QDQ form, as onnxruntime's quantizer and `vtakit.quantize` write them, or in floating point."""

from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from networks.orders import extension, ordered
from networks.recipe import INPUT, Array, Recipe, Step


def model_of(recipe: Recipe, *, real: bool = False) -> onnx.ModelProto:
    """The model, its nodes in the order that the recipe says.

    real : leave all quantizations out, so that every value is float32
    """
    return _Writer(recipe, real).model()


class _Writer:
    def __init__(self, recipe: Recipe, real: bool) -> None:
        self.real = real
        self.recipe, self.rng = recipe, np.random.default_rng([recipe.seed, 1 << 20, recipe.again])
        self.constants: dict[str, Array] = {}
        self.nodes: list[NodeProto] = []
        self.count = 0
        self.floats: dict[int, str] = {}  # the one dequantization of each value

    def model(self) -> onnx.ModelProto:
        recipe, numbers = self.recipe, range(len(self.recipe.steps))
        if recipe.order == "random layers":
            needs = [set(step.needs) for step in recipe.steps]
            numbers = extension(needs, lambda ready: int(self.rng.integers(len(ready))), self.rng)
        for at in numbers:
            self.step(at, recipe.steps[at])
        inputs = [self.port(f"x{at}", step.integers and not self.real, step.shape)
                  for at, step in enumerate(recipe.steps) if step.op == INPUT]
        outputs = []
        for place, (value, whole) in enumerate(recipe.outputs):
            step, name = recipe.steps[value], f"y{place}"
            whole = whole and not self.real
            self.node("Identity", [f"v{value}" if whole else self.float_of(value)], name)
            outputs.append(self.port(name, whole, step.shape))
        self.merge_identities()
        nodes = self.nodes if recipe.order == "random layers" else ordered(self.nodes, recipe.order, self.rng)
        known = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(nodes, f"net{recipe.seed}", inputs, outputs, known)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def merge_identities(self) -> None:
        """Give outputs the names of what makes them, where nobody else reads it."""
        readers: dict[str, int] = {}
        for node in self.nodes:
            for name in node.input:
                readers[name] = readers.get(name, 0) + 1
        makers = {name: node for node in self.nodes for name in node.output}
        kept = []
        for node in self.nodes:
            maker = makers.get(node.input[0]) if node.op_type == "Identity" else None
            if maker is not None and readers[node.input[0]] == 1:
                maker.output[0] = node.output[0]
                makers[node.output[0]] = maker
            else:
                kept.append(node)
        self.nodes = kept

    @staticmethod
    def port(name: str, whole: bool, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.INT8 if whole else onnx.TensorProto.FLOAT, shape)

    def node(self, op: str, reads: list[str], made: str, **attrs: Any) -> str:
        self.count += 1
        names = {"plain": f"{op.lower()}{self.count}", "none": "", "alike": f"a{'/' * self.count}b"}
        self.nodes.append(helper.make_node(op, reads, [made], name=names[self.recipe.naming], **attrs))
        return made

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def dequantized(self, value: str | Array, scale: Any, made: str, axis: int = 0) -> str:
        """A value, or a constant, as float."""
        steps = np.asarray(scale, np.float32)
        kind = np.int8 if isinstance(value, str) else value.dtype
        if not isinstance(value, str):
            if self.real:
                along = [-1 if at == axis else 1 for at in range(value.ndim)]
                return self.constant((value * (steps.reshape(along) if steps.ndim else steps)).astype(np.float32))
            value = self.constant(value)
        reads = [value, self.constant(steps), self.constant(np.zeros(steps.shape, kind))]
        return self.node("DequantizeLinear", reads, made, **({"axis": axis} if steps.ndim else {}))

    def float_of(self, value: int) -> str:
        """The value as float, dequantized here unless it is already."""
        if self.real:
            return f"v{value}"
        if self.recipe.steps[value].bare:
            return f"v{value}_float"
        if value not in self.floats or self.recipe.paired:
            made = f"v{value}_float{self.count}"
            self.floats[value] = self.dequantized(f"v{value}", np.float32(self.recipe.steps[value].scale), made)
        return self.floats[value]

    def step(self, at: int, step: Step) -> None:
        if step.op == INPUT:
            if step.integers and not self.real:
                self.node("Identity", [f"x{at}"], f"v{at}")
            else:
                self.quantized(f"x{at}", at, step)
            return
        reads = [self.float_of(value) for value in step.reads]
        reads += ["" if array is None else self.constant(array) for array in step.extra]
        bias = None
        if step.weights is not None:
            weights, unit = step.weights, np.float32(self.recipe.steps[step.reads[0]].scale) * step.weights.scales
            reads.append(self.dequantized(weights.numbers, weights.scales, f"v{at}_weight", weights.axis))
            if weights.bias is not None:
                bias = self.dequantized(weights.bias, unit, f"v{at}_bias")
                if step.op != "MatMul":
                    reads.append(bias)
        rest = ["MatMulBias"] * (bias is not None and step.op == "MatMul") + ["Skip"] * (step.skip is not None)
        rest += ["Act"] * bool(step.act)
        made = self.node(step.op, reads, self.inner(at, step, len(rest)), **step.attrs)
        for place, what in enumerate(rest):
            end = self.inner(at, step, len(rest) - place - 1)
            if what == "MatMulBias":
                made = self.node("Add", [made, str(bias)], end)
            elif what == "Skip":
                assert step.skip is not None
                both = [made, self.float_of(step.skip)]
                made = self.node("Add", both if self.rng.integers(2) else both[::-1], end)
            else:
                bounds = [self.constant(np.float32(step.scale) * np.float32(bound)) for bound in step.act[1:]]
                made = self.node(step.act[0], [made, *bounds], end)
        if self.real or not step.bare:
            self.quantized(made, at, step)

    def inner(self, at: int, step: Step, left: int) -> str:
        return f"v{at}_float" if step.bare and not left and not self.real else f"v{at}_{left}"

    def quantized(self, made: str, at: int, step: Step) -> None:
        if self.real:
            self.node("Identity", [made], f"v{at}")
            return
        self.node("QuantizeLinear", [made, self.constant(np.float32(step.scale)), self.constant(np.int8(0))], f"v{at}")
