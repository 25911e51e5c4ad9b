"""Networks in integers, node by node, with random weights and scales that keep values spread over their range."""

from collections.abc import Sequence

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Array, Graph, Value


class Integers:
    """A network being made: float in, quantized, layers in integers, float out.

    values : of which weights are drawn; any int8 by default
    bounds : of all activations of layers, at most
    """

    def __init__(
        self, name: str = "net", seed: int = 0, *, values: Sequence[int] = range(-128, 128),
        bounds: tuple[int, int] = (-128, 127),
    ) -> None:
        self.builder, self.rng = Builder(name), np.random.default_rng(seed)
        self.values, self.bounds = values, bounds
        self._count = 0

    def input(self, *shape: int, name: str = "x") -> Value:
        """A float input, quantized."""
        return self.quantized(self.builder.input(name, shape, "float32"))

    def quantized(self, x: Value) -> Value:
        """Float numbers as int8."""
        scale, zero = self._of(np.float32(0.05)), self._of(np.int8(0))
        return self.builder.one("quantize_linear", x, scale, zero, name=self._name("quantize"))

    def dequantized(self, x: Value) -> Value:
        """int8 numbers as float."""
        return self.builder.one("dequantize_linear", x, self._of(np.float32(0.1)), self._of(np.int8(0)), name=self._name("float"))

    def finish(self, *values: Value) -> Graph:
        """The graph, whose outputs y0, y1, … are these values as float."""
        return self.builder.finish([(f"y{at}", self.dequantized(value)) for at, value in enumerate(values)])

    def conv(
        self, x: Value, outs: int, kernel: int = 3, stride: int = 1, *, pad: int | None = None, groups: int = 1,
        dilation: int = 1, skip: Value | None = None, low: int = 0, fill: int = 0, name: str = "",
    ) -> Value:
        """A convolution, maybe with a residual; pads are `fill`."""
        name, ins = name or self._name("conv"), x.type.shape[1]
        around = dilation * (kernel // 2) if pad is None else pad
        sums = self.builder.one(
            "conv_integer", x, self._weights(outs, ins // groups, kernel, kernel), name=name,
            attrs={"strides": (stride,) * 2, "pads": (around,) * 4, "groups": groups, "dilations": (dilation,) * 2} | (
                {"fill": fill} if fill else {}))
        sums = self._with_skip(sums, skip, name)
        return self.requantized(sums, 74 * np.sqrt(ins // groups * kernel**2), f"{name}.requantize", low)

    def deconv(
        self, x: Value, outs: int, kernel: int = 4, stride: int = 2, pad: int = 1, *, groups: int = 1, dilation: int = 1,
        skip: Value | None = None,
    ) -> Value:
        """A transposed convolution, maybe with a residual."""
        name, ins = self._name("deconv"), x.type.shape[1]
        attrs = {"strides": (stride,) * 2, "pads": (pad,) * 4, "groups": groups, "dilations": (dilation,) * 2}
        sums = self.builder.one("conv_transpose_integer", x, self._weights(ins, outs // groups, kernel, kernel), name=name,
                                attrs=attrs)
        sums = self._with_skip(sums, skip, name)
        return self.requantized(sums, 74 * np.sqrt(ins // groups * kernel**2 / stride**2), f"{name}.requantize")

    def _with_skip(self, sums: Value, skip: Value | None, name: str) -> Value:
        if skip is None:
            return sums
        scale = self._of(self.rng.integers(1, 2000, sums.type.shape[1], np.int32))
        return self.builder.one("scaled_add", sums, skip, scale, name=f"{name}.add")

    def dense(self, x: Value, outs: int) -> Value:
        """A matrix product."""
        name, ins = self._name("dense"), x.type.shape[1]
        sums = self.builder.one("matmul_integer", x, self._weights(ins, outs), name=name)
        return self.requantized(sums, 74 * np.sqrt(ins), f"{name}.requantize")

    def max_pool(self, x: Value, kernel: int = 2, stride: int = 2, pad: int = 0, **attrs: object) -> Value:
        """The greatest of each window."""
        window = {"kernel_shape": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
        return self.builder.one("max_pool", x, attrs=window | attrs, name=self._name("max_pool"))

    def mean(self, x: Value, kernel: Sequence[int] | None = None, pad: int = 0, fill: int = 0) -> Value:
        """The mean of each window, of the whole image if none is given; pads are `fill`."""
        window = tuple(kernel or x.type.shape[2:])
        attrs = {"kernel_shape": window} | ({"pads": (pad,) * 4, "fill": fill} if pad else {})
        sums = self.builder.one("sum_pool", x, attrs=attrs, name=self._name("mean"))
        return self.requantized(sums, float(np.prod(window)), self._name("requantize"))

    def sum(self, a: Value, b: Value, *, small: bool = False) -> Value:
        """A sum of two tensors of different scales; small ones are the same for all channels."""
        channels = a.type.shape[1]
        scales = [
            np.full(channels, self.rng.integers(1, 128), np.int32) if small else self.rng.integers(1, 3000, channels, np.int32)
            for _ in "ab"]
        sums = self.builder.one("scaled_sum", a, b, *map(self._of, scales), name=self._name("sum"))
        return self.requantized(sums, 100 if small else 2500, self._name("requantize"))

    def product(self, a: Value, b: Value) -> Value:
        """A product of two tensors of one shape, or of one and numbers for its channels."""
        zeros = {"a_zero": int(self.rng.integers(-128, 128)), "b_zero": int(self.rng.integers(-128, 128))}
        sums = self.builder.one("mul_integer", a, b, attrs=zeros, name=self._name("mul"))
        return self.requantized(sums, 100, self._name("requantize"))

    def lookup(self, x: Value) -> Value:
        """A table."""
        table = self.rng.integers(-128, 128, 256).astype(np.int8)
        return self.builder.one("lookup", x, self._of(table), name=self._name("lookup"))

    def concat(self, *values: Value, axis: int = 1) -> Value:
        """Channels of several tensors."""
        return self.builder.one("concat", *values, attrs={"axis": axis}, name=self._name("concat"))

    def pad(self, x: Value, around: int, value: int = 0) -> Value:
        """A number around images."""
        pads = (0, 0, around, around) * 2
        return self.builder.one("pad", x, self._of(np.int8(value)), attrs={"pads": pads}, name=self._name("pad"))

    def resize(self, x: Value, factor: int, **attrs: object) -> Value:
        """Larger images of the nearest values."""
        images, channels, rows, columns = x.type.shape
        plain = {"coordinates": "asymmetric", "nearest_mode": "floor"}
        sizes = images, channels, rows * factor, columns * factor
        return self.builder.one("resize", x, attrs={"sizes": sizes, **plain, **attrs}, name=self._name("resize"))

    def reshape(self, x: Value, *shape: int) -> Value:
        """Another shape."""
        return self.builder.one("reshape", x, attrs={"shape": shape}, name=self._name("reshape"))

    def requantized(self, sums: Value, spread: float, name: str, low: int = -128) -> Value:
        """Sums as int8, divided by about `spread`."""
        channels = sums.type.shape[1]
        bias, multiplier = self.rng.integers(-500, 500, channels), self.rng.integers(1 << 14, 1 << 16, channels)
        shift = np.full(channels, 15 + int(np.ceil(np.log2(max(spread, 1)))))
        numbers = [self._of(each.astype(np.int32)) for each in (bias, multiplier, shift)]
        least, most = self.bounds
        zero = {"zero_point": int(self.rng.integers(-128, 60))} if self.rng.integers(2) else {}
        attrs = {"low": max(low, least), "high": most, **zero}
        return self.builder.one("requantize", sums, *numbers, attrs=attrs, name=name)

    def _weights(self, *shape: int) -> Value:
        if len(self.values) == 256:
            return self._of(self.rng.integers(-128, 128, shape, np.int8))
        return self._of(self.rng.choice(self.values, shape).astype(np.int8))

    def _of(self, array: Array | np.generic) -> Value:
        return self.builder.constant(array)

    def _name(self, what: str) -> str:
        self._count += 1
        return f"{what}{self._count}"


def resnet18(size: int = 224, width: int = 64, classes: int = 1000) -> Graph:
    """ResNet-18, of images of a size; its layers have the names that PyTorch's have."""
    net = Integers("resnet18")
    x = net.max_pool(net.conv(net.input(1, 3, size, size), width, 7, 2, name="conv1"), 3, 2, 1)
    for stage in range(4):
        for block in range(2):
            label, outs, stride = f"layer{stage + 1}.{block}", width << stage, 2 if stage and not block else 1
            inner = net.conv(x, outs, stride=stride, name=f"{label}.conv1")
            skip = net.conv(x, outs, 1, stride, low=-128, name=f"{label}.downsample") if stride > 1 else x
            x = net.conv(inner, outs, skip=skip, name=f"{label}.conv2")
    return net.finish(net.dense(net.reshape(net.mean(x), 1, 8 * width), classes))


def random_network(
    seed: int, layers: int = 6, *, values: Sequence[int] = range(-128, 128), bounds: tuple[int, int] = (-128, 127),
) -> Graph:
    """A chain of random layers with shortcuts, concatenations and now and then something that only the CPU does.

    values, bounds : as for `Integers`
    """
    net = Integers(f"random{seed}", seed, values=values, bounds=bounds)
    rng = net.rng
    x = net.input(int(rng.integers(1, 3)), int(rng.integers(1, 20)), *(int(n) for n in rng.integers(5, 12, 2)))
    for _ in range(layers):
        images, channels, rows, columns = x.type.shape
        small = min(rows, columns)
        fill = int(rng.integers(bounds[0], bounds[1] + 1)) if rng.integers(2) else 0
        match rng.integers(0, 14):
            case 0 | 1:
                kernel = int(rng.integers(1, min(small, 5) + 1))
                x = net.conv(x, int(rng.integers(1, 40)), kernel, int(rng.integers(1, 3)), fill=fill)
            case 2:
                x = net.conv(x, channels, groups=channels, fill=fill)
            case 12:
                gates = net.conv(net.conv(net.mean(x), int(rng.integers(1, 9)), 1), channels, 1)
                x = net.product(x, gates if rng.integers(2) else net.conv(x, channels, fill=fill))
            case 13:
                x = net.lookup(x)
            case 3:
                groups = int(rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
                x = net.conv(x, groups * int(rng.integers(1, 5)), 1, groups=groups)
            case 4:
                x = net.conv(net.conv(x, channels), channels, skip=x, fill=fill)
            case 5:
                x = net.sum(x, net.conv(x, channels, low=-128), small=bool(rng.integers(2)))
            case 6:
                x = net.concat(x, net.conv(x, int(rng.integers(1, 20))), x)
            case 7 if small > 4:
                x = net.max_pool(x, 3, int(rng.integers(1, 3)), int(rng.integers(0, 2)))
            case 8 if small > 2:
                x = net.mean(x, (2, 2), int(rng.integers(2)), fill)
            case 9 if small < 8:
                x = net.deconv(x, int(rng.integers(1, 20))) if rng.integers(2) else net.resize(x, 2)
            case 10 if small < 12:
                x = net.pad(x, 1, int(rng.integers(-128, 128)))
            case 11:  # which the accelerator does not have
                x = net.quantized(net.builder.one("sigmoid", net.dequantized(x)))
    if rng.integers(2):
        images, *rest = x.type.shape
        x = net.dense(net.reshape(x, images, int(np.prod(rest))), int(rng.integers(1, 30)))
    return net.finish(x)


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Random inputs of a graph."""
    rng = np.random.default_rng(seed)
    return {value.name: (rng.standard_normal(value.type.shape) * 3).astype(np.float32) for value in graph.inputs}
