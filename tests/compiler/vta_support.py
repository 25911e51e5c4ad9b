"""What tests of the accelerator's code generator share: layouts, a reference in NumPy, and runs on the functional simulator."""

from typing import Any

import numpy as np

from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.program import Program
from vtakit.sim.api import run
from vtakit.sim.checker import check_program
from vtakit.sim.values import pack, unpack

BITS = {"int1": 1, "int2": 2, "int4": 4, "int8": 8, "int16": 16, "int32": 32}


def build(schedule: Any, args: list[Tensor], target: Target) -> Program:
    """The program of a schedule; the static checker has nothing against it."""
    program = compile_for(lower(schedule, args), target)
    faults = check_program(program)
    assert not faults, faults[0]
    return program


def values(rng: np.random.Generator, tensor: Tensor, low: int | None = None, high: int | None = None) -> np.ndarray:
    """Random values of a tensor's whole type, or from `low` to `high`."""
    bits = BITS[str(tensor.dtype)]
    ends = -(1 << bits - 1) if low is None else low, (1 << bits - 1) - 1 if high is None else high
    return rng.integers(ends[0], ends[1], [e.value for e in tensor.shape], dtype=np.int64, endpoint=True)


def execute(program: Program, inputs: dict[Tensor, np.ndarray], output: Tensor, **options: Any) -> np.ndarray:
    """What the program leaves in the output, int64 of the tensor's shape."""
    packed = {tensor.name: pack(data, BITS[str(tensor.dtype)]).tobytes() for tensor, data in inputs.items()}
    result = run(program, packed, **options)
    found = unpack(np.frombuffer(result.buffers[output.name], np.uint8), BITS[str(output.dtype)])
    return found.reshape([e.value for e in output.shape])


def wrap(x: np.ndarray, bits: int) -> np.ndarray:
    """The low bits of each value, signed."""
    return ((x + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)
