"""Random networks, and what onnxruntime's static quantizer makes of them."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from model_support import model
from onnx import helper, shape_inference
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import vtakit

Arrays = dict[str, np.ndarray]


class Layers:
    """A network being made, each layer behind one that is there already."""

    def __init__(self, seed: int, channels: int = 3, size: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: Arrays = {}
        self.shapes: dict[str, tuple[int, ...]] = {"x": (1, channels, size, size)}
        self.last = "x"

    def weights(self, *shape: int, fan_in: int) -> str:
        name = f"w{len(self.constants)}"
        spread = self.rng.uniform(0.3, 2, (shape[0], *[1] * (len(shape) - 1)))
        self.constants[name] = (self.rng.standard_normal(shape) * spread / np.sqrt(fan_in)).astype(np.float32)
        return name

    def add(self, op: str, inputs: Sequence[str], shape: tuple[int, ...], **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [*inputs], [name], name=f"{op.lower()}{len(self.nodes)}", **attributes))
        self.shapes[name], self.last = shape, name
        return name

    def conv(self, x: str, filters: int, kernel: int = 3, stride: int = 1, groups: int = 1, dilation: int = 1) -> str:
        n, c, h, w = self.shapes[x]
        weight = self.weights(filters, c // groups, kernel, kernel, fan_in=c // groups * kernel**2)
        bias = self.weights(filters, fan_in=1)
        reach = (kernel - 1) * dilation
        pads = [reach // 2, reach // 2, reach - reach // 2, reach - reach // 2]
        out = tuple((size - 1) // stride + 1 for size in (h, w))
        return self.add("Conv", [x, weight, bias], (n, filters, *out), pads=pads, strides=[stride] * 2, group=groups,
                        dilations=[dilation] * 2)

    def conv_transpose(self, x: str, filters: int, stride: int = 2) -> str:
        n, c, h, w = self.shapes[x]
        weight = self.weights(c, filters, 2 * stride, 2 * stride, fan_in=c * 4)
        return self.add("ConvTranspose", [x, weight], (n, filters, h * stride, w * stride), strides=[stride] * 2,
                        pads=[stride // 2, stride // 2, stride - stride // 2, stride - stride // 2])

    def norm(self, x: str) -> str:
        c = self.shapes[x][1]
        scale, bias, mean = self.weights(c, fan_in=1), self.weights(c, fan_in=4), self.weights(c, fan_in=4)
        self.constants[f"{mean}v"] = (self.rng.random(c) + 0.5).astype(np.float32)
        return self.add("BatchNormalization", [x, scale, bias, mean, f"{mean}v"], self.shapes[x])

    def relu(self, x: str, six: bool = False) -> str:
        if not six:
            return self.add("Relu", [x], self.shapes[x])
        self.constants |= {"zero": np.float32(0), "six": np.float32(6)}
        return self.add("Clip", [x, "zero", "six"], self.shapes[x])

    def sum(self, x: str, other: str) -> str:
        return self.add("Add", [x, other], self.shapes[x])

    def concat(self, x: str, other: str) -> str:
        n, c, *rest = self.shapes[x]
        return self.add("Concat", [x, other], (n, c + self.shapes[other][1], *rest), axis=1)

    def pool(self, x: str, kind: str = "MaxPool", kernel: int = 2, stride: int = 2) -> str:
        n, c, h, w = self.shapes[x]
        return self.add(kind, [x], (n, c, (h - kernel) // stride + 1, (w - kernel) // stride + 1), kernel_shape=[kernel] * 2,
                        strides=[stride] * 2)

    def resize(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        self.constants["twice"] = np.array([1, 1, 2, 2], np.float32)
        return self.add("Resize", [x, "", "twice"], (n, c, 2 * h, 2 * w), mode="nearest", nearest_mode="floor",
                        coordinate_transformation_mode="asymmetric")

    def classifier(self, x: str, classes: int = 10) -> str:
        n, c, *_ = self.shapes[x]
        pooled = self.add("GlobalAveragePool", [x], (n, c, 1, 1))
        flat = self.add("Flatten", [pooled], (n, c))
        weights = self.weights(classes, c, fan_in=c), self.weights(classes, fan_in=1)
        return self.add("Gemm", [flat, *weights], (n, classes), transB=1)

    def model(self, batch: int | str = 1) -> onnx.ModelProto:
        """With the last layer as its output, named y."""
        self.nodes[-1].output[0] = "y"
        shapes = [(name, "f4", (batch, *self.shapes[at][1:])) for name, at in (("x", "x"), ("y", self.last))]
        return model(self.nodes, shapes[:1], shapes[1:], self.constants)

    def inputs(self, count: int, seed: int = 0) -> np.ndarray:
        """Images of several brightnesses, [count, channels, size, size]."""
        rng = np.random.default_rng(seed)
        light = rng.uniform(0.5, 1, (count, 1, 1, 1))
        return (rng.standard_normal((count, *self.shapes["x"][1:])) * light).astype(np.float32)


def random_network(seed: int, layers: int = 8, *, norms: bool = False) -> Layers:
    """Convolutions of all sorts, activations, shortcuts, pools, and a classifier at the end half of the time."""
    net = Layers(seed)
    rng, x = net.rng, "x"
    x = net.conv(x, int(rng.integers(2, 9)) * 2, int(rng.choice([1, 3, 5])), int(rng.integers(1, 3)))
    for _ in range(layers):
        before, channels, size = x, net.shapes[x][1], net.shapes[x][2]
        match rng.integers(0, 9):
            case 0:
                kernel, dilation = int(rng.choice([1, 3, 4])), int(rng.integers(1, 3))
                x = net.conv(x, int(rng.integers(2, 12)) * 2, kernel, 1 + int(size > 5), dilation=dilation)
            case 1:
                x = net.conv(x, channels, 3, groups=channels)
            case 2 if channels % 2 == 0:
                x = net.conv(x, channels, 3, groups=2)
            case 3 | 4:  # a residual block
                x = net.relu(net.conv(x, channels))
                x = net.sum(net.conv(x, channels), before)
            case 5:
                x = net.concat(net.conv(x, int(rng.integers(1, 6))), before)
            case 6 if size > 5:
                x = net.pool(x, str(rng.choice(["MaxPool", "AveragePool"])), int(rng.integers(2, 4)))
            case 7 if size < 8:
                x = net.resize(x) if rng.random() < 0.5 else net.conv_transpose(x, channels)
        if norms and rng.random() < 0.5 and net.nodes[-1].op_type in ("Conv", "ConvTranspose"):
            x = net.norm(x)
        if rng.random() < 0.6 and net.nodes[-1].op_type not in ("Relu", "Clip"):
            x = net.relu(x, six=bool(rng.random() < 0.3))
    if rng.random() < 0.5:
        net.classifier(x)
    return net


def qdq(nodes: Sequence[onnx.NodeProto], constants: dict[str, Any] | None = None, scale: float = 0.05) -> onnx.ModelProto:
    """A model of float nodes from `a` to `b` with int8 of two scales around them; x is the input, y the output."""
    around = {"sa": np.float32(0.03), "sb": np.float32(scale), "z": np.int8(0)}
    node = helper.make_node
    before = [node("QuantizeLinear", ["x", "sa", "z"], ["xq"]), node("DequantizeLinear", ["xq", "sa", "z"], ["a"])]
    after = [node("QuantizeLinear", ["b", "sb", "z"], ["bq"]), node("DequantizeLinear", ["bq", "sb", "z"], ["y"])]
    sizes = ["n", "c", "h", "w"]
    return model([*before, *nodes, *after], [("x", "f4", (1, 4, 6, 6))], [("y", "f4", sizes)], around | (constants or {}))


def weights(*shape: int, seed: int = 0, axis: int | None = 0) -> dict[str, Any]:
    """int8 weights, and scales along an axis."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.002, 0.02, shape[axis] if axis is not None else ()).astype(np.float32)
    return {"wq": rng.integers(-127, 128, shape, np.int8), "ws": scale, "wz": np.zeros(scale.shape, np.int8)}


