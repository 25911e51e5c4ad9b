"""Loads and stores: contiguous, reversed, broadcast, gathered; under a mask if one is set."""

from vtakit.compiler.codegen.lanes import Lanes, lanes_of
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import tables
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.lowering.floats import from_bits, suffix, to_bits
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant, lane_constants
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.values import value_of


def _only_index(buffer: Buffer, indices: tuple[ir.Expr, ...]) -> ir.Expr:
    if len(indices) != 1:
        raise CodegenError(
            f"buffer {buffer.name!r} is accessed with {len(indices)} indices: machine code is made of buffers of one dimension; "
            "run the flatten pass first"
        )
    return indices[0]


def base_of(x: Context, buffer: Buffer) -> Value:
    """Return the address of a buffer's first element."""
    if buffer.data not in x.memory:
        raise CodegenError(
            f"buffer {buffer.name!r} has no memory here: it is neither a parameter nor allocated around this point"
        )
    return x.memory[buffer.data]


def element(x: Context, buffer: Buffer, index: ir.Expr) -> Value:
    """Return the address of a scalar element, or a vector of addresses."""
    at = x.index(index)
    if buffer.dtype.lanes > 1:
        at = x.b.op("mul", at, int_constant(at.type, buffer.dtype.lanes), "nsw")
    return x.b.address(base_of(x, buffer), ty.scalar(ty.memory_type(buffer.dtype)), at)


def load(x: Context, e: ir.Load) -> Value:
    """Return the elements at an index as a value."""
    index, b = _only_index(e.buffer, e.indices), x.b
    dtype = e.buffer.dtype
    kind = ty.scalar(ty.memory_type(dtype))
    count = e.dtype.lanes if e.dtype.lanes > 1 else 0
    to, align = ty.vector(kind, count), dtype.scalar.bytes
    lanes = lanes_of(index) if index.dtype.lanes > 1 else None
    step = value_of(lanes.stride) if lanes else None
    if index.dtype.lanes == 1:
        raw = b.load(to, element(x, e.buffer, index), align)
    elif lanes and step == 1:
        raw = _load_run(x, to, element(x, e.buffer, lanes.base), x.alignment(e.buffer, lanes.base), x.mask)
    elif dtype.lanes > 1:
        raise CodegenError(f"{e} gathers vectors: elements of {dtype} can be read one at a time, or in a row")
    elif lanes and step == 0 and x.mask is None:
        raw = b.splat(b.load(kind, element(x, e.buffer, lanes.base), align), lanes.lanes)
    elif lanes and step == -1:
        first = lanes.base - (lanes.lanes - 1)
        mask = None if x.mask is None else _reverse(x, x.mask)
        raw = _reverse(x, _load_run(x, to, element(x, e.buffer, first), x.alignment(e.buffer, first), mask))
    elif lanes and step == 2 and x.mask is None:
        raw = _load_every_second(x, kind, e.buffer, lanes, align)
    elif tables.suits(x.target, e):
        raw = tables.looked_up(x, e, base_of(x, e.buffer))
    else:
        where = _scattered(x, e.buffer, index, lanes)
        raw = b.intrinsic(
            f"masked.gather.{suffix(to)}.v{count}p0", to, where, int_constant("i32", align), _all(x, count), _nothing(to)
        )
    return _to_value(x, dtype, raw)


