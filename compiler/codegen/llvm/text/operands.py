"""Operands of LLVM's instructions, with their types: results of others, and constants."""

import functools
import struct
from collections.abc import Iterable

from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.ir import dtypes
from vtakit.compiler.ir.values import rounded, wrapped


class Value:
    """A constant or the result of an instruction, with its type."""

    __slots__ = ("ref", "type")

    def __init__(self, ref: str, type_: str) -> None:
        self.ref, self.type = ref, type_

    def __repr__(self) -> str:
        return f"{self.type} {self.ref}"


@functools.cache
def int_constant(type_: str, value: int) -> Value:
    """Return a constant with the same integer in every lane, taken modulo the width."""
    scalar, lanes = ty.split(type_)
    width = int(scalar[1:])
    text = str(wrapped(value, dtypes.make("int", width))) if width > 1 else ("true" if value & 1 else "false")
    return Value(f"splat ({scalar} {text})" if lanes else text, type_)


def float_constant(type_: str, value: float) -> Value:
    """Return a constant with the same number in every lane, rounded to the type.

    LLVM writes a float as the bits of the double with its value.
    """
    scalar, lanes = ty.split(type_)
    assert scalar in ("float", "double"), scalar
    exact = rounded(value, dtypes.FLOAT32) if scalar == "float" else value
    text = f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    return Value(f"splat ({scalar} {text})" if lanes else text, type_)


@functools.cache
def _lane_constants(type_: str, values: tuple[int, ...]) -> Value:
    scalar = ty.scalar(type_)
    return Value(f"<{', '.join(f'{scalar} {value}' for value in values)}>", type_)


def lane_constants(scalar: str, values: Iterable[int]) -> Value:
    """A vector of integers, one given for each lane."""
    found = tuple(values)
    return _lane_constants(ty.vector(scalar, len(found)), found)
