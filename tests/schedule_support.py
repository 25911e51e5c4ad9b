"""A small program to schedule, and tests of misuse: a function whose docstring is the whole message of the error."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vtakit import te
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret


class Program(NamedTuple):
    """B = A + 1; C = B @ W; D = C * 2, with a schedule."""

    s: te.Schedule
    A: te.Tensor
    W: te.Tensor
    B: te.Tensor
    C: te.Tensor
    D: te.Tensor


def program() -> Program:
    """A new program."""
    A = te.placeholder((30, 16), name="A")
    W = te.placeholder((16, 12), name="W")
    B = te.compute((30, 16), lambda i, j: A[i, j] + 1, name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((30, 12), lambda i, j: te.sum(B[i, k] * W[k, j], axis=k), name="C")
    D = te.compute((30, 12), lambda i, j: C[i, j] * 2, name="D")
    return Program(te.create_schedule(D.op), A, W, B, C, D)


def gemm(C: te.Tensor) -> te.TensorIntrin:
    """Some tensor intrinsic."""
    return te.decl_tensor_intrin(C.op, lambda ins, outs: te.hardware_intrin("gemm"), "gemm")


def message_of(misuse: Callable[..., Any]) -> str:
    """The message that a misuse says it has: its docstring."""
    return inspect.cleandoc(misuse.__doc__ or "").strip()


def nests(schedule: te.Schedule) -> list[str]:
    """The loops of all stages."""
    return [te.nest_text(stage) for stage in schedule.stages]


def run(schedule: te.Schedule, args: Sequence[te.Tensor], arrays: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
    """What a schedule computes, by the interpreter: arrays for the first args, the results for the others."""
    outputs = [np.zeros([int(str(extent)) for extent in arg.shape], str(arg.dtype)) for arg in args[len(arrays):]]
    interpret(lower(schedule, args), [*arrays, *outputs], **options)
    return outputs
