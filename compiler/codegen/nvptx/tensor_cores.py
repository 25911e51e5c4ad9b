"""Tensor cores and asynchronous copies: calls of `vtakit.compiler.ir.warp_calls` as instructions (PTX ISA, chapter 9.7)."""

from collections.abc import Callable, Sequence
from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.codegen.nvptx.builder import KernelBuilder
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import HANDLE, DType
from vtakit.compiler.ir.fragments import FRAGMENTS, REGISTER_BYTES
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.warp_calls import COPY_BYTES, parsed, sums_of_lane

# Type of a and b -> its name, the name of the sums' type, LLVM's type of a sum and the constraint of its register.
_TYPES = {
    "bfloat16": ("bf16", "f32", "float", "f"), "float16": ("f16", "f32", "float", "f"), "float32": ("tf32", "f32", "float", "f"),
    "int8": ("s8", "s32", "i32", "r"),
}
_SUMS = 4  # registers of mma.sync's sums
NOTHING = int_constant("i32", 0)


def builder(x: Context) -> KernelBuilder:
    assert isinstance(x.b, KernelBuilder), x.b
    return x.b


def element_type(address: ir.Expr) -> DType:
    """Return the type of the element that an address is of."""
    assert isinstance(address, ir.Call), address
    load = address.args[0]
    assert isinstance(load, ir.Load), address
    return load.buffer.dtype


def shared_address(x: Context, e: ir.Expr) -> Value:
    """Return an address in shared memory as the 32 bits that instructions take."""
    b = builder(x)
    near = b._value("ptr addrspace(3)", f"addrspacecast {x.value(e)} to ptr addrspace(3)")
    return b._value("i32", f"ptrtoint {near} to i32")


def global_address(x: Context, e: ir.Expr) -> Value:
    b = builder(x)
    far = b._value("ptr addrspace(1)", f"addrspacecast {x.value(e)} to ptr addrspace(1)")
    return b._value("i64", f"ptrtoint {far} to i64")


def registers(x: Context, address: ir.Expr, count: int, kind: str) -> list[Value]:
    """Return `count` 32-bit registers of a thread's own array from an address on."""
    start = x.value(address)
    return [x.b.load(kind, x.b.address(start, kind, int_constant("i32", at)), REGISTER_BYTES) for at in range(count)]


def set_registers(x: Context, address: ir.Expr, values: Sequence[Value]) -> None:
    start = x.value(address)
    for at, value in enumerate(values):
        x.b.store(value, x.b.address(start, value.type, int_constant("i32", at)), REGISTER_BYTES)


def operands(first: int, count: int) -> str:
    """Return the text of `count` operands, "{$4, $5}"."""
    return "{" + ", ".join(f"${at}" for at in range(first, first + count)) + "}"


