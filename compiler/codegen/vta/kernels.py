"""Loop nests as GEMM and ALU instructions: micro-ops, two hardware loops, and what remains as a loop around."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from vtakit.hw.isa.codec import encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.formats import Placed
from vtakit.hw.isa.insns import FORMATS, Opcode

OPERANDS = ("dst", "src", "wgt")
Place = tuple[int, int, int]  # an element of each operand
LARGEST_SHARE = 4  # a kernel takes at most one part in so many of the UOP scratchpad, so that several are resident


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a nest and how far each operand moves with it, in elements."""

    extent: int
    steps: Place

    def followed_by(self, inner: "Loop") -> bool:
        """Return whether this loop starts again where `inner` ends, so that both are one loop."""
        return all(a == b * inner.extent for a, b in zip(self.steps, inner.steps, strict=True))


@dataclass(frozen=True, slots=True)
class Kernel:
    """One instruction of a nest, counted from where the nest begins.

    uops   : the operands' elements of each micro-op
    outer, inner : the hardware loops
    """

    uops: tuple[Place, ...]
    outer: Loop
    inner: Loop

    def words(self, cfg: VTAConfig, base: Place) -> tuple[int, ...]:
        """The micro-ops of the kernel for a nest that begins at `base`."""
        return _words(cfg, self.uops, base)

    def fields(self, op: Opcode) -> dict[str, int]:
        """The fields of the hardware loops; a loop that runs once has no steps."""
        names = OPERANDS if op is Opcode.GEMM else OPERANDS[:2]
        found = {"iter_out": self.outer.extent, "iter_in": self.inner.extent}
        for name, out, within in zip(names, self.outer.steps, self.inner.steps, strict=False):
            found |= {f"{name}_out": out if self.outer.extent > 1 else 0, f"{name}_in": within if self.inner.extent > 1 else 0}
        return found


@lru_cache(maxsize=4096)
def _words(cfg: VTAConfig, uops: tuple[Place, ...], base: Place) -> tuple[int, ...]:
    return tuple([encode_uop(cfg, base[0] + dst, base[1] + src, base[2] + wgt) for dst, src, wgt in uops])


ONCE = Loop(1, (0, 0, 0))


def most_uops(cfg: VTAConfig) -> int:
    """Micro-ops of a kernel."""
    return max(1, cfg.uop_depth // LARGEST_SHARE)


@lru_cache(maxsize=4096)
def kernels(cfg: VTAConfig, op: Opcode, loops: tuple[Loop, ...]) -> tuple[Kernel, ...]:
    """The instructions of a nest whose iterations may run in any order, as few micro-ops as its loops allow.

    The two longest loops that the instruction's fields hold become hardware loops, of equal ones those that go to other
    accumulators; the others become micro-ops as long as a share of the scratchpad holds them, and the longest of what remains is
    a loop around.
    """
    rest = _merged(cfg, op, [loop for loop in loops if loop.extent != 1])
    hardware: list[Loop] = []
    longest_first = sorted((loop for loop in rest if _fits(cfg, op, loop)), key=lambda loop: (-loop.extent, not loop.steps[0]))
    for loop in longest_first[:2]:
        hardware.append(loop)
        rest.remove(loop)
    hardware.sort(key=lambda loop: loops.index(loop) if loop in loops else 0)
    outer, inner = (*[ONCE] * (2 - len(hardware)), *hardware)
    most = most_uops(cfg)
    around: list[Loop] = []
    while prod(loop.extent for loop in rest) > most:
        longest = max(rest, key=lambda loop: loop.extent)
        rest.remove(longest)
        parts = -(-longest.extent // max(1, most // prod(loop.extent for loop in rest)))
        size = next(size for size in range(-(-longest.extent // parts), 0, -1) if longest.extent % size == 0)
        around.append(Loop(longest.extent // size, _times(longest.steps, size)))
        if size > 1:
            rest.append(Loop(size, longest.steps))
    uops = [*places(rest)]
    return tuple([Kernel(tuple([_plus(first, at) for at in uops]), outer, inner) for first in places(around)])


def _merged(cfg: VTAConfig, op: Opcode, loops: list[Loop]) -> list[Loop]:
    """The nest with loops joined that run on where another ends."""
    most = _limits(cfg, op)["iter_in"].high
    changed = True
    while changed:
        changed = False
        for outer, inner in product(loops, loops):
            joined = Loop(outer.extent * inner.extent, inner.steps)
            if outer is not inner and outer.followed_by(inner) and joined.extent <= most:
                loops = [joined if loop is inner else loop for loop in loops if loop is not outer]
                changed = True
                break
    return loops


def _fits(cfg: VTAConfig, op: Opcode, loop: Loop) -> bool:
    """Return whether a hardware loop can encode this loop."""
    limits = _limits(cfg, op)
    names = OPERANDS if op is Opcode.GEMM else OPERANDS[:2]
    steps = zip(names, loop.steps, strict=False)
    return loop.extent <= limits["iter_in"].high and all(0 <= step <= limits[f"{name}_in"].high for name, step in steps)


@lru_cache(maxsize=64)
def _limits(cfg: VTAConfig, op: Opcode) -> dict[str, Placed]:
    return {p.field.name: p for p in FORMATS[op].place(cfg)}


def places(loops: Sequence[Loop]) -> Iterator[Place]:
    """Yield the offsets of the operands for every combination of the loops' iterations."""
    for indices in product(*[range(loop.extent) for loop in loops]):
        at = (0, 0, 0)
        for i, loop in zip(indices, loops, strict=True):
            at = _plus(at, _times(loop.steps, i))
        yield at


def _plus(a: Place, b: Place) -> Place:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _times(a: Place, by: int) -> Place:
    return a[0] * by, a[1] * by, a[2] * by

