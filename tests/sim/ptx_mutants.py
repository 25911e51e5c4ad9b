"""Errors planted in PTX: a barrier less, an address shifted, a predicate dropped. How many does the emulator find?"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from ptx_schedules import Emulated

from vtakit import te
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late
from vtakit.sim.ptx import KernelFault

BX, BY, TX, TY = (te.thread_axis(tag) for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
Case = tuple[Emulated, list[Any], list[Any]]


def product(size: int = 13) -> Case:
    """A matrix product with shared tiles, whose edge needs predicates."""
    a, b = (te.placeholder((size, size), "int32", name=name) for name in "AB")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    caches = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    by, bx, yi, xi = s[c].tile(*c.op.axis, 8, 8)
    ty, yi = s[c].split(yi, nparts=8)
    tx, xi = s[c].split(xi, nparts=8)
    s[c].reorder(by, bx, ty, tx, yi, xi)
    for axis, thread in ((by, BY), (bx, BX), (ty, TY), (tx, TX)):
        s[c].bind(axis, thread)
    s[local].compute_at(s[c], tx)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], 4)
    s[local].reorder(ko, *s[local].op.axis)
    for cache in caches:
        s[cache].compute_at(s[local], ko)
        fused = s[cache].fuse(*s[cache].op.axis)
        rest, inner = s[cache].split(fused, 8)
        _, outer = s[cache].split(rest, 8)
        s[cache].bind(outer, TY)
        s[cache].bind(inner, TX)
    x, y = np.random.default_rng(0).integers(-9, 10, (2, size, size)).astype("int32")
    return Emulated(lower_late(lower(s, [a, b, c]), "gpu")), [x, y], [x @ y]


def sums(rows: int = 5, columns: int = 100) -> Case:
    """Sums of rows across the 64 threads of a block, which exchange by shared memory and by shuffles."""
    a, k = te.placeholder((rows, columns), "int32", name="A"), te.reduce_axis((0, columns), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    inner = s[c].split(k, 64)[1]
    s[c].bind(c.op.axis[0], BX)
    s[c].bind(inner, TX)
    x = np.random.default_rng(1).integers(-99, 100, (rows, columns)).astype("int32")
    return Emulated(lower_late(lower(s, [a, c]), "gpu")), [x], [x.sum(1, dtype="int32")]


def reversal(size: int = 100) -> Case:
    """Elements of each block of 32 in reverse order, through shared memory."""
    a = te.placeholder((size,), "float32", name="A")
    b = te.compute((size,), lambda i: a[i] * 2, name="B")
    c = te.compute((size,), lambda i: b[size - 1 - i] + 1, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 48)
    s[c].bind(outer, BX)
    s[c].bind(inner, TX)
    s[b].compute_at(s[c], outer)
    s[b].set_scope("shared")
    s[b].bind(s[b].split(b.op.axis[0], 48)[1], TX)
    x = np.random.default_rng(2).standard_normal(size).astype("float32")
    return Emulated(lower_late(lower(s, [a, c]), "gpu")), [x], [x[::-1] * 2 + 1]


CASES: tuple[Callable[[], Case], ...] = (product, sums, reversal)


def without_barrier(text: str, rng: random.Random) -> str:
    """One barrier less."""
    places = [*re.finditer(r"\bbar\.sync\b[^;]*;", text)]
    found = rng.choice(places)
    return text[: found.start()] + text[found.end() :]


def shifted(text: str, rng: random.Random) -> str:
    """One address of global or shared memory some elements away, or one step of an address."""
    places = [*re.finditer(r"\b(ld|st)\.(global|shared)[^;]*\[([^\]+]+)(\+-?\d+)?\]", text)]
    found = rng.choice(places)
    offset = int((found[4] or "+0")[1:]) + rng.choice((-64, -16, -8, -4, 4, 8, 16, 64))
    return text[: found.start(3)] + f"{found[3]}+{offset}" + text[found.end() - 1 :]


def without_predicate(text: str, rng: random.Random) -> str:
    """One predicate less: the instruction always runs, or never."""
    places = [*re.finditer(r"@!?%p\d+\s+([^;]*;)", text)]
    found = rng.choice(places)
    return text[: found.start()] + (found[1] if rng.random() < 0.5 else "") + text[found.end() :]


KINDS: tuple[Callable[[str, random.Random], str], ...] = (without_barrier, shifted, without_predicate)


def outcome(case: Case, text: str) -> tuple[str, str]:
    """Return "fault", "result" or "not found" of a text, and the sentence."""
    emulated, given, want = case
    found = [np.full_like(each, 77) for each in want]
    try:
        emulated.run([*(each.copy() for each in given), *found], text, limit=100_000)
    except KernelFault as error:
        return "fault", str(error)
    same = all(np.array_equal(x, y) for x, y in zip(found, want, strict=True))
    return ("not found", "") if same else ("result", "")


def plant(seed: int, cases: list[Case]) -> tuple[str, str, str]:
    """Return the kind of a planted error, its outcome and the sentence."""
    rng = random.Random(seed)
    case, kind = cases[seed % len(cases)], KINDS[seed // len(cases) % len(KINDS)]
    return kind.__name__, *outcome(case, kind(case[0].ptx, rng))


def main() -> int:
    cases = [make() for make in CASES]
    for case in cases:
        assert outcome(case, case[0].ptx)[0] == "not found", outcome(case, case[0].ptx)
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        kind, found, why = plant(seed, cases)
        counts[kind, found] += 1
        print(seed, CASES[seed % len(cases)].__name__, kind, found, why[:200])
    for (kind, found), count in sorted(counts.items()):
        print(f"{kind}: {found} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
