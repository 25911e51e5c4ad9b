"""The models of `cpu_gaps.py`: layers and blocks with quantize and dequantize nodes around each layer, made by script."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SCALE = np.float32(0.05)


class Net:
    """A model being written: each method adds a layer and returns the name of its result."""

    def __init__(self, *, quantized: bool, signed: bool = False) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.quantized, self.kind = quantized, np.int8 if signed else np.uint8
        self.rng = np.random.default_rng(0)
        self.zero = self.constant(np.array(0 if signed else 128, self.kind))
        self.scale = self.constant(SCALE)

    def name(self) -> str:
        """Return a name that is not taken."""
        return f"t{len(self.nodes)}_{len(self.constants)}"

    def constant(self, array: Any) -> str:
        """Add an initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node."""
        name = self.name()
        self.nodes.append(helper.make_node(kind, [*inputs], [name], **attrs))
        return name

    def q(self, x: str) -> str:
        """Quantize and dequantize a value where the model is quantized."""
        if not self.quantized:
            return x
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, self.scale, self.zero), self.scale, self.zero)

    def weight(self, *shape: int, axis: int = 0, reads: int = 1) -> str:
        """Add a weight: int8 with a scale for each filter, dequantized, where the model is quantized."""
        real = self.rng.standard_normal(shape, np.float32) / np.sqrt(np.float32(reads))
        if not self.quantized:
            return self.constant(real)
        steps = (np.abs(real).max(tuple([at for at in range(len(shape)) if at != axis])) / 127).astype(np.float32)
        whole = np.rint(real / steps.reshape([-1 if at == axis else 1 for at in range(len(shape))])).astype(np.int8)
        zero = self.constant(np.zeros(len(steps), np.int8))
        return self.op("DequantizeLinear", self.constant(whole), self.constant(steps), zero, axis=axis)

    def conv(self, x: str, channels: int, filters: int, kernel: tuple[int, ...], groups: int = 1, stride: int = 1) -> str:
        """Convolve with pads that keep the size, and a bias."""
        pads = [k // 2 for k in kernel] * 2
        depth = channels // groups
        w = self.weight(filters, depth, *kernel, reads=depth * int(np.prod(kernel)))
        return self.op("Conv", x, w, self.constant(np.zeros(filters, np.float32)), group=groups, pads=pads,
                       strides=[stride] * len(kernel))

    def dense(self, x: str, depth: int, columns: int) -> str:
        """Multiply rows by a matrix and add a bias."""
        w = self.weight(depth, columns, axis=1, reads=depth)
        return self.op("Add", self.op("MatMul", x, w), self.constant(np.zeros(columns, np.float32)))

    def model(self, shape: tuple[int, ...], out: str) -> onnx.ModelProto:
        """Finish the model of one input."""
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "gap", ports, [onnx.ValueInfoProto(name=out)], self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)


class Case(NamedTuple):
    """A model to measure: `make` takes whether it is quantized."""

    name: str
    make: Callable[[bool], onnx.ModelProto]
    shape: tuple[int, ...]
    kind: str = "int8"


def _dense(rows: int, depth: int, columns: int, *, quantized: bool, signed: bool) -> onnx.ModelProto:
    net = Net(quantized=quantized, signed=signed)
    return net.model((rows, depth), net.q(net.dense(net.q("x"), depth, columns)))


def _conv(shape: tuple[int, ...], filters: int, kernel: tuple[int, ...], groups: int = 1, *, quantized: bool) -> onnx.ModelProto:
    net = Net(quantized=quantized)
    y = net.conv(net.q("x"), shape[1], filters, kernel, groups)
    return net.model(shape, net.q(net.op("Relu", y)))


def _transposed(shape: tuple[int, ...], filters: int, *, quantized: bool) -> onnx.ModelProto:
    net = Net(quantized=quantized)
    w = net.weight(shape[1], filters, 4, 4, axis=1, reads=4 * shape[1])
    return net.model(shape, net.q(net.op("ConvTranspose", net.q("x"), w, strides=[2, 2], pads=[1] * 4)))


def _residual(channels: int, size: int, groups: int, count: int, *, quantized: bool) -> onnx.ModelProto:
    """Make bottlenecks with convolutions of groups, as RegNetX and ResNeXt have."""
    net = Net(quantized=quantized)
    x = net.q("x")
    for _ in range(count):
        y = net.q(net.op("Relu", net.conv(x, channels, channels, (1, 1))))
        y = net.q(net.op("Relu", net.conv(y, channels, channels, (3, 3), groups)))
        y = net.q(net.conv(y, channels, channels, (1, 1)))
        x = net.q(net.op("Relu", net.op("Add", y, x)))
    return net.model((1, channels, size, size), x)


def _activated(activation: str, channels: int, size: int, count: int, *, quantized: bool) -> onnx.ModelProto:
    """Make inverted bottlenecks with an activation that exporters write as several quantized nodes."""
    net = Net(quantized=quantized)
    x = net.q("x")

    def active(y: str) -> str:
        if activation == "silu":
            return net.q(net.op("Mul", y, net.q(net.op("Sigmoid", y))))
        if activation == "gelu":
            erf = net.q(net.op("Erf", net.q(net.op("Div", y, net.constant(np.float32(1.4142135))))))
            return net.q(net.op("Mul", net.q(net.op("Mul", y, net.q(net.op("Add", erf, net.constant(np.float32(1)))))),
                                net.constant(np.float32(0.5))))
        return net.q(net.op("HardSwish", y))
    for _ in range(count):
        y = active(net.q(net.conv(x, channels, 4 * channels, (1, 1))))
        y = active(net.q(net.conv(y, 4 * channels, 4 * channels, (3, 3), 4 * channels)))
        x = net.q(net.op("Add", net.q(net.conv(y, 4 * channels, channels, (1, 1))), x))
    return net.model((1, channels, size, size), x)


def _densely(channels: int, size: int, growth: int, count: int, *, quantized: bool) -> onnx.ModelProto:
    """Make a block of DenseNet: batch norm and relu in front of each convolution, all earlier results concatenated."""
    net = Net(quantized=quantized)
    x, there = net.q("x"), channels

    def norm(y: str, width: int) -> str:
        numbers = [net.rng.uniform(0.5, 1.5, width).astype(np.float32) for _ in range(4)]
        numbers[1] -= 1
        numbers[2] -= 1
        return net.q(net.op("Relu", net.q(net.op("BatchNormalization", y, *map(net.constant, numbers)))))
    for _ in range(count):
        y = net.q(net.conv(norm(x, there), there, 4 * growth, (1, 1)))
        y = net.q(net.conv(norm(y, 4 * growth), 4 * growth, growth, (3, 3)))
        x = net.q(net.op("Concat", x, y, axis=1))
        there += growth
    return net.model((1, channels, size, size), x)


def _unet(channels: int, size: int, *, quantized: bool) -> onnx.ModelProto:
    """Make a U-Net of two levels."""
    net = Net(quantized=quantized)

    def twice(y: str, before: int, after: int) -> str:
        y = net.q(net.op("Relu", net.conv(y, before, after, (3, 3))))
        return net.q(net.op("Relu", net.conv(y, after, after, (3, 3))))
    first = twice(net.q("x"), 3, channels)
    second = twice(net.op("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), channels, 2 * channels)
    w = net.weight(2 * channels, channels, 2, 2, axis=1, reads=8 * channels)
    up = net.q(net.op("ConvTranspose", second, w, strides=[2, 2]))
    last = twice(net.q(net.op("Concat", up, first, axis=1)), 2 * channels, channels)
    return net.model((1, 3, size, size), net.q(net.conv(last, channels, 2, (1, 1))))


def _encoder(rows: int, width: int, heads: int, count: int, *, quantized: bool) -> onnx.ModelProto:
    """Make layers of ViT: int8 around products, the rest in float."""
    net = Net(quantized=quantized)
    x, each = "x", width // heads

    def norm(y: str) -> str:
        return net.q(net.op("LayerNormalization", y, *[net.constant(np.full(width, n, np.float32)) for n in (1, 0)], axis=-1))

    def split(y: str, perm: tuple[int, ...]) -> str:
        return net.q(net.op("Transpose", net.op("Reshape", y, net.constant(np.array([1, rows, heads, each]))), perm=perm))
    for _ in range(count):
        y = norm(x)
        q, k, v = (split(net.dense(y, width, width), perm) for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = net.op("Mul", net.op("MatMul", q, k), net.constant(np.float32(each**-0.5)))
        found = net.op("MatMul", net.q(net.op("Softmax", scores, axis=-1)), v)
        found = net.op("Reshape", net.op("Transpose", found, perm=(0, 2, 1, 3)), net.constant(np.array([1, rows, width])))
        x = net.op("Add", net.dense(net.q(found), width, width), x)
        y = net.dense(norm(x), width, 4 * width)
        x = net.op("Add", net.dense(net.q(net.op("Gelu", y)), 4 * width, width), x)
    return net.model((1, rows, width), x)


def _dynamic(make: Callable[[bool], onnx.ModelProto], *, quantized: bool) -> onnx.ModelProto:
    """Quantize a float model's products as they run, by onnxruntime's quantizer."""
    model = make(False)
    if not quantized:
        return model
    from onnxruntime.quantization import quantize_dynamic  # slow to import
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("float.onnx", "dynamic.onnx")]
        onnx.save(model, paths[0])
        quantize_dynamic(*paths)
        return onnx.load(paths[1])


def _float16(make: Callable[[bool], onnx.ModelProto], *, quantized: bool) -> onnx.ModelProto:
    """Convert a float model to float16, inputs and outputs in float32, by onnxruntime's converter."""
    model = make(False)
    if not quantized:
        return model
    from onnxruntime.transformers.float16 import convert_float_to_float16
    made: onnx.ModelProto = convert_float_to_float16(model, keep_io_types=True)
    there, waiting = {port.name for port in (*made.graph.input, *made.graph.initializer)}, [*made.graph.node]
    del made.graph.node[:]
    while waiting:  # the converter leaves them out of order
        node = next(node for node in waiting if there.issuperset(node.input))
        waiting.remove(node)
        made.graph.node.append(node)
        there |= {*node.output}
    return made


