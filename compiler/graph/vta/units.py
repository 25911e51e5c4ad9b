"""Partition of a graph into units: the nodes that are one operator of the accelerator."""

from collections.abc import Container, Iterator
from dataclasses import replace
from math import prod

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.bounds import ANY, bounds_of
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Array, Graph, Node, TensorType, Value
from vtakit.compiler.graph.vta import moves, products
from vtakit.compiler.graph.vta.filling import Filling
from vtakit.compiler.graph.vta.made import Made, Maker, Numbers, Skip, four_pads, identifier, packed_shape, pairs, spatial_of
from vtakit.compiler.graph.vta.signals import computed_product
from vtakit.compiler.graph.vta.unit import Build, Unit
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.nn.moves.packed import Image, as_image
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.depthwise import Depthwise2d
from vtakit.compiler.nn.vta.fold import Fold
from vtakit.compiler.nn.vta.packing import blocks
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.pooling import Pooling
from vtakit.compiler.schedule.schedule import create_schedule
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor

INT8 = dtype("int8")
SUMS = frozenset(("conv_integer", "conv_transpose_integer", "matmul_integer"))


class Units:
    """The operators of the accelerator that a graph has, each with what it reads beneath changes of shape that move nothing.

    without : last nodes of units that the accelerator has refused
    found   : by the last node of each
    reasons : why the last node of others is not one
    root    : of a value, what lies in memory just so, by nodes that only change its shape
    """

    def __init__(
        self, graph: Graph, target: Target, decisions: ModelDecisions | None = None, without: Container[Node] = (),
    ) -> None:
        self.graph, self.target, self.without = graph, target, without
        self.decisions = ModelDecisions() if decisions is None else decisions
        self.producers, self.consumers = graph.producers(), graph.consumers()
        self.given = {value for _, value in graph.outputs}
        self.bounds = bounds_of(graph)
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
            case "max_pool":
                return self._pooled(node)
            case "lookup":
                return self._looked_up(node)
            case "depth_to_space":
                return self._shuffled(node)
            case "concat" | "pad" | "resize" | "slice":
                return self._moved(node)
        return None

    def _pooled(self, node: Node) -> Unit | None:
        """A max pool by itself, or together with the convolution before it.

        Requantization rises with the sum, so the greatest of some values is that of the greatest sum: fewer are requantized, and
        the convolution's result is never stored.
        """
        apart, before = self._moved(node), self._unread(node.reads[0])
        sums = None if before is None or before.op != "requantize" else self._unread(before.inputs[0])
        if apart is None or before is None or sums is None or sums.op != "conv_integer" or node in self.without:
            return apart
        attrs, spatial = node.attrs, spatial_of(node.outputs[0].type)
        kernel, stride = (pairs(attrs.get(key), spatial, 1) for key in ("kernel_shape", "strides"))
        try:
            pad = _to_the_end(as_image(node.reads[0].type.shape), as_image(node.outputs[0].type.shape), kernel, stride,
                              four_pads(attrs.get("pads"), spatial))
            pooling = Pooling(kernel=kernel, stride=stride, pad=pad)
            fused, conv = self._layer(node, before, pooling=pooling), self._layer(before, before)
        except VtaError:
            return apart
        if fused is None or conv is None or (self._numbers(before).multiplier < 0).any():
            return apart
        cycles = [sum(self._cycles(unit) for unit in units) for units in ((conv, apart), (fused,))]
        forms = ["apart", "fused"]
        default = forms[cycles[1] < cycles[0]]
        return fused if self.decisions.choose(fused.nodes, "pool", forms, default, Units._pooled) == "fused" else apart

    def _looked_up(self, node: Node) -> Unit | None:
        """A table by itself, or together with the requantization before it, which costs nothing more."""
        table = tuple(int(entry) for entry in self._constant(node.inputs[1]).astype(np.int64))
        before = self._unread(node.reads[0])
        if before is not None and before.op == "requantize" and node not in self.without:
            try:
                fused = self._layer(node, before, table=table)
            except VtaError:
                fused = None
            if fused is not None:
                return fused
        x, output = self._activations(node.inputs[0]), node.outputs[0]
        channels, size = x.type.shape[1], x.type.bytes + output.type.bytes
        return self._fitting(Unit(
            (node,), (x,), output, self._packed(output), lambda m, t, f: moves.lookup(m, t[0], channels, table), 0, size))

    def _cycles(self, unit: Unit) -> int:
        """The estimate for a convolution or pool."""
        layer = self._made(unit, unit.fold).layer
        assert isinstance(layer, Conv2d | Depthwise2d | Pool2d)
        return layer.cycles

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
        (low, high), bits = self.bounds.get(value, ANY), self.target.config.inp_bits
        if low < -1 << bits - 1 or high >= 1 << bits - 1:
            raise VtaError(f"it reads numbers from {low} to {high}, and this device's activations have {bits} bits")
        if not 2 <= len(value.type.shape) <= 4 or not value.type.size:
            raise VtaError(f"it reads data of shape {value.type.shape}; the accelerator's has 2 to 4 dimensions and is not empty")
        return self.root.get(value, value)

    def _numbers(self, node: Node) -> Numbers:
        bias, multiplier, shift = (self._constant(value).astype(np.int64) for value in node.inputs[1:4])
        return Numbers(bias, multiplier, shift, **node.attrs)

    def _layer(
        self, end: Node, requantize: Node, reshaped: TensorType | None = None, pooling: Pooling | None = None,
        table: tuple[int, ...] | None = None,
    ) -> Unit | None:
        """Sums, maybe a residual or a pool, and their requantization, maybe looked up."""
        sums, inside = self._unread(requantize.inputs[0]), [requantize] + [end] * (end is not requantize)
        if sums is None:
            return None
        numbers, skip, skip_scale = replace(self._numbers(requantize), table=table), None, None
        if sums.op == "scaled_add":
            inside.insert(0, sums)
            skip, skip_scale = self._activations(sums.inputs[1]), self._constant(sums.inputs[2])
            sums = self._unread(sums.inputs[0])
            if sums is None:
                return None
        if reshaped is not None and (skip is not None or sums.op != "matmul_integer"):
            return None
        if pooling is not None and (skip is not None or sums.op != "conv_integer"):
            return None
        inside.insert(0, sums)
        data, build, macs, fold = self._sums(sums, numbers, skip_scale, reshaped, pooling)
        filling = None if skip is not None or pooling is not None else self._filling(sums, numbers)
        reads = (*data, *([skip] if skip is not None else []))
        output = end.outputs[0]
        weights = sum(value.type.bytes for value in sums.reads if value in self.graph.constants)
        size = sum(value.type.bytes for value in (*reads, output)) + weights
        return self._fitting(Unit(tuple(inside), reads, output, self._packed(output), build, macs, size, fold, filling))

    def _filling(self, node: Node, numbers: Numbers) -> Filling | None:
        if node.op != "conv_integer":
            return None
        shape = products.Shape.of(node.attrs, spatial_of(node.outputs[0].type))
        return Filling.of(self.target, self._constant(node.inputs[1]), shape, numbers, as_image(node.reads[0].type.shape))

    def _sums(
        self, node: Node, numbers: Numbers, skip_scale: Array | None, reshaped: TensorType | None, pooling: Pooling | None,
    ) -> tuple[tuple[Value, ...], Build, int, Fold | None]:
        """Return the operands of sums, a function that builds the sums, their multiply-adds, and the fold of their data."""
        out, target = node.outputs[0].type, self.target

        def skip_of(tensors: list[Tensor]) -> Skip | None:
            return None if skip_scale is None else Skip(tensors[-1], skip_scale)
        if node.op in ("conv_integer", "conv_transpose_integer"):
            if len(node.reads) > 2:
                raise VtaError("it has zero points")
            x, weights = self._activations(node.inputs[0]), self._constant(node.inputs[1])
            shape = products.Shape.of(node.attrs, spatial_of(out))
            if node.op == "conv_integer":
                fold = products.fold_of(target, as_image(node.reads[0].type.shape), weights, shape, pooling)
                return (x,), lambda m, t, f: products.conv(m, t[0], weights, shape, numbers, skip_of(t), f, pooling), (
                    out.size * prod(weights.shape[1:])), fold
            image = as_image(out.shape)
            macs, zero = node.reads[0].type.size * prod(weights.shape[1:]), node.attrs.get("zero", 0)
            return (x,), lambda m, t, f: products.transposed(
                m, t[0], weights, shape, image, numbers, skip_of(t), zero), macs, None
        if node.op == "matmul_integer":
            if computed_product(node, self.graph.constants):
                why = "have zero points" if len(node.reads) > 2 else "do not go together head by head, with one scale for all"
                why = f"lie in blocks of {target.config.batch} images" if target.config.batch > 1 else why
                raise VtaError(f"it multiplies matrices that are both computed and {why}")
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
            fill = node.attrs.get("fill", 0)
            return (x,), lambda m, t, f: moves.sum_pool(m, t[0], kernel, stride, pad, fill, numbers, skip_of(t)), 0, None
        if node.op == "scaled_sum" and skip_scale is None:
            x, y = map(self._activations, node.inputs[:2])
            a, b = map(self._constant, node.inputs[2:])
            return (x, y), lambda m, t, f: moves.scaled_sum(m, t[0], t[1], a, b, numbers), 0, None
        if node.op == "mul_integer" and skip_scale is None:
            x, y = map(self._activations, node.inputs[:2])
            zeros = node.attrs.get("a_zero", 0), node.attrs.get("b_zero", 0)
            return (x, y), lambda m, t, f: moves.product(m, t[0], t[1], zeros, numbers), 0, None
        raise VtaError(f"the accelerator has no {node.op}")

    def _flat(self, value: Value | None) -> tuple[Value, tuple[int, int, int]]:
        """Return the operand of a matrix product beneath a reshape to rows, and its channels, rows and columns."""
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
        product = None if before is None or before.op != "requantize" else self._unread(before.inputs[0])
        if before is not None and product is not None and computed_product(product, self.graph.constants):
            return self._computed(product, before, node)
        if before is None or before.op != "requantize" or node.outputs[0] in self.root or not 3 <= len(shape) <= 4:
            return None
        if node.reads[0].type.shape[0] != shape[0]:
            return None
        return self._layer(node, before, node.outputs[0].type)

    def _shuffled(self, node: Node) -> Unit:
        """Pixels from channels, together with the convolution before them, or by themselves as one of 1 x 1."""
        before = self._unread(node.reads[0])
        sums = None if before is None or before.op != "requantize" else self._unread(before.inputs[0])
        if before is not None and sums is not None and sums.op == "conv_integer" and len(sums.reads) == 2 and (
                node not in self.without):
            try:
                return self._shuffled_behind(node, sums, before)
            except VtaError:
                pass
        data, channels = self._activations(node.reads[0]), node.reads[0].type.shape[1]
        one, none = np.ones(channels, np.int64), np.zeros(channels, np.int64)
        same = np.eye(channels, dtype=np.int8)[:, :, None, None]
        return self._pixels((node,), data, same, products.Shape.of({}, 2), Numbers(none, one, none), 0)

    def _shuffled_behind(self, node: Node, sums: Node, requantize: Node) -> Unit:
        weights, shape = self._constant(sums.inputs[1]), products.Shape.of(sums.attrs, spatial_of(sums.outputs[0].type))
        macs = sums.outputs[0].type.size * prod(weights.shape[1:])
        return self._pixels((sums, requantize, node), self._activations(sums.inputs[0]), weights, shape,
                            self._numbers(requantize), macs)

    def _pixels(
        self, nodes: tuple[Node, ...], data: Value, weights: Array, shape: products.Shape, numbers: Numbers, macs: int,
    ) -> Unit:
        output, attrs = nodes[-1].outputs[0], nodes[-1].attrs
        block, mode = attrs["blocksize"], attrs.get("mode", "DCR")
        size = data.type.bytes + output.type.bytes + (weights.size if macs else 0)

        def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
            return products.shuffled(m, t[0], weights, shape, block, mode, numbers)
        return self._fitting(Unit(nodes, (data,), output, self._packed(output), build, macs, size))

    def _computed(self, product: Node, requantize: Node, node: Node) -> Unit:
        """A product of computed matrices as `signals` leaves it: of two signals, whose result is one."""
        nodes = product, requantize, node
        try:
            data, weights = (self._signal(value) for value in product.reads[:2][::-1])
            _, heads, outs, _ = product.outputs[0].type.shape
            numbers = self._numbers(requantize)
            depth, size = product.reads[0].type.shape[-1], sum(value.type.bytes for value in (data, weights, node.outputs[0]))

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return products.computed(m, t[0], t[1], (heads, outs, depth), numbers)
            return self._fitting(Unit(nodes, (data, weights), node.outputs[0], self._packed(node.outputs[0]), build,
                                      product.outputs[0].type.size * depth, size))
        except VtaError as error:
            self.reasons |= dict.fromkeys(nodes, str(error))
            raise

    def _signal(self, value: Value) -> Value:
        """The signal beneath a matrix for each head."""
        maker = self.producers.get(value)
        if maker is not None and maker.op == "transpose":
            maker = self.producers.get(maker.reads[0])
        if maker is None or maker.op != "reshape" or len(maker.reads[0].type.shape) != len(value.type.shape) - 1:
            raise VtaError("it reads matrices that are both computed and do not lie as the accelerator's do")
        return self._activations(maker.reads[0])

    def _moved(self, node: Node) -> Unit | None:
        out, attrs, spatial = node.outputs[0].type, node.attrs, spatial_of(node.outputs[0].type)
        if not 1 <= spatial <= 2 and node.op != "concat":
            raise VtaError(f"{node.op} of {len(out.shape)} dimensions")
        data = tuple([self._activations(value) for value in node.reads[:1 if node.op != "concat" else None]])
        build: Build
        if node.op == "max_pool":
            if max(attrs.get("dilations") or (1,)) > 1:
                raise VtaError("windows that are dilated")
            kernel, stride = (pairs(attrs.get(key), spatial, 1) for key in ("kernel_shape", "strides"))
            pad = _to_the_end(as_image(node.reads[0].type.shape), as_image(out.shape), kernel, stride,
                              four_pads(attrs.get("pads"), spatial))

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.max_pool(m, t[0], kernel, stride, pad)
        elif node.op == "concat":
            if attrs["axis"] % len(out.shape) != 1:
                raise VtaError("it joins along another dimension than channels")
            counts = [value.type.shape[1] for value in data]

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.concat(m, t, counts)
        elif node.op == "slice":
            first, channels = _channels_of(node, self.target.config.block)

            def build(m: Maker, t: list[Tensor], f: Fold | None) -> Made:
                return moves.slice_of(m, t[0], first, channels)
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
        found = self._made(unit, None)
        s = create_schedule(found.layer.result.op)
        found.schedule(s)
        return unit

    def _made(self, unit: Unit, fold: Fold | None) -> Made:
        """The operator of a unit by itself."""
        shapes = [packed_shape(self.target, value.type.shape) for value in unit.data]
        if fold is not None:
            images, channels, *size = as_image(unit.data[0].type.shape)
            batch, block = self.target.element("inp")
            inner = fold.taps[0] * fold.taps[1] * channels
            shapes[0] = (blocks(images, batch), blocks(inner, block), *fold.folded_size(size[0], size[1]), batch, block)
        tensors = [placeholder(shape, self.target.dtype("inp"), f"p{i}") for i, shape in enumerate(shapes)]
        return unit.build(Maker(self.target, identifier(unit.name, unit.ops[0])), tensors, fold)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.found.values())


