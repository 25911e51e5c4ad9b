"""Tiles of depthwise convolutions, at once or in strips of rows: while a strip is computed, rows that none needs are replaced."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.codegen.vta.windows import MOST_COLUMNS, MOST_ROWS
from vtakit.compiler.nn.vta.blocking import even_sizes
from vtakit.compiler.nn.vta.cuts import STORE_CYCLES
from vtakit.compiler.nn.vta.tiles import Pair, Sizes, Tilings, tiles
from vtakit.hw.isa.config import INSN_BYTES

WHOLE: Pair = (1, 1)  # the chunk of a tile that is computed at once
GAIN = 0.02  # from which on strips are taken
# Strips of a tile that has one place in INP. A LOAD waits for two strips of the tile before: with fewer, loads and steps
# alternate.
FEWEST = 4
STEP_CYCLES = 19  # from the last step of a DWCONV to the first of the next, measured
_REMEMBERED = 256  # layers; networks have many alike


def window_size(places: Pair, stride: Pair, count: Pair, taps: Pair) -> Pair:
    """Return rows and columns of the input, pads included, for so many of the result.

    count, taps : parts of the kernel, down and across, and taps of one
    """
    height, width = ((size - 1) * step + parts * each for size, step, parts, each in zip(
        places, stride, count, taps, strict=True))
    return height, width


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWork:
    """The loops of a depthwise convolution by windows, and what else a tile needs.

    shape : images, blocks, rows and columns of the result; size : rows and columns of the data
    count, taps : parts of the kernel, down and across, and taps of one
    digits  : of the weights; all products are made with each
    passes  : cycles for each accumulator beside the products
    tensors, vectors : accumulators beside each of the result, and beside each output block
    lifted  : how many of the tensors products bring to the accumulator, from INP
    """

    target: Target
    shape: tuple[int, ...]
    size: tuple[int, ...]
    count: Pair
    taps: Pair
    stride: Pair
    pad: tuple[int, int, int, int]
    digits: int
    passes: int
    tensors: int
    vectors: int
    lifted: int

    def loaded(self, chunk: Pair, sizes: Sizes) -> int:
        """Return the elements of a tile's windows."""
        return sizes[0] * sizes[1] * prod(window_size(sizes[2:], self.stride, self.count, self.taps))

    def needs(self, chunk: Pair, sizes: Sizes) -> dict[str, int]:
        """Return the elements of a tile, as if no accumulator took the place of another; of strips with all copies but in INP."""
        outputs, copies = (prod(sizes), 1) if chunk == WHOLE else (chunk[0] * prod(sizes) // sizes[2], self.target.copies)
        return {"acc": copies * (outputs * (1 + self.tensors) + sizes[1] * self.vectors),
                "inp": self.loaded(chunk, sizes) + copies * outputs * self.lifted,
                "wgt": copies * (sizes[1] * prod(self.count) * self.digits + self.lifted)}

    def cycles(self, strip: int, sizes: Sizes) -> float:
        """Estimate the longest of loads, steps and stores, and what nothing hides: the last strip.

        strip : rows that are computed at once
        """
        cfg, rate, planes = self.target.config, self.target.system.bytes_a_cycle, sizes[0] * sizes[1]
        (data_rows, all_rows), (data_columns, all_columns) = (self._read(axis, sizes[2 + axis]) for axis in (0, 1))
        held = strip < sizes[2] == self.shape[2]  # rows of pads stay in INP
        pads = (data_rows if held else all_rows) * all_columns - data_rows * data_columns  # a cycle each
        (across, wide), (down, high) = self._pieces(1, sizes[3], MOST_COLUMNS), self._pieces(0, strip, MOST_ROWS)
        products = self.digits * prod(self.count) * planes
        steps = products * (wide * high * self.target.params.gemm_passes + across * down * STEP_CYCLES)
        steps += planes * strip * sizes[3] * self.passes
        stored = planes * (strip * sizes[3] * cfg.out_bytes / rate + STORE_CYCLES)
        strips = prod(-(-whole // size) for whole, size in zip(self.shape, (*sizes[:2], strip, sizes[3]), strict=True))
        insns = strips * (products * across * down + 2 * planes)
        bus = self.shape[0] * self.shape[1] * (data_rows * data_columns * cfg.inp_bytes / rate + pads) + insns * INSN_BYTES / rate
        return max(bus, strips * steps, strips * stored) + steps + stored

    def _read(self, axis: int, size: int) -> Pair:
        """Return along rows or columns the pixels of all tiles' windows that are data, and all."""
        data, every = 0, 0
        for first in range(0, self.shape[2 + axis], size):
            places = min(size, self.shape[2 + axis] - first)
            count = (places - 1) * self.stride[axis] + self.count[axis] * self.taps[axis]
            begin = first * self.stride[axis] - self.pad[2 * axis]
            data += max(0, min(begin + count, self.size[axis]) - max(begin, 0))
            every += count
        return data, every

    def _pieces(self, axis: int, size: int, most: int) -> Pair:
        """Return along rows or columns the DWCONVs of so many outputs, and their steps."""
        taps, step = self.taps[axis], self.stride[axis]
        fits = (most - taps) // step + 1
        pieces = -(-size // fits)
        return pieces, (size - pieces) * step + pieces * taps


@dataclass(frozen=True, eq=False, kw_only=True)
class Strips(Tilings):
    """Tiles that are computed at once, with copies of what they read; or in strips of rows.

    Rows that two strips read are loaded once, so a tile of strips is as large as INP. Each strip has its own accumulators.
    """

    work: WindowWork

    @classmethod
    def of(cls, name: str, work: WindowWork) -> "Strips":
        """Return the tiles of an operator, which is named in errors."""
        known, needed, best = _found(work)
        return cls(target=work.target, name=name, shape=work.shape, groups=_groups(work.shape), needs=work.needs,
                   loaded=work.loaded, work=work, _known=known, _needed=needed, _best=best)

    @cached_property
    def chunks(self) -> list[Pair]:
        """(1, 1) for tiles that are computed at once, and the rows of strips, with 1."""
        rows = [(size, 1) for size in reversed(even_sizes(self.shape[2])) if 1 < size < self.shape[2]]
        return [WHOLE, *(rows if self.target.copies > 1 else [])]

    def fitting(self, chunk: Pair, copies: int) -> list[list[Sizes]]:
        """Return the tiles that fit; of strips those of one block with enough of them, all but the last of a column alike."""
        if chunk == WHOLE:
            return super().fitting(chunk, copies)
        if (chunk, copies) not in self._known:
            found = [tile for tile in self.groups[0] if self._has_strips(chunk, tile) and self._fits(chunk, tile, copies)]
            self._known[chunk, copies] = [found] if found else []
        return self._known[chunk, copies]

    def _has_strips(self, chunk: Pair, tile: Sizes) -> bool:
        even = tile[2] == self.shape[2] or tile[2] % chunk[0] == 0
        if tile[:2] != (1, 1) or tile[2] <= chunk[0] or not even:
            return False
        several = self.target.copies * self.loaded(chunk, tile) <= self.target.depth("inp")
        return several or -(-tile[2] // chunk[0]) >= FEWEST

    def copies(self, chunk: Pair) -> tuple[list[int], int]:
        """Return the numbers of copies of a tile, and the default; strips have one."""
        return super().copies(chunk) if chunk == WHOLE else ([1], 1)

    def best(self, chunk: Pair, copies: int) -> Sizes:
        """Return the tile that should take least time."""
        if chunk == WHOLE:
            return super().best(chunk, copies)
        if (chunk, copies) not in self._best:
            self._best[chunk, copies] = min(self.fitting(chunk, copies)[0], key=lambda tile: self.work.cycles(chunk[0], tile))
        return self._best[chunk, copies]

    @cached_property
    def first(self) -> Pair:
        """The chunk of the least estimate, or whole tiles where strips do not gain enough."""
        if WHOLE not in self.able:
            return self.able[0]
        whole = self.best(WHOLE, self.copies(WHOLE)[1])
        least = (1 - GAIN) * self.work.cycles(whole[2], whole)
        cycles = {chunk: self.work.cycles(chunk[0], self.best(chunk, 1)) for chunk in self.able if chunk != WHOLE}
        best = min(cycles, key=lambda chunk: cycles[chunk], default=WHOLE)
        return best if cycles.get(best, least) < least else WHOLE


@lru_cache(maxsize=_REMEMBERED)
def _groups(shape: tuple[int, ...]) -> list[list[Sizes]]:
    return [list(tiles(shape, cut_both=True))]


@lru_cache(maxsize=_REMEMBERED)
def _found(work: WindowWork) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    """Return what is known of an operator's tiles: those that fit, their elements, and the best ones."""
    return {}, {}, {}