def store(x: Context, buffer: Buffer, indices: tuple[ir.Expr, ...], value: ir.Expr) -> None:
    """Write a value to the elements at an index."""
    index = _only_index(buffer, indices)
    dtype, b = buffer.dtype, x.b
    wanted = dtype.with_lanes(index.dtype.lanes * dtype.lanes)
    if value.dtype is not wanted:
        raise CodegenError(
            f"{buffer.name}[{index}] = {value} stores {value.dtype} where the buffer and the index ask for {wanted}"
        )
    raw = _to_memory(x, dtype, x.value(value))
    align = dtype.scalar.bytes
    lanes = lanes_of(index) if index.dtype.lanes > 1 else None
    step = value_of(lanes.stride) if lanes else None
    if index.dtype.lanes == 1:
        if x.mask is not None:
            raise CodegenError(
                f"{buffer.name}[{index}] = {value} depends on lanes of a vector: such a statement must stay scalar"
            )
        b.store(raw, element(x, buffer, index), align)
    elif lanes and step == 1:
        _store_run(x, raw, element(x, buffer, lanes.base), x.alignment(buffer, lanes.base), x.mask)
    elif dtype.lanes > 1:
        raise CodegenError(
            f"{buffer.name}[{index}] scatters vectors: elements of {dtype} can be written one at a time, or in a row"
        )
    elif lanes and step == -1:
        first = lanes.base - (lanes.lanes - 1)
        mask = None if x.mask is None else _reverse(x, x.mask)
        _store_run(x, _reverse(x, raw), element(x, buffer, first), x.alignment(buffer, first), mask)
    else:
        count = index.dtype.lanes
        where = _scattered(x, buffer, index, lanes)
        name = f"masked.scatter.{suffix(raw.type)}.v{count}p0"
        b.intrinsic(name, "void", raw, where, int_constant("i32", align), _all(x, count))


def _scattered(x: Context, buffer: Buffer, index: ir.Expr, lanes: Lanes | None) -> Value:
    """Return the addresses of a vector's elements.

    A constant distance apart, they are one address and constants, which LLVM takes as they are for an instruction that gathers or
    scatters.
    """
    step = value_of(lanes.stride) if lanes else None
    if lanes is None or not isinstance(step, int):
        return element(x, buffer, index)
    apart = lane_constants("i64", (step * i for i in range(lanes.lanes)))
    return x.b.address(element(x, buffer, lanes.base), ty.scalar(ty.memory_type(buffer.dtype)), apart)


def _load_run(x: Context, to: str, address: Value, align: int, mask: Value | None) -> Value:
    if mask is None:
        return x.b.load(to, address, align)
    return x.b.intrinsic(f"masked.load.{suffix(to)}.p0", to, address, int_constant("i32", align), mask, _nothing(to))


def _load_every_second(x: Context, kind: str, buffer: Buffer, lanes: Lanes, align: int) -> Value:
    """Return every second element of two runs, from the first on and up to the last; a gather takes a load for each.

    What lies between the elements is in the same memory.
    """
    span = 2 * lanes.lanes - 1
    width = 1 << (span // 2).bit_length()  # at most the span, and both cover it
    to, start = ty.vector(kind, width), span - width
    first = x.b.load(to, element(x, buffer, lanes.base), align)
    second = x.b.load(to, element(x, buffer, lanes.base + start), align)
    return x.b.shuffle(first, second, [at if at < width else width + at - start for at in range(0, span, 2)])


def _store_run(x: Context, value: Value, address: Value, align: int, mask: Value | None) -> None:
    if mask is None:
        x.b.store(value, address, align)
    else:
        x.b.intrinsic(f"masked.store.{suffix(value.type)}.p0", "void", value, address, int_constant("i32", align), mask)


def _all(x: Context, lanes: int) -> Value:
    return int_constant(ty.vector("i1", lanes), 1) if x.mask is None else x.mask


def _nothing(type_: str) -> Value:
    """Return what a masked load leaves in lanes that are not active."""
    return float_constant(type_, 0.0) if ty.is_float(type_) else int_constant(type_, 0)


def _reverse(x: Context, value: Value) -> Value:
    return x.b.shuffle(value, value, range(ty.split(value.type)[1] - 1, -1, -1))


def _to_value(x: Context, dtype: DType, raw: Value) -> Value:
    if dtype.is_bool:
        return x.b.icmp("ne", raw, int_constant(raw.type, 0))
    if dtype.bits < 8:
        return x.b.convert("trunc", raw, ty.like(f"i{dtype.bits}", raw.type))
    return from_bits(x.b, x.target, dtype.scalar, raw) if ty.is_narrow(dtype) else raw


def _to_memory(x: Context, dtype: DType, value: Value) -> Value:
    if dtype.bits < 8:
        return x.b.convert("zext", value, ty.like("i8", value.type))
    return to_bits(x.b, x.target, dtype.scalar, value) if ty.is_narrow(dtype) else value
