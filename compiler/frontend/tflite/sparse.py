"""Sparse constants of TensorFlow Lite models.

A tensor is stored as a tree: a level for each dimension, in an order that the file says, dense or compressed sparse row, then
a level for each dimension of a block. Source: tensorflow/lite/schema/schema.fbs, SparsityParameters.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.frontend.errors import ModelError

_INDICES = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
Numbers = npt.NDArray[np.int64]


def places(sparsity: Any, shape: tuple[int, ...], schema: Any, what: str) -> tuple[Numbers, ...]:
    """The index in each dimension of the elements that a sparse tensor stores, in the order of the file.

    Raises ModelError for a tree that does not fit the shape.
    """
    order = sparsity.TraversalOrderAsNumpy().astype(np.int64) if not sparsity.TraversalOrderIsNone() else np.arange(len(shape))
    blocked = [] if sparsity.BlockMapIsNone() else [int(axis) for axis in sparsity.BlockMapAsNumpy()]
    levels = len(shape) + len(blocked)
    if sorted(order.tolist()) != list(range(levels)) or sparsity.DimMetadataLength() != levels:
        raise ModelError(f"{what} has {sparsity.DimMetadataLength()} levels in the order {order.tolist()}; {list(shape)} with "
                         f"{len(blocked)} block dimensions has {levels}")
    if any(not 0 <= axis < len(shape) for axis in blocked):
        raise ModelError(f"{what} has blocks along the dimensions {blocked} of {list(shape)}")
    block = [1] * len(shape)
    level_of = {int(axis): level for level, axis in enumerate(order)}
    for at, axis in enumerate(blocked):
        block[axis] *= sparsity.DimMetadata(level_of[len(shape) + at]).DenseSize()
    if any(size < 1 or all_ % size for size, all_ in zip(block, shape, strict=True)):
        raise ModelError(f"{what} has blocks of {block}, which do not divide {list(shape)}")
    nodes, found = np.zeros(1, np.int64), [np.zeros(1, np.int64) for _ in range(levels)]
    for level, axis in enumerate(order.tolist()):
        size = block[blocked[axis - len(shape)]] if axis >= len(shape) else shape[axis] // block[axis]
        parents, index, nodes = _children(sparsity.DimMetadata(level), nodes, size, schema, what)
        found = [each[parents] for each in found]
        found[axis] = index
    whole = found[:len(shape)]
    for at, axis in enumerate(blocked):
        whole[axis] = whole[axis] * block[axis] + found[len(shape) + at]
    return tuple(whole)


def _children(level: Any, nodes: Numbers, size: int, schema: Any, what: str) -> tuple[Numbers, Numbers, Numbers]:
    """Where the children of the nodes of a level hang: the node's place, the index along the dimension, and their numbers."""
    if level.Format() == 0:
        if level.DenseSize() != size:
            raise ModelError(f"{what} has a dense level of {level.DenseSize()}, where {size} are")
        parents = np.repeat(np.arange(nodes.size), size)
        index = np.tile(np.arange(size), nodes.size)
        return parents, index, nodes[parents] * size + index
    segments, indices = _vector(level, "ArraySegments", schema, what), _vector(level, "ArrayIndices", schema, what)
    if nodes.size and nodes.max() + 1 >= segments.size:
        raise ModelError(f"{what} has {segments.size} segments for {int(nodes.max()) + 1} nodes")
    counts = segments[nodes + 1] - segments[nodes]
    outside = segments.min() < 0 or segments.max() > indices.size or (indices >= size).any() or (indices < 0).any()
    if outside or (counts < 0).any():
        raise ModelError(f"{what} has segments or indices outside of its {indices.size} indices and {size} places")
    parents = np.repeat(np.arange(nodes.size), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = segments[nodes][parents] + within
    return parents, indices[numbers], numbers


def _vector(level: Any, word: str, schema: Any, what: str) -> Numbers:
    kind, table = getattr(level, f"{word}Type")(), getattr(level, word)()
    if kind not in _INDICES or table is None:
        raise ModelError(f"{what} has a sparse level without {word}")
    vector = getattr(schema, _INDICES[kind])()
    vector.Init(table.Bytes, table.Pos)
    found = vector.ValuesAsNumpy()
    return found.astype(np.int64) if isinstance(found, np.ndarray) else np.zeros(0, np.int64)
