"""Spellings that OpenCL C and Metal's C++ share."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from vtakit.compiler.codegen.clike.dialect import Dialect, is_narrow, value_type
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import DType, make

_SYMBOLS = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.ShiftLeft: "<<"}
_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}


class CFamily(Dialect):
    """Types, constants and conversions of C and C++.

    inline : before the type of a function of ours
    """

    inline: ClassVar[str] = "static inline "

    def value(self, dtype: DType) -> str:
        kind = value_type(dtype)
        if kind.is_bool:
            return "bool"
        if kind.is_float:
            return "double" if kind.bits == 64 else "float"
        return ("u" if kind.code == "uint" else "") + _INTEGERS[max(kind.bits, 8)]

    def element(self, dtype: DType) -> str:
        if is_narrow(dtype):
            return "ushort"
        return "uchar" if dtype.is_bool else self.value(dtype)

    def integer(self, value: int, dtype: DType) -> str:
        if dtype.is_bool:
            return "true" if value else "false"
        suffix = ("u" if dtype.code == "uint" and dtype.bits >= 32 else "") + ("L" if dtype.bits == 64 else "")
        if dtype.code == "int" and dtype.bits >= 32 and value == dtype.min:  # without the sign it is no value of the type
            return f"(-{-value - 1}{suffix} - 1{suffix})"
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"

    def floating(self, value: float, dtype: DType) -> str:
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "(-INFINITY)"
        text = digits(value, value_type(dtype).bits)
        return f"({text})" if text[0] == "-" else text

    def convert(self, text: str, of: DType, to: DType) -> str:
        into = value_type(to)
        if of.is_float and into.is_int and into.bits < 32:  # out of range it is the low bits of an int
            text = f"(int){text}"
        if into.is_int and into.bits < 8:
            gone = 32 - into.bits
            return f"(({self.value(to)})((int)((uint){text} << {gone}) >> {gone}))"
        return f"(({self.value(to)}){text})"

    def reinterpret(self, text: str, of: DType, to: DType) -> str:
        return f"as_{self.value(to)}({text})"

    def wrapping(self, node: type[ir.Binary], a: str, b: str, dtype: DType) -> str:
        symbol = _SYMBOLS[node]
        if dtype.code == "uint" and dtype.bits >= 32:
            return f"({a} {symbol} {b})"
        wide = make("uint", max(dtype.bits, 32))
        name = self.value(wide)
        second = b if node is ir.ShiftLeft else f"({name}){b}"  # signed sums and shifts past the type are undefined in C
        return self.convert(f"(({name}){a} {symbol} {second})", wide, dtype)

    def shift_right(self, a: str, b: str, dtype: DType) -> str:
        return f"({a} >> {b})"

    def select(self, condition: str, true: str, false: str) -> str:
        return f"({condition} ? {true} : {false})"

    def count(self, name: str, text: str, dtype: DType) -> str:
        return f"{name}({text})"

    def constant(self, name: str, dtype: DType, value: str) -> str:
        return f"const {self.value(dtype)} {name} = {value};"

    def variable(self, name: str, dtype: DType) -> str:
        return f"{self.value(dtype)} {name};"

    def loop(self, name: str, dtype: DType, extent: str) -> str:
        return f"for ({self.value(dtype)} {name} = 0; {name} < {extent}; ++{name}) {{"

    def function(self, name: str, params: Sequence[tuple[str, DType]], returns: DType, body: Sequence[str]) -> str:
        given = ", ".join(f"{self.value(dtype)} {param}" for param, dtype in params)
        return "\n".join([f"{self.inline}{self.value(returns)} {name}({given}) {{", *(f"  {line}" for line in body), "}"])

    def held(self, name: str, dtype: DType, text: str) -> str:
        return f"const {self.element(dtype)} {name} = {text};"

    def views(self, kinds: Sequence[DType], size: int) -> str:
        """Return the members of a union that has so many bytes as elements of each type."""
        return " ".join(f"{self.element(kind)} as_{kind}[{max(1, -(-size // kind.bytes))}];" for kind in kinds)


def digits(value: float, bits: int) -> str:
    """Return the shortest decimal that is read as the same number of the type."""
    text = repr(float(value)) if bits == 64 else str(np.float32(value))
    if not any(c in text for c in ".e"):
        text += ".0"
    return text + ("f" if bits == 32 else "")
