"""The kinds of layers that random networks have: each draws one, or a few that belong together, if some value fits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from networks.draw import Net
from networks.recipe import Step


def first_shape(net: Net) -> tuple[int, ...]:
    """The shape of an input: images, or rows, or vectors."""
    channels = int(net.rng.integers(1, 9 if net.woven else 13))
    spatial = net.one_of(2, 2, 2, 2, 2, 2, 1, 2 if net.woven else 0)
    return (net.batch, channels, *[int(n) for n in net.rng.integers(2, 6 if net.woven else 8, spatial)])


def conv(net: Net) -> int | None:
    """A convolution, dense, depthwise or grouped; as often as not one that keeps the shape."""
    x = net.value(_spatial)
    if x is None:
        return None
    _, channels, *sizes = net.steps[x].shape
    count = len(sizes)
    if net.woven and net.chance(0.8):
        return same(net, x)
    kernel = [int(net.one_of(1, 1, 2, 3, 3, 3, 4, 5)) for _ in sizes]
    if net.chance(0.5):
        kernel = [kernel[0]] * count
    dilation = [net.one_of(1, 1, 1, 2)] * count
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    groups = net.one_of(1, 1, 1, 1, channels, _divisor(net, channels))
    outs = groups * int(net.rng.integers(1, max(1, 12 // groups) + 1))
    stride = [net.one_of(1, 1, 2, 3) for _ in sizes]
    pads = [int(net.rng.integers(0, min(each, 3) + 1)) for each in (*reach, *reach)]
    if net.chance(0.5):
        stride, outs = [1] * count, channels if channels % groups == 0 else outs
        pads = [each // 2 for each in reach] + [each - each // 2 for each in reach]
    out = [(size + pads[at] + pads[at + count] - reach[at] - 1) // stride[at] + 1 for at, size in enumerate(sizes)]
    if min(out) < 1 or max(pads) > 4:
        return None
    attrs = {"kernel_shape": kernel, "pads": pads, "strides": stride, "dilations": dilation, "group": groups}
    weight = (outs, channels // groups, *kernel)
    return net.layer("Conv", x, (net.steps[x].shape[0], outs, *out), weight, prod(weight[1:]), 0, attrs)


def same(net: Net, x: int) -> int | None:
    """A convolution that keeps the shape, by one of the network's few kernels."""
    images, channels, *sizes = net.steps[x].shape
    if channels > 16:
        return None
    kernel = [int(net.one_of(*net.kernels))] * len(sizes)
    pads = [k // 2 for k in kernel] + [k - 1 - k // 2 for k in kernel]
    weight = (channels, channels, *kernel)
    return net.layer("Conv", x, (images, channels, *sizes), weight, prod(weight[1:]), 0, {"kernel_shape": kernel, "pads": pads})


def deconv(net: Net) -> int | None:
    """A transposed convolution."""
    x = net.value(lambda step: _spatial(step) and max(step.shape[2:]) <= 5)
    if x is None:
        return None
    _, channels, *sizes = net.steps[x].shape
    count = len(sizes)
    stride = [net.one_of(1, 2, 2, 3) for _ in sizes]
    kernel = [s + int(net.rng.integers(0, 3)) for s in stride]
    dilation = [net.one_of(1, 1, 1, 2)] * count
    groups = net.one_of(1, 1, channels, _divisor(net, channels))
    outs = groups * int(net.rng.integers(1, max(1, 8 // groups) + 1))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    more = [int(net.rng.integers(0, s)) if net.chance(0.2) else 0 for s in stride]
    pads = [0] * (2 * count)
    for at in range(count):  # most often to whole strides
        spare = reach[at] - stride[at] if net.chance(0.8) else int(net.rng.integers(0, 3))
        first = int(net.rng.integers(0, max(spare, 0) + 1))
        pads[at], pads[at + count] = first, max(spare, 0) - first
        pads[at + count] += more[at]
    out = [(size - 1) * stride[at] + reach[at] + more[at] - pads[at] - pads[at + count] for at, size in enumerate(sizes)]
    if min(out) < 1:
        return None
    attrs = {"kernel_shape": kernel, "pads": pads, "strides": stride, "dilations": dilation, "group": groups}
    attrs |= {"output_padding": more} if any(more) else {}
    weight = (channels, outs // groups, *kernel)
    fan_in = max(1, channels // groups * prod(kernel) // prod(stride))
    return net.layer("ConvTranspose", x, (net.steps[x].shape[0], outs, *out), weight, fan_in, 1, attrs, per_channel=groups == 1)


def dense(net: Net) -> int | None:
    """A matrix product of rows, which are flattened first where they are images; or of the last dimension."""
    x = net.value(lambda step: prod(step.shape[1:]) <= 256)
    if x is None:
        return None
    shape = net.steps[x].shape
    outs = int(net.rng.integers(1, 21))
    if len(shape) == 3 and net.chance(0.3):
        return net.layer("MatMul", x, (*shape[:2], outs), (shape[2], outs), shape[2], 1, {}, residual=False)
    if len(shape) > 2:
        flat = net.moved("Flatten", [x], (shape[0], prod(shape[1:])), {})
        if flat is None:
            return None
        x, shape = flat, net.steps[flat].shape
    if net.chance(0.5):
        return net.layer("MatMul", x, (shape[0], outs), (shape[1], outs), shape[1], 1, {})
    if net.chance(0.5):
        return net.layer("Gemm", x, (shape[0], outs), (outs, shape[1]), shape[1], 0, {"transB": 1})
    return net.layer("Gemm", x, (shape[0], outs), (shape[1], outs), shape[1], 1, {})


def to_images(net: Net) -> int | None:
    """A matrix product whose rows become images."""
    x = net.value(lambda step: len(step.shape) == 2)
    if x is None:
        return None
    sizes = tuple(int(n) for n in net.rng.integers(1, 4, net.one_of(1, 2, 2)))
    images, ins = net.steps[x].shape
    shape = (images, int(net.rng.integers(1, 7)), *sizes)
    made = net.layer("Gemm", x, (images, prod(shape[1:])), (prod(shape[1:]), ins), ins, 0, {"transB": 1}, residual=False)
    return None if made is None else net.moved("Reshape", [made], shape, {}, (np.array(shape),))


def pool(net: Net) -> int | None:
    """The greatest or the mean of windows or of whole images."""
    x = net.value(_spatial)
    if x is None:
        return None
    shape, scale = net.steps[x].shape, net.steps[x].scale
    count, sizes = len(shape) - 2, shape[2:]
    kind = net.one_of("MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean")
    if kind == "GlobalMaxPool":
        return net.moved(kind, [x], (*shape[:2], *[1] * count), {})
    kernel, stride, pads = [*sizes], [1] * count, [0] * (2 * count)
    attrs: dict[str, object] = {}
    if kind == "ReduceMean":
        attrs = {"axes": [*range(2, 2 + count)], "keepdims": 1}
    elif kind != "GlobalAveragePool":
        kernel = [int(net.rng.integers(1, min(size, 3) + 1)) for size in sizes]
        stride = [net.one_of(1, 2) for _ in sizes]
        if net.chance(0.4):
            pads = [int(net.rng.integers(0, k // 2 + 1)) for k in (*kernel, *kernel)]
        attrs = {"kernel_shape": kernel, "strides": stride, "pads": pads}
        attrs |= {"count_include_pad": 1} if kind == "AveragePool" else {}
    out = [(size + pads[at] + pads[at + count] - kernel[at]) // stride[at] + 1 for at, size in enumerate(sizes)]
    if kind == "MaxPool":
        return net.moved(kind, [x], (*shape[:2], *out), attrs)
    unit = scale / prod(kernel)
    found = net.scales.of_sum([unit], float(unit) * 50 * float(np.sqrt(prod(kernel))))
    return None if found is None else net.add(Step(kind, (x,), (*shape[:2], *out), found, attrs))


def join(net: Net) -> int | None:
    """A sum or another function of two values of one shape; the second is made by a convolution if there is none."""
    a = net.value()
    if a is None:
        return None
    shape = net.steps[a].shape
    b = net.value(lambda step: step.shape == shape)
    if b == a and len(shape) > 2 and net.chance(0.8):
        weight = (shape[1], shape[1], *[1] * (len(shape) - 2))
        b = net.layer("Conv", a, shape, weight, shape[1], 0, {}, residual=False)
    if b is None:
        return None
    op = "Add" if net.woven else net.one_of("Add", "Add", "Add", "Add", "Add", "Add", "Sub", "Max", "Min", "Mul")
    if op == "Mul":
        scale = net.scales.of_product(net.steps[a].scale, net.steps[b].scale)
        return None if scale is None else net.add(Step(op, (a, b), shape, scale))
    return net.sum(op, a, b)


def concat(net: Net) -> int | None:
    """Two or three values side by side, most often their channels."""
    a = net.value()
    if a is None:
        return None
    shape = net.steps[a].shape
    axis = 1 if net.chance(0.9) else int(net.rng.integers(len(shape)))

    def rest(of: tuple[int, ...]) -> tuple[int, ...]:
        return of[:axis] + of[axis + 1:]
    parts = [a]
    for _ in range(net.one_of(1, 1, 2)):
        more = net.value(lambda step: len(step.shape) == len(shape) and rest(step.shape) == rest(shape))
        parts += [more] if more is not None else []
    net.rng.shuffle(parts)
    out = list(shape)
    out[axis] = sum(net.steps[part].shape[axis] for part in parts)
    if axis == 0 and len(parts) > 1:
        return None  # batches stay as they are
    return net.moved("Concat", parts, tuple(out), {"axis": axis})


def joined(net: Net) -> int | None:
    """The sum or the channels of two values that nobody reads yet; None if no two fit."""
    fresh = [at for at in range(len(net.steps)) if at not in net.read]
    net.rng.shuffle(fresh)
    for place, a in enumerate(fresh):
        for b in fresh[:place]:
            shapes = [net.steps[at].shape for at in (a, b)]
            made = net.sum("Add", a, b) if shapes[0] == shapes[1] and net.chance(0.7) else None
            if made is None and len(shapes[0]) == len(shapes[1]) and shapes[0][2:] == shapes[1][2:]:
                made = net.moved("Concat", [a, b], (net.batch, shapes[0][1] + shapes[1][1], *shapes[0][2:]), {"axis": 1})
            if made is not None:
                return made
    return None


def unary(net: Net) -> int | None:
    """A function of each element by itself; some only the CPU has."""
    x = net.value()
    if x is None:
        return None
    shape = net.steps[x].shape
    op = net.one_of("Relu", "Relu", "Clip", "Abs", "Neg", "LeakyRelu")
    if op == "Clip":
        low, high = sorted(net.rng.integers(-100, 128, 2) * float(net.steps[x].scale))
        return net.moved(op, [x], shape, {}, (np.float32(low), np.float32(high)), may_stay=False)
    if op == "LeakyRelu":
        return net.moved(op, [x], shape, {"alpha": 0.25}, factor=Fraction(1, 4))
    return net.moved(op, [x], shape, {}, may_stay=op == "Relu" and net.exact)


def pad(net: Net) -> int | None:
    """Numbers around images, most often zeros."""
    x = net.value(_spatial)
    if x is None:
        return None
    shape = net.steps[x].shape
    count = len(shape)
    pads = np.array([0 if at % count < 2 else int(net.rng.integers(0, 3)) for at in range(2 * count)])
    out = tuple([size + int(pads[at] + pads[at + count]) for at, size in enumerate(shape)])
    mode = net.one_of("constant", "constant", "constant", "constant", "edge", "reflect")
    if mode == "reflect" and any(pads[at % (2 * count)] >= shape[at % count] for at in range(2 * count)):
        return None
    return net.moved("Pad", [x], out, {"mode": mode}, (pads,), may_stay=mode == "constant" or net.exact)


def resize(net: Net) -> int | None:
    """Larger or smaller images of the nearest values."""
    x = net.value(lambda step: len(step.shape) == 4 and max(step.shape[2:]) <= 6)
    if x is None:
        return None
    shape = net.steps[x].shape
    by = net.one_of((1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 1, 3), (1, 1, 2, 1))
    out = tuple([size * factor for size, factor in zip(shape, by, strict=True)])
    attrs = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": net.one_of("asymmetric", "half_pixel")}
    if attrs["coordinate_transformation_mode"] == "half_pixel":
        attrs["nearest_mode"] = "round_prefer_floor"
    return net.moved("Resize", [x], out, attrs, (None, np.array(by, np.float32)))


def cut(net: Net) -> int | None:
    """A part of a value."""
    x = net.value(lambda step: max(step.shape[1:]) > 1)
    if x is None:
        return None
    shape = net.steps[x].shape
    axis = int(net.one_of(*[at for at in range(1, len(shape)) if shape[at] > 1]))
    step = net.one_of(1, 1, 2)
    first = int(net.rng.integers(0, shape[axis] - 1))
    last = int(net.rng.integers(first + 1, shape[axis] + 1))
    out = list(shape)
    out[axis] = -(-(last - first) // step)
    return net.moved("Slice", [x], tuple(out), {}, tuple([np.array([n]) for n in (first, last, axis, step)]))


def turn(net: Net) -> int | None:
    """Dimensions in another order, or another shape."""
    x = net.value()
    if x is None:
        return None
    shape = net.steps[x].shape
    if len(shape) > 2 and net.chance(0.6):
        perm = [0, *(1 + net.rng.permutation(len(shape) - 1)).tolist()]
        return net.moved("Transpose", [x], tuple([shape[at] for at in perm]), {"perm": perm})
    flat = prod(shape[1:])
    channels = _divisor(net, flat)
    rest = flat // channels
    rows = _divisor(net, rest)
    new = net.one_of((channels,), (channels, rest), (channels, rows, rest // rows), (channels, rows, rest // rows))
    if prod(new) != flat:
        new = (flat,)
    out = (shape[0], *new)
    return net.moved("Reshape", [x], out, {}, (np.array(out),))


def attend(net: Net) -> int | None:
    """A product of two computed matrices: of rows of tokens multiplied by constants, most often of several heads.

    Tokens are what has three dimensions, or pixels of an image.
    """
    x = net.value(lambda step: len(step.shape) in (3, 4) and not step.bare)
    if x is not None and len(net.steps[x].shape) == 4:
        images, channels, *sizes = net.steps[x].shape
        flat = images, channels, prod(sizes)
        x = net.moved("Reshape", [x], flat, {}, (np.array(flat),), may_stay=False)
        x = None if x is None else net.moved("Transpose", [x], (images, flat[2], channels), {"perm": (0, 2, 1)}, may_stay=False)
    if x is None:
        return None
    images, tokens, channels = net.steps[x].shape
    heads, depth = net.one_of(1, 1, 2, 3), net.one_of(4, 4, 5, 8, 16)

    def rows() -> int | None:
        return net.layer("MatMul", x, (images, tokens, heads * depth), (channels, heads * depth), channels, 1, {}, residual=False)
    first, turned = rows(), net.chance(0.7)
    second = first if net.chance(0.1) else rows()
    if first is None or second is None:
        return None
    a = _heads(net, first, heads, (0, 2, 1, 3) if turned else (0, 2, 3, 1))
    b = _heads(net, second, heads, (0, 2, 3, 1) if turned else (0, 2, 1, 3))
    if a is None or b is None:
        return None
    made = multiplied(net, a, b)
    if made is None or heads == 1 or not turned or net.chance(0.3):
        return made
    back = net.moved("Transpose", [made], (images, tokens, heads, tokens), {"perm": (0, 2, 1, 3)}, may_stay=False)
    out = (images, tokens, heads * tokens)
    return None if back is None else net.moved("Reshape", [back], out, {}, (np.array(out),), may_stay=False)


def _heads(net: Net, x: int, heads: int, perm: Sequence[int]) -> int | None:
    """Rows of tokens as a matrix for each head."""
    images, tokens, channels = net.steps[x].shape
    split = images, tokens, heads, channels // heads
    if heads == 1 and net.chance(0.5):
        return x if perm[2] == 1 else net.moved("Transpose", [x], (images, channels, tokens), {"perm": (0, 2, 1)}, may_stay=False)
    made = net.moved("Reshape", [x], split, {}, (np.array(split),), may_stay=False)
    out = tuple([split[at] for at in perm])
    return None if made is None else net.moved("Transpose", [made], out, {"perm": [*perm]}, may_stay=False)


def multiplied(net: Net, a: int, b: int) -> int | None:
    """The product of two computed matrices."""
    (*lead, rows, depth), (*others, inner, columns) = net.steps[a].shape, net.steps[b].shape
    if lead != others or depth != inner:
        return None
    unit = net.steps[a].scale * net.steps[b].scale
    scale = net.scales.of_sum([unit], float(unit) * 60 * 50 * float(np.sqrt(depth)))
    return None if scale is None else net.add(Step("MatMul", (a, b), (*lead, rows, columns), scale))


def product(net: Net) -> int | None:
    """A product of any two matrices that fit, one of them turned if it must be."""
    a = net.value(lambda step: 2 <= len(step.shape) <= 4 and not step.bare)
    if a is None:
        return None
    shape = net.steps[a].shape
    b = net.value(lambda step: len(step.shape) == len(shape) and step.shape[:-2] == shape[:-2] and not step.bare and (
        shape[-1] in step.shape[-2:]))
    if b is None:
        return None
    other = net.steps[b].shape
    if other[-2] != shape[-1]:
        perm = [*range(len(other) - 2), len(other) - 1, len(other) - 2]
        turned = net.moved("Transpose", [b], (*other[:-2], other[-1], other[-2]), {"perm": perm}, may_stay=False)
        if turned is None:
            return None
        b = turned
    return multiplied(net, a, b)


def pixels(net: Net) -> int | None:
    """Pixels from channels, of a convolution that makes them or of what has them."""
    x = net.value(lambda step: len(step.shape) == 4 and step.shape[1] % 4 == 0)
    if x is None or net.chance(0.5):
        x = net.value(lambda step: len(step.shape) == 4)
        if x is None:
            return None
        images, channels, *sizes = net.steps[x].shape
        outs, kernel = 4 * int(net.rng.integers(1, 9)), net.one_of(1, 3)
        x = net.layer("Conv", x, (images, outs, *sizes), (outs, channels, kernel, kernel), channels * kernel**2, 0, {
            "kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4}, residual=False)
        if x is None:
            return None
    images, channels, rows, columns = net.steps[x].shape
    return net.moved("DepthToSpace", [x], (images, channels // 4, 2 * rows, 2 * columns), {
        "blocksize": 2, "mode": net.one_of("DCR", "CRD")})


def again(net: Net) -> int | None:
    """A layer that is there already: the same once more, or its weights with another value of the same shape and scale.

    Of any scales there is none: where only a part of two layers is common, it stays in floating point.
    """
    if not net.exact:
        return None
    at = net.value(lambda step: step.weights is not None)
    if at is None:
        return None
    step = net.steps[at]
    data = net.steps[step.reads[0]]
    x = net.value(lambda other: (other.shape, other.scale) == (data.shape, data.scale) and other is not step)
    return net.add(step if x is None or net.chance(0.3) else replace(step, reads=(x,)))


def _spatial(step: Step) -> bool:
    return len(step.shape) > 2


def _divisor(net: Net, number: int) -> int:
    return int(net.one_of(*[n for n in range(1, number + 1) if number % n == 0]))


KINDS: tuple[Callable[[Net], int | None], ...] = (
    *[conv] * 6, deconv, dense, to_images, pool, pool, join, join, join, concat, concat, unary, pad, resize, cut, turn, again,
)
LATER = (*KINDS, *[attend] * 4, *[product] * 3, *[pixels] * 3)  # of seeds from `LATER_SEEDS` on
LATER_SEEDS = 9_000_000
WOVEN = (*[conv] * 16, *[join] * 4, concat, pool, deconv, again)
