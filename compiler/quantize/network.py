"""An ONNX model as a quantizer sees it: nodes, constants, shapes by name; batch normalization folded away."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.frontend.onnx.nodes import attribute_value
from vtakit.compiler.quantize.errors import QuantizeError

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]

OPSET = 13  # the first whose DequantizeLinear has a scale for each channel
_VALUES = {  # what a Constant may have, and the type that it means; None for that of a tensor
    "value": None, "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64,
}


class Network:
    """A copy of a model that is being changed.

    constants : by name, those that nodes make included
    """

    def __init__(self, proto: "onnx.ModelProto", folder: str = "") -> None:
        import onnx
        from onnx import external_data_helper, numpy_helper, version_converter

        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        external_data_helper.load_external_data_for_model(copy, folder)
        versions = {each.domain: each.version for each in copy.opset_import}
        if versions.get("", OPSET) < OPSET:
            try:
                copy = version_converter.convert_version(copy, OPSET)
            except (RuntimeError, ValueError) as error:  # what its C++ code raises
                raise QuantizeError(f"the model uses opset {versions['']}, and onnx cannot make {OPSET} of it, the first whose "
                                    f"DequantizeLinear has a scale for each channel: {' '.join(str(error).split())}") from None
        self.proto, self.graph = copy, copy.graph
        self.constants: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self._take_constants()
        inputs = [info for info in self.graph.input if info.name not in self.constants]
        del self.graph.input[:]
        self.graph.input.extend(inputs)
        self.outputs = [info.name for info in self.graph.output]

    def _take_constants(self) -> None:
        kept = []
        for node in self.graph.node:
            values = [a for a in node.attribute if a.name in _VALUES]
            if node.op_type == "Constant" and not node.domain and values:
                self.constants[node.output[0]] = np.asarray(attribute_value(values[0], "a constant"), _VALUES[values[0].name])
            elif node.op_type == "Identity" and not node.domain and node.input[0] in self.constants:
                self.constants[node.output[0]] = self.constants[node.input[0]]
            else:
                kept.append(node)
        self.set_nodes(kept)

    def set_nodes(self, nodes: "list[onnx.NodeProto]") -> None:
        """Give the graph other nodes."""
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del self.graph.node[:]
        self.graph.node.extend(copies)

    @property
    def nodes(self) -> "Iterator[onnx.NodeProto]":
        return iter(self.graph.node)

    def readers(self) -> dict[str, int]:
        """Return the number of nodes that read each value; an output of the graph counts for two."""
        found: dict[str, int] = {}
        for node in self.graph.node:
            for name in filter(None, node.input):
                found[name] = found.get(name, 0) + 1
            for attribute in node.attribute:
                if attribute.HasField("g"):  # a branch sees all values
                    for inner in attribute.g.node:
                        for name in filter(None, inner.input):
                            found[name] = found.get(name, 0) + 2
        for name in self.outputs:
            found[name] = found.get(name, 0) + 2
        return found

    def constant(self, name: str) -> Array | None:
        """A constant's elements."""
        return self.constants.get(name)

    def finished(self) -> "onnx.ModelProto":
        """The model, with its constants as initializers."""
        from onnx import numpy_helper

        read = self.readers()
        del self.graph.initializer[:]
        for name, array in self.constants.items():
            if name in read:
                self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return self.proto

    def new_name(self, wanted: str) -> str:
        """A name that no value has yet."""
        taken = {name for node in self.graph.node for name in (*node.input, *node.output)} | set(self.constants)
        taken |= {info.name for info in self.graph.input}
        found, count = wanted, 0
        while found in taken:
            count += 1
            found = f"{wanted}_{count}"
        return found


def attributes(node: "onnx.NodeProto") -> dict[str, Any]:
    """A node's attributes by name."""
    return {a.name: attribute_value(a, f"attribute {a.name!r}") for a in node.attribute if not a.HasField("g")}


def channel_axis(node: "onnx.NodeProto") -> int | None:
    """The dimension of an anchor's weight that makes the result's channels; None where several share an index of it."""
    given = attributes(node)
    if node.op_type == "ConvTranspose":
        return 1 if given.get("group", 1) == 1 else None
    if node.op_type == "Conv":
        return 0
    return 0 if given.get("transB") else 1


