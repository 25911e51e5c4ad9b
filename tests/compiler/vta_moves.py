"""Random operators for the accelerator that move and combine values, each with its result in NumPy."""

from typing import Any

import numpy as np
from vta_cases import Case, Given, finish, of_data, of_weights, pick, random_epilogue
from vta_support import wrap

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.binary import Binary2d
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.moved import Moved2d
from vtakit.compiler.nn.vta.packing import concat_weights, first_lane, identity, unpack_activations
from vtakit.compiler.nn.vta.pad import Pad2d
from vtakit.compiler.nn.vta.resize import Resize2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d


def some_scale(rng: np.random.Generator, target: Target) -> int:
    """A number that is a weight, or 1, which every configuration has."""
    half = 1 << target.config.wgt_bits - 1
    return 1 if half == 1 or rng.random() < 0.6 else int(rng.integers(-half, half))


def some_shape(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Images, blocks, height, width."""
    return pick(rng, 1, 1, 2, 3), pick(rng, 1, 2, 3, 5), int(rng.integers(1, 10)), int(rng.integers(1, 10))


def moved(rng: np.random.Generator, target: Target, kind: type[Moved2d], shape: tuple[int, ...], **fields: Any) -> Case:
    """A case of a class of operators on one tensor, with any scale and epilogue."""
    scale, blocks = some_scale(rng, target), shape[1]
    fields |= {"target": target, "data": of_data(target, shape), "weights": of_weights(target, ())}
    size = [extent.value for extent in kind(**fields).result.shape]
    layer = kind(**fields, epilogue=random_epilogue(rng, target, blocks, tuple(size)))

    def want(given: Given) -> np.ndarray:
        return finish(layer.epilogue, combined(layer, given[layer.data] * scale), given, target.config)
    return Case(layer, want, {layer.weights: identity(target, scale)})


def combined(layer: Any, x: np.ndarray) -> np.ndarray:
    """What an operator makes of scaled values, without its epilogue."""
    if isinstance(layer, Resize2d):
        rows = [y * x.shape[2] // layer.rows for y in range(layer.rows)]
        return x[:, :, rows][:, :, :, [z * x.shape[3] // layer.columns for z in range(layer.columns)]]
    around = (0, 0), (0, 0), layer.pad[:2], layer.pad[2:], (0, 0), (0, 0)
    if isinstance(layer, Pad2d):
        return np.pad(x, around, constant_values=layer.value)
    padded, (down, across) = np.pad(x, around), layer.stride
    found = np.zeros((*x.shape[:2], layer.out_height, layer.out_width, *x.shape[4:]), np.int64)
    for y, z in np.ndindex(*found.shape[2:4]):
        part = padded[:, :, y * down:y * down + layer.kernel[0], z * across:z * across + layer.kernel[1]]
        found[:, :, y, z] = part.sum(axis=(2, 3))
    return found


def sum_pool(rng: np.random.Generator, target: Target) -> Case:
    """Sums over windows; of one pixel at times."""
    kernel, stride = (pick(rng, 1, 2, 3), pick(rng, 1, 2, 5)), (pick(rng, 1, 2), pick(rng, 1, 2, 3))
    images, blocks, height, width = some_shape(rng)
    pad = pick(rng, 0, 1), pick(rng, 0, 2), pick(rng, 0, 1, 16), pick(rng, 0, 1)
    shape = images, blocks, height + kernel[0] - 1, width + kernel[1] - 1
    return moved(rng, target, SumPool2d, shape, kernel=kernel, stride=stride, pad=pad)


def global_pool(rng: np.random.Generator, target: Target) -> Case:
    """The sum over whole images, as large as do not fit small scratchpads at once."""
    shape = pick(rng, 1, 1, 2), pick(rng, 1, 2, 7), int(rng.integers(1, 20)), int(rng.integers(1, 20))
    return moved(rng, target, SumPool2d, shape, kernel=shape[2:])


def pad(rng: np.random.Generator, target: Target) -> Case:
    """Any value around."""
    half = 1 << target.config.out_bits - 1
    sides = pick(rng, 0, 1, 2, 17), pick(rng, 0, 1), pick(rng, 0, 3), pick(rng, 0, 1, 20)
    around = int(rng.integers(-half, half)) if rng.random() < 0.7 else 0
    return moved(rng, target, Pad2d, some_shape(rng), pad=sides, value=around)


def resize(rng: np.random.Generator, target: Target) -> Case:
    """Whole factors, their inverses, and any other ratio."""
    shape = some_shape(rng)
    sizes = [size * pick(rng, 1, 2, 3, 4) if rng.random() < 0.6 else int(rng.integers(1, 20)) for size in shape[2:]]
    return moved(rng, target, Resize2d, shape, rows=sizes[0], columns=sizes[1])


def concat(rng: np.random.Generator, target: Target) -> Case:
    """Tensors of whole blocks, or of any number of channels where weights have a 1."""
    block, count = target.config.block, pick(rng, 1, 2, 2, 3, 4)
    images, _, height, width = some_shape(rng)
    parts = [int(rng.integers(1, 3 * block + 1)) for _ in range(count)]
    if rng.random() < 0.5 or target.config.wgt_bits == 1:
        parts = [-(-channels // block) * block for channels in parts[:-1]] + parts[-1:]
    data = tuple(of_data(target, (images, -(-channels // block), height, width), f"part{at}")
                 for at, channels in enumerate(parts))
    known = concat_weights(target, parts)
    weights = of_weights(target, known.shape[:-2])
    blocks = -(-sum(parts) // block)
    epilogue = random_epilogue(rng, target, blocks, (images, blocks, height, width, *target.element("inp")))
    layer = Concat2d(target=target, data=data, weights=weights, epilogue=epilogue)

    def want(given: Given) -> np.ndarray:
        rows = images * target.config.batch
        whole = [unpack_activations(given[tensor], rows, channels) for tensor, channels in zip(data, parts, strict=True)]
        last = given[data[-1]]
        if known.ndim == 2:  # what fills the last block is moved with it
            whole[-1] = unpack_activations(last, rows, last.shape[1] * block)
        x = np.concatenate(whole, axis=1)
        x = np.pad(x, ((0, 0), (0, blocks * block - x.shape[1]), (0, 0), (0, 0)))
        x = x.reshape(images, -1, blocks, block, height, width).transpose(0, 2, 4, 5, 1, 3)
        return finish(epilogue, x, given, target.config)
    return Case(layer, want, {weights: known})


def binary(rng: np.random.Generator, target: Target) -> Case:
    """Two tensors of which either may be repeated along any dimension, its first channel along all of them too."""
    kind, shape = str(rng.choice(["add", "sub", "mul", "max", "min"])), some_shape(rng)
    keep = [[rng.random() < 0.75 for _ in shape] for _ in range(2)]
    keep[1] = [b or not a for a, b in zip(*keep, strict=True)]
    a, b = (of_data(target, tuple(size if stays else 1 for size, stays in zip(shape, part, strict=True)), name)
            for part, name in zip(keep, "ab", strict=True))
    scales, lane = (some_scale(rng, target), some_scale(rng, target)), not keep[1][1] and rng.random() < 0.5
    weights = of_weights(target, (), "by_a"), of_weights(target, (), "by_b")
    epilogue = random_epilogue(rng, target, shape[1], (*shape, *target.element("inp")))
    layer = Binary2d(target=target, a=a, b=b, weights=weights, kind=kind, epilogue=epilogue)

    def want(given: Given) -> np.ndarray:
        first, second = (wrap(given[t] * scale, target.config.acc_bits) for t, scale in zip((a, b), scales, strict=True))
        second = np.broadcast_to(second[..., :1], second.shape) if lane else second
        operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
        return finish(epilogue, operation(first, second), given, target.config)
    known = {weights[0]: identity(target, scales[0]), weights[1]: (first_lane if lane else identity)(target, scales[1])}
    return Case(layer, want, known)
