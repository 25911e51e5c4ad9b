"""Accesses of memory: a vector's elements by as few as the language has."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from vtakit.compiler.codegen.clike.dialect import Dialect
from vtakit.compiler.codegen.clike.indices import is_index, narrowed
from vtakit.compiler.codegen.clike.places import Place
from vtakit.compiler.codegen.clike.text import Functions, Names, bare
from vtakit.compiler.codegen.clike.values import Values
from vtakit.compiler.codegen.lanes import lanes_of
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.values import value_of


class Accesses(Values):
    """Loads and indices.

    indices : variables that are at least 0 and of which sums and products stay in their type: loops, sizes
    places  : memory, by a buffer's `data` and scalar type
    """

    def __init__(self, dialect: Dialect, names: Names, functions: Functions) -> None:
        super().__init__(dialect, names, functions)
        self.indices: set[ir.Var] = set()
        self.places: dict[tuple[ir.Var, DType], Place] = {}
        self._known: list[dict[tuple[int, Any], Any]] = [{}]  # by an object's id
        self._alive: list[ir.Expr] = []  # so that its id stays its own
        self._masked = False

    @abstractmethod
    def text(self, e: ir.Expr, lane: int = 0) -> str:
        """Return the value of an expression, or of one lane, as an operand."""

    def _load(self, e: ir.Load, lane: int) -> str:
        place = self.place(e.buffer)
        text = self.cell(e, lane, place)
        return text if place.direct else self.from_element(text, e.buffer.dtype)

    def cell(self, e: ir.Load, lane: int, place: Place) -> str:
        """Return what a place gives for a load, or for one lane of it."""
        index = e.indices[0]
        if len(e.indices) != 1:
            raise CodegenError(f"{e} has {len(e.indices)} indices: run vtakit.compiler.passes.lower_late first")
        if index.dtype.lanes == 1:
            return place.read(self.index(index))
        run = lanes_of(index)
        if run and value_of(run.stride) == 1 and place.wide and not self._masked:
            return self._run(e, place, run.base)[lane]
        return place.read(self.index(index, lane))

    def _run(self, e: ir.Load, place: Place, base: ir.Expr) -> tuple[str, ...]:
        """Return the elements of a contiguous load, made of as few accesses as the language has."""
        key = id(e), "run"
        for known in reversed(self._known):
            if key in known:
                found: tuple[str, ...] = known[key]
                return found
        at, texts = self.index(base), []
        for first, width in pieces(e.dtype.lanes, self.dialect.widths):
            where = self.offset(at, first)
            if width == 1:
                texts.append(place.read(where))
                continue
            name = self.names.fresh(f"{e.buffer.name}_{width}")
            self.line(place.read_run(name, where, width))
            texts += [place.lane(name, lane) for lane in range(width)]
        found = self._known[-1][key] = tuple(texts)
        return found

    def offset(self, at: str, distance: int) -> str:
        """Return an index that is so many elements behind another."""
        if not distance:
            return at
        return f"({at}) + {distance}" if any(c in at for c in "<>=&|^?") else f"{at} + {distance}"

    def place(self, buffer: Buffer) -> Place:
        """Return where a buffer's elements are."""
        found = self.places.get((buffer.data, buffer.dtype.scalar))
        if found is None:
            raise CodegenError(f"buffer {buffer.name!r} has no memory here: it is neither a parameter nor allocated")
        return found

    def index(self, e: ir.Expr, lane: int = 0) -> str:
        """Return an index, which stands in brackets."""
        return bare(self.text(narrowed(e) if self._is_wide_index(e) else e, lane))

    def _is_wide_index(self, e: ir.Expr) -> bool:
        """Return whether an expression is an index of 64 bits in a language without such integers."""
        return e.dtype.bits == 64 and not self.dialect.wide_ints and is_index(e, self.indices)


def pieces(lanes: int, widths: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield (first lane, width) of the accesses that move so many lanes, the widest first."""
    at = 0
    while at < lanes:
        width = next((width for width in widths if width <= lanes - at), 1)
        yield at, width
        at += width
