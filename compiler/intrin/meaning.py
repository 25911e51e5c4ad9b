"""Meaning of a tensor intrinsic as a function of NumPy arrays: its own tensor expression, interpreted."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from vtakit.compiler.intrin.tensor_intrin import TensorIntrin
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.schedule.schedule import create_schedule
from vtakit.compiler.te.tensor import Tensor

Arrays = tuple["np.ndarray[Any, Any]", ...]


def meaning(intrin: TensorIntrin) -> Callable[..., Arrays]:
    """Return the function of the inputs' arrays that gives the outputs' arrays, computed by the intrinsic's expression."""
    function = lower(create_schedule(intrin.op), [*intrin.inputs, *intrin.op.outputs])

    def run(*inputs: "np.ndarray[Any, Any]") -> Arrays:
        outputs = tuple([np.zeros(shape_of(tensor), array_type(str(tensor.dtype))) for tensor in intrin.op.outputs])
        interpret(function, [*inputs, *outputs])
        return outputs
    return run


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the extents, which are constants."""
    extents = [int_value(extent) for extent in tensor.shape]
    return tuple([extent for extent in extents if extent is not None])


def array_type(kind: str) -> "np.dtype[Any]":
    """Return NumPy's type for a type's name; bfloat16 is that of ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)


def updating(intrin: TensorIntrin) -> Callable[..., int]:
    """Return the function of operands and places that adds what the intrinsic computes to its output.

    operands : inputs, then the output, indexed by elements: the interpreter's `Pointer`s
    places   : for each operand an array of its shape: where each element is; by default operands are compact
    """
    run, tensors = meaning(intrin), [*intrin.inputs, *intrin.op.outputs]
    shapes, kinds = map(shape_of, tensors), [array_type(str(tensor.dtype)) for tensor in tensors]
    compact = [np.arange(prod(shape)).reshape(shape) for shape in shapes]

    def update(operands: Sequence[Any], places: Sequence["np.ndarray[Any, Any]"] = compact) -> int:
        *inputs, before = [
            np.array([operand[int(i)] for i in where.flat], kind).reshape(where.shape)
            for operand, where, kind in zip(operands, places, kinds, strict=True)]
        with np.errstate(all="ignore"):
            found = before + run(*inputs)[0]
        for i, value in zip(places[-1].flat, found.flat, strict=True):
            operands[-1][int(i)] = value
        return 0
    return update
