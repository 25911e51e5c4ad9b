"""Running functions in low form on an OpenCL device, in tests."""

from typing import Any

from vtakit.compiler.codegen.clike.kernel import source
from vtakit.compiler.codegen.clike.opencl import OpenCL
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.runtime.opencl.function import Function

EXACT = OpenCL(contract=False)  # each operation is rounded by itself, as the interpreter does


def on_device(function: st.Function, args: list[Any]) -> None:
    """Run a function in low form, with or without threads, on the first OpenCL device."""
    program = split(function)
    Function(program, source(program, EXACT))(*args)


def one_kernel(function: st.Function, args: list[Any]) -> None:
    """Run a function without threads as one thread of one kernel."""
    block = st.For(Var("block"), IntImm(1, INT32), function.body, st.LoopKind.THREAD, "blockIdx.x")
    on_device(function._replace(body=block), args)