def _mma_sync(x: Context, e: ir.Call) -> Value:
    shape, d, a, b = e.args
    assert isinstance(shape, ir.StringImm), e
    dtype = str(element_type(a))
    kind, sums, sum_type, letter = _TYPES[dtype]
    bits = element_type(a).bits
    count = [FRAGMENTS[scope, bits].elements // FRAGMENTS[scope, bits].packed for scope in ("mma.a", "mma.b")]
    if parsed(shape.value) != (16, 8, 256 // bits):
        raise CodegenError(f"{e}: mma.sync of {dtype} is m16n8k{256 // bits}")
    text = (f"mma.sync.aligned.{shape.value}.row.col.{sums}.{kind}.{kind}.{sums} {operands(0, _SUMS)}, "
            f"{operands(_SUMS, count[0])}, {operands(_SUMS + count[0], count[1])}, {operands(_SUMS + sum(count), _SUMS)};")
    constraints = ",".join([f"={letter}"] * _SUMS + ["r"] * sum(count) + [letter] * _SUMS)
    given = [*registers(x, a, count[0], "i32"), *registers(x, b, count[1], "i32"), *registers(x, d, _SUMS, sum_type)]
    record = builder(x).ptx(text, constraints, "{" + ", ".join([sum_type] * _SUMS) + "}", *given)
    set_registers(x, d, builder(x).fields(record, [sum_type] * _SUMS))
    return NOTHING


def _ldmatrix(x: Context, e: ir.Call) -> Value:
    turned, source, *to = e.args
    count = len(to)
    turn = ".trans" if int_value(turned) else ""
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{turn}.shared.b16 {operands(0, count)}, [${count}];"
    constraints = ",".join(["=r"] * count + ["r", "~{memory}"])
    returns = "i32" if count == 1 else "{" + ", ".join(["i32"] * count) + "}"
    found = builder(x).ptx(text, constraints, returns, shared_address(x, source), effect=True)
    values = [found] if count == 1 else builder(x).fields(found, ["i32"] * count)
    for address, value in zip(to, values, strict=True):
        set_registers(x, address, [value])
    return NOTHING


def _async_copy(x: Context, e: ir.Call) -> Value:
    to, source, count, *condition = e.args
    size = (int_value(count) or 0) * element_type(to).bytes
    if size not in COPY_BYTES:
        raise CodegenError(f"{e}: cp.async copies 4, 8 or 16 bytes, not {size}")
    cached = "cg" if size == max(COPY_BYTES) else "ca"
    prefetch = ".L2::128B" if size == max(COPY_BYTES) else ""
    given = [shared_address(x, to), global_address(x, source)]
    rest = ""
    if condition:
        given.append(x.b.select(x.value(condition[0]), int_constant("i32", size), int_constant("i32", 0)))
        rest = ", $2"
    builder(x).ptx(f"cp.async.{cached}.shared.global{prefetch} [$0], [$1], {size}{rest};",
                   ",".join(["r", "l", *["r"] * len(condition), "~{memory}"]), "void", *given, effect=True)
    return NOTHING


def _async_commit(x: Context, e: ir.Call) -> Value:
    builder(x).ptx("cp.async.commit_group;", "~{memory}", "void", effect=True)
    return NOTHING


def _async_wait(x: Context, e: ir.Call) -> Value:
    builder(x).ptx(f"cp.async.wait_group {int_value(e.args[0])};", "~{memory}", "void", effect=True)
    return NOTHING


# Products of warpgroups

_LAYOUTS = {128: 1, 64: 2, 32: 3}  # bytes of a swizzle's row -> its number in a matrix descriptor
_ROWS = 8  # that a descriptor's stride goes over
_LEADING = 1  # of a descriptor, in 16 bytes: not used where rows are swizzled


def _descriptor(x: Context, e: ir.Call, address: ir.Expr, row: ir.Expr, swizzle: ir.Expr) -> Value:
    """Return the matrix descriptor of a tile whose rows are those of its swizzle (PTX ISA, "Matrix descriptor format")."""
    b, bytes_ = builder(x), (int_value(row) or 0) * element_type(address).bytes
    layout = _LAYOUTS.get(int_value(swizzle) or 0)
    if layout is None or bytes_ != int_value(swizzle):
        raise CodegenError(f"{e}: its operands' rows have {bytes_} bytes, and wgmma reads rows that are swizzled whole: let the "
                           "buffer have rows of 32, 64 or 128 bytes, and call swizzle with that number")
    at = b.convert("zext", shared_address(x, address), "i64")
    first = b.op("and", b.op("lshr", at, int_constant("i64", 4)), int_constant("i64", 0x3FFF))
    fixed = _LEADING << 16 | (_ROWS * bytes_ >> 4) << 32 | layout << 62
    return b.op("or", first, int_constant("i64", fixed - (1 << 64) if fixed >> 63 else fixed))


def _wgmma(x: Context, e: ir.Call) -> Value:
    shape, d, a, b, lda, ldb, turned_a, turned_b, *layouts = e.args
    assert isinstance(shape, ir.StringImm), e
    if int_value(turned_a) or not int_value(turned_b):
        raise CodegenError(f"{e}: wgmma is written for operands whose rows are i and j: transpose the other one")
    kind, sums, sum_type, letter = _TYPES[str(element_type(a))]
    count = sums_of_lane(shape.value)
    described = [_descriptor(x, e, at, row, layout) for at, row, layout in
                 zip((a, b), (lda, ldb), layouts or (ir.IntImm(0),) * 2, strict=True)]
    scales = "" if sums == "s32" else ", 1, 1" + (", 0, 0" if element_type(a).bits == 16 else "")
    text = (f"{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.{shape.value}.{sums}.{kind}.{kind} "
            f"{operands(0, count)}, ${2 * count}, ${2 * count + 1}, p{scales}; }}")
    _through(x, d, count, sum_type, letter, text, described)
    held = builder(x).held_sums
    assert isinstance(d, ir.Call), e
    assert isinstance(d.args[0], ir.Load), e
    held[d.args[0].buffer.data, int_value(d.args[0].indices[0]) or 0] = d, count, sum_type, letter
    return NOTHING


def _through(x: Context, d: ir.Expr, count: int, kind: str, letter: str, text: str, given: Sequence[Value] = ()) -> None:
    """Add instructions that read and write a thread's registers in place."""
    tied = [f"={letter}"] * count + [str(at) for at in range(count)] + ["l"] * len(given) + ["~{memory}"]
    record = builder(x).ptx(text, ",".join(tied), "{" + ", ".join([kind] * count) + "}",
                            *registers(x, d, count, kind), *given, effect=True)
    set_registers(x, d, builder(x).fields(record, [kind] * count))


def _wgmma_wait(x: Context, e: ir.Call) -> Value:
    """Wait for products. Where all are done, what they made passes through, so that nothing reads it earlier."""
    newest = int_value(e.args[0])
    text = f"wgmma.wait_group.sync.aligned {newest};"
    if newest or not builder(x).held_sums:
        return _line(text)(x, e)
    for d, count, kind, letter in builder(x).held_sums.values():
        _through(x, d, count, kind, letter, text)
    return NOTHING


def _line(text: str) -> Callable[[Any, ir.Call], Value]:
    def make(x: Context, e: ir.Call) -> Value:
        builder(x).ptx(text, "~{memory}", "void", effect=True)
        return NOTHING
    return make


def fence_proxies(x: Context) -> None:
    """Let descriptors see what this thread has stored: before a barrier of a kernel with products of warpgroups."""
    _line("fence.proxy.async.shared::cta;")(x, ir.Call(HANDLE, "fence", ()))


BY_NAME: dict[str, Callable[[Any, ir.Call], Value]] = {
    "mma_sync": _mma_sync, "ldmatrix": _ldmatrix, "async_copy": _async_copy, "async_commit": _async_commit,
    "async_wait": _async_wait, "wgmma": _wgmma, "wgmma_wait": _wgmma_wait,
    "wgmma_fence": _line("wgmma.fence.sync.aligned;"), "wgmma_commit": _line("wgmma.commit_group.sync.aligned;"),
}
