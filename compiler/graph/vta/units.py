"""Which nodes of a graph are one operator of the accelerator."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Array, Graph, Node, TensorType, Value
from vtakit.compiler.graph.vta import moves, products
from vtakit.compiler.graph.vta.made import Made, Maker, Numbers, Skip, four_pads, identifier, packed_shape, pairs, spatial_of
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.nn.moves.packed import as_image
from vtakit.compiler.nn.vta.fold import Fold
from vtakit.compiler.schedule.schedule import create_schedule
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor

INT8 = dtype("int8")
SUMS = frozenset(("conv_integer", "conv_transpose_integer", "matmul_integer"))
Build = Callable[[Maker, list[Tensor], Fold | None], Made]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Nodes that are one operator of the accelerator.

    nodes  : in order; nothing else reads what is inside
    data   : the activations that it reads, int8, in the operator's order
    output : what it makes, int8
    packed : the same as it lies in the device's memory
    macs   : its multiplications, none of them for padding
    bytes  : of what it reads and writes
    fold   : how the data of a convolution of few channels may be laid out, if the CPU makes it
    """

    nodes: tuple[Node, ...]
    data: tuple[Value, ...]
    output: Value
    packed: Value
    build: Build
    macs: int = 0
    bytes: int = 0
    fold: Fold | None = None

    @property
    def name(self) -> str:
        """That of the first node that has one."""
        return next((node.name for node in self.nodes if node.name), self.nodes[0].op)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all its nodes that have one."""
        return tuple([node.name for node in self.nodes if node.name])

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple([node.op for node in self.nodes])


class Units:
    """The operators of the accelerator that a graph has, each with what it reads beneath changes of shape that move nothing.

    found   : by the last node of each
    reasons : why the last node of others is not one
    root    : of a value, what lies in memory just so, by nodes that only change its shape
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.producers, self.consumers = graph.producers(), graph.consumers()
        self.given = {value for _, value in graph.outputs}
        self.found: dict[Node, Unit] = {}
        self.reasons: dict[Node, str] = {}
        self.root: dict[Value, Value] = {}
        taken: dict[Node, Node] = {}  # what is inside a unit, and that unit's last node
        for node in graph.nodes:
            self._note_root(node)
            try:
                unit = self._unit(node)
            except VtaError as error:
                self.reasons[node] = str(error)
                continue
            if unit is None:
                continue
            for inner in unit.nodes[:-1]:
                self.found.pop(taken.get(inner, inner), None)
            taken |= dict.fromkeys(unit.nodes, node)
            self.found[node] = unit

    def _note_root(self, node: Node) -> None:
        if node.op == "reshape":
            value, made = node.reads[0], node.outputs[0]
            shapes = value.type.shape, made.type.shape
            if all(2 <= len(shape) <= 4 for shape in shapes) and as_image(shapes[0]) == as_image(shapes[1]):
                self.root[made] = self.root.get(value, value)

    def _unit(self, node: Node) -> Unit | None:
        if any(value.type.dtype is not INT8 for value in node.outputs):
            return None
        match node.op:
            case "requantize":
                return self._layer(node, node)
            case "reshape":
                return self._reshaped(node)
            case "max_pool" | "concat" | "pad" | "resize":
                return self._moved(node)
        return None

    def _unread(self, value: Value | None) -> Node | None:
        """The node that makes a value that only one node reads, and nobody outside."""
        if value is None or value in self.given or len(self.consumers.get(value, [])) != 1:
            return None
        return self.producers.get(value)

    def _constant(self, value: Value | None) -> Array:
        if value is None or value not in self.graph.constants:
            raise VtaError("its parameters are not constants")
        return self.graph.constants[value]

    def _activations(self, value: Value | None) -> Value:
        if value is None or value in self.graph.constants:
            raise VtaError("it reads constants as activations")
        if value.type.dtype is not INT8:
            raise VtaError(f"it reads {value.type.dtype}, and the accelerator's activations are int8")
        if not 2 <= len(value.type.shape) <= 4 or not value.type.size:
            raise VtaError(f"it reads data of shape {value.type.shape}; the accelerator's has 2 to 4 dimensions and is not empty")
        return self.root.get(value, value)

    def _numbers(self, node: Node) -> Numbers:
        bias, multiplier, shift = (self._constant(value).astype(np.int64) for value in node.inputs[1:4])
        return Numbers(bias, multiplier, shift, **node.attrs)

    def _layer(self, end: Node, requantize: Node, reshaped: TensorType | None = None) -> Unit | None:
        """Sums, maybe a residual, and their requantization."""
        sums, inside = self._unread(requantize.inputs[0]), [requantize] + [end] * (end is not requantize)
        if sums is None:
            return None
        numbers, skip, skip_scale = self._numbers(requantize), None, None
        if sums.op == "scaled_add":
            inside.insert(0, sums)
            skip, skip_scale = self._activations(sums.inputs[1]), self._constant(sums.inputs[2])
            sums = self._unread(sums.inputs[0])
            if sums is None:
                return None
        if reshaped is not None and (skip is not None or sums.op != "matmul_integer"):
            return None
        inside.insert(0, sums)
        data, build, macs, fold = self._sums(sums, numbers, skip_scale, reshaped)
        reads = (*data, *([skip] if skip is not None else []))
        output = end.outputs[0]
        weights = sum(value.type.bytes for value in sums.reads if value in self.graph.constants)
        size = sum(value.type.bytes for value in (*reads, output)) + weights
        return self._fitting(Unit(tuple(inside), reads, output, self._packed(output), build, macs, size, fold))

    def _sums(
        self, node: Node, numbers: Numbers, skip_scale: Array | None, reshaped: TensorType | None,
    ) -> tuple[tuple[Value, ...], Build, int, Fold | None]:
        """What sums read, how they are made, their multiplications, and how their data may be folded."""
        out, target = node.outputs[0].type, self.target

        def skip_of(tensors: list[Tensor]) -> Skip | None:
            return None if skip_scale is None else Skip(tensors[-1], skip_scale)
        if node.op in ("conv_integer", "conv_transpose_integer"):
            if len(node.reads) > 2:
                raise VtaError("it has zero points")
            x, weights = self._activations(node.inputs[0]), self._constant(node.inputs[1])
            shape = products.Shape.of(node.attrs, spatial_of(out))
            if node.op == "conv_integer":
                fold = products.fold_of(target, as_image(node.reads[0].type.shape), weights, shape)
                return (x,), lambda m, t, f: products.conv(m, t[0], weights, shape, numbers, skip_of(t), f), (
                    out.size * prod(weights.shape[1:])), fold
            image = as_image(out.shape)
            macs = node.reads[0].type.size * prod(weights.shape[1:])
            return (x,), lambda m, t, f: products.transposed(m, t[0], weights, shape, image, numbers, skip_of(t)), macs, None
        if node.op == "matmul_integer":
            if len(node.reads) > 2 or len(out.shape) != 2:
                raise VtaError("it has zero points, or more than two dimensions")
            weights, (x, size) = self._constant(node.inputs[1]), self._flat(node.inputs[0])
            return (x,), lambda m, t, f: products.dense(
                m, t[0], weights, size, numbers, skip_of(t), None if reshaped is None else as_image(reshaped.shape),
            ), out.size * len(weights), None
        if node.op == "sum_pool":
            x, spatial = self._activations(node.inputs[0]), spatial_of(out)
            kernel, stride = (pairs(node.attrs.get(key), spatial, 1) for key in ("kernel_shape", "strides"))
            pad = four_pads(node.attrs.get("pads"), spatial)
            return (x,), lambda m, t, f: moves.sum_pool(m, t[0], kernel, stride, pad, numbers, skip_of(t)), 0, None
        if node.op == "scaled_sum" and skip_scale is None:
            x, y = map(self._activations, node.inputs[:2])
            a, b = map(self._constant, node.inputs[2:])
            return (x, y), lambda m, t, f: moves.scaled_sum(m, t[0], t[1], a, b, numbers), 0, None
        raise VtaError(f"the accelerator has no {node.op}")

    def _flat(self, value: Value | None) -> tuple[Value, tuple[int, int, int]]:
        """What a matrix product reads, beneath a reshape to rows, and its channels, rows and columns."""
        x = self._activations(value)
        maker = self.producers.get(x)
        if maker is not None and maker.op == "reshape" and 3 <= len(maker.reads[0].type.shape) <= 4:
            before = self._activations(maker.reads[0])
            images, *size = as_image(before.type.shape)
            if images == x.type.shape[0]:
                return before, (size[0], size[1], size[2])
        return x, (as_image(x.type.shape)[1], 1, 1)

    def _reshaped(self, node: Node) -> Unit | None:
        """A matrix product whose rows become images."""
        before, shape = self._unread(node.reads[0]), node.outputs[0].type.shape
        if before is None or before.op != "requantize" or node.outputs[0] in self.root or not 3 <= len(shape) <= 4:
            return None
        if node.reads[0].type.shape[0] != shape[0]:
            return None
        return self._layer(node, before, node.outputs[0].type)

    def _moved(self, node: Node) -> Unit | None:
        out, attrs, spatial = node.outputs[0].type, node.attrs, spatial_of(node.outputs[0].type)
        if not 1 <= spatial <= 2 and node.op != "concat":
            raise VtaError(f"{node.op} of {len(out.shape)} dimensions")
        data = tuple([self._activations(value) for value in node.reads[:1 if node.op != "concat" else None]])
        build: Build
        if node.op == "max_pool":
            if attrs.get("ceil_mode") or max(attrs.get("dilations") or (1,)) > 1:
                raise VtaError("windows that are dilated or reach over the end")
            kernel, stride = (pairs(attrs.get(key), spatial, 1) for key in ("kernel_shape", "strides"))
            pad = four_pads(attrs.get("pads"), spatial)

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.max_pool(m, t[0], kernel, stride, pad)
        elif node.op == "concat":
            if attrs["axis"] % len(out.shape) != 1:
                raise VtaError("it joins along another dimension than channels")
            counts = [value.type.shape[1] for value in data]

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.concat(m, t, counts)
        elif node.op == "pad":
            pads, value = moves.pad_of(node), 0
            if len(node.reads) > 1:
                value = int(self._constant(node.inputs[1]).reshape(-1)[0])

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.pad(m, t[0], pads, value)
        else:
            moves.check_resize(node)
            _, _, rows, columns = as_image(out.shape)

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.resize(m, t[0], rows, columns)
        output = node.outputs[0]
        size = sum(value.type.bytes for value in (*data, output))
        return self._fitting(Unit((node,), data, output, self._packed(output), build, 0, size))

    def _packed(self, value: Value) -> Value:
        return Value(f"{value.name}_packed", TensorType(packed_shape(self.target, value.type.shape), INT8))

    def _fitting(self, unit: Unit) -> Unit:
        """The unit, if a schedule of its operator fits the scratchpads. Raises VtaError if none does."""
        tensors = [placeholder(packed_shape(self.target, value.type.shape), "int8", f"p{i}") for i, value in enumerate(unit.data)]
        found = unit.build(Maker(self.target, identifier(unit.name, unit.ops[0])), tensors, None)
        s = create_schedule(found.layer.result.op)
        found.schedule(s)
        return unit

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.found.values())
