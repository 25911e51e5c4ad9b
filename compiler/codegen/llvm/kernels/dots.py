"""Dot products of four bytes each: instructions where the target has them, portable code elsewhere. Sums wrap."""


from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant

FLIP = 0x80  # the bit that makes a signed byte x the unsigned byte x + 128


def dot4(x: Context, c: Value, a: Value, b: Value, *, signed: tuple[bool, bool] = (False, True)) -> Value:
    """Return ``c[j] + sum over q < 4 of a[4 j + q] * b[4 j + q]`` of vectors; `signed` says which of a and b are."""
    lanes = ty.split(c.type)[1]
    name = instruction(x.target, lanes, signed)
    if name is not None:
        if signed == (True, False):
            a, b = b, a
        # x86's take vectors of i32 up to LLVM 21; later versions read that form too.
        operands = [x.b.bitcast(value, c.type) if name.startswith("x86") else value for value in (a, b)]
        return x.b.intrinsic(name, c.type, c, *operands)
    if pairs(x.target, lanes) is not None:
        for phase in range(2):
            c = add_pairs(x, c, *(half(x, value, phase, signed=has) for value, has in zip((a, b), signed, strict=True)))
        return c
    wide = ty.vector("i32", 4 * lanes)
    a, b = (x.b.convert("sext" if has else "zext", value, wide) for value, has in zip((a, b), signed, strict=True))
    products = x.b.op("mul", a, b)
    for quarter in range(4):
        part = x.b.shuffle(products, products, range(quarter, 4 * lanes, 4))
        c = x.b.op("add", c, part)
    return c


def instruction(target: Target, lanes: int, signed: tuple[bool, bool]) -> str | None:
    """Return LLVM's name of the target's instruction for so many sums, else None; an unsigned operand goes before a signed."""
    if target.arch == "aarch64":
        if lanes != 4 or not target.has("dotprod" if signed[0] == signed[1] else "i8mm"):
            return None
        return f"aarch64.neon.{'sdot' if all(signed) else 'usdot' if any(signed) else 'udot'}.v4i32.v16i8"
    if signed == (True, True):
        return f"x86.avx2.vpdpbssd.{32 * lanes}" if lanes in (4, 8) and target.has("avxvnniint8") else None
    if not any(signed):
        return f"x86.avx2.vpdpbuud.{32 * lanes}" if lanes in (4, 8) and target.has("avxvnniint8") else None
    if lanes == 16 and target.has("avx512vnni"):
        return "x86.avx512.vpdpbusd.512"
    if lanes in (4, 8) and (target.has("avxvnni") or (target.has("avx512vnni") and target.has("avx512vl"))):
        return f"x86.avx512.vpdpbusd.{32 * lanes}"
    return None


def pairs(target: Target, lanes: int) -> str | None:
    """Return LLVM's name of x86's instruction that adds products of two neighbouring int16, else None."""
    names = {4: ("sse2.pmadd.wd", "sse2"), 8: ("avx2.pmadd.wd", "avx2"), 16: ("avx512.pmaddw.d.512", "avx512bw")}
    name, feature = names.get(lanes, ("", ""))
    return f"x86.{name}" if name and target.arch == "x86_64" and (lanes == 4 or target.has(feature)) else None


def half(x: Context, bytes_: Value, phase: int, *, signed: bool) -> Value:
    """Return the first or the second of each two bytes, as int16."""
    words = x.b.bitcast(bytes_, ty.vector("i16", ty.split(bytes_.type)[1] // 2))
    eight = int_constant(words.type, 8)
    if not phase:
        words = x.b.op("shl", words, eight)
    return x.b.op("ashr" if signed else "lshr", words, eight)


def add_pairs(x: Context, c: Value, a: Value, b: Value) -> Value:
    """Return c plus the products of two `half` of bytes, which int32 holds."""
    name = pairs(x.target, ty.split(c.type)[1])
    assert name is not None, c
    return x.b.op("add", c, x.b.intrinsic(name, c.type, a, b))


def flips(target: Target, lanes: int, signed: bool) -> bool:
    """Return whether a product of bytes a, signed or not, by signed b is best computed as ``a * (b + 128) - 128 * a``.

    It is where there is an instruction for an unsigned b and none for a signed one: b + 128 is b with a bit flipped.
    """
    return instruction(target, lanes, (signed, True)) is None and instruction(target, lanes, (signed, False)) is not None


def sums_of_rows(x: Context, a: Value, stride: Value, rows: int, groups: Value, *, signed: bool) -> list[Value]:
    """Return the sum of the first ``4 * groups`` bytes of each row, wrapped to i32; rows are `stride` bytes apart."""
    b, four = x.b, int_constant("i64", 4)
    starts = [b.address(a, "i8", b.op("mul", stride, int_constant("i64", row), "nsw")) for row in range(rows)]
    sums = [int_constant(ty.vector("i32", 4), 0)] * rows
    quads = b.op("and", groups, int_constant("i64", -4))

    def bytes_at(start: Value, p: Value, lanes: int) -> Value:
        return b.load(ty.vector("i8", lanes), b.address(start, "i8", b.op("mul", p, four, "nsw")), 1)

    def sixteen(p: Value, sums: list[Value]) -> list[Value]:
        ones = int_constant(ty.vector("i8", 16), 1)
        return [dot4(x, sum_, ones, bytes_at(start, p, 16), signed=(False, signed))
                for sum_, start in zip(sums, starts, strict=True)]

    def one(p: Value, sums: list[Value]) -> list[Value]:
        extend = "sext" if signed else "zext"
        return [b.op("add", sum_, b.convert(extend, bytes_at(start, p, 4), sum_.type))
                for sum_, start in zip(sums, starts, strict=True)]
    sums = b.repeat("quads", int_constant("i64", 0), quads, 4, sums, sixteen)
    sums = b.repeat("rest", quads, groups, 1, sums, one)
    return [b.intrinsic("vector.reduce.add.v4i32", "i32", sum_) for sum_ in sums]
