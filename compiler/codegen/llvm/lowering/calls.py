"""Calls: math functions, C functions, Python functions, assertions, and the intrinsics of this code generator."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import intrinsics
from vtakit.compiler.codegen.llvm.lowering import arithmetic as ar
from vtakit.compiler.codegen.llvm.lowering import math, memory
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.lowering.floats import from_bits, narrow_double, suffix, to_bits
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.module import RAISED, PackedArg, PackedSite
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.calls import FLOAT_TESTS, is_address
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.values import value_of

PACKED = "vtakit_packed"  # int32_t (int32_t site, int64_t *slots): provided by whoever loads the code


def call(x: Context, e: ir.Call) -> Value:
    """Return the value of a call, or make its effect. Raises CodegenError for an unknown name."""
    if e.kind == "extern":
        return _extern(x, e)
    if e.name in _WAYS:
        return _WAYS[e.name](x, e)
    if e.name in intrinsics.BY_NAME:
        return intrinsics.BY_NAME[e.name](x, e)
    if e.name in math.NAMES and e.dtype.is_float:
        values = [x.value(arg) for arg in e.args]
        return ar.rounded_to(x.b, x.target, e.dtype, math.function(x.b, x.target, e.name, values))
    raise CodegenError(
        f"the call {e} means nothing to this code generator: it knows the math functions, {', '.join(sorted(_WAYS))}, "
        f"the intrinsics {', '.join(sorted(intrinsics.BY_NAME))}, and C functions (calls of kind 'extern')"
    )


def _absolute(x: Context, e: ir.Call) -> Value:
    value, b = x.value(e.args[0]), x.b
    if e.dtype.is_float:
        return b.intrinsic(f"fabs.{suffix(value.type)}", value.type, value)
    if e.dtype.code != "int":
        return value
    return b.intrinsic(f"abs.{suffix(value.type)}", value.type, value, int_constant("i1", 0))


def _fma(x: Context, e: ir.Call) -> Value:
    a, b, c = (x.value(arg) for arg in e.args)
    if not e.dtype.is_float:
        return x.b.op("add", x.b.op("mul", a, b), c)
    if ty.is_narrow(e.dtype):  # a product of two is exact in float64
        wide = ty.like("double", a.type)
        a, b, c = (x.b.convert("fpext", value, wide) for value in (a, b, c))
        return ar.rounded_to(x.b, x.target, e.dtype, narrow_double(x.b, x.b.op("fadd", x.b.op("fmul", a, b), c)))
    return x.b.intrinsic(f"fma.{suffix(a.type)}", a.type, a, b, c)


def _next_after(x: Context, e: ir.Call) -> Value:
    """Return the next number of the type towards the second: of float16 and bfloat16 a step of their bits."""
    start, goal = (x.value(arg) for arg in e.args)
    b, dtype = x.b, e.dtype
    if not ty.is_narrow(dtype):
        return math.library(b, "nextafter", start, goal)
    bits = to_bits(b, x.target, dtype.scalar, start)
    zero, one, sign = float_constant(start.type, 0.0), int_constant(bits.type, 1), int_constant(bits.type, 0x8000)
    away = b.op("xor", b.fcmp("olt", start, goal), b.fcmp("olt", start, zero))
    stepped = b.select(away, b.op("add", bits, one), b.op("sub", bits, one))
    from_zero = b.op("or", one, b.op("and", to_bits(b, x.target, dtype.scalar, goal), sign))
    stepped = b.select(b.fcmp("oeq", start, zero), from_zero, stepped)
    found = b.select(b.fcmp("oeq", start, goal), goal, from_bits(b, x.target, dtype.scalar, stepped))
    return b.select(b.fcmp("uno", start, goal), b.op("fadd", start, goal), found)


def _count_bits(name: str) -> Callable[[Context, ir.Call], Value]:
    def make(x: Context, e: ir.Call) -> Value:
        value = x.value(e.args[0])
        extra = (int_constant("i1", 0),) if name == "ctlz" else ()
        found = x.b.intrinsic(f"{name}.{suffix(value.type)}", value.type, value, *extra)
        return ar.resize(x.b, found, ty.value_type(e.dtype), signed=False)
    return make


def _test(x: Context, e: ir.Call) -> Value:
    value, b = x.value(e.args[0]), x.b
    if e.name == "isnan":
        return b.fcmp("uno", value, value)
    size = b.intrinsic(f"fabs.{suffix(value.type)}", value.type, value)
    # Compared with NaN both are false.
    return b.fcmp("oeq" if e.name == "isinf" else "olt", size, float_constant(value.type, float("inf")))


def _reinterpret(x: Context, e: ir.Call) -> Value:
    """Return the bits of a value as another type; float16 and bfloat16 are float32 values here."""
    of, value = e.args[0].dtype, x.value(e.args[0])
    if ty.is_narrow(of):
        value = to_bits(x.b, x.target, of.scalar, value)
    if ty.is_narrow(e.dtype):
        bits = x.b.bitcast(value, ty.like("i16", value.type))
        return from_bits(x.b, x.target, e.dtype.scalar, bits)
    return x.b.bitcast(value, ty.value_type(e.dtype))


def _pointee(e: ir.Expr) -> tuple[ir.Load, ir.Expr, str]:
    """Return the parts of an `address_of`: the element, the offset from it, and the mask."""
    assert isinstance(e, ir.Call), e
    source, offset, mask = e.args
    assert isinstance(source, ir.Load), e
    assert isinstance(mask, ir.StringImm), e
    return source, offset, mask.value


def address(x: Context, e: ir.Expr) -> Value:
    """Return the address that an `address_of` stands for."""
    source, offset, _ = _pointee(e)
    index: ir.Expr = source.buffer.offset
    if not all(value_of(i) == 0 for i in source.indices):
        if len(source.indices) != 1:
            raise CodegenError(f"{e} is an address in {len(source.indices)} dimensions: run the flatten pass first")
        index = source.indices[0]
    return memory.element(x, source.buffer, index + offset)


def _prefetch(x: Context, e: ir.Call) -> Value:
    read, locality, data = (int_constant("i32", n) for n in (0, 3, 1))
    at = x.value(e.args[0])
    if len(e.args) > 1:
        at = x.b.behind(at, x.index(e.args[1]))
    x.b.intrinsic("prefetch.p0", "void", at, read, locality, data)
    return int_constant("i32", 0)


def _assert(x: Context, e: ir.Call) -> Value:
    condition, message = e.args
    assert isinstance(message, ir.StringImm), e
    _unless_masked(x, e)
    good, bad = x.b.block("holds"), x.b.block("fails")
    x.b.branch(x.value(condition), good, bad, likely=True)
    x.b.place(bad)
    x.fail(int_constant("i32", x.module.status_of(message.value)))
    x.b.place(good)
    return int_constant("i32", 0)


def _unless_masked(x: Context, e: ir.Call) -> None:
    if x.mask is not None:
        raise CodegenError(f"the effect of {e} depends on lanes of a vector: such a statement must stay scalar")


def _extern(x: Context, e: ir.Call) -> Value:
    """Call a C function; a vector argument makes one call a lane."""
    if not e.name.isidentifier() or not e.name.isascii():
        raise CodegenError(f"{e.name!r} is no name of a C function")
    if e.name == x.module.name:
        raise CodegenError(f"{e} calls the function that it stands in: give the compiled function another name")
    args = [x.value(arg) for arg in e.args]
    if e.dtype.lanes > 1:
        _unless_masked(x, e)
        args = [arg if ty.split(arg.type)[1] else x.b.splat(arg, e.dtype.lanes) for arg in args]
    for dtype in (e.dtype, *(arg.dtype for arg in e.args)):
        if ty.is_narrow(dtype):
            raise CodegenError(f"{e} passes {dtype}, for which C has no agreed type: cast it to float32")
    extend = [_extension(dtype) for dtype in (*(arg.dtype for arg in e.args), e.dtype)]
    returns = ty.value_type(e.dtype.scalar)
    if not args:
        return x.b.call(e.name, returns, extend=extend)
    return x.b.per_lane(lambda *lanes: x.b.call(e.name, returns, *lanes, extend=extend), *args)


def _extension(dtype: DType) -> str:
    """Return the attribute by which C's calling conventions widen an integer of less than 32 bits."""
    if dtype.is_bool:
        return "zeroext "
    return "" if not dtype.is_int or dtype.bits >= 32 else "signext " if dtype.code == "int" else "zeroext "


