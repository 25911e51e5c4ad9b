"""Instructions on integers against Python's integers."""

import random

import numpy as np
import pytest
from ptx_instructions import integers, run, signed, unsigned

BITS = (16, 32, 64)


def values(array, kind):
    return signed(array) if kind == "s" else unsigned(array)


def towards_zero(a, b):
    return -(-a // b) if (a < 0) != (b < 0) else a // b


BINARY = {
    "add": lambda a, b, n: a + b, "sub": lambda a, b, n: a - b, "mul.lo": lambda a, b, n: a * b, "mul.hi": lambda a, b,
    n: a * b >> n,
    "min": lambda a, b, n: min(a, b), "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: towards_zero(a, b) if b else -1, "rem": lambda a, b, n: a - towards_zero(a, b) * b if b else a,
}


@pytest.mark.parametrize("kind", "su")
@pytest.mark.parametrize("bits", BITS)
def test_arithmetic(bits, kind):
    a, b, c = (integers(bits, seed) for seed in range(3))
    names = [*BINARY, "mad.lo", "mad.hi"]
    lines = [f"{name}.{kind}{bits} %d{k}, %a0, %a1{', %a2' if name.startswith('mad') else ''};" for k, name in enumerate(names)]
    found = run(lines, [a, b, c], [f"u{bits // 8}"] * len(names))
    for name, got in zip(names, found, strict=True):
        for x, y, z, value in zip(values(a, kind), values(b, kind), values(c, kind), unsigned(got), strict=True):
            base = BINARY[name.replace("mad", "mul")](x, y, bits)
            want = (base + z if name.startswith("mad") else base) % (1 << bits)
            assert value == want, f"{name}.{kind}{bits} of {x}, {y}, {z}"


@pytest.mark.parametrize("kind", "su")
@pytest.mark.parametrize("bits", [16, 32])
def test_wide_products(bits, kind):
    a, b, c = integers(bits, 1), integers(bits, 2), integers(2 * bits, 3)
    kind2 = f"u{bits // 4}"
    lines = [f"mul.wide.{kind}{bits} %d0, %a0, %a1;", f"mad.wide.{kind}{bits} %d1, %a0, %a1, %a2;"]
    product, total = run(lines, [a, b, c], [kind2, kind2])
    for x, y, z, p, t in zip(values(a, kind), values(b, kind), values(c, kind), unsigned(product), unsigned(total), strict=True):
        assert (p, t) == (x * y % (1 << 2 * bits), (x * y + z) % (1 << 2 * bits))


@pytest.mark.parametrize("bits", BITS)
def test_logic_shifts_and_counts(bits):
    a, b, n = integers(bits, 4), integers(bits, 5), integers(32, 6)
    n[::2] %= bits + 9
    u = f"u{bits // 8}"
    names = ["and", "or", "xor"]
    lines = [f"{name}.b{bits} %d{k}, %a0, %a1;" for k, name in enumerate(names)]
    lines += [f"not.b{bits} %d3, %a0;", f"cnot.b{bits} %d4, %a0;", f"neg.s{bits} %d5, %a0;", f"abs.s{bits} %d6, %a0;",
              f"shl.b{bits} %d7, %a0, %a2;", f"shr.u{bits} %d8, %a0, %a2;", f"shr.s{bits} %d9, %a0, %a2;"]
    found = run(lines, [a, b, n], [u] * 10)
    ones = (1 << bits) - 1
    for i, (x, y, s) in enumerate(zip(unsigned(a), unsigned(b), unsigned(n), strict=True)):
        sx = int(a.view(f"i{bits // 8}")[i])
        want = [x & y, x | y, x ^ y, ~x & ones, int(x == 0), -x & ones, abs(sx) & ones, (x << min(s, 99)) & ones if s < bits
                else 0,
                x >> s if s < bits else 0, (sx >> min(s, bits)) & ones]
        assert [int(each[i]) for each in found] == want, (x, y, s)
    if bits == 16:
        return
    lines = [f"popc.b{bits} %d0, %a0;", f"clz.b{bits} %d1, %a0;", f"bfind.u{bits} %d2, %a0;", f"bfind.s{bits} %d3, %a0;",
             f"brev.b{bits} %d4, %a0;"]
    found = run(lines, [a], ["u4"] * 4 + [u])
    for i, x in enumerate(unsigned(a)):
        sx = int(a.view(f"i{bits // 8}")[i])
        want = [x.bit_count(), bits - x.bit_length(), (x.bit_length() - 1) % (1 << 32),
                ((~sx if sx < 0 else sx).bit_length() - 1) % (1 << 32), int(f"{x:0{bits}b}"[::-1], 2)]
        assert [int(each[i]) for each in found] == want, x


@pytest.mark.parametrize("kind", "su")
@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields(bits, kind):
    a, b = integers(bits, 7), integers(bits, 8)
    start, length = integers(32, 9) % 80, integers(32, 10) % 80
    u = f"u{bits // 8}"
    out, into = run([f"bfe.{kind}{bits} %d0, %a0, %a2, %a3;", f"bfi.b{bits} %d1, %a0, %a1, %a2, %a3;"], [a, b, start, length],
                    [u, u])
    for x, y, s, n, e, f in zip(unsigned(a), unsigned(b), unsigned(start), unsigned(length), unsigned(out), unsigned(into),
                                strict=True):
        digits = [x >> i & 1 for i in range(bits)]
        sign = digits[min(s + n - 1, bits - 1)] if kind == "s" and n else 0
        assert e == sum((digits[s + i] if i < n and s + i < bits else sign) << i for i in range(bits)), (x, s, n)
        place = sum(1 << i for i in range(s, min(s + n, bits)))
        assert f == (y & ~place) | (x << s & place)


def test_permutations_and_tables():
    a, b, s = (integers(32, seed) for seed in (11, 12, 13))
    modes = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    lines = ["prmt.b32 %d0, %a0, %a1, %a2;", *(f"prmt.b32.{m} %d{k}, %a0, %a1, %a2;" for k, m in enumerate(modes, 1)),
             "lop3.b32 %d7, %a0, %a1, %a2, 0xE8;", "shf.l.wrap.b32 %d8, %a0, %a1, %a2;", "shf.l.clamp.b32 %d9, %a0, %a1, %a2;",
             "shf.r.wrap.b32 %d10, %a0, %a1, %a2;", "shf.r.clamp.b32 %d11, %a0, %a1, %a2;"]
    found = run(lines, [a, b, s], ["u4"] * 12)
    table = {  # PTX ISA, prmt: bytes of the result for each selector, lowest first
        "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
        "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
        "rc8": [(i,) * 4 for i in range(4)], "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
        "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
        "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
    }
    for i, (x, y, z) in enumerate(zip(unsigned(a), unsigned(b), unsigned(s), strict=True)):
        both = x | y << 32
        byte = [both >> 8 * k & 255 for k in range(8)]
        plain = 0
        for k in range(4):
            nibble = z >> 4 * k & 15
            value = byte[nibble & 7]
            plain |= ((255 if value & 128 else 0) if nibble & 8 else value) << 8 * k
        want = [plain, *(sum(byte[p] << 8 * k for k, p in enumerate(table[m][z & 3])) for m in modes)]
        want.append((x & y) | (x & z) | (y & z))
        want += [(both << amount) >> 32 & 0xFFFFFFFF for amount in (z & 31, min(z, 32))]
        want += [both >> amount & 0xFFFFFFFF for amount in (z & 31, min(z, 32))]
        assert [int(each[i]) for each in found] == want, (x, y, z)


def test_dot_products_carries_and_halves():
    a, b, c = (integers(32, seed) for seed in (14, 15, 16))
    lines = ["dp4a.s32.s32 %d0, %a0, %a1, %a2;", "dp4a.u32.s32 %d1, %a0, %a1, %a2;", "dp2a.lo.s32.u32 %d2, %a0, %a1, %a2;",
             "dp2a.hi.u32.u32 %d3, %a0, %a1, %a2;", "sad.s32 %d4, %a0, %a1, %a2;",
             "add.cc.u32 %d5, %a0, %a1; addc.u32 %d6, %a2, 0;", "sub.cc.u32 %d7, %a0, %a1; subc.u32 %d8, %a2, 0;",
             "add.s16x2 %d9, %a0, %a1;", "min.s16x2 %d10, %a0, %a1;", "max.u16x2 %d11, %a0, %a1;"]
    found = run(lines, [a, b, c], ["u4"] * 12)

    def parts(x, bits, sign):
        got = [x >> k & ((1 << bits) - 1) for k in range(0, 32, bits)]
        return [p - (p >> (bits - 1) << bits) for p in got] if sign else got

    def join(pair):
        return (pair[0] & 0xFFFF) | (pair[1] & 0xFFFF) << 16

    low = 0xFFFFFFFF
    for i, (x, y, z) in enumerate(zip(unsigned(a), unsigned(b), unsigned(c), strict=True)):
        sx, sy = parts(x, 32, True)[0], parts(y, 32, True)[0]
        halves = [parts(v, 16, s) for v, s in ((x, True), (y, True), (x, False), (y, False))]
        want = [
            sum(u * v for u, v in zip(parts(x, 8, True), parts(y, 8, True), strict=True)) + z,
            sum(u * v for u, v in zip(parts(x, 8, False), parts(y, 8, True), strict=True)) + z,
            sum(u * v for u, v in zip(halves[0], parts(y, 8, False)[:2], strict=True)) + z,
            sum(u * v for u, v in zip(halves[2], parts(y, 8, False)[2:], strict=True)) + z,
            abs(sx - sy) + z, x + y, z + (x + y >> 32), x - y, z - (x < y),
            join([u + v for u, v in zip(halves[0], halves[1], strict=True)]),
            join([min(p) for p in zip(halves[0], halves[1], strict=True)]),
            join([max(p) for p in zip(halves[2], halves[3], strict=True)]),
        ]
        assert [int(each[i]) for each in found] == [w & low for w in want], (x, y, z)


@pytest.mark.parametrize("kind", "sub")
@pytest.mark.parametrize("bits", BITS)
def test_comparisons_and_selections(bits, kind):
    a, b = integers(bits, 17), integers(bits, 18)
    b[::3] = a[::3]
    names = ["eq", "ne"] if kind == "b" else ["eq", "ne", "lt", "le", "gt", "ge"]
    lines = [f"setp.{n}.{kind}{bits} %p{k}, %a0, %a1; selp.b{bits} %d{k}, %a0, %a1, %p{k};" for k, n in enumerate(names)]
    lines.append(f"setp.{names[1]}.and.{kind}{bits} %p0|%p1, %a0, %a1, !%p0; selp.b{bits} %d{len(names)}, 1, 0, %p0; "
                 f"@%p1 mov.b{bits} %d{len(names)}, 2;")
    found = run(lines, [a, b], [f"u{bits // 8}"] * (len(names) + 1))
    tests = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
             "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}
    for i, (x, y) in enumerate(zip(values(a, kind), values(b, kind), strict=True)):
        for name, got in zip(names, found, strict=False):
            assert int(got[i]) == (x if tests[name](x, y) else y) % (1 << bits), (name, x, y)
        assert found[-1][i] == (1 if x != y else 0)  # %p1 is (x == y) and not (x == y)


def test_conversions_between_integers():
    rng = random.Random(3)
    kinds = [f"{s}{b}" for s in "su" for b in (8, 16, 32, 64)]
    for bits in (16, 32, 64):
        a = integers(bits, bits)
        pairs = [(to, given) for given in kinds if int(given[1:]) <= bits for to in kinds]
        pairs = rng.sample(pairs, 24)
        lines = [f"cvt{sat}.{to}.{given} %d{k}, %a0;" for k, (to, given) in enumerate(pairs)
                 for sat in ["" if k % 3 else ".sat"]]
        results = [f"u{max(2, int(to[1:]) // 8)}" for to, _ in pairs]
        found = run(lines, [a], results)
        for k, ((to, given), got) in enumerate(zip(pairs, found, strict=True)):
            n, m = int(to[1:]), int(given[1:])
            for x, value in zip(unsigned(a), unsigned(got), strict=True):
                x %= 1 << m
                x -= (x >> (m - 1) << m) if given[0] == "s" else 0
                if k % 3 == 0:
                    low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if to[0] == "s" else (0, (1 << n) - 1)
                    x = min(max(x, low), high)
                x %= 1 << n
                if to[0] == "s":
                    x -= x >> (n - 1) << n
                assert value == x % (1 << 8 * got.itemsize), (to, given, k % 3)


def test_vectors_in_registers():
    a, b = integers(32, 30), integers(32, 31)
    lines = ["mov.b64 %x0, {%a0, %a1}; mov.b64 {%r0, %r1}, %x0; mov.b32 %d0, %r1; mov.b32 {%h0, %h1}, %a0;",
             "mov.b32 %d1, {%h1, %h0}; mov.b32 {_, %h2}, %a1; cvt.u32.u16 %d2, %h2;"]
    found = run(lines, [a, b], ["u4"] * 3)
    np.testing.assert_array_equal(found[0], b)
    np.testing.assert_array_equal(found[1], a >> 16 | a << 16)
    np.testing.assert_array_equal(found[2], b >> 16)
