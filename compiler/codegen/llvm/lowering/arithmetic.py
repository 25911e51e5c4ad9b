"""Operations on values in registers, in the IR's meaning: wrapping integers, floor division, NaN passed on by min and max."""

from vtakit.compiler.codegen.llvm.lowering.floats import narrow_double, round_to, suffix
from vtakit.compiler.codegen.llvm.lowering.math import library
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import DType

_WRAPPING: dict[type[ir.Binary], str] = {
    ir.Add: "add", ir.Sub: "sub", ir.Mul: "mul", ir.BitAnd: "and", ir.BitOr: "or", ir.BitXor: "xor",
}
_FLOATING: dict[type[ir.Binary], str] = {ir.Add: "fadd", ir.Sub: "fsub", ir.Mul: "fmul", ir.Div: "fdiv"}
_TESTS: dict[type[ir.Binary], tuple[str, str, str]] = {  # signed, unsigned, floating point (NaN differs from everything)
    ir.EQ: ("eq", "eq", "oeq"), ir.NE: ("ne", "ne", "une"), ir.LT: ("slt", "ult", "olt"), ir.LE: ("sle", "ule", "ole"),
}


class Operand:
    """Facts about the operands of a binary operation, besides their values.

    divisor      : the divisor if it is a constant
    non_negative : both are at least 0
    a_number, b_number : that operand is a constant other than NaN and 0 (whose sign would tell which was taken), or b is 0
    """

    __slots__ = ("a_number", "b_number", "divisor", "non_negative")

    def __init__(
        self, divisor: int | None = None, *, non_negative: bool = False, a_number: bool = False, b_number: bool = False
    ) -> None:
        self.divisor, self.non_negative, self.a_number, self.b_number = divisor, non_negative, a_number, b_number


def integer(b: Builder, node: type[ir.Binary], dtype: DType, x: Value, y: Value, known: Operand, flags: str = "") -> Value:
    """An operation on two integers or bools of the type; `flags` as LLVM's ``nsw`` for index arithmetic."""
    if node in (ir.ShiftLeft, ir.ShiftRight):  # by the type's bits and more: some number
        return b.freeze(b.op("shl" if node is ir.ShiftLeft else "ashr" if dtype.code == "int" else "lshr", x, y))
    if node in _WRAPPING:
        return b.op(_WRAPPING[node], x, y, flags if node in (ir.Add, ir.Sub, ir.Mul) else "")
    if node in (ir.Min, ir.Max):
        if dtype.is_bool:
            return b.op("and" if node is ir.Min else "or", x, y)
        name = ("s" if dtype.code == "int" else "u") + ("min" if node is ir.Min else "max")
        return b.intrinsic(f"{name}.{suffix(x.type)}", x.type, x, y)
    assert node in (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod), node
    quotient = node in (ir.FloorDiv, ir.TruncDiv)
    if dtype.code != "int" or known.non_negative:
        return b.op("udiv" if quotient else "urem", x, _divisor(b, x.type, y, known))
    if node in (ir.TruncDiv, ir.TruncMod):
        return _truncated(b, x, y, known)[0 if quotient else 1]
    return _floored(b, x, y, known, quotient=quotient)


def _divisor(b: Builder, type_: str, y: Value, known: Operand) -> Value:
    """An unsigned divisor that cannot trap: 1 in place of 0, whose result means nothing."""
    if known.divisor:
        return y
    return b.select(b.icmp("eq", y, int_constant(type_, 0)), int_constant(type_, 1), y)


def _truncated(b: Builder, x: Value, y: Value, known: Operand) -> tuple[Value, Value]:
    """Quotient and remainder rounded to zero; neither 0 nor the least integer by -1 traps."""
    if known.divisor is not None and known.divisor not in (0, -1):
        return b.op("sdiv", x, y), b.op("srem", x, y)
    one, zero = int_constant(x.type, 1), int_constant(x.type, 0)
    traps = b.icmp("ult", b.op("add", y, one), int_constant(x.type, 2))  # 0 and -1
    safe = b.select(traps, one, y)
    negated = b.icmp("eq", y, int_constant(x.type, -1))
    return b.select(negated, b.op("sub", zero, x), b.op("sdiv", x, safe)), b.op("srem", x, safe)