def _packed(x: Context, e: ir.Call) -> Value:
    """Call a Python function: the arguments are in slots of 8 bytes, the result in the first."""
    _unless_masked(x, e)
    name = e.args[0]
    assert isinstance(name, ir.StringImm), e
    slots: list[Value] = []
    kinds: list[PackedArg] = []
    for arg in e.args[1:]:
        if arg.dtype.lanes > 1:
            raise CodegenError(f"{e} passes a vector: a Python function takes numbers and buffers")
        if is_address(arg):
            slots.append(address(x, arg))
            extents = _extents(arg)
            slots += [x.index(extent) for extent in extents]
            source, _, mask = _pointee(arg)
            kinds.append(PackedArg(source.buffer.dtype, len(extents), "w" in mask))
        else:
            slots.append(_slot(x, arg))
            kinds.append(PackedArg(arg.dtype))
    memory_ = x.b.alloca("i64", 8, max(1, len(slots)))
    for position, slot in enumerate(slots):
        x.b.store(slot, x.b.address(memory_, "i64", int_constant("i64", position)), 8)
    x.module.packed.append(PackedSite(name.value, tuple(kinds), e.dtype))
    site = int_constant("i32", len(x.module.packed) - 1)
    status = x.b.call(PACKED, "i32", site, memory_)
    good, bad = x.b.block("returned"), x.b.block("raised")
    x.b.branch(x.b.icmp("eq", status, int_constant("i32", 0)), good, bad, likely=True)
    x.b.place(bad)
    x.fail(int_constant("i32", RAISED))
    x.b.place(good)
    found = x.b.load("double" if e.dtype.is_float else "i64", memory_, 8)
    if e.dtype.is_float:
        return found if e.dtype.bits == 64 else x.b.convert("fptrunc", found, "float")
    return ar.resize(x.b, found, ty.value_type(e.dtype), signed=True)


