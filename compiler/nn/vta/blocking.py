"""Tiling of convolutions: the tiling of the least estimated time, or the one that decisions state."""

from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.cuts import CHUNK, TILE, Cut, Cuts, Work, cycles_of, fits, insns_of
from vtakit.compiler.schedule.decisions import Chooser, Plain

_REMEMBERED = 256  # cuts of layers; networks have many alike
# A program of more instructions takes the slowest of the cuts of SLACK with fewest: it would take long to make, and much memory.
MANY_INSNS = 10_000
SLACK = 0.01
GAIN = 0.02  # from which on a tile of parts of several rows is taken: its boxes are smaller, which the estimate does not know
THREADS = 1, 2, 4  # virtual threads that share the tiles of an operator


def even_sizes(whole: int) -> list[int]:
    """The sizes of the largest of one, two, three … nearly equal parts of a loop, ascending."""
    return sorted({-(-whole // parts) for parts in range(1, whole + 1)})

@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The cuts of an operator that fit, with as many tiles along one loop as there are virtual threads."""

    target: Target
    work: Work
    cuts: Cuts


@lru_cache(maxsize=_REMEMBERED)
def _sizes(found: Candidates, names: tuple[str, ...]) -> Plain:
    """Return the different values of some fields of cuts, ascending."""
    columns = np.stack([getattr(found.cuts, name) for name in names], 1)
    return Plain(np.unique(columns, axis=0).tolist())


@lru_cache(maxsize=_REMEMBERED)
def _having(found: Candidates, names: tuple[str, ...], values: tuple[int, ...]) -> Candidates:
    """Return the cuts whose fields have these values."""
    where = np.logical_and.reduce([getattr(found.cuts, name) == value for name, value in zip(names, values, strict=True)])
    return replace(found, cuts=found.cuts.take(where))


@lru_cache(maxsize=_REMEMBERED)
def _fastest(found: Candidates) -> Cut:
    """Return the cut that should take least time."""
    cycles = cycles_of(found.target, found.work, found.cuts)
    at = int(cycles.argmin())
    return found.cuts.cut(at, cycles[at])


@lru_cache(maxsize=_REMEMBERED)
def candidates(target: Target, work: Work, threads: int = 1) -> Candidates | None:
    """Return the cuts that fit with all copies of a target, for each of so many virtual threads; None if none does."""
    target = replace(target, copies=target.copies * threads)
    cuts = _cuts(work, _parts_of_rows(work))
    tiles = np.maximum.reduce([cuts.parts(work, name) for name in TILE])
    fitting = cuts.take(fits(target, work, cuts, threads) & (tiles >= threads))
    return Candidates(target, work, fitting) if len(fitting.rows) else None


def tile_products(stage: Chooser, target: Target, work: Work) -> tuple[Cut, int]:
    """Return the cut of an operator, and its virtual threads.

    stage : of the result, which has the decisions: threads; copies, for how many of the inputs and weights of a chunk there is
            room; tile, its images, output blocks, rows and columns; chunk, its input blocks and rows and columns of the kernel;
            keep, whether weights are loaded once for all tiles of their output blocks

    Raises VtaError as `choose` does.
    """
    ask = partial(stage.choose, rule="tile_products")
    if candidates(replace(target, copies=1), work) is None:
        return choose(target, work), 1  # which says what does not fit
    able = [count for count in THREADS if candidates(replace(target, copies=1), work, count) is not None]
    threads = ask("threads", able, 1)
    fitting = {count: found for count in range(1, target.copies + 1) if (
        found := candidates(replace(target, copies=count), work, threads)) is not None}
    copies = ask("copies", [*fitting], max(fitting))
    found = fitting[copies]
    best = choose(replace(target, copies=copies), work) if threads == 1 else _fastest(found)
    for name, fields_ in (("tile", TILE), ("chunk", CHUNK)):
        own = [int(getattr(best, each)) for each in fields_]
        chosen = ask(name, _sizes(found, fields_), own)
        found = _having(found, fields_, tuple(chosen))
        best = best if chosen == own else _fastest(found)
    keep = ask("keep", [bool(one) for one, in _sizes(found, ("keep",))], best.keep)
    return _fastest(_having(found, ("keep",), (keep,))), threads


@lru_cache(maxsize=_REMEMBERED)
def choose(target: Target, work: Work) -> Cut:
    """The cut that fits and should take least time, with the target's copies or, where none fits, fewer.

    Where that takes many instructions, it is the one with fewest that takes hardly longer.

    Raises VtaError if not even one copy of the smallest part fits, naming the scratchpad that is too small.
    """
    for copies in range(target.copies, 0, -1):
        fewer = replace(target, copies=copies)
        best = _best(fewer, work, _cuts(work, _areas(work)), slack=0)
        if best is not None:
            cut, insns = best
            other = _best(fewer, work, _cuts(work, _parts_of_rows(work)), slack=SLACK if insns > MANY_INSNS else 0)
            return other[0] if other is not None and (insns > MANY_INSNS or other[0].cycles < (1 - GAIN) * cut.cycles) else cut
    one = np.ones(1, np.int64)
    least = Cuts(**dict.fromkeys([one.name for one in fields(Cuts)], one) | {"keep": 0 * one})
    scope, need = next((scope, need[0]) for scope, need in least.needs(work).items() if need[0] > target.depth(scope))
    raise VtaError(f"no part of the operator fits: {need} elements are more than the {target.depth(scope)} of the {scope} "
                   "scratchpad; enlarge it")


def _best(target: Target, work: Work, cuts: Cuts, slack: float) -> tuple[Cut, int] | None:
    """Return the tiling with the fewest instructions, and these, among those that fit and take hardly longer than the fastest."""
    fitting = cuts.take(fits(target, work, cuts))
    if not len(fitting.rows):
        return None
    cycles, insns = cycles_of(target, work, fitting), insns_of(work, fitting)
    slow = cycles > cycles.min() * (1 + slack)
    best = int(np.lexsort((cycles, insns, slow) if slack else (cycles,))[0])
    return fitting.cut(best, cycles[best]), int(insns[best])


_Area = tuple[int, int, int]  # images, rows, columns of a tile


def _areas(work: Work) -> list[_Area]:
    """Tiles of a part of one row, of whole rows, or of whole images."""
    areas = [(1, 1, n) for n in even_sizes(work.columns)] + [(1, n, work.columns) for n in even_sizes(work.rows)]
    return [*dict.fromkeys(areas + [(n, work.rows, work.columns) for n in even_sizes(work.images)])]


def _parts_of_rows(work: Work) -> list[_Area]:
    """Those, and tiles of equal parts of several rows: too many to look at where a few instructions do.

    Of parts that are not equal the last leaves gaps in the scratchpad, and each row of it takes instructions of its own.
    """
    whole = [columns for columns in even_sizes(work.columns) if work.columns % columns == 0]
    parts = [(1, rows, columns) for rows in even_sizes(work.rows) for columns in whole]
    return [*dict.fromkeys(_areas(work) + parts)]


def _cuts(work: Work, areas: list[_Area]) -> Cuts:
    """Tiles of such areas and of any output blocks; chunks of whole kernels or parts of one."""
    kernel = work.kernel_rows, work.kernel_columns
    runs = [(1, 1, n) for n in even_sizes(kernel[1])] + [(1, n, kernel[1]) for n in even_sizes(kernel[0])]
    runs += [(n, *kernel) for n in even_sizes(work.in_blocks)]
    loops = [np.array(sizes) for sizes in (even_sizes(work.out_blocks), areas, [*dict.fromkeys(runs)], [0, 1])]
    blocks, area, run, keep = [loop[at] for loop, at in zip(
        loops, np.indices([len(loop) for loop in loops]).reshape(len(loops), -1), strict=True)]
    return Cuts(
        images=area[:, 0], out_blocks=blocks, rows=area[:, 1], columns=area[:, 2], in_blocks=run[:, 0], kernel_rows=run[:, 1],
        kernel_columns=run[:, 2], keep=keep,
    )
