"""Fragments' memory, collective calls of lanes, and asynchronous copies, in the interpreter."""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.fragments import SCOPES, fragment_of, lanes_of, place_in
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.warp_calls import WARP_CALLS, WarpCall, sums_of_lane, wgmma_operands
from vtakit.compiler.lower.interpreter.errors import InterpretError, UndefinedValueError
from vtakit.compiler.lower.interpreter.memory import Path, Pointer, Position, Undefined

COLLECTIVE = "collective"


class InFlight(Undefined):
    """Value of a cell to which an asynchronous copy is on its way."""

    __slots__ = ()

    def _fail(self, *_: Any) -> NoReturn:
        raise UndefinedValueError("an element is used whose asynchronous copy nothing waited for")

    def __repr__(self) -> str:
        return "in flight"


for _name in [name for name in vars(Undefined) if name.startswith("__") and vars(Undefined)[name] is vars(Undefined)["_fail"]]:
    setattr(InFlight, _name, InFlight._fail)
IN_FLIGHT = InFlight()


def holders(buffer: Buffer) -> list[int]:
    """Return the lane that holds each element of a fragment's buffer, in row-major order."""
    fragment = fragment_of(buffer)
    sizes = [int_value(extent) or 0 for extent in buffer.shape]
    if fragment is None or not all(sizes):
        raise InterpretError(f"{buffer} is no fragment: its scope has no tiles of {buffer.dtype}, or its shape is no constant")
    found: list[int] = []
    total = 1
    for size in sizes:
        total *= size
    for at in range(total):
        indices: list[int] = []
        for size in reversed(sizes):
            indices.insert(0, at % size)
            at //= size
        found.append(int(place_in(buffer, fragment, tuple(indices))[0]))
    return found


class Held(list[Any]):
    """Memory of a fragment: a lane reads and writes the elements that it holds; a call of all lanes, all of them (`cells`)."""

    def __init__(self, cells: Sequence[Any], position: Position, name: str, held: Sequence[int], lanes: int) -> None:
        super().__init__(cells)
        self.position, self.name, self.held, self.lanes = position, name, held, lanes

    def _check(self, at: int) -> None:
        lane = self.position.thread() % self.lanes
        if lane != self.held[at]:
            raise InterpretError(
                f"lane {lane} touches element {at} of the fragment {self.name}, which lane {self.held[at]} holds")

    def __getitem__(self, at: Any) -> Any:
        self._check(at)
        return list.__getitem__(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        self._check(at)
        list.__setitem__(self, at, value)


class _All:
    """All elements of a fragment's memory."""

    def __init__(self, cells: Held) -> None:
        self.cells = cells

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, at: int) -> Any:
        return list.__getitem__(self.cells, at)

    def __setitem__(self, at: int, value: Any) -> None:
        list.__setitem__(self.cells, at, value)


class _ByLane:
    """Memory as one lane sees it while all lanes' call runs."""

    def __init__(self, cells: Any, position: Position, path: Path) -> None:
        self.cells, self.position, self.path = cells, position, path

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, at: int) -> Any:
        self.position.path = self.path
        return self.cells[at]

    def __setitem__(self, at: int, value: Any) -> None:
        self.position.path = self.path
        self.cells[at] = value


def whole(arg: Any) -> Any:
    """Return an argument of a call on logical tiles; an address in a fragment gives all of its elements."""
    if isinstance(arg, Pointer) and isinstance(arg.cells, Held):
        return Pointer(_All(arg.cells), arg.at, arg.shape, arg.kind, arg.mask, arg.name)
    return arg


def by_lane(position: Position, path: Path, arg: Any) -> Any:
    """Return an argument of one lane's call; what is touched through it is touched by that lane."""
    if isinstance(arg, Pointer):
        return Pointer(_ByLane(arg.cells, position, path), arg.at, arg.shape, arg.kind, arg.mask, arg.name)
    return arg


