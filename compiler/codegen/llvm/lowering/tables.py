"""Bytes looked up in a table of 256 by instructions that permute bytes of registers, in the place of a gather.

With avx512vbmi a register of 64 bytes takes two VPERMI2B, each from half of the table, and a choice by the highest bit. With avx2
32 bytes take a VPSHUFB from each of 16 parts of the table, whose results are 0 for bytes of another part.
"""

from collections.abc import Callable

from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.values import value_of

ENTRIES = 256
_INT8, _UINT8 = dtype("int8"), dtype("uint8")
_FEWEST = 16  # of a vector, that are worth a register of indices
_SHORT = 32  # bytes of a register of AVX2
_HIGHEST = -128  # the bit of a signed byte
_PART = 16  # entries that VPSHUFB reaches
_OTHERS = 0x70  # added with saturation, sets the highest bit of all bytes above 15


def width_of(target: Target) -> int:
    """Return the bytes that are looked up at a time; 0 for a target without such instructions."""
    if target.arch != "x86_64":
        return 0
    return 64 if target.has("avx512vbmi") else _SHORT if target.has("avx2") else 0


def bytes_of(e: ir.Load) -> tuple[ir.Expr, bool] | None:
    """Return the bytes that index a load from a table of 256 bytes, and whether 128 is added to them; None for another load."""
    index = e.indices[0]
    if len(e.buffer.shape) != 1 or value_of(e.buffer.shape[0]) != ENTRIES or e.buffer.dtype not in (_INT8, _UINT8):
        return None
    if isinstance(index, ir.Add) and _value(index.b) == -_HIGHEST and (found := _widened(index.a, _INT8)) is not None:
        return found, True
    found = _widened(index, _UINT8)
    return None if found is None else (found, False)


def suits(target: Target, e: ir.Load) -> bool:
    """Return whether a load is one that these instructions do: of a vector whose lanes are a power of two, by bytes."""
    lanes = e.dtype.lanes
    return lanes >= _FEWEST and lanes.bit_count() == 1 and width_of(target) > 0 and bytes_of(e) is not None


def looked_up(x: Context, e: ir.Load, table: Value) -> Value:
    """Return the entries of a table for a load that `suits`. All of the table is there, so that masks are not asked."""
    found = bytes_of(e)
    assert found is not None, e
    data, raised = x.value(found[0]), found[1]
    if raised:
        data = x.b.op("xor", data, int_constant(data.type, _HIGHEST))
    width, count = width_of(x.target), e.dtype.lanes
    look = (_by_halves if width > _SHORT else _by_parts)(x, table)
    if count < width:
        whole = look(x.b.shuffle(data, data, [at % count for at in range(width)]))
        return x.b.shuffle(whole, whole, range(count))
    if count == width:
        return look(data)
    return x.b.joined([look(x.b.shuffle(data, data, range(first, first + width))) for first in range(0, count, width)])


def _by_halves(x: Context, table: Value) -> Callable[[Value], Value]:
    b, kind = x.b, ty.vector("i8", 64)
    parts = [b.load(kind, b.address(table, "i8", int_constant("i64", 64 * at)), 1) for at in range(4)]

    def look(at: Value) -> Value:
        low, high = (b.intrinsic("x86.avx512.vpermi2var.qi.512", kind, parts[half], at, parts[half + 1]) for half in (0, 2))
        return b.select(b.icmp("slt", at, int_constant(kind, 0)), high, low)
    return look


def _by_parts(x: Context, table: Value) -> Callable[[Value], Value]:
    b, kind, half = x.b, ty.vector("i8", _SHORT), ty.vector("i8", _PART)
    loaded = [b.load(half, b.address(table, "i8", int_constant("i64", at)), 1) for at in range(0, ENTRIES, _PART)]
    parts = [b.shuffle(part, part, [at % _PART for at in range(_SHORT)]) for part in loaded]

    def look(at: Value) -> Value:
        found = int_constant(kind, 0)
        for number, part in enumerate(parts):
            near = b.op("sub", at, int_constant(kind, number * _PART if number < 8 else number * _PART - ENTRIES))
            own = b.intrinsic("uadd.sat.v32i8", kind, near, int_constant(kind, _OTHERS))
            found = b.op("or", found, b.intrinsic("x86.avx2.pshuf.b", kind, part, own))
        return found
    return look


def _widened(e: ir.Expr, kind: object) -> ir.Expr | None:
    """Return what is cast to wider integers, if it is bytes of a kind."""
    return e.value if isinstance(e, ir.Cast) and e.dtype.is_int and e.value.dtype.scalar is kind else None


def _value(e: ir.Expr) -> object:
    return value_of(e.value if isinstance(e, ir.Broadcast) else e)
