"""Choice of the values that become int8: those between convolutions, products and the operators that int8 supports behind them.

A chain ``conv -> + bias -> + residual -> relu`` is one layer of a device, so only its end is quantized. What moves elements keeps
their scale, so what it reads and makes has one. Whatever else there is stays in floating point.
"""

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from vtakit.compiler.quantize.network import Network, attributes
from vtakit.compiler.quantize.parts import ANCHORS, COORDINATES, FUNCTIONS, MOVES, Plan, Residual, Shapes

if TYPE_CHECKING:
    import onnx

class _Open(Enum):
    """Operators that may still follow in the layer that a value ends so far."""

    SUMS = "a bias, a residual, an activation"
    SUMMED = "an activation"
    FUNCTION = "nothing: it is a function of each element of an int8 value"


def plan_of(network: Network, shapes: Shapes, *, matrices: bool = True) -> Plan:
    """Return the plan of a network whose values have the given shapes; only values of float32 are in `shapes`.

    matrices : products of two computed matrices become int8
    """
    return _Planner(network, shapes, matrices).plan()


class _Planner:
    def __init__(self, network: Network, shapes: Shapes, matrices: bool) -> None:
        self.network, self.shapes, self.matrices = network, shapes, matrices
        self.found = Plan()
        self.open: dict[str, tuple[_Open, int]] = {}  # what ends a layer so far: what may follow, and the layer's first node
        self.readers = network.readers()
        self.nodes = list(network.nodes)
        self.source: dict[str, str] = {}  # the int8 value that a value is a function of, element by element
        self.chain: dict[str, set[int]] = {}  # the nodes of that function

    def plan(self) -> Plan:
        for number, node in enumerate(self.nodes):
            if not self.node(number, node) and not self.function(number, node):
                self.found.left.setdefault(number, self.reason(node))
                for name in node.input:
                    self.close(name, quantize=name not in self.source)
        for name in [*self.open]:
            self.close(name, quantize=name not in self.source)
        for chain in self.chain.values():
            for number in chain - self.found.tables:
                self.found.left.setdefault(number, "its result is read by floating-point operators only")
        return self.found

    def no(self, number: int, why: str) -> bool:
        """Note why a node stays in floating point; return False."""
        self.found.left[number] = why
        return False

    def reason(self, node: "onnx.NodeProto") -> str:
        """Return why a node that no rule takes stays in floating point."""
        if node.domain:
            return f"operators of the domain {node.domain} are not quantized"
        if any(node.output[1:]):
            return "it has several results"
        if node.output[0] not in self.shapes:
            return "the shape of its result is not known beforehand, or it is not float32"
        real = [name for name in node.input
                if name in self.shapes and not self.is_int8(name) and self.network.constant(name) is None]
        if real and node.op_type in (*MOVES, *FUNCTIONS, "Add", "Mul", "AveragePool", "GlobalAveragePool", "ReduceMean"):
            return f"it reads the floating-point value {real[0]}"
        if node.op_type in (*MOVES, *FUNCTIONS, "AveragePool", "GlobalAveragePool", "ReduceMean"):
            return f"this form of {node.op_type} has no integer form"
        return f"{node.op_type} has no integer form"

    def function(self, number: int, node: "onnx.NodeProto") -> bool:
        """Return whether a node is a function of each element of one int8 value; if so, its result may become a table."""
        made = node.output[0]
        if node.domain or node.op_type not in FUNCTIONS or made not in self.shapes or any(node.output[1:]):
            return False
        read, chain = set(), {number}
        for name in filter(None, node.input):
            known = self.network.constant(name)
            if known is not None and known.size == 1:
                continue
            if known is not None or self.shapes.get(name) != self.shapes[made]:
                return False
            read.add(self.source.get(name, name))
            chain |= self.chain.get(name, set())
        if len(read) != 1:
            return False
        (data,) = read
        if not self.is_int8(data) or self.network.constant(data) is not None:
            return False
        self.close(data)
        self.source[made], self.chain[made] = data, chain
        self.open[made] = (_Open.FUNCTION, number)
        return True

    def node(self, number: int, node: "onnx.NodeProto") -> bool:
        """Return whether a node computes on int8; if so, mark its result as open or quantized."""
        if node.domain or not node.input or node.output[0] not in self.shapes or any(node.output[1:]):
            return False
        if node.op_type in ANCHORS:
            return self.anchor(number, node)
        if node.op_type == "Add":
            return self.add(number, node)
        if node.op_type == "Mul":
            return self.product(number, node)
        if node.op_type in ("Relu", "Clip"):
            return self.activation(number, node)
        if node.op_type in ("AveragePool", "GlobalAveragePool", "ReduceMean"):
            return self.mean(number, node)
        return node.op_type in MOVES and self.move(number, node)

    def is_int8(self, name: str) -> bool:
        """Return whether a value is int8, or can be."""
        return name in self.found.values or name in self.open

    def close(self, name: str, quantize: bool = True) -> None:
        """The layer that a value ends, ends there; a function's result that only floating-point operators read stays as it is."""
        if name in self.open and quantize:
            state, number = self.open.pop(name)
            if state is _Open.FUNCTION:
                self.found.tables |= self.chain[name]
            else:
                self.found.ends[number] = name
            self.found.made.add(name)
            self.found.values[name] = None

    def follows(self, name: str, *states: _Open) -> bool:
        """Return whether a layer may continue behind a value: nothing else reads it, and it is open in one of `states`."""
        return name in self.open and self.open[name][0] in states and self.readers[name] == 1

    def goes_on(self, number: int, node: "onnx.NodeProto", name: str, state: _Open) -> bool:
        """The layer that a value ended so far goes on."""
        self.open[node.output[0]] = (state, self.open.pop(name)[1])
        self.found.whole.add(number)
        return True

    def begins(self, number: int, node: "onnx.NodeProto", *reads: str) -> bool:
        """A layer begins, which reads int8."""
        for name in reads:
            self.close(name)
            self.found.values[name] = None
        self.found.whole.add(number)
        return True

    def anchor(self, number: int, node: "onnx.NodeProto") -> bool:
        data, weight = node.input[0], self.network.constant(node.input[1])
        bias = self.network.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if weight is None and node.op_type == "MatMul" and self.matrices:
            return self.computed(number, node)
        if weight is None:
            return self.no(number, "its weights are computed, not constant")
        if weight.dtype != np.float32 or not weight.size:
            return self.no(number, f"its weights are {weight.dtype}, not float32" if weight.size else "it has no weights")
        if data not in self.shapes:
            return self.no(number, "the shape of its data is not known beforehand, or they are not float32")
        if len(node.input) > 2 and node.input[2] and bias is None:
            return self.no(number, "its bias is computed, not constant")
        given = attributes(node)
        if node.op_type in ("Gemm", "MatMul"):
            columns = weight.shape[0 if given.get("transB") else -1] if weight.ndim == 2 else -1
            plain = given.get("alpha", 1.0) == given.get("beta", 1.0) == 1 and not given.get("transA")
            fits = bias is None or (bias.size in (1, columns) and bias.shape[-1:] in ((), (1,), (columns,)))
            if weight.ndim != 2 or len(self.shapes[data]) < 2:
                return self.no(number, "its weights are no matrix, or its data no rows")
            if not plain:
                return self.no(number, "it has factors (alpha, beta), or its data are transposed")
            if not fits:
                return self.no(number, "its bias differs by row")
        elif node.op_type == "ConvTranspose" and given.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
            return self.no(number, f"a transposed convolution with auto_pad {given['auto_pad']} has no integer form")
        self.begins(number, node, data)
        self.found.anchors.append(number)
        self.found.bits[number] = 8
        self.open[node.output[0]] = (_Open.SUMS, number)
        return True

    def add(self, number: int, node: "onnx.NodeProto") -> bool:
        for data, term in (node.input, node.input[::-1]):
            known = self.network.constant(term)
            if known is not None:
                return self.bias(number, node, data, known)
        a, b = node.input
        if a == b or a not in self.shapes or b not in self.shapes or self.shapes[a] != self.shapes[b] or len(self.shapes[a]) < 2:
            return False
        if self.source.get(a, a) == self.source.get(b, b):
            return False  # a function of one value
        order = sorted((a, b), key=lambda name: self.open[name][1] if name in self.open else -1)
        skip, acc = order  # the layer that comes last takes the other's result as its residual
        if self.follows(acc, _Open.SUMS) and self.nodes[self.open[acc][1]].op_type in ANCHORS and self.is_int8(skip):
            anchor = self.open[acc][1]
            if self.nodes[anchor].op_type != "MatMul" or len(self.shapes[acc]) == 2:
                self.close(skip)
                self.found.residuals[number] = Residual(anchor, acc, skip)
                return self.goes_on(number, node, acc, _Open.SUMMED)
        if not (self.is_int8(a) and self.is_int8(b)):
            return False
        self.begins(number, node, a, b)
        self.open[node.output[0]] = (_Open.SUMMED, number)
        return True

    def product(self, number: int, node: "onnx.NodeProto") -> bool:
        """A product of two int8 values of one shape, or of an image and a number for each of its channels."""
        shapes = [self.shapes.get(name, ()) for name in node.input]
        made, (a, b) = self.shapes[node.output[0]], node.input
        each = (*made[:2], *[1] * (len(made) - 2))
        if len(made) < 2 or made not in shapes or any(shape not in (made, each) for shape in shapes):
            return False
        if not (self.is_int8(a) and self.is_int8(b)) or self.source.get(a, a) == self.source.get(b, b):
            return False
        self.begins(number, node, a, b)
        self.open[node.output[0]] = (_Open.SUMMED, number)
        return True

    def computed(self, number: int, node: "onnx.NodeProto") -> bool:
        """A product of matrices both of which are computed."""
        if any(len(self.shapes.get(name, ())) < 2 for name in node.input):
            return self.no(number, "an operand is no matrix, or of a shape that is not known beforehand, or not float32")
        self.begins(number, node, *node.input)
        self.open[node.output[0]] = (_Open.SUMMED, number)
        return True

    def bias(self, number: int, node: "onnx.NodeProto", data: str, known: np.ndarray) -> bool:
        """A constant for each channel, added to sums."""
        if not self.follows(data, _Open.SUMS) or self.shapes[data] != self.shapes[node.output[0]]:
            return False
        maker, shape = self.nodes[self.open[data][1]], self.shapes[data]
        axis = len(shape) - 1 if maker.op_type in ("Gemm", "MatMul") else 1
        spread = (1,) * (len(shape) - known.ndim) + known.shape
        if maker.op_type not in ANCHORS or known.ndim > len(shape) or not known.size == spread[axis] in (1, shape[axis]):
            return False
        return self.goes_on(number, node, data, _Open.SUMS)

    def activation(self, number: int, node: "onnx.NodeProto") -> bool:
        data = node.input[0]
        if any(name and self.network.constant(name) is None for name in node.input[1:]):
            return False
        if self.follows(data, _Open.SUMS, _Open.SUMMED):
            return self.goes_on(number, node, data, _Open.SUMMED)
        if data in self.source and data not in self.found.values:
            return False  # a part of the function
        if not self.is_int8(data) or len(self.shapes.get(data, ())) < 2:
            return False
        self.begins(number, node, data)
        self.open[node.output[0]] = (_Open.SUMMED, number)
        return True

    def mean(self, number: int, node: "onnx.NodeProto") -> bool:
        data, given = node.input[0], attributes(node)
        ndim = len(self.shapes.get(data, ()))
        if not self.is_int8(data) or ndim < 3:
            return False
        if node.op_type == "AveragePool":
            pads = any(given.get("pads", ())) or given.get("auto_pad", "NOTSET") not in ("NOTSET", "", "VALID")
            if (pads and not given.get("count_include_pad")) or given.get("ceil_mode") or max(given.get("dilations", (1,))) > 1:
                return False
        elif node.op_type == "ReduceMean":
            known = self.network.constant(node.input[1]) if len(node.input) > 1 else given.get("axes")
            if known is None or sorted(int(axis) % ndim for axis in known) != [*range(2, ndim)]:
                return False
        self.begins(number, node, data)
        self.open[node.output[0]] = (_Open.SUMMED, number)
        return True

    def move(self, number: int, node: "onnx.NodeProto") -> bool:
        reads = list(node.input) if node.op_type == "Concat" else [node.input[0]]
        rest = [] if node.op_type == "Concat" else [name for name in node.input[1:] if name]
        known = [self.network.constant(name) for name in rest]
        if not all(map(self.is_int8, reads)) or any(each is None for each in known):
            return False
        given = attributes(node)
        one = set(self.shapes[reads[0]][2:]) == {1}  # pixel, which any mode repeats
        if node.op_type == "Resize" and (
                (given.get("mode", "nearest") != "nearest" and not one) or
                given.get("coordinate_transformation_mode", "half_pixel") not in COORDINATES):
            return False
        if node.op_type == "Pad" and (given.get("mode", "constant") != "constant" or (len(node.input) > 2 and any(
                np.any(each) for each in known[1:2]))):
            return False
        self.begins(number, node, *reads)
        for name in reads:
            self.found.join(name, node.output[0])
        self.found.values[node.output[0]] = None
        self.found.made.add(node.output[0])
        return True