def dequantized(axis: int = 0) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], axis=axis)


class _Reader(CalibrationDataReader):
    def __init__(self, feeds: Sequence[Arrays]) -> None:
        self.feeds: Iterator[Arrays] = iter(feeds)

    def get_next(self) -> Arrays | None:
        return next(self.feeds, None)


def small_classifier() -> Layers:
    """A convolution, a pool and a product, of images of 3 x 6 x 6."""
    net = Layers(3, channels=3, size=6)
    net.pool(net.relu(net.conv("x", 6)))
    net.classifier(net.last, 4)
    return net


def write_quantized(net: Layers, folder: Path) -> None:
    """Write a network in integers, q.onnx, and an input for it, in.npz."""
    onnx.save(quantized(net.model(), net.inputs(4)), folder / "q.onnx")
    np.savez(folder / "in.npz", x=net.inputs(1, 7))


def quantized(
    proto: onnx.ModelProto, x: np.ndarray, *, per_channel: bool = True, form: str = "QDQ", types: str = "S8S8",
    symmetric: bool = True, **options: Any
) -> onnx.ModelProto:
    """The model as onnxruntime quantizes it, calibrated on single images.

    types     : of activations and weights: S8S8, U8S8 or U8U8
    symmetric : zero points are 0; else onnxruntime's default, activations with zero points, and weights of uint8 too
    """
    kinds = [QuantType.QInt8 if letter == "S" else QuantType.QUInt8 for letter in (types[0], types[2])]
    if symmetric:
        options = {"ActivationSymmetric": True, "WeightSymmetric": True, **options}
    logging.getLogger().setLevel(logging.ERROR)  # it warns, through the root logger, that preprocessing would help
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "quantized.onnx")
        quantize_static(
            proto, path, _Reader([{"x": image[None]} for image in x]), quant_format=QuantFormat[form], per_channel=per_channel,
            activation_type=kinds[0], weight_type=kinds[1], extra_options=options)
        return onnx.load(path)


