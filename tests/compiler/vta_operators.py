"""Random convolutions, products and pools for the accelerator, each with its result in NumPy."""

from typing import Any

import numpy as np
from vta_cases import Case, Given, finish, of_data, of_weights, pick, random_epilogue
from vta_support import wrap

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.digits import Higher
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.fold import Fold
from vtakit.compiler.nn.vta.packing import identity, pack_activations, pack_weights, unpack_activations
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.pooling import Pooling
from vtakit.compiler.nn.vta.transposed import TransposedConv2d


def conv_reference(conv: Conv2d, data: np.ndarray, weights: np.ndarray, given: dict[Any, np.ndarray]) -> np.ndarray:
    """Return the exact result of a convolution with its pooling and epilogue, in its layout: taps one by one."""
    cfg = conv.target.config
    n, _, h, w, b, k = data.shape
    outs, ins, kh, kw = weights.shape[:4]
    rows, columns, groups = conv.height, conv.width, conv.groups
    above, below, left, right = conv.pad
    padded = np.zeros((n, groups, ins, h + above + below, w + left + right, b, k), np.int64)
    padded[:, :, :, above:above + h, left:left + w] = data.reshape(n, groups, ins, h, w, b, k)
    grouped = weights.reshape(groups, outs // groups, ins, kh, kw, k, k)
    sums = np.zeros((n, groups, outs // groups, rows, columns, b, k), np.int64)
    for dy in range(kh):
        for dx in range(kw):
            y, x = dy * conv.dilation[0], dx * conv.dilation[1]
            part = padded[..., y:y + (rows - 1) * conv.stride[0] + 1:conv.stride[0],
                          x:x + (columns - 1) * conv.stride[1] + 1:conv.stride[1], :, :]
            sums += np.einsum("ngcyxbk,gocjk->ngoyxbj", part, grouped[..., dy, dx, :, :])
    found = sums.reshape(n, outs, rows, columns, b, k)
    if conv.pooling is not None:
        found = windows(conv.pooling, wrap(found, cfg.acc_bits), (conv.out_height, conv.out_width), "max")
    return finish(conv.epilogue, found, given, cfg)


def windows(pool: Pool2d | Pooling, data: np.ndarray, size: tuple[int, int], kind: str) -> np.ndarray:
    """Return the greatest value or the sum of each window of data [images, blocks, rows, columns, …]."""
    above, _, left, _ = pool.pad
    found = np.zeros((*data.shape[:2], *size, *data.shape[4:]), np.int64)
    for y, x in np.ndindex(*size):
        top, side = y * pool.stride[0] - above, x * pool.stride[1] - left
        part = data[:, :, max(top, 0):top + pool.kernel[0], max(side, 0):side + pool.kernel[1]]
        found[:, :, y, x] = part.max(axis=(2, 3)) if kind == "max" else part.sum(axis=(2, 3))
    return found


def pool_reference(pool: Pool2d, given: dict[Any, np.ndarray]) -> np.ndarray:
    """Return the exact result of a pooling, window by window."""
    found = windows(pool, given[pool.data], (pool.out_height, pool.out_width), pool.kind)
    return finish(pool.epilogue, found, given, pool.target.config)


def transposed_reference(conv: TransposedConv2d, given: dict[Any, np.ndarray]) -> np.ndarray:
    """The exact result of a transposed convolution: every input value added to what it meets."""
    data, weights, cfg = given[conv.data], given[conv.weights], conv.target.config
    images, _, height, width, b, k = data.shape
    outs, _, down, across, *taps = weights.shape[:6]
    size = [(count + tap) * step + more for count, tap, step, more in zip(
        (height, width), taps, (down, across), (conv.rows + conv.pad[0], conv.columns + conv.pad[1]), strict=True)]
    sums = np.zeros((images, outs, *size, b, k), np.int64)
    for py, px, ty, tx in np.ndindex(down, across, *taps):
        y, x = py + down * (taps[0] - 1 - ty), px + across * (taps[1] - 1 - tx)
        part = np.einsum("ncyxbk,ocjk->noyxbj", data, weights[:, :, py, px, ty, tx])
        sums[:, :, y:y + height * down:down, x:x + width * across:across] += part
    cut = sums[:, :, conv.pad[0]:conv.pad[0] + conv.rows, conv.pad[1]:conv.pad[1] + conv.columns]
    flat = {t: x.reshape(cut.shape) if t.ndim == 8 and t is not conv.weights else x for t, x in given.items()}
    return finish(conv.epilogue, cut, flat, cfg)


def conv(rng: np.random.Generator, target: Target) -> Case:
    """A convolution of up to a few thousand steps: strided, dilated, padded, in groups of whole blocks."""
    kernel = pick(rng, 1, 1, 2, 3, 3, 5), pick(rng, 1, 1, 2, 3, 3, 5)
    stride = pick(rng, 1, 1, 2, 3), pick(rng, 1, 1, 2, 3)
    dilation = pick(rng, 1, 1, 1, 2), pick(rng, 1, 1, 1, 2)
    pad = pick(rng, 0, 0, 1, 2), pick(rng, 0, 1, 2), pick(rng, 0, 0, 1, 2, 17), pick(rng, 0, 1, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    height = int(rng.integers(max(1, reach[0] - pad[0] - pad[1]), reach[0] + 9))
    width = int(rng.integers(max(1, reach[1] - pad[2] - pad[3]), reach[1] + 9))
    groups, ins, outs, images = pick(rng, 1, 1, 1, 2, 3), pick(rng, 1, 1, 2, 3), pick(rng, 1, 2, 3), pick(rng, 1, 1, 2, 3)
    fields = {
        "target": target, "data": of_data(target, (images, groups * ins, height, width)),
        "weights": of_weights(target, (groups * outs, ins, *kernel)), "stride": stride, "dilation": dilation, "pad": pad,
        "groups": groups,
    }
    plain = Conv2d(**fields)
    shape = images, groups * outs, plain.out_height, plain.out_width
    epilogue = random_epilogue(rng, target, groups * outs, (*shape, *target.element("inp")))
    layer = Conv2d(**fields, epilogue=epilogue, inside=bool(rng.integers(2)))
    return Case(layer, lambda given: conv_reference(layer, given[layer.data], given[layer.weights], given))


def pooled(rng: np.random.Generator, target: Target) -> Case:
    """Draw a convolution whose accumulators are pooled before the epilogue."""
    kernel, stride = (pick(rng, 1, 2, 3), pick(rng, 1, 3)), (pick(rng, 1, 1, 2), pick(rng, 1, 1, 2))
    pad = pick(rng, 0, 1, 2), pick(rng, 0, 1, 2), pick(rng, 0, 1), pick(rng, 0, 1)
    window, step = (pick(rng, 1, 2, 3, 3), pick(rng, 1, 2, 3, 3)), (pick(rng, 1, 2, 2, 3), pick(rng, 1, 2, 2))
    margins = [(first := int(rng.integers(0, size)), int(rng.integers(0, size - first))) for size in window]
    pooling = Pooling(kernel=window, stride=step, pad=(*margins[0], *margins[1]))
    least = [(w - 1) * s + k - p for w, s, k, p in zip(window, stride, kernel, (sum(pad[:2]), sum(pad[2:])), strict=True)]
    height, width = (max(1, size) + int(rng.integers(0, 14)) for size in least)
    groups, ins, outs, images = pick(rng, 1, 1, 2), pick(rng, 1, 1, 2, 3), pick(rng, 1, 2, 3), pick(rng, 1, 1, 2)
    fields = {
        "target": target, "data": of_data(target, (images, groups * ins, height, width)),
        "weights": of_weights(target, (groups * outs, ins, *kernel)), "stride": stride, "pad": pad, "groups": groups,
        "pooling": pooling,
    }
    plain = Conv2d(**fields)
    shape = images, groups * outs, plain.out_height, plain.out_width, *target.element("inp")
    epilogue = random_epilogue(rng, target, groups * outs, shape)
    layer = Conv2d(**fields, epilogue=epilogue, inside=bool(rng.integers(2)))
    return Case(layer, lambda given: conv_reference(layer, given[layer.data], given[layer.weights], given))


def digits(rng: np.random.Generator, target: Target) -> Case:
    """Draw a convolution whose weights have one to three digits above the last, of any values and shifts."""
    count = pick(rng, 1, 1, 2, 3)
    if pick(rng, 0, 0, 1):
        return transposed(rng, target, count)
    kernel, stride = (pick(rng, 1, 2, 3), pick(rng, 1, 1, 3)), (pick(rng, 1, 1, 2), pick(rng, 1, 2))
    pad = pick(rng, 0, 1), 0, 1, 0
    height, width = (int(rng.integers(size, size + 9)) for size in kernel)
    groups, ins, outs, images = pick(rng, 1, 1, 2), pick(rng, 1, 1, 2, 3, 5), pick(rng, 1, 2, 3), pick(rng, 1, 1, 2)
    fields = {
        "target": target, "data": of_data(target, (images, groups * ins, height, width)),
        "weights": of_weights(target, (groups * outs, ins, *kernel)), "stride": stride, "pad": pad, "groups": groups,
        "higher": random_digits(rng, target, (groups * outs, ins, *kernel), count),
    }
    plain, window = Conv2d(**fields), pick(rng, 1, 1, 1, 2)
    if 1 < window <= min(plain.height, plain.width):
        fields["pooling"] = Pooling(kernel=(window, window), stride=(window, window))
        plain = Conv2d(**fields)
    size = images, groups * outs, plain.out_height, plain.out_width, *target.element("inp")
    epilogue = random_epilogue(rng, target, groups * outs, size)
    layer = Conv2d(**fields, epilogue=epilogue, inside=bool(rng.integers(2)))
    return Case(layer, lambda given: conv_reference(layer, given[layer.data], whole_weights(layer, given), given))


def dense(rng: np.random.Generator, target: Target) -> Case:
    """A product of matrices of any shape."""
    rows, ins, outs = (int(rng.integers(1, top)) for top in (7, 20, 12))
    epilogue = random_epilogue(rng, target, outs, (rows, outs, 1, 1, *target.element("inp")))
    layer = Conv2d(target=target, data=of_data(target, (rows, ins, 1, 1)), weights=of_weights(target, (outs, ins, 1, 1)),
                   epilogue=epilogue)

    def want(given: Given) -> np.ndarray:
        sums = np.einsum("rcbk,ocjk->robj", given[layer.data][:, :, 0, 0], given[layer.weights][:, :, 0, 0])
        return finish(epilogue, sums[:, :, None, None], given, target.config)
    return Case(layer, want)


def plain_conv(x: np.ndarray, weights: np.ndarray, groups: int, stride: tuple[int, int], pad: tuple[int, ...]) -> np.ndarray:
    """Sums of [images, channels, height, width] and [out channels, channels a group, rows, columns], tap by tap."""
    padded = np.pad(x, ((0, 0), (0, 0), pad[:2], pad[2:]))
    outs, ins, rows, columns = weights.shape
    height, width = ((size - tap) // step for size, tap, step in zip(padded.shape[2:], (rows, columns), stride, strict=True))
    found = np.zeros((len(x), outs, height + 1, width + 1), np.int64)
    for out, dy, dx in np.ndindex(outs, rows, columns):
        group = out // (outs // groups)
        part = padded[:, group * ins:(group + 1) * ins, dy:dy + height * stride[0] + 1:stride[0],
                      dx:dx + width * stride[1] + 1:stride[1]]
        found[:, out] += np.einsum("nchw,c->nhw", part, weights[out, :, dy, dx])
    return found


def random_values(rng: np.random.Generator, bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Any values of so many bits."""
    return rng.integers(-(1 << bits - 1), 1 << bits - 1, shape)


def grouped(rng: np.random.Generator, target: Target) -> Case:
    """Groups of any number of channels, depthwise ones too, of plain arrays."""
    groups, ins, outs = int(rng.integers(1, 2 * target.config.block + 2)), pick(rng, 1, 1, 2, 3), pick(rng, 1, 1, 2)
    kernel, stride, pad = (pick(rng, 1, 2, 3), pick(rng, 1, 3)), (pick(rng, 1, 2), pick(rng, 1, 1, 2)), (1, 0, 0, 1)
    images, height, width = pick(rng, 1, 2), int(rng.integers(3, 8)), int(rng.integers(3, 8))
    x = random_values(rng, target.config.inp_bits, (images, groups * ins, height, width))
    weights = random_values(rng, target.config.wgt_bits, (groups * outs, ins, *kernel))
    (packed, left), data = pack_weights(target, weights, groups), pack_activations(target, x)
    of_x, of_w = of_data(target, data.shape[:4]), of_weights(target, packed.shape[:4])
    shift = int(rng.integers(0, 9)) % target.config.acc_bits
    layer = Conv2d(target=target, data=of_x, weights=of_w, stride=stride, pad=pad, groups=left, epilogue=Epilogue(shift=shift))
    sums = plain_conv(x, weights, groups, stride, pad)
    return Case(layer, lambda given: finish(layer.epilogue, sums[..., None, None], given, target.config)[..., 0, 0],
                {of_x: data, of_w: packed}, lambda found: seen(found, len(data), sums))


def seen(found: np.ndarray, images: int, sums: np.ndarray) -> np.ndarray:
    """The plain array in what an operator leaves, of the shape of `sums`."""
    found = found.reshape(images, -1, *sums.shape[2:], *found.shape[-2:])
    return unpack_activations(found, len(sums), sums.shape[1])


def folded(rng: np.random.Generator, target: Target) -> Case:
    """A convolution of few channels, of plain arrays."""
    kernel = pick(rng, 1, 3, 5, 7), pick(rng, 2, 3, 5)
    taps = int(rng.integers(1, kernel[0] + 1)), int(rng.integers(1, kernel[1] + 1))
    stride = pick(rng, 1, 2, 3), pick(rng, 1, 2, 4)
    channels, outs = pick(rng, 1, 2, 3, 4), pick(rng, 1, 5, 2 * target.config.block)
    pad = pick(rng, 0, 1, 3), pick(rng, 0, 2), pick(rng, 0, 1), pick(rng, 0, 3)
    images, height, width = pick(rng, 1, 2), *(int(rng.integers(size, size + 9)) for size in kernel)
    x = random_values(rng, target.config.inp_bits, (images, channels, height, width))
    weights = random_values(rng, target.config.wgt_bits, (outs, channels, *kernel))
    fold = Fold(kernel=kernel, taps=taps, strides=stride, pad=pad)
    data, packed = fold.activations(target, x), fold.weights(target, weights)
    of_x, of_w = of_data(target, data.shape[:4]), of_weights(target, packed.shape[:4])
    shift = int(rng.integers(0, 9)) % target.config.acc_bits
    layer = Conv2d(target=target, data=of_x, weights=of_w, stride=fold.stride, dilation=fold.dilation,
                   epilogue=Epilogue(shift=shift))
    sums = plain_conv(x, weights, 1, stride, pad)
    return Case(layer, lambda given: finish(layer.epilogue, sums[..., None, None], given, target.config)[..., 0, 0],
                {of_x: data, of_w: packed}, lambda found: seen(found, len(data), sums))


def pool(rng: np.random.Generator, target: Target) -> Case:
    """A pooling by the ALU."""
    kernel, stride = (pick(rng, 1, 2, 3), pick(rng, 1, 2, 3)), (pick(rng, 1, 2), pick(rng, 1, 2, 3))
    pad = tuple(int(rng.integers(0, kernel[side // 2])) for side in range(4))
    return _pool(rng, target, kernel=kernel, stride=stride, pad=pad, kind=str(rng.choice(["max", "sum"])))


def large_pool(rng: np.random.Generator, target: Target) -> Case:
    """A pooling of windows that do not fit small accumulators at once, of whole images too."""
    kernel = int(rng.integers(1, 20)), int(rng.integers(1, 20))
    pad = tuple(int(rng.integers(0, min(kernel[side // 2], 4))) for side in range(4))
    return _pool(rng, target, kernel=kernel, stride=(pick(rng, 1, 2, 7), pick(rng, 1, 3, 7)), pad=pad,
                 kind=str(rng.choice(["max", "sum"])))


def value(rng: np.random.Generator, target: Target) -> Case:
    """An epilogue alone, on each value: scale, shift, bias, a tensor added, clip, requantization."""
    return _pool(rng, target, kernel=(1, 1), stride=(pick(rng, 1, 1, 2), 1), pad=(0, 0, 0, 0), kind="max")


def _pool(rng: np.random.Generator, target: Target, **fields: Any) -> Case:
    images, rows = pick(rng, 1, 1, 2), pick(rng, 1, 2, 3)
    height, width = (int(rng.integers(size, size + 8)) for size in fields["kernel"])
    fields |= {"target": target, "data": of_data(target, (images, rows, height, width)), "weights": of_weights(target, ())}
    plain = Pool2d(**fields)
    shape = images, rows, plain.out_height, plain.out_width, *target.element("inp")
    layer = Pool2d(**fields, epilogue=random_epilogue(rng, target, rows, shape))
    known = {} if layer.lifted is None else {layer.lifted.weights: identity(target)}
    return Case(layer, lambda given: pool_reference(layer, given), known)


def transposed(rng: np.random.Generator, target: Target, digits: int = 0) -> Case:
    """A transposed convolution; with so many digits of the weights above the last."""
    stride, taps = (pick(rng, 1, 2, 2, 3), pick(rng, 1, 2, 3)), (pick(rng, 1, 2, 3), pick(rng, 1, 2))
    images, ins, outs = pick(rng, 1, 1, 2), pick(rng, 1, 2), pick(rng, 1, 2, 3)
    height, width = (int(size) for size in rng.integers(1, 6, 2))
    rows, columns = (int(rng.integers(1, size + 3)) * step for size, step in zip((height, width), stride, strict=True))
    shape = images, outs, rows // stride[0], stride[0], columns // stride[1], stride[1], *target.element("inp")
    layer = TransposedConv2d(
        target=target, data=of_data(target, (images, ins, height, width)),
        weights=of_weights(target, (outs, ins, *stride, *taps)), rows=rows, columns=columns,
        pad=(int(rng.integers(0, 4)), int(rng.integers(0, 4))), epilogue=random_epilogue(rng, target, outs, shape),
        higher=random_digits(rng, target, (outs, ins, *stride, *taps), digits),
    )

    def want(given: Given) -> np.ndarray:
        digits = [digit.weights for digit in layer.higher]
        plain = {tensor: array for tensor, array in given.items() if tensor not in digits}
        return transposed_reference(layer, plain | {layer.weights: whole_weights(layer, given)})
    return Case(layer, want)


def random_digits(rng: np.random.Generator, target: Target, shape: tuple[int, ...], count: int) -> tuple[Higher, ...]:
    """Digits of weights, the sums with which are shifted by any bits."""
    return tuple([Higher(of_weights(target, shape, f"digit{at}"), pick(rng, 0, 1, 2, 4, 4, 7)) for at in range(count)])


def whole_weights(layer: Conv2d | TransposedConv2d, given: Given) -> np.ndarray:
    """The weights that digits stand for."""
    whole = np.zeros(given[layer.weights].shape, np.int64)
    for digit, shift in layer.higher:
        whole = whole + given[digit] << shift
    return whole + given[layer.weights]
