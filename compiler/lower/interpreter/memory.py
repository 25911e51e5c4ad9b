"""Memory of the interpreter: one cell an element, undefined until it is written.

A list of cells is enough for what one thread sees alone. Memory that threads share is a `Tracked` list, which remembers who
touched each cell since the last barrier.
"""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from vtakit.compiler.lower.interpreter.errors import RaceError, UndefinedValueError

Path = tuple[tuple[str, int, int], ...]  # (tag, index, extent) of each thread loop around, outermost first


class Undefined:
    """Value of a cell before it is written: it may be copied, but not computed with, and may not leave the function."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars then leave an operation to us

    def _fail(self, *_: Any) -> NoReturn:
        raise UndefinedValueError("an element that was never written is computed with")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _fail
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __neg__ = _fail
    __bool__ = __int__ = __float__ = __index__ = _fail

    def __eq__(self, other: object) -> bool:
        self._fail()

    __hash__ = None  # type: ignore[assignment]  # how Python spells: unhashable

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


class Position:
    """Position of the thread that runs now.

    active : whether threads run at all
    launch : counts the parallel or thread loop nests begun
    block  : counts iterations of parallel and blockIdx loops: no barrier joins two of them
    phase  : counts the barriers passed by a block's threads
    path   : the thread loops' indices
    """

    __slots__ = ("active", "block", "block_memory", "copies", "launch", "path", "phase")

    def __init__(self) -> None:
        self.active = False
        self.launch = self.block = self.phase = 0
        self.path: Path = ()
        self.block_memory: dict[Any, Any] = {}
        self.copies: dict[Path, list[list[Any]]] = {}  # of each thread the groups of copies that go on, the newest, open, last

    def begin(self) -> None:
        """A nest of parallel or thread loops starts."""
        self.active = True
        self.launch += 1
        self.next_block()

    def next_block(self) -> None:
        self.block += 1
        self.phase, self.path, self.block_memory, self.copies = 0, (), {}, {}

    def end(self) -> None:
        self.active = False
        self.path = ()

    def of_block(self, key: Any, make: Callable[[], Any]) -> Any:
        """Shared memory: the same for all threads of a block and every time they come by."""
        if key not in self.block_memory:
            self.block_memory[key] = make()
        return self.block_memory[key]

    def of_warp(self, key: Any, make: Callable[[], Any], lanes: int = 32) -> Any:
        """Memory that is the same for so many threads in the order x, y, z: a warp's, or a warpgroup's."""
        return self.of_block((key, self.thread() // lanes), make)

    def thread(self) -> int:
        """Return the number of the thread in its block: x runs fastest."""
        index, stride = 0, 1
        for tag in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            for name, at, extent in self.path:
                if name == tag:
                    index, stride = index + at * stride, stride * extent
        return index


class Tracked(list[Any]):
    """Cells that several threads may touch; a race between two of them is an error."""

    def __init__(self, cells: Iterable[Any], position: Position, name: str) -> None:
        super().__init__(cells)
        self.position, self.name = position, name
        self.written: dict[int, tuple[int, int, int, Path]] = {}  # launch, block, phase, path of the last write
        self.read: dict[int, tuple[int, int, int, Path | None]] = {}  # likewise; block -1 or path None: several

    def _race(self, at: int, what: str, other: Path | None, block: int) -> NoReturn:
        mine = self.position
        if block != mine.block:
            raise RaceError(
                f"element {at} of {self.name} is {what} by two iterations of a parallel or block loop, which nothing orders"
            )
        raise RaceError(
            f"element {at} of {self.name} is {what} by thread {path_text(mine.path)} and by "
            f"{'several others' if other is None else f'thread {path_text(other)}'} with no barrier between"
        )

    def __getitem__(self, at: Any) -> Any:
        mine = self.position
        if mine.active:
            last = self.written.get(at)
            if last is not None and last[0] == mine.launch:
                other = last[1] != mine.block or (last[2] == mine.phase and last[3] != mine.path)
                if other:
                    self._race(at, "written and read", last[3], last[1])
            seen = self.read.get(at)
            path: Path | None = mine.path
            block = mine.block
            if seen is not None and seen[0] == mine.launch:
                if seen[1] != block:
                    block = -1
                elif seen[2] == mine.phase and seen[3] != path:
                    path = None
            self.read[at] = mine.launch, block, mine.phase, path
        return list.__getitem__(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        mine = self.position
        if mine.active:
            for what, seen in (("written twice", self.written.get(at)), ("read and written", self.read.get(at))):
                if seen is not None and seen[0] == mine.launch:
                    other = seen[1] != mine.block or (seen[2] == mine.phase and seen[3] != mine.path)
                    if other:
                        self._race(at, what, seen[3], seen[1])
            self.written[at] = mine.launch, mine.block, mine.phase, mine.path
        list.__setitem__(self, at, value)


def path_text(path: Path) -> str:
    return ", ".join(f"{tag} = {at}" for tag, at, _ in path)


class Private:
    """Memory that each thread has its own copy of, though it is allocated outside the thread loops."""

    def __init__(self, size: int, position: Position) -> None:
        self.size, self.position = size, position
        self.copies: dict[Path, list[Any]] = {}

    def own(self) -> list[Any]:
        found = self.copies.get(self.position.path)
        if found is None:
            found = self.copies[self.position.path] = [UNDEFINED] * self.size
        return found

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        return self.own()[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.own()[at] = value


class View:
    """Memory as elements of one type; what another type's elements have overwritten, wholly or in part, is undefined."""

    def __init__(self, store: Any, width: int, kind: str) -> None:
        self.store, self.width, self.kind = store, width, kind

    def __len__(self) -> int:
        return len(self.store) // self.width

    def __getitem__(self, at: int) -> Any:
        places = range(at * self.width, (at + 1) * self.width)
        first = self.store[places[0]]
        if first is UNDEFINED or first[:2] != (at, self.kind) or any(self.store[place] is not first for place in places[1:]):
            return UNDEFINED
        return first[2]

    def __setitem__(self, at: int, value: Any) -> None:
        cell = at, self.kind, value
        for place in range(at * self.width, (at + 1) * self.width):
            self.store[place] = cell


