"""ONNX's operators of sequences and optionals: lists, and None."""

from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.host import Call, host, ints
from vtakit.compiler.graph.ir import Array


@host("SequenceEmpty")
def empty(call: Call) -> list[Any]:
    return [[]]


@host("SequenceConstruct")
def construct(call: Call, *parts: Array) -> list[Any]:
    return [list(parts)]


@host("SequenceLength")
def length(call: Call, sequence: list[Any]) -> list[Any]:
    return [np.array(len(sequence), np.int64)]


def _place(call: Call, sequence: list[Any], at: Array | None, room: int) -> int:
    """Return the place that an operand names; `room` is 1 if it may be behind the last element."""
    count = len(sequence) + room
    if at is None:
        return len(sequence) - 1 + room
    place = ints(at)[0]
    low = -len(sequence)
    if not low <= place < count:
        raise call.wrong(f"the sequence has {len(sequence)} elements, and {place} is none of them")
    return place + len(sequence) if place < 0 else place


@host("SequenceAt")
def element(call: Call, sequence: list[Any], at: Array) -> list[Any]:
    return [sequence[_place(call, sequence, at, 0)]]


@host("SequenceInsert")
def insert(call: Call, sequence: list[Any], tensor: Array, at: Array | None = None) -> list[Any]:
    place = _place(call, sequence, at, 1)
    return [[*sequence[:place], tensor, *sequence[place:]]]


@host("SequenceErase")
def erase(call: Call, sequence: list[Any], at: Array | None = None) -> list[Any]:
    place = _place(call, sequence, at, 0)
    if place < 0:
        raise call.wrong("the sequence is empty")
    return [[*sequence[:place], *sequence[place + 1:]]]


@host("ConcatFromSequence")
def concat(call: Call, sequence: list[Any]) -> list[Any]:
    if not sequence:
        raise call.wrong("the sequence is empty, and so has no element type")
    join = np.stack if call.attrs.get("new_axis", 0) else np.concatenate
    return [join(sequence, axis=call.attrs["axis"])]


@host("SplitToSequence")
def split(call: Call, x: Array, sizes: Array | None = None) -> list[Any]:
    axis = call.attrs.get("axis", 0)
    extent = x.shape[axis]
    if sizes is None:
        parts = np.split(x, extent, axis) if extent else []
        return [parts if call.attrs.get("keepdims", 1) else [np.squeeze(part, axis) for part in parts]]
    if sizes.ndim == 0:
        each = int(sizes)
        if each < 1:
            raise call.wrong(f"parts of {each} elements")
        ends = list(range(each, extent, each))
    else:
        if sum(ints(sizes)) != extent:
            raise call.wrong(f"parts of {list(ints(sizes))} are not the extent {extent} of axis {axis}")
        ends = [int(end) for end in np.cumsum(ints(sizes))[:-1]]
    return [list(np.split(x, ends, axis))]


@host("Optional")
def optional(call: Call, value: Any = None) -> list[Any]:
    return [value]


@host("OptionalHasElement")
def has_element(call: Call, value: Any = None) -> list[Any]:
    return [np.array(value is not None)]


@host("OptionalGetElement")
def get_element(call: Call, value: Any = None) -> list[Any]:
    if value is None:
        raise call.wrong("the optional is empty")
    return [value]
