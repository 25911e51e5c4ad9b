"""Random programs of several layers for the accelerator: chains, residuals, diamonds, joins; each result in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from vta_cases import Given, finish, input_values, of_data, of_weights, pick, random_epilogue
from vta_moves import combined
from vta_operators import conv_reference, pool_reference, transposed_reference
from vta_support import wrap

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.binary import Binary2d
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.packing import identity
from vtakit.compiler.nn.vta.pad import Pad2d
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.resize import Resize2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.compiler.nn.vta.transposed import TransposedConv2d

LARGEST = 14  # rows or columns of an image in a network
MOST_BLOCKS = 6


@dataclass(frozen=True, eq=False)
class Value:
    """Activations in a network: [images, blocks, height, width] of elements.

    tensor : what layers read; of a result with more dimensions, a view computed inline
    result : what is stored, or an input of the network
    """

    tensor: te.Tensor
    result: te.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(extent.value for extent in self.tensor.shape)[:4]


class Network:
    """Layers in their order, each of values before; those that no layer reads are results, and some others."""

    def __init__(self, rng: np.random.Generator, target: Target) -> None:
        self.rng, self.target = rng, target
        self.values: list[Value] = []
        self.layers: list[tuple[Layer, Callable[[Given], np.ndarray]]] = []
        self.known: Given = {}
        self.views: dict[te.Tensor, te.Tensor] = {}  # of each result that has one
        self.shown: set[te.Tensor] = set()  # read by a layer, and a result of the network all the same
        self.read: set[te.Tensor] = set()

    # What a fuzzer asks of a case

    def schedule(self) -> te.Schedule:
        """Every layer with its default schedule."""
        s = te.create_schedule([tensor.op for tensor in self.outputs])
        for layer, _ in self.layers:
            layer.schedule(s)
        for result, view in self.views.items():
            if result in self.read:
                s[view].compute_inline()
        return s

    @property
    def inputs(self) -> list[te.Tensor]:
        """What the program reads that it does not make."""
        results = {layer.result for layer, _ in self.layers} | set(self.views.values())
        return [tensor for tensor in dict.fromkeys(t for layer, _ in self.layers for t in layer.inputs) if tensor not in results]

    @property
    def outputs(self) -> list[te.Tensor]:
        """Its results."""
        return [layer.result for layer, _ in self.layers if layer.result not in self.read or layer.result in self.shown]

    def given(self, rng: np.random.Generator) -> Given:
        """Values of every input."""
        return input_values(rng, self.inputs, self.known)

    def wanted(self, given: Given) -> Given:
        """What each result is."""
        found = dict(given)
        for layer, want in self.layers:
            shape = [extent.value for extent in layer.result.shape]
            found[layer.result] = want(found).reshape(shape)
            view = self.views.get(layer.result)
            if view is not None:
                found[view] = found[layer.result].reshape([extent.value for extent in view.shape])
        return {tensor: found[tensor] for tensor in self.outputs}

    @staticmethod
    def seen(found: np.ndarray) -> np.ndarray:
        """The part of a result that is compared."""
        return found

    # How it grows

    def any_value(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A value that a layer may read, most often one of the newest."""
        fitting = [value for value in self.values if fits(value)]
        if not fitting:
            return None
        newest = len(fitting) - 1 - int(self.rng.geometric(0.45) - 1)
        return fitting[max(newest, 0)]

    def weights(self, name: str, shape: tuple[int, ...] = ()) -> te.Tensor:
        """Weights of any values; one element that keeps values as they are if no shape is given."""
        found = of_weights(self.target, shape, name)
        if not shape:
            self.known[found] = identity(self.target)
        return found

    def epilogue(self, name: str, shape: tuple[int, ...]) -> Any:
        """Any epilogue for a result of a shape; its residual is a value of the network if there is one."""
        def residual() -> te.Tensor | None:
            value = self.any_value(lambda value: value.shape == shape[:4])
            return None if value is None or len(shape) != 6 else value.tensor
        return random_epilogue(self.rng, self.target, shape[1], shape, prefix=f"{name}_", added=residual())

    def add(self, name: str) -> None:
        """One more layer, unless the target has no room for it."""
        kind = KINDS[self.rng.integers(len(KINDS))]
        made = kind(self, name)
        if made is None:
            return
        layer, want = made
        try:
            layer.schedule(te.create_schedule(layer.result.op))
        except VtaError as error:
            if "fit" in str(error):
                return
            raise
        requantize = layer.epilogue.requantize
        if requantize is not None:
            self.known[requantize.parameters] = requantize.words
        for tensor in layer.inputs:
            self.read.add(next((value.result for value in self.values if value.tensor is tensor), tensor))
        self.layers.append((layer, want))
        self.values.append(Value(self.view(layer.result), layer.result))
        if self.rng.random() < 0.15:
            self.shown.add(layer.result)

    def view(self, result: te.Tensor) -> te.Tensor:
        """A result as [images, blocks, height, width, batch, block]."""
        shape = [extent.value for extent in result.shape]
        if len(shape) == 6:
            return result
        if len(shape) == 7:
            n, groups, outs, *rest = shape
            view = te.compute((n, groups * outs, *rest), lambda n, c, *at: result[n, c // outs, c % outs, *at],
                              name=f"{result.name}_view")
        else:
            n, outs, rows, down, columns, across, *rest = shape
            view = te.compute(
                (n, outs, rows * down, columns * across, *rest),
                lambda n, c, y, x, *at: result[n, c, y // down, y % down, x // across, x % across, *at],
                name=f"{result.name}_view")
        self.views[result] = view
        return view


Made = tuple[Layer, Callable[[Given], np.ndarray]] | None


def _conv(net: Network, name: str) -> Made:
    rng, value = net.rng, net.any_value()
    assert value is not None
    images, blocks, height, width = value.shape
    kernel = min(pick(rng, 1, 1, 3), height), min(pick(rng, 1, 3), width)
    pad = tuple(int(rng.integers(0, size)) for size in (kernel[0], kernel[0], kernel[1], kernel[1]))
    groups = blocks if rng.random() < 0.15 else 1
    outs = groups * pick(rng, 1, 1, 2) if groups > 1 else pick(rng, 1, 2, 3)
    weights = net.weights(f"{name}_weights", (outs, blocks // groups, *kernel))
    fields = {"target": net.target, "data": value.tensor, "weights": weights, "pad": pad, "groups": groups, "name": name,
              "stride": (pick(rng, 1, 1, 2), pick(rng, 1, 1, 2))}
    plain = Conv2d(**fields)
    layer = Conv2d(**fields, epilogue=net.epilogue(
        name, (images, outs, plain.out_height, plain.out_width, *net.target.element("inp"))))
    return layer, lambda given: conv_reference(layer, given[layer.data], given[weights], given)


def _transposed(net: Network, name: str) -> Made:
    rng, value = net.rng, net.any_value(lambda value: max(value.shape[2:]) * 2 <= LARGEST)
    if value is None:
        return None
    images, blocks, height, width = value.shape
    stride, taps, outs = (pick(rng, 1, 2), pick(rng, 1, 2)), (pick(rng, 1, 2), pick(rng, 1, 2)), pick(rng, 1, 2)
    rows, columns = height * stride[0], width * stride[1]
    weights = net.weights(f"{name}_weights", (outs, blocks, *stride, *taps))
    shape = images, outs, height, stride[0], width, stride[1], *net.target.element("inp")
    layer = TransposedConv2d(target=net.target, data=value.tensor, weights=weights, rows=rows, columns=columns, name=name,
                             pad=(pick(rng, 0, 1), pick(rng, 0, 1)), epilogue=net.epilogue(name, shape))
    return layer, lambda given: transposed_reference(layer, {tensor: given[tensor] for tensor in layer.inputs})


def _pool(net: Network, name: str) -> Made:
    rng, value = net.rng, net.any_value()
    assert value is not None
    kernel = tuple(min(pick(rng, 1, 2, 2, 3), size) for size in value.shape[2:])
    fields = {
        "target": net.target, "data": value.tensor, "kernel": kernel, "stride": (pick(rng, 1, 2), pick(rng, 1, 2)), "name": name,
        "pad": tuple(int(rng.integers(0, kernel[side // 2])) for side in range(4)), "kind": str(rng.choice(["max", "sum"])),
        "weights": net.weights(f"{name}_one"),
    }
    plain = Pool2d(**fields)
    shape = *value.shape[:2], plain.out_height, plain.out_width, *net.target.element("inp")
    layer = Pool2d(**fields, epilogue=net.epilogue(name, shape))
    return layer, lambda given: pool_reference(layer, given)


def _moved(net: Network, name: str, source: Value, kind: type[Any], **fields: Any) -> Made:
    fields |= {"target": net.target, "data": source.tensor, "weights": net.weights(f"{name}_one"), "name": name}
    shape = tuple(extent.value for extent in kind(**fields).result.shape)
    layer = kind(**fields, epilogue=net.epilogue(name, shape))
    return layer, lambda given: finish(layer.epilogue, combined(layer, given[layer.data]), given, net.target.config)


def _sum_pool(net: Network, name: str) -> Made:
    value = net.any_value()
    assert value is not None
    return _moved(net, name, value, SumPool2d, kernel=value.shape[2:] if net.rng.random() < 0.3 else tuple(
        min(pick(net.rng, 1, 2), size) for size in value.shape[2:]))


def _pad(net: Network, name: str) -> Made:
    value = net.any_value(lambda value: max(value.shape[2:]) + 2 <= LARGEST)
    if value is None:
        return None
    sides = tuple(pick(net.rng, 0, 1) for _ in range(4))
    half = 1 << net.target.config.out_bits - 1
    return _moved(net, name, value, Pad2d, pad=sides, value=pick(net.rng, 0, int(net.rng.integers(-half, half))))


def _resize(net: Network, name: str) -> Made:
    value = net.any_value()
    assert value is not None
    rows, columns = (min(LARGEST, max(1, size * pick(net.rng, 1, 2) // pick(net.rng, 1, 1, 2, 3))) for size in value.shape[2:])
    return _moved(net, name, value, Resize2d, rows=rows, columns=columns)


def _binary(net: Network, name: str) -> Made:
    """Of two values of one shape, or of one that is repeated."""
    rng, a = net.rng, net.any_value()
    assert a is not None
    b = net.any_value(lambda value: all(one in (1, size) for one, size in zip(value.shape, a.shape, strict=True)))
    assert b is not None
    kind, ones = str(rng.choice(["add", "sub", "mul", "max", "min"])), [net.weights(f"{name}_{of}") for of in ("by_a", "by_b")]
    layer = Binary2d(target=net.target, a=a.tensor, b=b.tensor, weights=(ones[0], ones[1]), kind=kind, name=name,
                     epilogue=net.epilogue(name, (*a.shape, *net.target.element("inp"))))
    operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    bits = net.target.config.acc_bits

    def want(given: Given) -> np.ndarray:
        return finish(layer.epilogue, wrap(operation(given[layer.a], given[layer.b]), bits), given, net.target.config)
    return layer, want


def _concat(net: Network, name: str) -> Made:
    rng, first = net.rng, net.any_value()
    assert first is not None
    parts = [first]
    for _ in range(pick(rng, 1, 1, 2)):
        more = net.any_value(lambda value: (value.shape[0], *value.shape[2:]) == (first.shape[0], *first.shape[2:]))
        if more is not None:
            parts.append(more)
    blocks = sum(part.shape[1] for part in parts)
    if blocks > MOST_BLOCKS:
        return None
    shape = first.shape[0], blocks, *first.shape[2:], *net.target.element("inp")
    layer = Concat2d(target=net.target, data=tuple(part.tensor for part in parts), weights=net.weights(f"{name}_one"), name=name,
                     epilogue=net.epilogue(name, shape))
    return layer, lambda given: finish(
        layer.epilogue, np.concatenate([given[t] for t in layer.data], axis=1), given, net.target.config)


KINDS = (_conv, _conv, _conv, _transposed, _pool, _sum_pool, _pad, _resize, _binary, _binary, _concat)


def network(rng: np.random.Generator, target: Target) -> Network:
    """Two to seven layers on one or two inputs."""
    net = Network(rng, target)
    shape = pick(rng, 1, 1, 2), pick(rng, 1, 2, 3), int(rng.integers(2, 9)), int(rng.integers(2, 9))
    for at in range(pick(rng, 1, 1, 2)):
        data = of_data(target, shape, f"data{at}")
        net.values.append(Value(data, data))
    for at in range(int(rng.integers(2, 8))):
        net.add(f"layer{at}")
    return net