def _to_the_end(
    image: Image, result: Image, kernel: moves.Pair, stride: moves.Pair, pad: moves.Pads,
) -> moves.Pads:
    """Pads so large that the last windows of a result fit, which may reach over the end."""
    above, below, left, right = pad
    over = [(places - 1) * step + size - (extent + front) for places, step, size, extent, front in zip(
        result[2:], stride, kernel, image[2:], (above, left), strict=True)]
    return above, max(below, over[0]), left, max(right, over[1])


def _channels_of(node: Node, block: int) -> tuple[int, int]:
    """The first channel that a slice takes, and how many. Raises VtaError for slices of anything else."""
    old, new, attrs = node.reads[0].type.shape, node.outputs[0].type.shape, node.attrs
    axes = attrs.get("axes") or tuple(range(len(attrs["starts"])))
    if old[:1] + old[2:] != new[:1] + new[2:] or max(attrs.get("steps") or (1,)) > 1 or 1 not in [at % len(old) for at in axes]:
        raise VtaError("a slice along other dimensions than channels, or with steps")
    start = attrs["starts"][[at % len(old) for at in axes].index(1)]
    first = min(max(start + old[1] if start < 0 else start, 0), old[1])
    if first % block:
        raise VtaError(f"a slice from channel {first} on, in the middle of a block of {block}")
    return first, new[1]
