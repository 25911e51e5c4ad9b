"""Dot products of a few channels, words of data by rows of weights: some steps of a convolution's reduction for one pixel.

    dot_u8s8s32(a, b, c, n, steps, ldb)    c[j] += sum over p < steps, q < 4 of a[4 p + q] * b[p, j, q]    int32, which wraps
    dot_words(…)                           the same; a is of uint32 that hold four bytes, the first in the lowest bits
    dot_bf16(…)                            c[j] += sum over p < steps, q < 2 of a[2 p + q] * b[p, j, q]    bfloat16 into float32

a, b, c are addresses (`Buffer.access_ptr`), n and steps constants, and ldb the elements of b from one step to the next. Each call
loads and stores its sums. Where the loops around are unrolled, the sums of a local buffer are at constant places, and LLVM keeps
them in registers.
"""

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import bfloat_dots, dots
from vtakit.compiler.codegen.llvm.kernels.gemm_tile import vectors_of
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir

_ELEMENT_BYTES = {"dot_u8s8s32": 1, "dot_words": 4, "dot_bf16": 2}  # of a
_SIGNED = (True, True)


def has_dots(target: Target, kind: str) -> bool:
    """Return whether one instruction of the target adds dot products of a data type to a whole vector of sums."""
    lanes = target.vector_bytes // 4
    if kind == "bfloat16":
        return bfloat_dots.has_pairs(target, lanes)
    return dots.instruction(target, lanes, (False, True)) is not None


def has_shared_sums(target: Target, kind: str) -> bool:
    """Return whether steps of bytes need a sum of the weights. Pixels share it, and a call computes it once for all steps."""
    return kind != "bfloat16" and _shares(target, target.vector_bytes // 4)


def _shares(target: Target, lanes: int) -> bool:
    return dots.instruction(target, lanes, (False, True)) is None and dots.instruction(target, lanes, _SIGNED) is not None


def _dot(x: Context, e: ir.Call) -> Value:
    counts = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[3:5]]
    if len(e.args) != 6 or min(counts) < 1:
        raise CodegenError(f"{e}: {e.name} takes a, b, c, n, steps, ldb; n and steps are constants of at least 1")
    (n, steps), b = counts, x.b
    a, weights, c = (x.value(arg) for arg in e.args[:3])
    is_float = e.name == "dot_bf16"
    size = 2 if is_float else 1
    apart = b.op("mul", x.index(e.args[5]), int_constant("i64", size), "nsw")
    words = _Words(x, a, steps, _ELEMENT_BYTES[e.name])
    rows = [b.address(weights, "i8", b.op("mul", apart, int_constant("i64", p), "nsw")) for p in range(steps)]
    lanes, widths = vectors_of(x, n)
    for at, width in enumerate(widths):
        first = int_constant("i64", 4 * lanes * at)  # in bytes: of a sum, and of its weights
        place = b.address(c, "i8", first)
        kind = ty.vector("i32", width)
        shares = not is_float and _shares(x.target, width)
        pairs = [(words.spread(p, width, signed=shares), b.load(kind, b.address(row, "i8", first), size))
                 for p, row in enumerate(rows)]
        sum_ = b.load(ty.vector("float", width) if is_float else kind, place, 4)
        b.store((_bfloats if is_float else _bytes)(x, sum_, pairs), place, 4)
    return int_constant("i32", 0)


class _Words:
    """The words of data of a call's steps."""

    def __init__(self, x: Context, a: Value, steps: int, align: int) -> None:
        self.b, self.a, self.steps, self.align = x.b, a, steps, align

    def spread(self, p: int, lanes: int, *, signed: bool) -> Value:
        """Return the word of a step in so many lanes; of signed bytes, x - 128, which are made for all steps at once."""
        if not signed:
            return self.b.splat(self.b.load("i32", self.b.address(self.a, "i8", int_constant("i64", 4 * p)), self.align), lanes)
        kind = ty.vector("i32", self.steps)
        flipped = self.b.op("xor", self.b.load(kind, self.a, self.align), int_constant(kind, dots.FLIP * 0x01010101))
        return self.b.shuffle(flipped, flipped, [p] * lanes)


def _bfloats(x: Context, sum_: Value, pairs: list[tuple[Value, Value]]) -> Value:
    for a, b in pairs:
        sum_ = bfloat_dots.dot2(x, sum_, a, b)
    return sum_


def _bytes(x: Context, sum_: Value, pairs: list[tuple[Value, Value]]) -> Value:
    lanes = ty.split(sum_.type)[1]
    kind = ty.vector("i8", 4 * lanes)
    bytes_ = [(x.b.bitcast(a, kind), x.b.bitcast(b, kind)) for a, b in pairs]
    if not _shares(x.target, lanes):
        for a, b in bytes_:
            sum_ = dots.dot4(x, sum_, a, b)
        return sum_
    half = int_constant(sum_.type, 0)  # of what is missing, 128 * b: here a is x - 128
    for a, b in bytes_:
        sum_ = dots.dot4(x, sum_, a, b, signed=_SIGNED)
        half = dots.dot4(x, half, b, int_constant(kind, 64), signed=_SIGNED)
    return x.b.op("add", sum_, x.b.op("shl", half, int_constant(half.type, 1)))


BY_NAME = dict.fromkeys(_ELEMENT_BYTES, _dot)
