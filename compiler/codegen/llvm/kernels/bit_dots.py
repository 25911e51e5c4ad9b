"""Bit-serial dot products and the packing of bit planes: instructions for the calls of `bit_kernels`.

    dot_bits(encoding, a, b…, c, n, steps, planes, digits, step, digit)    c[j] += products of words of a and b, as `bit_dot` says
    pack_bits(x, w, channels, planes, zero)                                w[i] = bit i of each x[t] - zero, as `bit_pack` says

a, b for each word of a digit, c, x and w are addresses (`Buffer.access_ptr`), `step` and `digit` the elements of b from one step
or digit to the next, the others constants. A vector holds a word of each of as many filters as it has lanes. A word of data goes
to all lanes.

With AVX512-VPOPCNTDQ an instruction counts the bits of each word. Elsewhere those of each byte are counted, by a table of 16
entries in a register (PSHUFB) or by CNT; the counts of up to 31 words are added as bytes before they are widened to int32.
"""

from collections import Counter
from collections.abc import Callable
from itertools import product

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import dots
from vtakit.compiler.codegen.llvm.kernels.bit_encodings import MOST_BITS, WORD_BITS, WORDS
from vtakit.compiler.codegen.llvm.kernels.gemm_tile import vectors_of
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir

_MOST_COUNTS = 31  # words whose counts of 8 bits a byte holds together
_MOST_FACTOR = 64  # of counts that are widened: two of the greatest then fit an int16
_MOST_BYTE = 255
_PAIRS_OF_BYTES = {  # by sums of 32 bits: x86's instruction that adds products of two neighbouring bytes in int16; its feature
    4: ("ssse3.pmadd.ub.sw.128", "sse4.1"), 8: ("avx2.pmadd.ub.sw", "avx2"), 16: ("avx512.pmaddubs.w.512", "avx512bw"),
}


def counts_words(target: Target, lanes: int) -> bool:
    """Return whether one instruction of the target counts the bits of each of so many words."""
    return target.has("avx512vpopcntdq") and (lanes == 16 or target.has("avx512vl"))


def _dot_bits(x: Context, e: ir.Call) -> Value:
    encoding = e.args[0].value if isinstance(e.args[0], ir.StringImm) else ""
    per_digit = WORDS.get(encoding, 0)
    counts = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[3 + per_digit:7 + per_digit]]
    if not per_digit or len(e.args) != 9 + per_digit or min(counts) < 1 or max(counts[2:]) > MOST_BITS:
        raise CodegenError(f"{e}: dot_bits takes encoding, a, b for each word of a digit, c, n, steps, planes, digits, step, "
                           f"digit; the encodings are {', '.join(WORDS)}; n to digits are constants of at least 1, planes and "
                           f"digits at most {MOST_BITS}")
    (n, steps, planes, digits), b = counts, x.b
    data, *weights, c = (x.value(arg) for arg in e.args[1:3 + per_digit])
    far = [b.op("mul", x.index(arg), int_constant("i64", 4), "nsw") for arg in e.args[-2:]]  # from one step and digit to the next
    lanes, widths = vectors_of(x, n)
    for at, width in enumerate(widths):
        kind, first = ty.vector("i32", width), int_constant("i64", 4 * lanes * at)
        place = b.address(c, "i8", first)
        sums = (_WordSums if counts_words(x.target, width) else _ByteSums)(x, b.load(kind, place, 4))
        for step, digit in product(range(steps), range(digits)):
            down, across = (b.op("mul", size, int_constant("i64", count), "nsw")
                            for size, count in zip(far, (step, digit), strict=True))
            index = b.op("add", b.op("add", down, across, "nsw"), first, "nsw")
            words = [b.load(kind, b.address(start, "i8", index), 4) for start in weights]
            for plane in range(planes):
                spot = b.address(data, "i8", int_constant("i64", 4 * (step * planes + plane)))
                word = b.splat(b.load("i32", spot, 4), width)
                negative = encoding == "signed" and digit == digits - 1
                sums.add(_matched(x, encoding, word, words), -(1 << plane + digit) if negative else 1 << plane + digit)
        b.store(sums.total(), place, 4)
    return int_constant("i32", 0)


def _matched(x: Context, encoding: str, data: Value, words: list[Value]) -> Value:
    """Return the word whose bits are counted."""
    if encoding in ("unipolar", "signed"):
        return x.b.op("and", data, words[0])
    found = x.b.op("xor", data, words[0])
    return x.b.op("and", found, words[1]) if encoding == "ternary" else found


