"""float16 and bfloat16: between their bits in memory and float32 in registers.

Instructions are used where the target has them. Elsewhere integer arithmetic does the same, because LLVM would call functions
of a compiler's runtime library, which a Python process or a WebAssembly module need not have. On processors bfloat16 always goes
that way: x86's own conversion loses subnormal numbers. GPUs convert both types, and make one NaN of all.
"""

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant
from vtakit.compiler.ir.dtypes import DType

_INFINITY = 0x7F800000  # the bits of a float32


def _has_half(target: Target) -> bool:
    return target.arch in ("aarch64", "nvptx64") or target.has("f16c")


class _Ints:
    """Integer operations with constants, on values of one type."""

    def __init__(self, b: Builder, type_: str) -> None:
        self.b, self.type = b, type_

    def __call__(self, name: str, a: Value, constant: int) -> Value:
        return self.b.op(name, a, int_constant(self.type, constant))

    def above(self, a: Value, constant: int) -> Value:
        return self.b.icmp("ugt", a, int_constant(self.type, constant))

    def choose(self, condition: Value, a: Value | int, b: Value) -> Value:
        return self.b.select(condition, int_constant(self.type, a) if isinstance(a, int) else a, b)


def from_bits(b: Builder, target: Target, dtype: DType, bits: Value) -> Value:
    """The float32 that the bits (i16) of a float16 or bfloat16 stand for: exact."""
    word, to = ty.like("i32", bits.type), ty.like("float", bits.type)
    i = _Ints(b, word)
    if dtype.code == "bfloat":
        return b.bitcast(i("shl", b.convert("zext", bits, word), 16), to)
    if _has_half(target):
        return b.convert("fpext", b.bitcast(bits, ty.like("half", bits.type)), to)
    half = b.convert("zext", bits, word)
    sign = i("shl", i("and", half, 0x8000), 16)
    moved = i("shl", i("and", half, 0x7FFF), 13)
    # The exponent is short by 127 - 15; multiplying mends it, for subnormal numbers too. Infinity and NaN need all its bits.
    scaled = b.bitcast(b.op("fmul", b.bitcast(moved, to), float_constant(to, 2.0**112)), word)
    found = b.select(i.above(moved, (0x7C00 << 13) - 1), i("or", moved, _INFINITY), scaled)
    return b.bitcast(b.op("or", found, sign), to)


def to_bits(b: Builder, target: Target, dtype: DType, value: Value) -> Value:
    """The bits (i16) of a float32 rounded to nearest even."""
    word, short = ty.like("i32", value.type), ty.like("i16", value.type)
    i = _Ints(b, word)
    if dtype.code == "bfloat" and target.arch == "nvptx64":
        return b.bitcast(b.convert("fptrunc", value, ty.like("bfloat", value.type)), short)
    if dtype.code == "bfloat":
        return b.convert("trunc", i("lshr", _bfloat_word(b, value), 16), short)
    if _has_half(target):
        return b.bitcast(b.convert("fptrunc", value, ty.like("half", value.type)), short)
    raw = b.bitcast(value, word)
    size = i("and", raw, 0x7FFFFFFF)
    even = i("and", i("lshr", size, 13), 1)
    normal = i("sub", i("lshr", b.op("add", i("add", size, 0xFFF), even), 13), (127 - 15) << 10)
    # Half a unit of 0.5 is half of the least subnormal float16, so an addition rounds to that.
    sum_ = b.op("fadd", b.bitcast(size, value.type), float_constant(value.type, 0.5))
    small = i("sub", b.bitcast(sum_, word), 0x3F000000)
    found = i.choose(i.above(size, 0x387FFFFF), normal, small)  # from 2**-14 on it is normal
    found = i.choose(i.above(size, 0x477FFFFF), 0x7C00, found)  # 2**16 and more is infinite
    quiet = i("or", i("and", i("lshr", size, 13), 0x3FF), 0x7E00)
    found = i.choose(i.above(size, _INFINITY), quiet, found)
    return b.convert("trunc", b.op("or", found, i("and", i("lshr", raw, 16), 0x8000)), short)


def _bfloat_word(b: Builder, value: Value) -> Value:
    """The bits of a float32 rounded to bfloat16, the lower half still to be cleared."""
    word = ty.like("i32", value.type)
    i = _Ints(b, word)
    raw = b.bitcast(value, word)
    even = i("and", i("lshr", raw, 16), 1)
    rounded = b.op("add", i("add", raw, 0x7FFF), even)
    return i.choose(i.above(i("and", raw, 0x7FFFFFFF), _INFINITY), i("or", raw, 0x400000), rounded)


def round_to(b: Builder, target: Target, dtype: DType, value: Value) -> Value:
    """A float32 as float16 or bfloat16 can hold it, still in a float32."""
    if dtype.code == "bfloat" and target.arch != "nvptx64":
        kept = int_constant(ty.like("i32", value.type), 0xFFFF0000)
        return b.bitcast(b.op("and", _bfloat_word(b, value), kept), value.type)
    return from_bits(b, target, dtype, to_bits(b, target, dtype, value))


def narrow_double(b: Builder, value: Value) -> Value:
    """A float64 as a float32 rounded to odd, so that rounding it again to float16 gives what rounding once would.

    (S. Boldo, G. Melquiond, Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd, 2008.)
    """
    to, word = ty.like("float", value.type), ty.like("i32", value.type)
    i = _Ints(b, word)
    near = b.convert("fptrunc", value, to)
    back = b.convert("fpext", near, value.type)
    absolute = f"fabs.{suffix(value.type)}"
    over = b.fcmp("ogt", b.intrinsic(absolute, value.type, back), b.intrinsic(absolute, value.type, value))
    raw = b.bitcast(near, word)
    below = i.choose(over, i("sub", raw, 1), raw)  # rounded to zero
    inexact = b.fcmp("one", back, value)
    return b.bitcast(i.choose(inexact, i("or", below, 1), raw), to)


def suffix(type_: str) -> str:
    scalar, lanes = ty.split(type_)
    name = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    return f"v{lanes}{name}" if lanes else name


