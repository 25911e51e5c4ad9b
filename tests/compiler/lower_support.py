"""What tests of lowering ask about a function, and how they run one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vtakit import te
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret


def loops(function: Any) -> dict[str, st.For]:
    """The loops by the names of their variables; of two with one name the last."""
    return {s.var.name: s for s in statements(function.body) if isinstance(s, st.For)}


def extents(function: Any) -> dict[str, str]:
    """The number of iterations of each loop, as text."""
    return {name: str(loop.extent) for name, loop in loops(function).items()}


def shapes(function: Any) -> dict[str, tuple[Any, ...]]:
    """The shapes of what is allocated: numbers, or text where they are not constant."""
    return {
        s.buffer.name: tuple(str(e) if value_of(e) is None else value_of(e) for e in s.buffer.shape)
        for s in statements(function.body) if isinstance(s, st.Allocate)
    }


def blocks(function: Any) -> dict[str, st.Block]:
    return {s.name: s for s in statements(function.body) if isinstance(s, st.Block)}


def predicates(function: Any) -> dict[str, str]:
    """The conditions of blocks that have one."""
    return {name: str(block.predicate) for name, block in blocks(function).items() if value_of(block.predicate) != 1}


def run(schedule: Any, args: Sequence[Any], *inputs: np.ndarray, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """What the last argument is after the program ran on random garbage there; `shape` of it if that is symbolic."""
    out = args[-1]
    sizes = shape if shape is not None else tuple(int(value_of(e)) for e in out.shape)
    result = np.full(sizes, 77, dtype=str(out.dtype))
    interpret(lower(schedule, args), [*inputs, result])
    return result


def ints(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype("int32")


def copies(shape: Sequence[Any], count: int = 2, dtype: str = "int32") -> list[Any]:
    """A placeholder and `count` stages, each the one before plus one: A, A1, A2 …"""
    made = [te.placeholder(tuple(shape), dtype, name="A")]
    for at in range(1, count + 1):
        made.append(te.compute(tuple(shape), lambda *i, p=made[-1]: p(*i) + 1, name=f"A{at}"))
    return made