def fold_batch_norms(network: Network) -> None:
    """Batch normalization becomes part of the convolution or product before it, which is read by nothing else.

    Between a product and it there may be a reshape of rows to images.
    """
    readers = network.readers()
    makers = {name: node for node in network.nodes for name in node.output}
    gone: dict[str, str] = {}
    for node in network.nodes:
        maker = makers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if maker is not None and (attributes(node).get("training_mode") or any(node.output[1:])):
            continue  # it normalizes by the batch at hand
        numbers = [network.constant(name) for name in node.input[1:]]
        if maker is None or readers[node.input[0]] > 1 or None in [None if n is None else 0 for n in numbers]:
            continue
        scale, shift, mean, variance = (np.asarray(n, np.float64) for n in numbers)
        factor = scale / np.sqrt(variance + attributes(node).get("epsilon", 1e-5))
        anchor, times = maker, 1
        if maker.op_type == "Reshape" and readers[maker.input[0]] == 1 and maker.input[0] in makers:
            anchor, times = makers[maker.input[0]], _pixels(network, maker, makers[maker.input[0]], len(factor))
        if times and _fold(network, anchor, factor.repeat(times), (shift - mean * factor).repeat(times)):
            gone[node.output[0]] = maker.output[0]
            maker.output[0] = node.output[0]
    network.set_nodes([node for node in network.nodes if not (node.op_type == "BatchNormalization" and node.output[0] in gone)])


def _pixels(network: Network, reshape: "onnx.NodeProto", product: "onnx.NodeProto", channels: int) -> int:
    """Return the columns of a product that become one channel of images; 0 if its rows become no images of `channels`."""
    shape, weight = network.constant(reshape.input[1]), network.constant(product.input[1]) if len(product.input) > 1 else None
    if product.op_type != "Gemm" or shape is None or weight is None or shape.size < 3:
        return 0
    columns = weight.shape[0 if attributes(product).get("transB") else 1]
    pixels = int(np.prod(shape[2:]))
    return pixels if min(shape[2:]) > 0 and shape[1] == channels and channels * pixels == columns else 0


def activations_first(network: Network) -> None:
    """Have a Relu or Clip behind a reshape act before it, so that it ends the layer that the reshape reads."""
    readers, made = network.readers(), {node.output[0]: at for at, node in enumerate(network.nodes)}
    nodes = list(network.nodes)
    for at, node in enumerate(nodes):
        before = made.get(node.input[0]) if node.op_type in ("Relu", "Clip") else None
        if before is None or nodes[before].op_type not in ("Reshape", "Flatten") or readers[node.input[0]] > 1:
            continue
        reshape = nodes[before]
        if readers[reshape.input[0]] > 1 or any(name and network.constant(name) is None for name in node.input[1:]):
            continue
        inner = network.new_name(f"{node.output[0]}_rows")
        node.input[0], reshape.input[0], reshape.output[0], node.output[0] = reshape.input[0], inner, node.output[0], inner
        nodes[before], nodes[at] = node, reshape
        made[reshape.output[0]], made[inner] = at, before
    network.set_nodes(nodes)


def _fold(network: Network, node: "onnx.NodeProto", factor: Array, term: Array) -> bool:
    """Multiply what an anchor makes by a factor for each channel and add a term; whether that can be done."""
    found, given = network.constant(node.input[1]) if len(node.input) > 1 else None, attributes(node)
    bias = np.zeros(len(factor)) if len(node.input) < 3 or not node.input[2] else network.constant(node.input[2])
    if found is None or bias is None or found.dtype != np.float32:
        return False
    if node.op_type == "Conv" and len(found) == len(factor):
        weight = found * factor.reshape(-1, *[1] * (found.ndim - 1))
    elif node.op_type == "ConvTranspose" and found.shape[1] * given.get("group", 1) == len(factor):
        groups = given.get("group", 1)
        shape = (groups, found.shape[0] // groups, *found.shape[1:])
        weight = (found.reshape(shape) * factor.reshape(groups, 1, -1, *[1] * (found.ndim - 2))).reshape(found.shape)
    elif node.op_type == "Gemm" and given.get("alpha", 1) == given.get("beta", 1) == 1:
        weight = found * (factor.reshape(-1, 1) if given.get("transB") else factor)
    else:
        return False
    set_input(network, node, 1, weight.astype(np.float32))
    set_input(network, node, 2, np.broadcast_to(bias * factor + term, (len(factor),)).astype(np.float32))
    return True


def set_input(network: Network, node: "onnx.NodeProto", at: int, array: Array) -> None:
    """Give a node a constant operand of its own, under its old name if no other node reads that."""
    old = node.input[at] if at < len(node.input) else ""
    name = old
    if not old or network.readers()[old] > 1:
        name = network.new_name(f"{old or node.output[0]}_{'weight' if at == 1 else 'bias'}")
    while len(node.input) <= at:
        node.input.append("")
    node.input[at] = name
    network.constants[name] = array