def lanes_needed(call: WarpCall, args: Sequence[Any]) -> int:
    """Return how many lanes make a call together."""
    if call.lanes:
        return call.lanes
    found = next((arg.cells.lanes for arg in args if isinstance(arg, Pointer) and isinstance(arg.cells, Held)), 0)
    return found or lanes_of(SCOPES[0])


def alone(name: str, args: Sequence[Any]) -> NoReturn:
    raise InterpretError(f"{name} is made by the lanes of a warp together, and stands in no loop over threadIdx")


class Products:
    """Products of one warpgroup that nothing waited for yet: they run when something does, and until then sums are in flight."""

    def __init__(self) -> None:
        self.groups: list[list[Sequence[Sequence[Any]]]] = [[]]
        self.operands: dict[int, tuple[Any, Any]] = {}  # of each product that was made, as they were then
        self.sums: dict[tuple[int, int], Any] = {}  # what registers in flight hold

    def make(self, name: str, lanes: Sequence[Sequence[Any]]) -> None:
        if name == "wgmma":
            self.operands[id(lanes)] = wgmma_operands(lanes)
            self._keep(lanes)
            self.groups[-1].append(lanes)
        elif name == "wgmma_commit":
            self.groups.append([])
        else:
            done = max(len(self.groups) - 1 - lanes[0][0], 0)
            ended, self.groups = self.groups[:done], self.groups[done:]
            for op in [op for group in ended for op in group]:
                for cells, at in self._registers(op):
                    cells[at] = self.sums.pop((id(cells), at))
                WARP_CALLS["wgmma"].run(op)
                before, now = self.operands.pop(id(op)), wgmma_operands(op)
                if not all(x.tobytes() == y.tobytes() for x, y in zip(before, now, strict=True)):
                    raise InterpretError("an operand of a warpgroup's product is written before the product was waited for")
                self._keep(op)
            held = {(id(cells), at) for group in self.groups for op in group for cells, at in self._registers(op)}
            for op in [op for group in ended for op in group]:
                for cells, at in self._registers(op):
                    if (id(cells), at) in self.sums and (id(cells), at) not in held:
                        cells[at] = self.sums.pop((id(cells), at))

    def _keep(self, lanes: Sequence[Sequence[Any]]) -> None:
        for cells, at in self._registers(lanes):
            if cells[at] is not IN_FLIGHT:
                self.sums[id(cells), at] = cells[at]
                cells[at] = IN_FLIGHT

    def _registers(self, lanes: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, int]]:
        for shape, d, *_ in lanes:
            for at in range(sums_of_lane(shape)):
                yield d.cells.cells, d.at + at


def products_of(position: Position) -> Products:
    """Return the products of the warpgroup of the thread that runs now."""
    found = position.of_warp("products", Products, WARP_CALLS["wgmma"].lanes)
    assert isinstance(found, Products)
    return found


def async_copy(position: Position, args: Sequence[Any]) -> None:
    d, s, count, *condition = args
    values = [s[i] for i in range(count)] if not condition or condition[0] else [d.kind.type(0)] * count
    if d.kind.kind in "iub":
        values = [value.item() if hasattr(value, "item") else value for value in values]
    for i in range(count):
        d.cells[d._index(i)] = IN_FLIGHT
    groups = position.copies.setdefault(position.path, [[]])
    groups[-1].append((d, values))


def async_commit(position: Position, args: Sequence[Any]) -> None:
    position.copies.setdefault(position.path, [[]]).append([])


def async_wait(position: Position, args: Sequence[Any]) -> None:
    groups = position.copies.setdefault(position.path, [[]])
    done = max(len(groups) - 1 - args[0], 0)
    for group in groups[:done]:
        for d, values in group:
            for i, value in enumerate(values):
                cells = d.cells
                if (list.__getitem__(cells, d.at + i) if isinstance(cells, list) else cells[d.at + i]) is IN_FLIGHT:
                    d.cells[d.at + i] = value
    del groups[:done]


ASYNCHRONOUS = {"async_copy": async_copy, "async_commit": async_commit, "async_wait": async_wait}
