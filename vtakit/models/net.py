"""An ONNX model made layer by layer while data flows through it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import vtakit.models.numeric as numeric
from vtakit.models.numeric import Array

if TYPE_CHECKING:
    import onnx

OPSET = 17
_IR_VERSION = 8  # of ONNX files with that operator set
EPSILON = 1e-5  # of batch normalization


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value of the model: its name there, and what it is for the data that flows through."""

    name: str
    data: Array


class Net:
    """A model being made.

    Every layer adds its nodes and its weights, and computes what it makes of the data. So batch normalizations have the mean and
    variance that their input really has, and activations stay in range however deep the network is.

    name : of the model
    rng  : where weights come from
    """

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name, self.rng = name, rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self._inputs: list[Tensor] = []

    def input(self, name: str, data: Array) -> Tensor:
        """An input with the data that flows; its first dimension is the batch."""
        self._inputs.append(Tensor(name, data))
        return self._inputs[-1]

    def conv(
        self, x: Tensor, channels: int, kernel: int, *, name: str, stride: int = 1, pad: int | None = None, groups: int = 1,
        dilation: int = 1, bias: bool = False,
    ) -> Tensor:
        """A convolution of images with square kernels, or of signals [N, C, L].

        Without `pad`, as many zeros around as keep the size at stride 1.
        """
        pad, count = kernel // 2 * dilation if pad is None else pad, x.data.ndim - 2
        fan_in = x.data.shape[1] // groups * kernel**count
        weight = self._he(f"{name}.weight", (channels, x.data.shape[1] // groups, *[kernel] * count), fan_in)
        if count == 1:
            around = np.pad(x.data, ((0, 0), (0, 0), (pad, pad)))[:, :, None]
            made = numeric.conv2d(around, weight[:, :, None], stride=stride, groups=groups, dilation=dilation)[:, :, 0]
        else:
            made = numeric.conv2d(x.data, weight, stride=stride, pad=pad, groups=groups, dilation=dilation)
        spread = {"dilations": [dilation] * count} if dilation > 1 else {}
        return self._convolved("Conv", x, name, made, bias, kernel_shape=[kernel] * count, strides=[stride] * count,
                               pads=[pad] * 2 * count, group=groups, **spread)

    def conv_transpose(
        self, x: Tensor, channels: int, kernel: int, *, name: str, stride: int, pad: int, bias: bool = False
    ) -> Tensor:
        """A transposed convolution with square kernels."""
        fan_in = x.data.shape[1] * kernel**2 // stride**2  # of the taps, only every stride-th meets an element
        weight = self._he(f"{name}.weight", (x.data.shape[1], channels, kernel, kernel), fan_in)
        made = numeric.conv_transpose2d(x.data, weight, stride=stride, pad=pad)
        return self._convolved(
            "ConvTranspose", x, name, made, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
        )

    def batch_norm(self, x: Tensor, *, name: str) -> Tensor:
        """Batch normalization with the statistics of the data, and a scale and a shift near one and zero."""
        channels = x.data.shape[1]
        over = (0, *range(2, x.data.ndim))
        mean, var = x.data.mean(axis=over), x.data.var(axis=over)
        given = {
            "weight": self.rng.uniform(0.5, 1.5, channels), "bias": self.rng.normal(0, 0.2, channels), "running_mean": mean,
            "running_var": var,
        }
        names = [self._weight(f"{name}.{word}", array.astype(np.float32)) for word, array in given.items()]
        scale, shift, mean, var = (self.weights[word].reshape(1, -1, *[1] * (x.data.ndim - 2)) for word in names)
        made = (x.data - mean) / np.sqrt(var + np.float32(EPSILON)) * scale + shift
        return self._add("BatchNormalization", [x.name, *names], name, made, epsilon=EPSILON)

    def relu(self, x: Tensor, *, name: str) -> Tensor:
        return self._add("Relu", [x.name], name, np.maximum(x.data, 0))

    def relu6(self, x: Tensor, *, name: str) -> Tensor:
        """ReLU that ends at 6."""
        bounds = [self._weight(f"relu6.{word}", np.float32(value)) for word, value in (("low", 0), ("high", 6))]
        return self._add("Clip", [x.name, *bounds], name, np.clip(x.data, 0, 6))

    def tanh(self, x: Tensor, *, name: str) -> Tensor:
        return self._add("Tanh", [x.name], name, np.tanh(x.data))

    def add(self, a: Tensor, b: Tensor, *, name: str) -> Tensor:
        return self._add("Add", [a.name, b.name], name, a.data + b.data)

    def mul(self, a: Tensor, b: Tensor, *, name: str) -> Tensor:
        return self._add("Mul", [a.name, b.name], name, a.data * b.data)

    def sigmoid(self, x: Tensor, *, name: str) -> Tensor:
        return self._add("Sigmoid", [x.name], name, numeric.sigmoid(x.data))

    def concat(self, *parts: Tensor, name: str, axis: int = 1) -> Tensor:
        return self._add("Concat", [part.name for part in parts], name, np.concatenate([part.data for part in parts], axis),
                         axis=axis)

    def bilinear(self, x: Tensor, factor: int, *, name: str) -> Tensor:
        """Images `factor` times as large, linear between the centres of pixels."""
        scales, made = self._weight(f"{name}.scales", np.array([1, 1, factor, factor], np.float32)), x.data
        for axis in (2, 3):
            size = made.shape[axis]
            at = np.clip((np.arange(size * factor) + 0.5) / factor - 0.5, 0, size - 1)
            first = np.minimum(at.astype(np.int64), max(size - 2, 0))
            shape = [1, 1, 1, 1]
            shape[axis] = -1
            part = (at - first).astype(np.float32).reshape(shape)
            made = made.take(first, axis) * (1 - part) + made.take(np.minimum(first + 1, size - 1), axis) * part
        return self._add("Resize", [x.name, "", scales], name, made, mode="linear", coordinate_transformation_mode="half_pixel")

    def resize(self, x: Tensor, factor: int, *, name: str) -> Tensor:
        """Images of the nearest values, `factor` times as large."""
        scales = self._weight(f"{name}.scales", np.array([1, 1, factor, factor], np.float32))
        made = x.data.repeat(factor, 2).repeat(factor, 3)
        return self._add("Resize", [x.name, "", scales], name, made, mode="nearest", coordinate_transformation_mode="asymmetric",
                         nearest_mode="floor")

    def depth_to_space(self, x: Tensor, block: int, *, name: str) -> Tensor:
        """Pixels of a block from channels that follow one another (CRD), as PyTorch's PixelShuffle."""
        images, channels, rows, columns = x.data.shape
        apart = x.data.reshape(images, -1, block, block, rows, columns).transpose(0, 1, 4, 2, 5, 3)
        made = apart.reshape(images, channels // block**2, rows * block, columns * block)
        return self._add("DepthToSpace", [x.name], name, made, blocksize=block, mode="CRD")

    def max_pool(self, x: Tensor, kernel: int, *, name: str, stride: int, pad: int = 0) -> Tensor:
        made = numeric.max_pool2d(x.data, kernel, stride=stride, pad=pad)
        return self._add(
            "MaxPool", [x.name], name, made, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4
        )

    def global_average_pool(self, x: Tensor, *, name: str) -> Tensor:
        return self._add("GlobalAveragePool", [x.name], name, x.data.mean(axis=tuple(range(2, x.data.ndim)), keepdims=True))

    def flatten(self, x: Tensor, *, name: str) -> Tensor:
        """All but the batch as one dimension."""
        return self._add("Flatten", [x.name], name, x.data.reshape(len(x.data), -1))

    def reshape(self, x: Tensor, shape: Sequence[int], *, name: str) -> Tensor:
        """Another shape of what each element of the batch has."""
        target = self._weight(f"{name}.shape", np.array([-1, *shape], np.int64))
        return self._add("Reshape", [x.name, target], name, x.data.reshape(-1, *shape))

    def transpose(self, x: Tensor, perm: Sequence[int], *, name: str) -> Tensor:
        return self._add("Transpose", [x.name], name, x.data.transpose(perm), perm=list(perm))

    def dense(self, x: Tensor, outputs: int, *, name: str) -> Tensor:
        """A linear layer with a bias: of a matrix [N, I] one Gemm, of more dimensions MatMul and Add over the last."""
        inputs = x.data.shape[-1]
        weight = self._he(f"{name}.weight", (outputs, inputs), inputs)
        bias = self._weight(f"{name}.bias", self.rng.normal(0, 0.1, outputs).astype(np.float32))
        made = x.data @ weight.T + self.weights[bias]
        if x.data.ndim == 2:
            return self._add("Gemm", [x.name, f"{name}.weight", bias], name, made, transB=1)
        self.weights[f"{name}.weight"] = np.ascontiguousarray(weight.T)
        product = self._add("MatMul", [x.name, f"{name}.weight"], f"{name}.product", made)
        return self._add("Add", [product.name, bias], name, made)

    def embedding(self, x: Tensor, words: int, features: int, *, name: str) -> Tensor:
        """A row of a table for each index."""
        table = self._weight(f"{name}.weight", self.rng.uniform(-0.1, 0.1, (words, features)).astype(np.float32))
        return self._add("Gather", [table, x.name], name, self.weights[table][x.data])

    def first_rows(self, rows: int, features: int, count: int, *, name: str) -> Tensor:
        """The first rows of a table, as one element of a batch."""
        table = self._weight(f"{name}.weight", self.rng.uniform(-0.1, 0.1, (1, rows, features)).astype(np.float32))
        bounds = [self._weight(f"{name}.{word}", np.array([value], np.int64)) for word, value in (
            ("start", 0), ("end", count), ("axis", 1))]
        return self._add("Slice", [table, *bounds], name, self.weights[table][:, :count])

    def first(self, x: Tensor, *, name: str) -> Tensor:
        """The first of what each element of the batch has, kept with an extent of 1."""
        bounds = [self._weight(f"{name}.{word}", np.array([value], np.int64)) for word, value in (
            ("start", 0), ("end", 1), ("axis", 1))]
        return self._add("Slice", [x.name, *bounds], name, x.data[:, :1])

    def layer_norm(self, x: Tensor, *, name: str) -> Tensor:
        """Over the last dimension, with a scale and a shift near one and zero (Ba et al., 2016)."""
        size = x.data.shape[-1]
        drawn = {"scale": self.rng.uniform(0.5, 1.5, size), "shift": self.rng.normal(0, 0.2, size)}
        names = [self._weight(f"{name}.{word}", np.asarray(array, np.float32)) for word, array in drawn.items()]
        off = x.data - x.data.mean(-1, keepdims=True)
        normal = off / np.sqrt((off**2).mean(-1, keepdims=True) + np.float32(EPSILON))
        made = normal * self.weights[names[0]] + self.weights[names[1]]
        return self._add("LayerNormalization", [x.name, *names], name, made, axis=-1, epsilon=EPSILON)

    def gelu(self, x: Tensor, *, name: str) -> Tensor:
        """``x * (1 + erf(x / sqrt(2))) / 2``, of the nodes that PyTorch exports."""
        root, one, half = (self._weight(f"gelu.{word}", np.float32(value)) for word, value in (
            ("root", 2**0.5), ("one", 1), ("half", 0.5)))
        scaled = x.data / self.weights[root]
        parts = [("Div", [x.name, root], scaled)]
        parts.append(("Erf", [f"{name}.div"], numeric.erf(scaled)))
        parts.append(("Add", [f"{name}.erf", one], parts[-1][2] + 1))
        parts.append(("Mul", [x.name, f"{name}.add"], x.data * parts[-1][2]))
        for op, inputs, made in parts:
            self._add(op, inputs, f"{name}.{op.lower()}", made)
        return self._add("Mul", [f"{name}.mul", half], name, parts[-1][2] * self.weights[half])

    def softmax(self, x: Tensor, *, name: str) -> Tensor:
        """Along the last dimension."""
        powers = np.exp(x.data - x.data.max(-1, keepdims=True))
        return self._add("Softmax", [x.name], name, powers / powers.sum(-1, keepdims=True), axis=-1)

    def matmul(self, a: Tensor, b: Tensor, *, name: str) -> Tensor:
        return self._add("MatMul", [a.name, b.name], name, a.data @ b.data)

    def scale(self, x: Tensor, factor: float, *, name: str) -> Tensor:
        """Each number times one."""
        number = self._weight(f"{name}.factor", np.float32(factor))
        return self._add("Mul", [x.name, number], name, x.data * self.weights[number])

    def lstm(self, x: Tensor, hidden: int, *, name: str, scale: float) -> Tensor:
        """A layer of LSTM cells over [T, N, I], from zeros; its weights are uniform between -scale and scale."""
        sizes = {"weight": (4 * hidden, x.data.shape[2]), "recurrent": (4 * hidden, hidden), "bias": (4 * hidden,)}
        drawn = {word: self.rng.uniform(-scale, scale, size).astype(np.float32) for word, size in sizes.items()}
        made = numeric.lstm(x.data, drawn["weight"], drawn["recurrent"], drawn["bias"])
        drawn["bias"] = np.concatenate([drawn["bias"], np.zeros(4 * hidden, np.float32)])  # ONNX has one for each product
        names = [self._weight(f"{name}.{word}", array[None]) for word, array in drawn.items()]
        states = self._add("LSTM", [x.name, *names], f"{name}.states", made[:, None], hidden_size=hidden)
        direction = self._weight(f"{name}.direction", np.array([1], np.int64))
        return self._add("Squeeze", [states.name, direction], name, made)

    def model(self, output: Tensor | Sequence[Tensor], shape: Sequence[int] | None = None) -> "onnx.ModelProto":
        """The finished model with one output or several.

        shape : of the input without its batch, if it is not that of the data
        """
        from onnx import helper, numpy_helper

        def port(tensor: Tensor, size: Sequence[int]) -> "onnx.ValueInfoProto":
            kind = helper.np_dtype_to_tensor_dtype(tensor.data.dtype)
            return helper.make_tensor_value_info(tensor.name, kind, ["N", *size])

        inputs = [port(each, each.data.shape[1:] if shape is None else shape) for each in self._inputs]
        outputs = [port(each, each.data.shape[1:]) for each in ([output] if isinstance(output, Tensor) else output)]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="vtakit.models"
        )

    def _convolved(self, op: str, x: Tensor, name: str, made: Array, bias: bool, **attributes: Any) -> Tensor:
        names = [x.name, f"{name}.weight"]
        if bias:
            names.append(self._weight(f"{name}.bias", self.rng.normal(0, 0.1, (made.shape[1],)).astype(np.float32)))
            made = made + self.weights[names[-1]].reshape(1, -1, *[1] * (made.ndim - 2))
        return self._add(op, names, name, made, **attributes)

    def _he(self, name: str, shape: tuple[int, ...], fan_in: int) -> Array:
        """Weights that keep the variance through a ReLU (He et al., 2015)."""
        self._weight(name, self.rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in)))
        return self.weights[name]

    def _weight(self, name: str, array: Any) -> str:
        self.weights[name] = np.asarray(array)
        return name

    def _add(self, op: str, inputs: Sequence[str], name: str, made: Array, **attributes: Any) -> Tensor:
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return Tensor(name, made)
