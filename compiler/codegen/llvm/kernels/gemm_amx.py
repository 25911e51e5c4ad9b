"""The micro-kernels of `gemm` by AMX's tile registers."""

from collections.abc import Callable
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.kernels import amx
from vtakit.compiler.codegen.llvm.kernels.gemm_tile import Tile
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant


class _Part(NamedTuple):
    """A range of a kernel's steps, from `first` to `end`, `each` of them to a product of two tiles."""

    first: int
    end: int
    each: int


def _parts(steps: int) -> list[_Part]:
    """Return the ranges of a kernel's steps: one if products of equal tiles cover them, since others need other shapes."""
    count = -(-steps // amx.ROWS)
    if steps % count == 0:
        return [_Part(0, steps, steps // count)]
    full = steps // amx.ROWS * amx.ROWS
    return [_Part(0, full, amx.ROWS), _Part(full, steps, steps - full)]


def otherwise(x: Context, kernel: str, t: Tile, by_vectors: Callable[[], None]) -> None:
    """Write a kernel by tile registers, and by vectors for systems that refuse them."""
    assert t.steps, kernel
    parts = _parts(t.steps)
    amx.set_up(x, amx.cut(t.m), amx.cut(t.n), parts[0].each)

    def by_tiles() -> None:
        for part in parts:
            if part.first:
                amx.set_up(x, amx.cut(t.m), amx.cut(t.n), part.each)
            _run(x, kernel, t, part)
    amx.if_permitted(x, by_tiles, by_vectors)


def _run(x: Context, kernel: str, t: Tile, part: _Part) -> None:
    """Write the loop over a range of steps; the sums stay in tile registers."""
    b = x.b
    _, instruction, size = amx.INSTRUCTIONS[kernel]
    sums, a, of_b = amx.registers(len(amx.cut(t.m)), len(amx.cut(t.n)))

    def bytes_of(stride: Value, size: int) -> Value:
        return b.op("mul", stride, int_constant("i64", size), "nsw")

    def number(register: int) -> Value:
        return int_constant("i8", register)
    lda, ldb, ldc = bytes_of(t.lda, size), bytes_of(t.ldb, size), bytes_of(t.ldc, 4)
    places = {
        register: b.address(b.address(t.c, "i8", bytes_of(ldc, amx.ROWS * i)), "i8", int_constant("i64", 4 * amx.ROWS * j))
        for (i, j), register in sums.items()
    }
    for register, place in places.items():
        if t.fresh and not part.first:
            b.intrinsic("x86.tilezero", "void", number(register))
        else:
            b.intrinsic("x86.tileloadd64", "void", number(register), place, ldc)

    def product(p: Value, none: list[Value]) -> list[Value]:
        column = b.address(t.a, "i8", bytes_of(p, 4))
        row = b.address(t.b, "i8", b.op("mul", p, ldb, "nsw"))
        operands = {of_b[j]: (b.address(row, "i8", int_constant("i64", 4 * amx.ROWS * j)), ldb) for j in range(len(of_b))}
        operands |= {a[i]: (b.address(column, "i8", bytes_of(lda, amx.ROWS * i)), lda) for i in range(len(a))}
        for (i, j), register in sums.items():
            for operand in (of_b[j], a[i]):
                if operand in operands:
                    b.intrinsic("x86.tileloadd64", "void", number(operand), *operands.pop(operand))
            b.intrinsic(f"x86.{instruction}", "void", number(register), number(a[i]), number(of_b[j]))
        return none
    first, end = (int_constant("i64", step) for step in (part.first, part.end))
    b.repeat("steps", first, end, part.each, [], product)
    for register, place in places.items():
        b.intrinsic("x86.tilestored64", "void", number(register), place, ldc)


