"""Instructions that no loop nest says: outer-product micro-kernels and dot products of bytes, chosen by the target's features.

Each is a call by name, with the same meaning on every target: those of `gemm`, `channel_dots`, `bit_dots`, `held_tiles` and
`transposes`, and

    dot4_u8s8(c, a, b)    c[j] + sum over q of a[4 j + q] * b[4 j + q]    q < 4

which takes int32xN, uint8x(4N), int8x(4N) and wraps, as AVX-512's VPDPBUSD does.
"""

from collections.abc import Callable

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import bit_dots, channel_dots, gemm, held_tiles, transposes
from vtakit.compiler.codegen.llvm.kernels.dots import dot4
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value
from vtakit.compiler.ir import expr as ir


def registers(target: Target) -> int:
    """Return the number of vector registers of the target."""
    return target.vector_registers


def _dot4_u8s8(x: Context, e: ir.Call) -> Value:
    if len(e.args) != 3 or e.dtype.scalar.bits != 32:
        raise CodegenError(f"{e}: dot4_u8s8 takes an int32xN, a uint8x(4N) and an int8x(4N), and gives an int32xN")
    c, a, b = (x.value(arg) for arg in e.args)
    signs = [arg.dtype.code for arg in e.args]
    bytes_ = ty.vector("i8", 4 * e.dtype.lanes)
    if signs != ["int", "uint", "int"] or (a.type, b.type) != (bytes_, bytes_) or c.type != ty.value_type(e.dtype):
        types = ", ".join(str(arg.dtype) for arg in e.args)
        raise CodegenError(f"{e} has {types}: dot4_u8s8 takes an int32xN, a uint8x(4N) and an int8x(4N)")
    if not ty.split(c.type)[1]:
        return x.b.extract(dot4(x, x.b.splat(c, 1), a, b), 0)
    return dot4(x, c, a, b)


BY_NAME: dict[str, Callable[[Context, ir.Call], Value]] = {
    **gemm.BY_NAME, **channel_dots.BY_NAME, **bit_dots.BY_NAME, **held_tiles.BY_NAME, **transposes.BY_NAME,
    "dot4_u8s8": _dot4_u8s8,
}