def _floored(b: Builder, x: Value, y: Value, known: Operand, *, quotient: bool) -> Value:
    """Quotient or remainder rounded down."""
    d = known.divisor
    if d is not None and d > 0 and d & (d - 1) == 0:
        if quotient:
            return b.op("ashr", x, int_constant(x.type, d.bit_length() - 1))
        return b.op("and", x, int_constant(x.type, d - 1))
    q, r = _truncated(b, x, y, known)
    zero = int_constant(x.type, 0)
    below = b.op("and", b.icmp("ne", r, zero), b.icmp("slt", b.op("xor", r, y), zero))
    if quotient:
        return b.op("sub", q, b.convert("zext", below, q.type))
    return b.op("add", r, b.select(below, y, zero))


def floating(b: Builder, target: Target, node: type[ir.Binary], dtype: DType, x: Value, y: Value, known: Operand) -> Value:
    """An operation on two floats, rounded to the type."""
    if node in (ir.Min, ir.Max):
        return _extreme(b, "olt" if node is ir.Min else "ogt", x, y, known)
    if node in _FLOATING:
        flags = "contract" if target.contract and dtype.bits != 16 else ""
        found = b.op(_FLOATING[node], x, y, flags)
    else:
        assert node in (ir.TruncMod, ir.FloorMod), node
        found = library(b, "fmod", x, y)
        if node is ir.FloorMod:
            zero = float_constant(x.type, 0.0)
            differs = b.op("xor", b.fcmp("olt", found, zero), b.fcmp("olt", y, zero))
            moved = b.select(differs, b.op("fadd", found, y), found)
            signed = b.intrinsic(f"copysign.{suffix(x.type)}", x.type, zero, y)
            found = b.select(b.fcmp("oeq", found, zero), signed, moved)
    return rounded_to(b, target, dtype, found)


def _extreme(b: Builder, test: str, x: Value, y: Value, known: Operand) -> Value:
    """The lesser or greater, NaN if either is, x if they are equal. A constant beside x makes it one instruction on x86."""
    if known.a_number and not known.b_number:
        x, y = y, x
    found = b.select(b.fcmp(test, y, x), y, x)  # x if it is NaN
    if known.a_number or known.b_number:
        return found
    return b.select(b.fcmp("uno", y, y), y, b.freeze(found))  # else LLVM makes one select of both


def rounded_to(b: Builder, target: Target, dtype: DType, value: Value) -> Value:
    """A float32 result as float16 or bfloat16 holds it; any other as it is."""
    return round_to(b, target, dtype, value) if ty.is_narrow(dtype) else value


def compare(b: Builder, node: type[ir.Binary], dtype: DType, x: Value, y: Value) -> Value:
    """A comparison of two values of the type."""
    signed, unsigned, floats = _TESTS[node]
    if dtype.is_float:
        return b.fcmp(floats, x, y)
    return b.icmp(signed if dtype.code == "int" else unsigned, x, y)


def cast(b: Builder, target: Target, x: Value, of: DType, to: DType) -> Value:
    """A conversion as the IR's `Cast` means it."""
    into = ty.value_type(to)
    if to.is_bool:
        if of.is_bool:
            return x
        return b.fcmp("une", x, float_constant(x.type, 0.0)) if of.is_float else b.icmp("ne", x, int_constant(x.type, 0))
    if of.is_float and to.is_float:
        return _float_to_float(b, target, x, of, to)
    if to.is_float:
        found = b.convert("sitofp" if of.code == "int" else "uitofp", x, into)
        return rounded_to(b, target, to, found)
    if of.is_float:
        if to.bits < 32:  # out of range it is some number: the low bits of an int32, as compilers for x86 and NumPy leave it
            return b.convert("trunc", b.freeze(b.convert("fptosi", x, ty.like("i32", x.type))), into)
        return b.freeze(b.convert("fptosi" if to.code == "int" else "fptoui", x, into))
    return resize(b, x, into, signed=of.code == "int")


def resize(b: Builder, x: Value, to: str, *, signed: bool) -> Value:
    """An integer in another width."""
    wider = ty.bits(to) > ty.bits(x.type)
    return b.convert("trunc" if not wider else "sext" if signed else "zext", x, to)


def _float_to_float(b: Builder, target: Target, x: Value, of: DType, to: DType) -> Value:
    if of.bits == 64 and to.bits == 16 and to.code == "float":
        x = narrow_double(b, x)
    elif of.bits == 64 and to.bits < 64:
        x = b.convert("fptrunc", x, ty.like("float", x.type))
    elif to.bits == 64:
        return b.convert("fpext", x, ty.value_type(to)) if of.bits < 64 else x
    exact = of.code == to.code and of.bits <= to.bits
    return x if exact else rounded_to(b, target, to, x)
