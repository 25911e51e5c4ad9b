"""Calls within kernels: barriers, shuffles, math functions, and the instructions that a target's intrinsics stand for."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import arithmetic as ar
from vtakit.compiler.codegen.llvm.lowering import calls, math
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.codegen.nvptx import tensor_cores
from vtakit.compiler.codegen.nvptx.arch import WARP
from vtakit.compiler.codegen.nvptx.builder import EVERY_LANE, KernelBuilder
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.calls import FLOAT_TESTS
from vtakit.compiler.ir.values import int_value

_AS_ON_CPU = ("abs", "fma", "nextafter", "popcount", "clz", "address_of", *FLOAT_TESTS)


def call(x: Context, e: ir.Call) -> Value:
    """Return the value of a call, or make its effect. Raises CodegenError for one that a GPU cannot make."""
    if e.kind == "extern":
        raise CodegenError(f"{e} calls the C function {e.name}, which a GPU has not: write it as an expression, or build for a "
                           "processor")
    if e.name in BY_NAME:
        return BY_NAME[e.name](x, e)
    if e.name in _AS_ON_CPU:
        return calls.call(x, e)
    if e.name in math.NAMES and e.dtype.is_float:
        values = [x.value(arg) for arg in e.args]
        return ar.rounded_to(x.b, x.target, e.dtype, math.function(x.b, x.target, e.name, values))
    if e.name in ("call_packed", "assert_that"):
        raise CodegenError(f"{e} runs on the host, and here it is inside of threads: move it out of the bound axes")
    raise CodegenError(f"the call {e} means nothing to this code generator: it knows the math functions, "
                       f"{', '.join(sorted({*_AS_ON_CPU, *BY_NAME}))}")


def _builder(x: Context) -> KernelBuilder:
    assert isinstance(x.b, KernelBuilder), x.b
    return x.b


def _sync(x: Context, e: ir.Call) -> Value:
    scope = e.args[0]
    assert isinstance(scope, ir.StringImm), e
    if scope.value == "warp":
        _builder(x).warp_barrier()
    elif scope.value == "shared":
        if _builder(x).has_products:
            tensor_cores.fence_proxies(x)
        _builder(x).barrier()
    else:
        raise CodegenError(f"{e} is a barrier of {scope.value!r}; kernels have those of 'shared' and 'warp'")
    return int_constant("i32", 0)


def _shuffled(mode: str, least: int) -> Callable[[Context, ir.Call], Value]:
    """least : the low bits of PTX's operand c: the last lane of a group from which a value may come"""
    def make(x: Context, e: ir.Call) -> Value:
        value, by, width = e.args
        lanes = int_value(width)
        if lanes not in (1, 2, 4, 8, 16, WARP) or e.dtype.lanes != 1:
            raise CodegenError(f"{e}: a shuffle moves scalars within groups of 2, 4, 8, 16 or {WARP} threads")
        b = _builder(x)
        clamp = (WARP - lanes) << 8 | least
        step = ar.resize(b, x.value(by), "i32", signed=True)
        return _moved(b, x.value(value), lambda word: b.shuffle_lanes(mode, word, step, clamp, _group(b, lanes)))
    return make


def _group(b: KernelBuilder, lanes: int) -> Value:
    """Return the mask of the lanes of this lane's group: others of the warp may be elsewhere."""
    if lanes == WARP:
        return int_constant("i32", EVERY_LANE)
    lane = b.special("lane", WARP)
    first = b.op("and", lane, int_constant("i32", WARP - lanes))
    return b.op("shl", int_constant("i32", (1 << lanes) - 1), first)


def _moved(b: KernelBuilder, value: Value, move: Callable[[Value], Value]) -> Value:
    """Return a value as `move` leaves its words of 32 bits."""
    bits = ty.bits(value.type)
    if bits == 32:
        return move(value)
    if bits < 32:
        return b.convert("trunc", move(b.convert("zext", value, "i32")), value.type)
    whole = b.bitcast(value, "i64")
    low = move(b.convert("trunc", whole, "i32"))
    high = move(b.convert("trunc", b.op("lshr", whole, int_constant("i64", 32)), "i32"))
    joined = b.op("or", b.convert("zext", low, "i64"), b.op("shl", b.convert("zext", high, "i64"), int_constant("i64", 32)))
    return b.bitcast(joined, value.type)


def _prefetch(x: Context, e: ir.Call) -> Value:
    """Ask for nothing: a GPU hides the latency of memory by other warps."""
    return int_constant("i32", 0)


BY_NAME: dict[str, Callable[[Any, ir.Call], Value]] = {
    "sync": _sync, "shuffle_down": _shuffled("down", 31), "shuffle": _shuffled("idx", 31), "prefetch": _prefetch,
    **tensor_cores.BY_NAME,
}