class Pointer:
    """The address of an element, as an intrinsic's Python function gets it; `p[i]` is the i-th element from there."""

    def __init__(self, cells: Any, at: int, shape: tuple[int, ...], kind: "np.dtype[Any]", mask: str, name: str) -> None:
        self.cells, self.at, self.shape, self.kind, self.mask, self.name = cells, at, shape, kind, mask, name

    def __getitem__(self, offset: int) -> Any:
        return self.cells[self._index(offset)]

    def __setitem__(self, offset: int, value: Any) -> None:
        at = self._index(offset)
        if not isinstance(value, Undefined):
            value = self.kind.type(value).item() if self.kind.kind in "iub" else self.kind.type(value)
        self.cells[at] = value

    def _index(self, offset: int) -> int:
        at = self.at + offset
        if not 0 <= at < len(self.cells):
            raise IndexError(f"element {at} of {self.name}, which has {len(self.cells)}")
        return at

    def __add__(self, offset: int) -> "Pointer":
        return Pointer(self.cells, self.at + offset, (), self.kind, self.mask, self.name)

    def array(self) -> "np.ndarray[Any, Any]":
        """A copy of the buffer's elements from here on, undefined ones as 0; its shape if this is its first element."""
        rest = [self.cells[i] for i in range(self.at, len(self.cells))]
        flat = np.array([0 if value is UNDEFINED else value for value in rest], self.kind)
        return flat.reshape(self.shape) if self.at == 0 and self.shape else flat

    def take(self, values: "np.ndarray[Any, Any]") -> None:
        """Writes what changed in a copy that `array` gave."""
        before = self.array()
        for i in np.flatnonzero(values.view(f"u{values.itemsize}") != before.view(f"u{values.itemsize}")):
            self[int(i)] = values.flat[int(i)]
