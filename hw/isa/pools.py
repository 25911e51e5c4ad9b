"""Extents and addresses of the windows of accumulators that a REQUANT pools."""

from typing import Any, Protocol

from vtakit.hw.isa.insns import REQUANT_WORDS

POOL_FIELDS = ("pool", "pool_step", "pool_above", "pool_left")


class Fields(Protocol):
    """An instruction's fields by name, or columns of those of many."""

    def __getitem__(self, name: str, /) -> Any: ...


def pooled_extents(insn: Fields) -> tuple[Any, Any]:
    """Return rows and columns of the image of accumulators that a REQUANT reads; 0 if it stores nothing.

    insn : the fields y_size, x_size and `POOL_FIELDS`, numbers or arrays of them
    """
    size, step = insn["pool"] + 1, insn["pool_step"] + 1
    some = (insn["y_size"] > 0) & (insn["x_size"] > 0)
    rows, columns = (insn["y_size"] - 1) * step + size, (insn["x_size"] - 1) * step + size
    return some * rows, some * columns


def described(insn: Fields) -> str:
    """Return what a REQUANT stores, in words, with the accumulators that it reads."""
    size, edge, own = f"{insn['y_size']} x {insn['x_size']}", insn["pool"] + 1, pooled_elements(insn)
    if edge > 1 or insn["pool_step"]:
        size = f"the greatest of {edge} x {edge} in {size} windows of"
    by = f"requantized by acc[{insn['params']}:{insn['params'] + REQUANT_WORDS}]"
    looked_up = ", looked up in the table behind it" if insn["lookup"] else ""
    return f"{size} elements from acc[{own.start}:{own.stop}], {by}{looked_up}"


def pooled_elements(insn: Fields) -> slice:
    """Return the accumulators from the first to the last that a REQUANT reads for its windows."""
    rows, columns = pooled_extents(insn)
    first = insn["pool_above"] * columns + insn["pool_left"] if rows else 0
    return slice(insn["sram_base"] + first, insn["sram_base"] + rows * columns)
