"""Arithmetic on scalar float64 values, for functions that are written out."""

from collections.abc import Sequence

from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant

_D = "double"


class Doubles:
    """Arithmetic on scalar float64 values."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def of(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else float_constant(_D, x)

    def add(self, x: Value | float, y: Value | float) -> Value:
        return self.b.op("fadd", self.of(x), self.of(y))

    def sub(self, x: Value | float, y: Value | float) -> Value:
        return self.b.op("fsub", self.of(x), self.of(y))

    def mul(self, x: Value | float, y: Value | float) -> Value:
        return self.b.op("fmul", self.of(x), self.of(y))

    def div(self, x: Value | float, y: Value | float) -> Value:
        return self.b.op("fdiv", self.of(x), self.of(y))

    def fma(self, x: Value | float, y: Value | float, z: Value | float) -> Value:
        return self.b.intrinsic("fma.f64", _D, self.of(x), self.of(y), self.of(z))

    def one(self, name: str, *args: Value | float) -> Value:
        """Return LLVM's function of doubles."""
        return self.b.intrinsic(f"{name}.f64", _D, *map(self.of, args))

    def sqrt(self, x: Value) -> Value:
        return self.one("sqrt", x)

    def abs(self, x: Value) -> Value:
        return self.one("fabs", x)

    def sign(self, size: Value, of: Value) -> Value:
        return self.one("copysign", size, of)

    def test(self, name: str, x: Value | float, y: Value | float) -> Value:
        return self.b.fcmp(name, self.of(x), self.of(y))

    def select(self, condition: Value, x: Value | float, y: Value | float) -> Value:
        return self.b.select(condition, self.of(x), self.of(y))

    def series(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Return a polynomial; the lowest power's coefficient comes first."""
        found = self.of(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            found = self.fma(found, x, c)
        return found

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """Return x within the bounds; NaN stays."""
        x = self.select(self.test("olt", x, low), low, x)
        return self.select(self.test("ogt", x, high), high, x)

    def power_of_two(self, n: Value) -> Value:
        """Return 2**n of an i64 from -1022 to 1023."""
        bits = self.b.op("shl", self.b.op("add", n, int_constant("i64", 1023)), int_constant("i64", 52))
        return self.b.bitcast(bits, _D)

    def scale(self, x: Value, n: Value) -> Value:
        """Return ``x * 2**n`` of an i64, in two steps."""
        half = self.b.op("ashr", n, int_constant("i64", 1))
        rest = self.b.op("sub", n, half)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(rest))

    def integer(self, x: Value) -> Value:
        return self.b.freeze(self.b.convert("fptosi", x, "i64"))
