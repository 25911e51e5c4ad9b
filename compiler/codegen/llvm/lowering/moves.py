"""Elements of 16-bit floating-point types that are moved and not computed with, as their bits."""

import struct

from vtakit.compiler.codegen.llvm.text.types import is_narrow
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType, dtype
from vtakit.compiler.ir.values import rounded

_BITS = dtype("uint16")


def as_bits(buffer: Buffer, value: ir.Expr) -> tuple[Buffer, ir.Expr]:
    """A store's buffer and value: as uint16 if the value is one of several elements and constants, else as they are."""
    if buffer.dtype.lanes > 1 or not is_narrow(buffer.dtype) or not any(isinstance(part, ir.Load) for part in _parts(value)):
        return buffer, value
    if not all(isinstance(part, ir.Load | ir.FloatImm) and part.dtype.scalar is buffer.dtype for part in _parts(value)):
        return buffer, value
    return _twin(buffer), _bits(value)


def _parts(e: ir.Expr) -> list[ir.Expr]:
    """Return the expressions of which one is the value: the branches of selects."""
    match e:
        case ir.Select() | ir.IfThenElse():
            return [*_parts(e.true), *_parts(e.false)]
        case ir.Broadcast():
            return _parts(e.value)
    return [e]


def _bits(e: ir.Expr) -> ir.Expr:
    match e:
        case ir.Select() | ir.IfThenElse():
            return type(e)(e.condition, _bits(e.true), _bits(e.false))
        case ir.Broadcast():
            return ir.Broadcast(_bits(e.value), e.lanes)
        case ir.Load():
            return ir.Load(_twin(e.buffer), e.indices)
    assert isinstance(e, ir.FloatImm), e
    return ir.IntImm(_bits_of(e.value, e.dtype), _BITS)


def _bits_of(value: float, kind: DType) -> int:
    exact = rounded(value, kind)
    if kind.code == "bfloat":
        return int(struct.unpack("<I", struct.pack("<f", exact))[0] >> 16)
    return int(struct.unpack("<H", struct.pack("<e", exact))[0])


def _twin(buffer: Buffer) -> Buffer:
    """Return a buffer of uint16 in the same memory."""
    found = Buffer(
        buffer.name, buffer.shape, _BITS, buffer.scope, strides=buffer.strides, align=buffer.align, offset=buffer.offset)
    found.data = buffer.data
    return found
