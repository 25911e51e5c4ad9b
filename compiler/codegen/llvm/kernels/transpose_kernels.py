"""Transpositions as a tensor intrinsic, for `Stage.tensorize`, and its meaning for the interpreter.

As those of `micro_kernels`, a record holds for every target. `MEANING` is what the call does, in Python.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Evaluate, Stmt
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder

KINDS = ("float32", "int32", "uint32")


def transpose_32(kind: str, rows: Sequence[int], columns: Sequence[int], *, lda: int, ldb: int) -> TensorIntrin:
    """``b[j..., i...] = a[i..., j...]``, where i are rows of a and j columns, each of one dimension or several.

    a  [rows..., columns...]    rows are lda elements apart, counted through all their dimensions; columns are neighbours
    b  [columns..., rows...]    columns are ldb elements apart; rows are neighbours

    kind : "float32", "int32" or "uint32", of both. Raises CodegenError for another type and for sizes below 1.
    """
    if kind not in KINDS:
        raise CodegenError(f"transpose_32 of {kind}: it takes {', '.join(KINDS)}")
    if min(*rows, *columns) < 1:
        raise CodegenError(f"transpose_32 of {[*rows]} by {[*columns]}: give at least 1")
    count = len(rows)
    a = placeholder((*rows, *columns), kind, name="a")
    b = compute((*columns, *rows), lambda *at: a(*at[len(columns):], *at[:len(columns)]), name="b")
    between = {a: [*_apart(rows, lda), *_apart(columns, 1)], b: [*_apart(columns, ldb), *_apart(rows, 1)]}
    binds = {tensor: decl_buffer(tensor.shape, kind, tensor.name, strides=apart, data_alignment=0)
             for tensor, apart in between.items()}

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        pointers = ins[0].access_ptr("r"), outs[0].access_ptr("w")
        return Evaluate(hardware_intrin("transpose_32", *pointers, prod(rows), prod(columns), lda, ldb))
    sizes = "x".join(map(str, (*rows, *columns)))
    return decl_tensor_intrin(b.op, code, f"transpose_{kind}_{count}_{sizes}_{lda}_{ldb}", binds)


def _apart(sizes: Sequence[int], step: int) -> list[int]:
    """Return the stride of each dimension in elements; `step` is the stride of the last one."""
    return [step * prod(sizes[at + 1:]) for at in range(len(sizes))]


def _transpose(a: Any, b: Any, rows: int, columns: int, lda: int, ldb: int) -> int:
    for i in range(rows):
        for j in range(columns):
            b[j * ldb + i] = a[i * lda + j]
    return 0


MEANING: Mapping[str, Callable[..., Any]] = {"transpose_32": _transpose}
