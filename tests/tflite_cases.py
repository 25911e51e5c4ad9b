"""Random TensorFlow Lite models with one operator, or a few."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tflite_support import Array, Made, truth

import vtakit

KINDS = ("float32", "int8", "uint8")


class Case:
    """A model with one operator, or a few, and data for it."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng, self.numbers, self.kind, self.model = random.Random(seed), np.random.default_rng(seed), kind, Made()
        self.given: dict[int, Array] = {}
        self.quanta = 1  # by which a quantized result may differ: none of an operator that only moves elements

    def data(self, *shape: int, low: float = -3.0, high: float = 3.0, scale: float = 0.025) -> int:
        """An input of numbers between two bounds, of the case's element type."""
        real = self.numbers.uniform(low, high, shape)
        if self.kind == "float32":
            at = self.model.input(shape)
            self.given[at] = real.astype(np.float32)
            return at
        least, zero = np.iinfo(self.kind).min, self.zero()
        at = self.model.input(shape, self.kind, scale=scale, zero=zero)
        self.given[at] = np.clip(np.rint(real / scale) + zero, least, least + 255).astype(self.kind)
        return at

    def zero(self) -> int:
        return self.rng.choice((0, 3, -7)) + (128 if self.kind == "uint8" else 0)

    def result(self, *shape: int, scale: float = 0.05, zero: int | None = None) -> int:
        """An output of the case's element type."""
        at = self.model.tensor(shape, self.kind) if self.kind == "float32" else self.model.tensor(
            shape, self.kind, scale=scale, zero=self.zero() if zero is None else zero)
        self.model.outputs.append(at)
        return at

    def alike(self, at: int, *shape: int) -> int:
        """An output that is quantized as a tensor is."""
        if self.kind == "float32":
            return self.result(*shape)
        params = self.model.tensors[at].quantization
        return self.result(*shape, scale=float(params.scale[0]), zero=int(params.zeroPoint[0]))

    def weights(self, *shape: int, axis: int) -> tuple[int, int, Array]:
        """Weights and the biases of their filters, which lie along an axis; and the weights' scales."""
        filters = shape[axis]
        if self.kind == "float32":
            w = self.model.constant(self.numbers.normal(0, 0.3, shape), "float32")
            return w, self.model.constant(self.numbers.normal(0, 0.3, filters), "float32"), np.ones(1)
        if self.kind == "uint8":  # a scale and a zero point for all
            w = self.model.constant(self.numbers.integers(1, 256, shape), "uint8", scale=0.003, zero=131)
            scales = np.full(filters, 0.003)
        else:
            scales = self.numbers.uniform(0.002, 0.004, filters)
            w = self.model.constant(self.numbers.integers(-127, 128, shape), "int8", scale=scales, axis=axis)
        data = float(self.model.tensors[self.model.inputs[-1]].quantization.scale[0])
        steps = scales * data if self.kind == "int8" else scales[:1] * data
        b = self.model.constant(np.rint(self.numbers.normal(0, 0.3, filters) / (scales * data)), "int32", scale=steps)
        return w, b, scales

    def check(self, folder: Path, tolerance: float = 1e-4) -> None:
        """Compare with the interpreter: quantized results within `quanta`, floats within a tolerance, all others exactly."""
        path = self.model.save(folder / "case.tflite")
        wanted = truth(self.model.bytes(), self.given)
        module = vtakit.compile(path, cache=False)
        names = dict(zip(module.inputs, self.model.inputs, strict=True))
        found = list(module.run({name: self.given[at] for name, at in names.items()}).values())
        for at, ours, theirs in zip(self.model.outputs, found, wanted, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
            else:
                quanta = self.quanta if self.model.tensors[at].quantization is not None else 0
                assert np.abs(ours.astype(int) - theirs.astype(int)).max(initial=0) <= quanta


def conv(c: Case) -> None:
    h, w, depth, filters = c.rng.randint(5, 12), c.rng.randint(5, 12), c.rng.choice((1, 3, 4, 8)), c.rng.choice((1, 4, 7, 16))
    kernel, step, spread = c.rng.choice(((1, 1), (3, 3), (2, 3))), c.rng.choice((1, 2)), c.rng.choice((1, 1, 2))
    step = 1 if spread > 1 else step
    groups = 2 if c.kind == "float32" and not depth % 2 and not filters % 2 and c.rng.random() < 0.3 else 1
    same = c.rng.random() < 0.5
    x = c.data(1, h, w, depth)
    weight, bias, _ = c.weights(filters, *kernel, depth // groups, axis=0)
    y = c.result(1, *_places(h, w, kernel, step, spread, same), filters)
    c.model.apply("CONV_2D", [x, weight, bias], [y], "Conv2DOptions", padding=0 if same else 1, strideW=step, strideH=step,
                  dilationWFactor=spread, dilationHFactor=spread, fusedActivationFunction=c.rng.choice((0, 1, 2, 3)))


def depthwise(c: Case) -> None:
    h, w, depth, times = c.rng.randint(5, 12), c.rng.randint(5, 12), c.rng.choice((1, 3, 8)), c.rng.choice((1, 1, 2))
    kernel, step, same = c.rng.choice(((3, 3), (5, 5), (1, 3))), c.rng.choice((1, 2)), c.rng.random() < 0.5
    x = c.data(1, h, w, depth)
    weight, bias, _ = c.weights(1, *kernel, depth * times, axis=3)
    y = c.result(1, *_places(h, w, kernel, step, 1, same), depth * times)
    c.model.apply("DEPTHWISE_CONV_2D", [x, weight, bias], [y], "DepthwiseConv2DOptions", padding=0 if same else 1, strideW=step,
                  strideH=step, depthMultiplier=times, fusedActivationFunction=c.rng.choice((0, 1, 3)))


def transpose_conv(c: Case) -> None:
    h, w, depth, filters = c.rng.randint(3, 6), c.rng.randint(3, 6), c.rng.choice((1, 4)), c.rng.choice((2, 5))
    kernel, step, same = c.rng.choice(((3, 3), (2, 2), (4, 3))), c.rng.choice((1, 2)), c.rng.random() < 0.5
    size = [n * step if same else n * step + max(k - step, 0) for n, k in zip((h, w), kernel, strict=True)]
    shape = c.model.constant([1, *size, filters], "int32")
    x = c.data(1, h, w, depth)
    weight, bias, _ = c.weights(filters, *kernel, depth, axis=0)
    y = c.result(1, *size, filters)
    c.model.apply("TRANSPOSE_CONV", [shape, weight, x, bias], [y], "TransposeConvOptions", padding=0 if same else 1, strideW=step,
                  strideH=step)


def fully_connected(c: Case) -> None:
    depth, filters, lead = c.rng.choice((3, 8, 17)), c.rng.choice((1, 5, 16)), c.rng.choice(((1,), (4,), (2, 3)))
    keep = c.rng.random() < 0.5
    x = c.data(*lead, depth)
    weight, bias, _ = c.weights(filters, depth, axis=0)
    y = c.result(*(lead if keep else (int(np.prod(lead)),)), filters)
    inputs = [x, weight, bias] if c.rng.random() < 0.8 else [x, weight, -1]
    c.model.apply("FULLY_CONNECTED", inputs, [y], "FullyConnectedOptions", keepNumDims=keep,
                  fusedActivationFunction=c.rng.choice((0, 1)))


def pool(c: Case) -> None:
    h, w, depth = c.rng.randint(4, 9), c.rng.randint(4, 9), c.rng.choice((1, 8))
    kernel, step = c.rng.choice((2, 3)), c.rng.choice((1, 2))
    op, same = c.rng.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D")), c.rng.random() < 0.5
    x = c.data(1, h, w, depth)
    y = c.alike(x, 1, *_places(h, w, (kernel, kernel), step, 1, same), depth)
    c.model.apply(op, [x], [y], "Pool2DOptions", padding=0 if same else 1, strideW=step, strideH=step, filterWidth=kernel,
                  filterHeight=kernel, fusedActivationFunction=c.rng.choice((0, 0, 3)))


def _places(h: int, w: int, kernel: tuple[int, int], step: int, spread: int, same: bool) -> list[int]:
    return [-(-size // step) if same else -(-(size - (reach - 1) * spread) // step)
            for size, reach in zip((h, w), kernel, strict=True)]


def binary(c: Case) -> None:
    op, cls = c.rng.choice((("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("MAXIMUM", ""), ("MINIMUM", ""),
                            ("SQUARED_DIFFERENCE", "")))
    shape = c.rng.choice(((2, 3, 4, 5), (1, 4, 4, 8), (3, 7), (6,)))
    other = c.rng.choice((shape, tuple([c.rng.choice((1, size)) for size in shape]), shape[-1:]))
    a, b = c.data(*shape), c.data(*other)
    made = np.broadcast_shapes(shape, other)
    alike = op in ("MAXIMUM", "MINIMUM")
    if alike and c.kind != "float32":
        c.model.tensors[b].quantization = c.model.tensors[a].quantization
    y = c.alike(a, *made) if alike else c.result(*made, scale=0.1)
    operands = [a, b] if c.rng.random() < 0.5 else [b, a]
    c.model.apply(op, operands, [y], cls, **({"fusedActivationFunction": c.rng.choice((0, 1, 3))} if cls else {}))


def unary(c: Case) -> None:
    shape = c.rng.choice(((1, 4, 5, 3), (2, 9)))
    names = ("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ABS")
    more = ("RELU_N1_TO_1", "ELU", "EXP", "SIN", "COS", "NEG", "FLOOR", "CEIL", "ROUND", "SQUARE", "GELU", "SIGN")
    op = c.rng.choice(names if c.kind != "float32" else names + more)
    if op == "ABS" and c.kind == "uint8":
        op = "RELU"
    x = c.data(*shape)
    if op in ("LOGISTIC", "TANH"):
        least = 128 if c.kind == "uint8" else 0
        y = c.result(*shape, scale=1 / 256 if op == "LOGISTIC" else 1 / 128, zero=least - 128 if op == "LOGISTIC" else least)
    else:
        y = c.result(*shape)
    options: dict[str, Any] = {"LEAKY_RELU": {"cls": "LeakyReluOptions", "alpha": 0.1}, "GELU": {
        "cls": "GeluOptions", "approximate": c.rng.random() < 0.5}}.get(op, {})
    c.model.apply(op, [x], [y], **options)


def softmax(c: Case) -> None:
    shape = c.rng.choice(((1, 10), (3, 7), (1, 2, 3, 6)))
    x = c.data(*shape)
    y = c.result(*shape, scale=1 / 256, zero=0 if c.kind == "uint8" else -128)
    c.model.apply("SOFTMAX", [x], [y], "SoftmaxOptions", beta=c.rng.choice((1.0, 0.5)))


def mean(c: Case) -> None:
    shape, keep = c.rng.choice(((1, 4, 5, 6), (2, 3, 3, 4))), c.rng.random() < 0.5
    axes = c.rng.choice(((1, 2), (2, 1), (3,), (1,), (-1,)))
    x = c.data(*shape)
    gone = {axis % 4 for axis in axes}
    y = c.result(*[1 if at in gone else size for at, size in enumerate(shape) if keep or at not in gone], scale=0.02)
    c.model.apply("MEAN", [x, c.model.constant(axes, "int32")], [y], "ReducerOptions", keepDims=keep)


def resize(c: Case) -> None:
    nearest = c.rng.random() < 0.5
    h, w, to = c.rng.randint(2, 6), c.rng.randint(2, 6), [c.rng.randint(2, 11), c.rng.randint(2, 11)]
    corners = c.rng.random() < 0.4
    x = c.data(1, h, w, 3)
    y = c.alike(x, 1, *to, 3)
    op = "RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR"
    cls = "ResizeNearestNeighborOptions" if nearest else "ResizeBilinearOptions"
    c.model.apply(op, [x, c.model.constant(to, "int32")], [y], cls, alignCorners=corners,
                  halfPixelCenters=not corners and c.rng.random() < 0.5)


def concat(c: Case) -> None:
    axis, shape = c.rng.choice((1, 2, 3, -1)), [1, 3, 4, 2]
    parts = [c.data(*shape, scale=scale) for scale in (0.025, 0.03, 0.025)[:c.rng.randint(2, 3)]]
    whole = list(shape)
    whole[axis] *= len(parts)
    y = c.result(*whole, scale=0.03)
    c.model.apply("CONCATENATION", parts, [y], "ConcatenationOptions", axis=axis)


def move(c: Case) -> None:
    """Two moves in a row behind a convolution, whose result has its channels first."""
    x = c.data(1, 6, 6, 4)
    weight, bias, _ = c.weights(6, 1, 1, 4, axis=0)
    if c.kind == "float32":
        between = c.model.tensor((1, 6, 6, 6))
    else:
        between = c.model.tensor((1, 6, 6, 6), c.kind, scale=0.05, zero=c.zero())
    c.model.apply("CONV_2D", [x, weight, bias], [between], "Conv2DOptions", padding=0, strideW=1, strideH=1)
    shape: tuple[int, ...] = (1, 6, 6, 6)
    last = between
    for step in range(2):
        op, operands, shape, cls, options = _a_move(c, shape)
        last = c.model.tensor(shape, c.kind) if c.kind == "float32" else c.model.tensor(
            shape, c.kind, scale=0.05, zero=int(c.model.tensors[between].quantization.zeroPoint[0]))
        before = between if step == 0 else last - 1 - len(operands)
        c.model.apply(op, [before, *operands], [last], cls, **options)
    c.model.outputs.append(last)


def _a_move(c: Case, shape: tuple[int, ...]) -> tuple[str, list[int], tuple[int, ...], str, dict[str, Any]]:
    def ints(array: Any) -> int:
        return c.model.constant(array, "int32")

    kinds = ["TRANSPOSE", "PAD", "STRIDED_SLICE", "SLICE", "RESHAPE", "REVERSE_V2", "MIRROR_PAD"]
    op = c.rng.choice(kinds)
    ndim = len(shape)
    if op == "TRANSPOSE":
        perm = c.rng.sample(range(ndim), ndim)
        return op, [ints(perm)], tuple([shape[axis] for axis in perm]), "", {}
    if op in ("PAD", "MIRROR_PAD"):
        edges = [(c.rng.randint(0, min(2, size - 1)), c.rng.randint(0, min(2, size - 1))) for size in shape]
        new = tuple([size + sum(edge) for size, edge in zip(shape, edges, strict=True)])
        if op == "MIRROR_PAD":
            return op, [ints(edges)], new, "MirrorPadOptions", {"mode": c.rng.choice((0, 1))}
        return op, [ints(edges)], new, "PadOptions", {}
    if op == "STRIDED_SLICE":
        starts = [c.rng.randint(-size, size - 1) for size in shape]
        steps = [c.rng.choice((1, 1, 2, -1)) for _ in shape]
        ends = [size if step > 0 else -size - 1 for size, step in zip(shape, steps, strict=True)]
        mask, whole = c.rng.randint(0, 15), c.rng.randint(0, 15)
        slices = [slice(None if mask >> at & 1 else s, None if whole >> at & 1 else e, k)
                  for at, (s, e, k) in enumerate(zip(starts, ends, steps, strict=True))]
        new = np.empty(shape, np.int8)[tuple(slices)].shape
        return op, [ints(starts), ints(ends), ints(steps)], new, "StridedSliceOptions", {"beginMask": mask, "endMask": whole}
    if op == "SLICE":
        starts = [c.rng.randint(0, size - 1) for size in shape]
        sizes = [c.rng.choice((-1, c.rng.randint(1, size - start))) for size, start in zip(shape, starts, strict=True)]
        new = tuple([size - start if each < 0 else each for size, start, each in zip(shape, starts, sizes, strict=True)])
        return op, [ints(starts), ints(sizes)], new, "", {}
    if op == "REVERSE_V2":
        return op, [ints([c.rng.randrange(ndim)])], shape, "", {}
    size = int(np.prod(shape))
    new = next(((-1, size // each) if c.rng.random() < 0.5 else (1, each, size // each, 1)) for each in (6, 5, 4, 3, 2, 1)
               if not size % each)
    return op, [ints(new)], tuple([size // new[1] if each < 0 else each for each in new]), "", {}


def index(c: Case) -> None:
    """GATHER, SPLIT, SPLIT_V, PACK, UNPACK, TILE and the like."""
    c.quanta = 0
    op = c.rng.choice(("GATHER", "SPLIT", "SPLIT_V", "PACK", "UNPACK", "TILE", "SQUEEZE", "EXPAND_DIMS", "DEPTH_TO_SPACE",
                       "SPACE_TO_DEPTH", "ARG_MAX"))
    axis = c.rng.choice((1, 2, 3, -1))
    x = c.data(1, 4, 6, 8)

    def ints(array: Any) -> int:
        return c.model.constant(array, "int32")

    if op == "GATHER":
        indices = c.numbers.integers(0, 4, (2, 3))
        shape = np.take(np.empty((1, 4, 6, 8), np.int8), indices, axis).shape
        c.model.apply(op, [x, ints(indices)], [c.alike(x, *shape)], "GatherOptions", axis=axis)
    elif op in ("SPLIT", "SPLIT_V"):
        sizes = [(1, 4, 6, 8)[axis] // 2] * 2
        if op == "SPLIT_V":
            sizes = [sizes[0] - 1, sizes[1] + 1]
        shapes = [np.empty((1, 4, 6, 8), np.int8).take(range(size), axis).shape for size in sizes]
        outputs = [c.alike(x, *shape) for shape in shapes]
        if op == "SPLIT":
            c.model.apply(op, [ints(axis), x], outputs, "SplitOptions", numSplits=2)
        else:
            c.model.apply(op, [x, ints([sizes[0], -1]), ints(axis)], outputs, "SplitVOptions", numSplits=2)
    elif op == "PACK":
        y = c.alike(x, *np.stack([np.empty((1, 4, 6, 8), np.int8)] * 2, axis).shape)
        c.model.apply(op, [x, x], [y], "PackOptions", axis=axis, valuesCount=2)
    elif op == "UNPACK":
        shape = np.empty((1, 4, 6, 8), np.int8).take(0, axis).shape
        outputs = [c.alike(x, *shape) for _ in range((1, 4, 6, 8)[axis])]
        c.model.apply(op, [x], outputs, "UnpackOptions", axis=axis, num=len(outputs))
    elif op == "TILE":
        c.model.apply(op, [x, ints([1, 2, 1, 3])], [c.alike(x, 1, 8, 6, 24)])
    elif op == "SQUEEZE":
        c.model.apply(op, [x], [c.alike(x, 4, 6, 8)], "SqueezeOptions", squeezeDims=c.rng.choice(([], [0])))
    elif op == "EXPAND_DIMS":
        c.model.apply(op, [x, ints(axis)], [c.alike(x, *np.expand_dims(np.empty((1, 4, 6, 8), np.int8), axis).shape)])
    elif op == "ARG_MAX":
        y = c.model.tensor(np.empty((1, 4, 6, 8), np.int8).take(0, axis).shape, "int32")
        c.model.outputs.append(y)
        c.model.apply(op, [x, ints(axis)], [y], "ArgMaxOptions", outputType=2)
    else:
        shape = (1, 8, 12, 2) if op == "DEPTH_TO_SPACE" else (1, 2, 3, 32)
        c.model.apply(op, [x], [c.alike(x, *shape)], "DepthToSpaceOptions" if op == "DEPTH_TO_SPACE" else "SpaceToDepthOptions",
                      blockSize=2)


def fourier(c: Case) -> None:
    lengths = c.rng.choice(([1, 8], [1, 16], [4, 8]))
    x = c.data(2, lengths[0], c.rng.choice((lengths[1], lengths[1] + 3)))
    y = c.model.tensor((2, lengths[0], lengths[1] // 2 + 1), "complex64")
    c.model.apply("RFFT2D", [x, c.model.constant(lengths, "int32")], [y], "Rfft2dOptions")
    op = c.rng.choice(("COMPLEX_ABS", "REAL", "IMAG"))
    c.model.apply(op, [y], [c.result(2, lengths[0], lengths[1] // 2 + 1)])


def spaces(c: Case) -> None:
    """A dilated convolution as it was written: blocks of pixels as images of their own."""
    c.quanta = 0
    blocks, edges = c.rng.choice(([2, 2], [1, 3])), [[c.rng.randint(0, 2), 0], [0, c.rng.randint(0, 2)]]
    sizes = [5 + (-5 - sum(edge)) % block for block, edge in zip(blocks, edges, strict=True)]
    x = c.data(2, *sizes, 3)
    inside = [(size + sum(edge)) // block for size, block, edge in zip(sizes, blocks, edges, strict=True)]
    params = {} if c.kind == "float32" else {
        "scale": 0.025, "zero": int(c.model.tensors[x].quantization.zeroPoint[0])}
    parts = c.model.tensor((2 * blocks[0] * blocks[1], *inside, 3), c.kind, **params)
    words = [c.model.constant(each, "int32") for each in (blocks, edges, blocks, edges)]
    c.model.apply("SPACE_TO_BATCH_ND", [x, *words[:2]], [parts], "SpaceToBatchNDOptions")
    c.model.apply("BATCH_TO_SPACE_ND", [parts, *words[2:]], [c.alike(x, 2, *sizes, 3)], "BatchToSpaceNDOptions")


def half(c: Case) -> None:
    """Weights in float16, as converters write them, and a row that a table names."""
    weights = c.model.constant(c.numbers.normal(0, 1, (5, 8)), "float16")
    wide = c.model.tensor((5, 8))
    c.model.apply("DEQUANTIZE", [weights], [wide], "DequantizeOptions")
    x = c.data(3, 8)
    c.model.apply("FULLY_CONNECTED", [x, wide, -1], [c.result(3, 5)], "FullyConnectedOptions")


def matrices(c: Case) -> None:
    adj_x, adj_y = c.rng.random() < 0.5, c.rng.random() < 0.5
    a = c.data(2, *((4, 3) if adj_x else (3, 4)))
    b = c.data(2, *((5, 4) if adj_y else (4, 5)))
    c.model.apply("BATCH_MATMUL", [a, b], [c.result(2, 3, 5, scale=0.2)], "BatchMatMulOptions", adjX=adj_x, adjY=adj_y)


OPERATORS: dict[str, tuple[Callable[[Case], None], tuple[str, ...]]] = {
    each.__name__: (each, kinds) for each, kinds in (
        (conv, KINDS), (depthwise, KINDS), (transpose_conv, ("float32", "int8")), (fully_connected, KINDS), (pool, KINDS),
        (binary, ("float32", "int8")), (unary, ("float32", "int8")), (softmax, KINDS), (mean, ("float32", "int8")),
        (resize, KINDS), (concat, ("float32", "uint8")), (move, ("float32", "int8")), (index, ("float32", "int8")),
        (fourier, ("float32",)), (spaces, ("float32", "int8")), (half, ("float32",)), (matrices, ("float32", "int8")),
    )
}