def _slot(x: Context, arg: ir.Expr) -> Value:
    """Return a number as 64 bits."""
    if isinstance(arg, ir.StringImm) or arg.dtype.code == "handle":
        raise CodegenError(f"{arg} cannot be passed to a Python function: pass numbers, and buffers by access_ptr")
    value = x.value(arg)
    if arg.dtype.is_float:
        return value if arg.dtype.bits == 64 else x.b.convert("fpext", value, "double")
    return ar.resize(x.b, value, "i64", signed=arg.dtype.code == "int")


def _extents(arg: ir.Expr) -> tuple[ir.Expr, ...]:
    """Return the shape that a Python function sees: the buffer's, or what is left of it from an offset on."""
    source, offset, _ = _pointee(arg)
    if value_of(offset) == 0 and all(value_of(i) == 0 for i in source.indices):
        return source.buffer.shape
    size: ir.Expr = ir.IntImm(1)
    for extent in source.buffer.shape:
        size = size * extent
    return (size - offset - (source.indices[0] if len(source.indices) == 1 else 0),)


_WAYS: dict[str, Callable[[Context, Any], Value]] = {
    "abs": _absolute, "fma": _fma, "nextafter": _next_after, "popcount": _count_bits("ctpop"), "clz": _count_bits("ctlz"),
    "address_of": address, "reinterpret": _reinterpret,
    "prefetch": _prefetch, "assert_that": _assert, "call_packed": _packed, **dict.fromkeys(FLOAT_TESTS, _test),
}
