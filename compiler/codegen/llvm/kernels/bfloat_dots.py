"""Dot products of two bfloat16 each, which lie side by side in 32 bits, into float32."""

from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.lowering.floats import suffix
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant

_SECOND = 0xFFFF0000  # of a word with two bfloat16: the bits of the second as a float32


def dot2(x: Context, c: Value, a: Value, b: Value) -> Value:
    """``c[j] + a[2 j] * b[2 j] + a[2 j + 1] * b[2 j + 1]`` of vectors; a and b as int32."""
    if has_pairs(x.target, ty.split(c.type)[1]):
        return add_pairs(x, c, a, b)
    for at in range(2):
        c = multiply_add(x, c, element(x, a, at), element(x, b, at))
    return c


def has_pairs(target: Target, lanes: int) -> bool:
    """Return whether VDPBF16PS computes sums of this many lanes and is faster than two multiply-adds.

    Intel's processors with AMX take twice as long for it as for two multiply-adds.
    """
    if not target.has("avx512bf16") or target.has("amx-bf16"):
        return False
    return lanes == 16 or (lanes in (4, 8) and target.has("avx512vl"))


def add_pairs(x: Context, c: Value, a: Value, b: Value) -> Value:
    """Return `c` plus the products of pairs of bfloat16, by VDPBF16PS."""
    lanes = ty.split(c.type)[1]
    pairs = ty.vector("bfloat", 2 * lanes)
    return x.b.intrinsic(f"x86.avx512bf16.dpbf16ps.{32 * lanes}", c.type, c, x.b.bitcast(a, pairs), x.b.bitcast(b, pairs))


def element(x: Context, pairs: Value, at: int) -> Value:
    """Return the first or second bfloat16 of each pair (one int32 a pair), as float32."""
    name, by = ("and", _SECOND) if at else ("shl", 16)
    return x.b.bitcast(x.b.op(name, pairs, int_constant(pairs.type, by)), ty.like("float", pairs.type))


def multiply_add(x: Context, c: Value, a: Value, b: Value) -> Value:
    """``c + a * b`` of float32, rounded once where the target can."""
    if x.target.has_fma:
        return x.b.intrinsic(f"fma.{suffix(c.type)}", c.type, a, b, c)
    return x.b.op("fadd", x.b.op("fmul", a, b), c)
