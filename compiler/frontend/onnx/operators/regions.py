"""Parts of images, columns and caches."""

import math
from itertools import pairwise

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.conv import add_bias
from vtakit.compiler.graph.ir import Value


@converts("Col2Im")
def col2im(n: OnnxNode) -> Value:
    image, block = n.ints(1), n.ints(2)
    ones = (1,) * len(image)
    return n.apply(
        "col2im", n[0], image_shape=image, block_shape=block, strides=n.attr("strides", ones),
        pads=n.attr("pads", (0, 0) * len(image)), dilations=n.attr("dilations", ones),
    )


@converts("DeformConv")
def deform_conv(n: OnnxNode) -> Value:
    """Pixels at moved places as columns, and a product with the weights."""
    if n.ndim(0) != 4 or n.ndim(1) != 4:
        raise n.unsupported(f"of images {list(n.shape(0))}: those of two dimensions are read")
    kernel, groups = n.shape(1)[2:], n.attr("group", 1)
    words = {word: n.attr(word, (1, 1)) for word in ("strides", "dilations")}
    columns = n.apply(
        "deform_columns", n[0], n[2], n.maybe(4), kernel_shape=kernel, pads=n.attr("pads", (0, 0, 0, 0)),
        offset_groups=n.attr("offset_group", 1), **words,
    )
    batch, channels, cells, places = columns.type.shape
    filters = n.shape(1)[0]
    if channels % groups or filters % groups or n.shape(1)[1] != channels // groups:
        raise n.unsupported(f"of {channels} channels and weights {list(n.shape(1))} in {groups} groups")
    wide = n.apply("reshape", columns, shape=(batch, groups, channels // groups * cells, places))
    weights = n.apply("reshape", n[1], shape=(groups, filters // groups, channels // groups * cells))
    y = n.apply("reshape", n.apply("matmul", weights, wide), shape=(batch, filters, *n.shape(2)[2:]))
    return add_bias(n, y, n[3]) if n.has(3) else y


@converts("MaxRoiPool")
def max_roi_pool(n: OnnxNode) -> Value:
    shape, scale = n.required("pooled_shape"), n.attr("spatial_scale", 1.0)
    return n.apply("max_roi_pool", n[0], n[1], pooled_shape=shape, spatial_scale=scale)


@converts("RoiAlign")
def roi_align(n: OnnxNode) -> Value:
    coordinates = n.attr("coordinate_transformation_mode", "half_pixel" if n.version >= 16 else "output_half_pixel")
    if coordinates not in ("half_pixel", "output_half_pixel"):
        raise n.unsupported(f"with coordinate_transformation_mode {coordinates!r}")
    return n.apply(
        "roi_align", n[0], n[1], n[2], output_shape=(n.attr("output_height", 1), n.attr("output_width", 1)),
        mode=n.attr("mode", "avg"), sampling_ratio=n.attr("sampling_ratio", 0), spatial_scale=n.attr("spatial_scale", 1.0),
        half_pixel=coordinates == "half_pixel",
    )


@converts("MaxUnpool")
def max_unpool(n: OnnxNode) -> Value:
    """Elements at places that are counted over the whole result without `output_shape`.

    `output_shape` adds zeros at the end of dimensions, as ONNX's reference and node tests have it.
    """
    kernel = n.required("kernel_shape")
    strides, pads = n.attr("strides", (1,) * len(kernel)), n.attr("pads", (0, 0) * len(kernel))
    shape = (*n.shape(0)[:2], *[
        (size - 1) * strides[at] - pads[at] - pads[at + len(kernel)] + kernel[at] for at, size in enumerate(n.shape(0)[2:])
    ])
    count = n[0].type.size
    zeros = n.apply("expand", n.like(0, n[0]), shape=(math.prod(shape),))
    flat = [n.apply("reshape", n[at], shape=(count,)) for at in range(2)]
    y = n.apply("reshape", n.apply("scatter_elements", zeros, flat[1], flat[0], axis=0), shape=shape)
    wanted = n.ints(2) if n.has(2) else shape
    if wanted == shape:
        return y
    more = [new - old for new, old in zip(wanted, shape, strict=True)]
    if min(more) < 0:
        raise n.unsupported(f"to {list(wanted)}, which is less than {list(shape)}")
    return n.apply("pad", y, n.like(0, y), pads=(*[0] * len(more), *more), mode="constant")


@converts("Det")
def det(n: OnnxNode) -> Value:
    return n.apply("det", n[0])


@converts("TensorScatter")
def tensor_scatter(n: OnnxNode) -> Value:
    mode = n.attr("mode", "linear")
    if mode not in ("linear", "circular"):
        raise n.unsupported(f"with mode {mode!r}")
    return n.apply("tensor_scatter", n[0], n[1], n.maybe(2), axis=n.attr("axis", -2), circular=mode == "circular")


@converts("TfIdfVectorizer")
def ngrams(n: OnnxNode) -> Value:
    """Count n-grams of integers in sequences, weighted by TF, IDF or TFIDF; n-grams of strings are refused."""
    pool = n.attr("pool_int64s")
    if pool is None:
        raise n.unsupported("of strings")
    starts = (*n.required("ngram_counts"), len(pool))
    grams: list[tuple[int, ...]] = []
    for size, (start, end) in enumerate(pairwise(starts), 1):
        grams += [pool[at:at + size] for at in range(start, end, size)]
    low, high = n.required("min_gram_length"), n.required("max_gram_length")
    indexes = n.required("ngram_indexes")
    if len(indexes) != len(grams):
        raise n.unsupported(f"of {len(grams)} runs and {len(indexes)} ngram_indexes")
    table = np.zeros((max(indexes) + 1, max(len(gram) for gram in grams)), np.int64)
    lengths = np.zeros(len(table), np.int32)
    for index, gram in zip(indexes, grams, strict=True):
        if low <= len(gram) <= high:
            table[index, :len(gram)], lengths[index] = gram, len(gram)
    x = n[0] if n.ndim(0) == 2 else n.apply("reshape", n[0], shape=(1, n[0].type.size))
    x = x if str(x.type.dtype) == "int64" else n.apply("cast", x, to="int64")
    y = n.apply("count_ngrams", x, n.value(table), n.value(np.maximum(lengths, 1)), max_skip=n.required("max_skip_count"))
    mode, weights = n.required("mode"), n.attr("weights")
    if mode == "IDF":
        y = n.apply("cast", n.apply("greater", y, n.like(0, y)), to="float32")
    scale = (lengths > 0).astype(np.float32)
    if mode != "TF" and weights is not None:
        scale[list(indexes)] *= np.asarray(weights, np.float32)  # a weight for each run, in the order of the pool
    y = n.apply("mul", y, n.value(scale))
    return y if n.ndim(0) == 2 else n.apply("reshape", y, shape=(len(table),))
