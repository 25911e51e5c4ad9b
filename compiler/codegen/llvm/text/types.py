"""LLVM's types, as the strings that its text uses."""

import functools
import re

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir.dtypes import DType

MOST_LANES = 4096  # of a vector: compiling takes seconds there, and beyond 65535 operands LLVM ends the process
_FLOATS = {"bfloat": 16, "half": 16, "float": 32, "double": 64}


@functools.cache
def split(type_: str) -> tuple[str, int]:
    """The scalar type and the number of lanes; 0 for a type that is no vector."""
    match = re.fullmatch(r"<(\d+) x (.+)>", type_)
    return (match[2], int(match[1])) if match else (type_, 0)


def scalar(type_: str) -> str:
    return split(type_)[0]


@functools.cache
def vector(scalar_type: str, lanes: int) -> str:
    """The type of `lanes` values; the scalar type itself for 0. Raises CodegenError for more lanes than LLVM takes."""
    if lanes > MOST_LANES:
        raise CodegenError(f"a vector of {lanes} lanes of {scalar_type} is too long: vectorise loops of at most {MOST_LANES} "
                           "iterations")
    return f"<{lanes} x {scalar_type}>" if lanes else scalar_type


def like(scalar_type: str, type_: str) -> str:
    """The scalar type with the lanes of another."""
    return vector(scalar_type, split(type_)[1])


@functools.cache
def bits(type_: str) -> int:
    """Return the bits of one lane of an integer or floating-point type."""
    name = scalar(type_)
    return _FLOATS[name] if name in _FLOATS else int(name[1:])


def is_float(type_: str) -> bool:
    return scalar(type_) in _FLOATS


def is_int(type_: str) -> bool:
    return scalar(type_)[0] == "i"


@functools.cache
def value_type(dtype: DType) -> str:
    """Return the LLVM type of a value in registers.

    float16 and bfloat16 are float32 values that the narrower type can hold: each operation is done in float32 and rounded. That
    is exact for + - * / and sqrt, since 24 >= 2 * 11 + 2 (S. Figueroa, When is double rounding innocuous?, 1995).
    """
    name = {"bool": "i1", "handle": "ptr", "bfloat": "float"}.get(dtype.code)
    if name is None:
        name = {16: "float", 32: "float", 64: "double"}[dtype.bits] if dtype.code == "float" else f"i{dtype.bits}"
    return vector(name, dtype.lanes if dtype.lanes > 1 else 0)


@functools.cache
def memory_type(dtype: DType) -> str:
    """Return the LLVM type of an element in memory: what has less than 8 bits takes a byte, half-width floats are their bits."""
    if dtype.code == "handle":
        raise CodegenError("a buffer of addresses is not supported: store integers or floats")
    lanes = dtype.lanes if dtype.lanes > 1 else 0
    if dtype.bits < 8:
        return vector("i8", lanes)
    return vector("i16", lanes) if is_narrow(dtype) else value_type(dtype)


def is_narrow(dtype: DType) -> bool:
    """Return whether the type is float16 or bfloat16."""
    return dtype.is_float and dtype.bits == 16
