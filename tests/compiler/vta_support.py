"""What tests of the accelerator's code generator share: layouts, a reference in NumPy, and runs on the functional simulator."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vtakit import te
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.program import Program
from vtakit.hw.values import pack, unpack
from vtakit.sim.api import run
from vtakit.sim.checker import check_program

BITS = {"int1": 1, "int2": 2, "int4": 4, "int8": 8, "int16": 16, "int32": 32}


def build(schedule: Any, args: list[Tensor], target: Target) -> Program:
    """The program of a schedule; the static checker has nothing against it."""
    program = compile_for(lower(schedule, args), target)
    faults = check_program(program, target.isa)
    assert not faults, faults[0]
    return program


def values(rng: np.random.Generator, tensor: Tensor, low: int | None = None, high: int | None = None) -> np.ndarray:
    """Random values of a tensor's whole type, or from `low` to `high`."""
    bits = BITS[str(tensor.dtype)]
    ends = -(1 << bits - 1) if low is None else low, (1 << bits - 1) - 1 if high is None else high
    return rng.integers(ends[0], ends[1], [e.value for e in tensor.shape], dtype=np.int64, endpoint=True)


def execute(program: Program, inputs: dict[Tensor, np.ndarray], output: Tensor, **options: Any) -> np.ndarray:
    """What the program leaves in the output, int64 of the tensor's shape."""
    return execute_all(program, inputs, [output], **options)[output]


def execute_all(
    program: Program, inputs: dict[Tensor, np.ndarray], outputs: Sequence[Tensor], **options: Any
) -> dict[Tensor, np.ndarray]:
    """What the program leaves in each output, int64 of the tensor's shape."""
    packed = {tensor.name: pack(data, BITS[str(tensor.dtype)]).tobytes() for tensor, data in inputs.items()}
    result = run(program, packed, **options)

    def left(output: Tensor) -> np.ndarray:
        found = unpack(np.frombuffer(result.buffers[output.name], np.uint8), BITS[str(output.dtype)])
        return found.reshape([e.value for e in output.shape])
    return {output: left(output) for output in outputs}


def wrap(x: np.ndarray, bits: int) -> np.ndarray:
    """The low bits of each value, signed."""
    return ((x + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)


def matmul(target: Target, rows: int, inner: int, columns: int) -> tuple[te.Tensor, ...]:
    """Operands, accumulators and result of a matrix product, in blocks."""
    batch, block = target.element("inp")
    data = te.placeholder((rows, inner, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((columns, inner, block, block), target.dtype("wgt"), name="weights")
    ko, ki, acc = te.reduce_axis((0, inner), "ko"), te.reduce_axis((0, block), "ki"), target.dtype("acc")
    sums = te.compute(
        (rows, columns, batch, block),
        lambda y, x, b, j: te.sum(data[y, ko, b, ki].astype(acc) * weights[x, ko, j, ki].astype(acc), axis=[ko, ki]), name="sums")
    shifted = te.compute(sums.shape, lambda *i: te.max(sums(*i) >> 4, 0), name="shifted")
    return data, weights, sums, shifted, te.compute(sums.shape, lambda *i: shifted(*i).astype(target.dtype("out")), name="result")


def matmul_schedule(target: Target, tensors: tuple[te.Tensor, ...], threads: int = 1) -> te.Schedule:
    """Tiles of 4 x 2 blocks with chunks of 2 of the reduction, tiles dealt to virtual threads."""
    data, weights, sums, shifted, result = tensors
    s = te.create_schedule(result.op)
    y, x, b, j = result.op.axis
    yo, yi = s[result].split(y, 4)
    xo, xi = s[result].split(x, 2)
    s[result].reorder(yo, xo, yi, xi, b, j)
    at = xo
    if threads > 1:
        at, thread = s[result].split(xo, threads)
        s[result].reorder(yo, thread, at, yi, xi, b, j)
        s[result].bind(thread, te.thread_axis("vthread"))
        s[result].reorder(thread, yo, at, yi, xi, b, j)
    for tensor in (sums, shifted):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[result], at)
    ko, ki = sums.op.reduce_axis
    koo, koi = s[sums].split(ko, 2)
    y, x, b, j = sums.op.axis
    s[sums].reorder(koo, koi, y, x, b, j, ki)
    s[sums].tensorize(b, target.gemm)
    for tensor, scope in ((data, "inp"), (weights, "wgt")):
        s[s.cache_read(tensor, scope, [sums])].compute_at(s[sums], koo)
    return s