class _WordSums:
    """Sums of counts of words, with weights of powers of two or minus that; those of equal weight are shifted together."""

    def __init__(self, x: Context, start: Value) -> None:
        self.x, self.sum = x, start
        self.parts: dict[int, Value] = {}

    def add(self, word: Value, weight: int) -> None:
        """Add the bits of each lane of `word`, times `weight`."""
        b = self.x.b
        count = b.intrinsic(f"ctpop.v{ty.split(word.type)[1]}i32", word.type, word)
        if weight == 1:
            self.sum = b.op("add", self.sum, count)
        else:
            self.parts[weight] = b.op("add", self.parts[weight], count) if weight in self.parts else count

    def total(self) -> Value:
        """Return all sums."""
        b = self.x.b
        for weight, part in self.parts.items():
            shifted = b.op("shl", part, int_constant(part.type, abs(weight).bit_length() - 1)) if abs(weight) > 1 else part
            self.sum = b.op("add" if weight > 0 else "sub", self.sum, shifted)
        return self.sum


class _ByteSums:
    """The same by counts of bytes, of which few are widened."""

    def __init__(self, x: Context, start: Value) -> None:
        self.x, self.sum, self.lanes = x, start, ty.split(start.type)[1]
        self.kind = ty.vector("i8", 4 * self.lanes)
        self.parts: dict[int, Value] = {}
        self.taken: Counter[int] = Counter()

    def add(self, word: Value, weight: int) -> None:
        """Add the bits of each lane of `word`, times `weight`."""
        b = self.x.b
        count = b.intrinsic(f"ctpop.v{4 * self.lanes}i8", self.kind, b.bitcast(word, self.kind))
        self.parts[weight] = b.op("add", self.parts[weight], count) if weight in self.parts else count
        self.taken[weight] += 1
        if self.taken[weight] == _MOST_COUNTS:
            self._widen(weight, self.parts.pop(weight))

    def _widen(self, weight: int, counts: Value) -> None:
        b, factor = self.x.b, min(abs(weight), _MOST_FACTOR)
        self.taken[weight] = 0
        if weight == factor:
            self.sum = _widened(self.x, self.sum, counts, factor)
            return
        found = _widened(self.x, int_constant(self.sum.type, 0), counts, factor)
        scaled = b.op("shl", found, int_constant(found.type, (abs(weight) // factor).bit_length() - 1))
        self.sum = b.op("add" if weight > 0 else "sub", self.sum, scaled)

    def total(self) -> Value:
        """Return all sums."""
        for weight, counts in self.parts.items():
            self._widen(weight, counts)
        return self.sum


def _widened(x: Context, before: Value, counts: Value, factor: int) -> Value:
    """Return `before` plus the sum of each four counts, which are at most 248, times a factor of at most 64."""
    b, kind, lanes = x.b, before.type, ty.split(before.type)[1]
    factors = int_constant(counts.type, factor)
    for signs in ((False, True), (False, False)):
        if dots.instruction(x.target, lanes, signs) is not None:
            return dots.dot4(x, before, counts, factors, signed=signs)
    name, feature = _PAIRS_OF_BYTES.get(lanes, ("", ""))
    if x.target.arch == "x86_64" and feature and x.target.has(feature):
        halves = b.intrinsic(f"x86.{name}", ty.vector("i16", 2 * lanes), counts, factors)
        return dots.add_pairs(x, before, halves, int_constant(halves.type, 1))
    words, odd = b.bitcast(counts, kind), int_constant(kind, 0x00FF00FF)
    pairs = b.op("add", b.op("and", words, odd), b.op("and", b.op("lshr", words, int_constant(kind, 8)), odd))
    total = b.op("and", b.op("add", pairs, b.op("lshr", pairs, int_constant(kind, 16))), int_constant(kind, 0xFFFF))
    return b.op("add", before, b.op("shl", total, int_constant(kind, factor.bit_length() - 1)))


def _pack_bits(x: Context, e: ir.Call) -> Value:
    channels, planes, zero = (arg.value if isinstance(arg, ir.IntImm) else -1 for arg in (*e.args[2:5], *[ir.IntImm(-1)] * 3)[:3])
    if len(e.args) != 5 or not (1 <= channels <= WORD_BITS and 1 <= planes <= MOST_BITS and 0 <= zero <= _MOST_BYTE):
        raise CodegenError(f"{e}: pack_bits takes x, w, channels, planes, zero: constants, 1 to {WORD_BITS} channels, 1 to "
                           f"{MOST_BITS} planes, and 0 to {_MOST_BYTE}")
    source, to, b = x.value(e.args[0]), x.value(e.args[1]), x.b
    kind = ty.vector("i8", channels)
    numbers = b.op("sub", b.load(kind, source, 1), int_constant(kind, zero))
    for plane in range(planes):
        bit = b.op("and", numbers, int_constant(kind, 1 << plane))
        bits = b.bitcast(b.icmp("ne", bit, int_constant(kind, 0)), f"i{channels}")
        b.store(b.convert("zext", bits, "i32"), b.address(to, "i8", int_constant("i64", 4 * plane)), 4)
    return int_constant("i32", 0)


BY_NAME: dict[str, Callable[[Context, ir.Call], Value]] = {"dot_bits": _dot_bits, "pack_bits": _pack_bits}