def onnxruntime_of(proto: onnx.ModelProto, *, optimised: bool = True) -> onnxruntime.InferenceSession:
    """The model in onnxruntime, one thread, its own optimisations on or off.

    A product with weights of int8 alone may become MatMulNBits. Its sums are float32, as the model says, at accuracy level 1; by
    default it also rounds the data to int8.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def quantum_of(proto: onnx.ModelProto, output: str = "y") -> float:
    """The scale of the DequantizeLinear that makes an output."""
    (node,) = [node for node in proto.graph.node if output in node.output]
    (scale,) = [tensor for tensor in proto.graph.initializer if tensor.name == node.input[1]]
    return float(onnx.numpy_helper.to_array(scale))


def with_all_values(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model for one sample, with each value that it quantizes as an output."""
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    for info in found.graph.input:
        info.type.tensor_type.shape.dim[0].dim_value = 1
    for info in found.graph.output:
        info.type.tensor_type.ClearField("shape")
    names = [node.output[0] for node in found.graph.node if node.op_type == "QuantizeLinear"]
    known = shape_inference.infer_shapes(found).graph
    shapes = {info.name: info for info in (*known.value_info, *known.output)}
    outputs = [shapes[info.name] for info in found.graph.output] + [shapes[name] for name in names]
    del found.graph.output[:]
    found.graph.output.extend(outputs)
    return found


def assert_same_bytes(proto: onnx.ModelProto, given: dict[str, np.ndarray]) -> None:
    """All int8 values, sample by sample; the first that differs is named."""
    whole = with_all_values(proto)
    module = vtakit.compile(whole)
    for optimised in (True, False):
        session = onnxruntime_of(whole, optimised=optimised)
        for number in range(len(next(iter(given.values())))):
            x = {name: array[number:number + 1] for name, array in given.items()}
            got = module.run(x)
            names = [name for name, array in got.items() if array.dtype == np.int8]
            for name, want in zip(names, session.run(names, x), strict=True):
                wrong = np.argwhere(got[name] != want)
                place = tuple(wrong[0]) if len(wrong) else ()
                assert not len(wrong), (f"{name} differs in {len(wrong)} of {want.size} values, optimised={optimised}, sample "
                                        f"{number}, first {place}: got {got[name][place]}, want {want[place]}")