def of(make: Callable[..., onnx.ModelProto], *args: Any, **more: Any) -> Callable[[bool], onnx.ModelProto]:
    """Return the function that makes a model with arguments, of whether it is quantized."""
    return lambda quantized: make(*args, **more, quantized=quantized)


def cases() -> Iterator[Case]:
    """Yield all cases, what users meet most first."""
    for product in ((1, 4096, 4096), (64, 4096, 4096), (512, 512, 512), (197, 192, 768), (128, 768, 3072)):
        for kind in ("u8", "s8"):
            yield Case(f"dense {'x'.join(map(str, product))} {kind}", of(_dense, *product, signed=kind == "s8"), product[:2])
    bert, gpt = of(_encoder, 128, 256, 4, 4), of(_encoder, 128, 768, 12, 1)
    yield Case("vit", of(_encoder, 197, 192, 3, 2), (1, 197, 192))
    yield Case("bert dynamic", of(_dynamic, bert), (1, 128, 256))
    yield Case("gpt dynamic", of(_dynamic, gpt), (1, 128, 768))
    yield Case("bert float16", of(_float16, bert), (1, 128, 256), "float16")
    for channels, size, groups in ((64, 56, 4), (128, 28, 8), (256, 14, 16), (256, 14, 32), (512, 14, 32), (120, 28, 5)):
        shape = (1, channels, size, size)
        yield Case(f"groups {channels}x{size} of {channels // groups}", of(_conv, shape, channels, (3, 3), groups), shape)
    yield Case("regnetx", of(_residual, 168, 14, 7, 3), (1, 168, 14, 14))
    yield Case("resnext", of(_residual, 256, 14, 32, 3), (1, 256, 14, 14))
    yield Case("transposed 256x16", of(_transposed, (1, 256, 16, 16), 128), (1, 256, 16, 16))
    several: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
        ("1d 64x1024", (1, 64, 1024), (9,)), ("1d 256x256", (1, 256, 256), (3,)), ("3d 32x8x28", (1, 32, 8, 28, 28), (3, 3, 3)))
    for name, sizes, kernel in several:
        yield Case(f"conv {name}", of(_conv, sizes, sizes[1], kernel), sizes)
    for channels, size, reach in ((96, 56, 3), (384, 14, 5)):
        shape = (1, channels, size, size)
        yield Case(f"depthwise {channels}x{size} {reach}x{reach}", of(_conv, shape, channels, (reach, reach), channels), shape)
    for activation in ("silu", "hardswish", "gelu"):
        yield Case(activation, of(_activated, activation, 48, 28, 3), (1, 48, 28, 28))
    yield Case("densenet", of(_densely, 128, 28, 32, 4), (1, 128, 28, 28))
    yield Case("unet", of(_unet, 32, 128), (1, 3, 128, 128))
