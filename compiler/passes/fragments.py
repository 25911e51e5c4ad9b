"""Fragments into registers: each lane gets the elements that it holds, and calls on tiles become those of registers."""

from typing import NoReturn

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect, is_address
from vtakit.compiler.ir.dtypes import HANDLE
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load, Var
from vtakit.compiler.ir.fragments import Fragment, fragment_of, grid_of, is_fragment, place_in
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.layouts import CHUNK
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.ir.warp_calls import TILE_CALLS
from vtakit.compiler.passes.base import PassError

_MATRIX = 8  # rows of a matrix that ldmatrix loads, of `CHUNK` bytes each
_AT_ONCE = 4  # matrices


def fragments_to_registers(function: Function) -> Function:
    """Give each lane a local buffer for what it holds of each fragment, by the fragment's map.

    ``C = allocate(float32[16, 8], mma.c); mma_tile("m16n8k16", C[0, 0], …); D[x // 4, x % 4 * 2] = C[x // 4, x % 4 * 2]``  ->
    ``C = allocate(float32[4], local); mma_sync("m16n8k16", C[0], …); D[x // 4, x % 4 * 2] = C[0]``

    An access outside such a call must be to an element that the lane, threadIdx.x, holds. Raises PassError where that is not
    proved, for a tile that begins in the middle of another, and for a box that ldmatrix cannot load.
    """
    if not any(isinstance(s, st.Allocate) and is_fragment(s.buffer.scope) for s in statements(function.body)):
        return function
    return function._replace(body=_Registers(function).stmt(function.body))


class _Registers:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.analyzer = Analyzer()
        self.made: dict[Buffer, Buffer] = {}
        self.threads: dict[str, tuple[Var, int]] = {}  # thread axes with their numbers of indices
        self.here: Stmt | None = None

    def fail(self, what: str) -> NoReturn:
        raise PassError(what, self.function, self.here)

    # Statements

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.For):
            self.analyzer.bind(s.var, Range(const(0, s.var.dtype), s.extent))
            if s.thread.startswith("threadIdx"):
                self.threads[s.thread] = s.var, int_value(s.extent) or 0
        elif isinstance(s, st.LetStmt) and s.var.dtype.is_int:
            self.analyzer.bind(s.var, s.value)
        elif isinstance(s, st.Allocate) and is_fragment(s.buffer.scope):
            return s.replace(buffer=self.registers(s.buffer, s), body=self.stmt(s.body))
        elif isinstance(s, st.Store) and is_fragment(s.buffer.scope):
            self.here = s
            index = self.own(s.buffer, tuple(map(self.expr, s.indices)))
            return st.Store(self.registers(s.buffer, s), (index,), self.expr(s.value))
        elif isinstance(s, st.Evaluate) and isinstance(s.value, Call) and s.value.name in TILE_CALLS:
            self.here = s
            return self.call(s.value)
        self.here = s
        return s.rebuild(self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        e = e.rebuild(self.expr)
        if isinstance(e, Load) and is_fragment(e.buffer.scope):
            return Load(self.registers(e.buffer, self.here), (self.own(e.buffer, e.indices),))
        return e

    # Buffers

    def fragment(self, buffer: Buffer) -> tuple[Fragment, tuple[int, ...]]:
        fragment = fragment_of(buffer)
        grid = grid_of(buffer, fragment) if fragment is not None else None
        if fragment is None or grid is None:
            found = [f"{f.rows} x {f.columns} of {f.scope}" for f in [fragment] if f is not None] or ["none of that type"]
            self.fail(f"{buffer} does not consist of whole tiles of its scope, which are {found[0]}: tile its stage so that it "
                      "does")
        return fragment, grid

    def registers(self, buffer: Buffer, at: Stmt | None) -> Buffer:
        """Return the buffer of what a lane holds."""
        found = self.made.get(buffer)
        if found is None:
            self.here = at
            fragment, grid = self.fragment(buffer)
            count = fragment.elements
            for extent in grid:
                count *= extent
            found = self.made[buffer] = Buffer(buffer.name, (count,), buffer.dtype, "local", align=16)
            found.data = buffer.data
        return found

    def lane(self, lanes: int) -> Expr:
        """Return the number of the thread among those that hold a tile together."""
        number: Expr = IntImm(0)
        before = 1
        for axis in "xyz":
            if before < lanes and f"threadIdx.{axis}" in self.threads:
                var, extent = self.threads[f"threadIdx.{axis}"]
                number, before = number + var * before, before * extent
        if before != lanes:
            axes = ", ".join(f"{tag} has {extent}" for tag, (_, extent) in sorted(self.threads.items())) or "no axis is bound"
            self.fail(f"{lanes} lanes hold a tile together, the first thread axes', and {axes}: bind 32 indices to threadIdx.x"
                      + (", and 4 to threadIdx.y" if lanes > 32 else ""))
        return self.analyzer.simplify(number)

    def own(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """Return which of the lane's elements one is, and prove that it is the lane's."""
        fragment, _ = self.fragment(buffer)
        lane, at = map(self.analyzer.simplify, place_in(buffer, fragment, indices))
        mine = self.lane(fragment.lanes)
        if not self.analyzer.prove_equal(lane, mine):
            where = ", ".join(str(self.analyzer.simplify(i)) for i in indices)
            self.fail(
                f"lane {mine} touches {buffer.name}[{where}], which lane {lane} holds: bind its loops to lanes by bind_lanes")
        return at

    def tile(self, address: Expr, rows: int = 0, columns: int = 0) -> tuple[Buffer, Fragment, Expr]:
        """Return the registers of the tile `rows`, `columns` behind an address: their buffer, its fragment, and the first one."""
        assert isinstance(address, Call)
        assert isinstance(address.args[0], Load)
        load = address.args[0]
        fragment, _ = self.fragment(load.buffer)
        *outer, row, column = load.indices
        lane, at = map(self.analyzer.simplify, place_in(load.buffer, fragment, (*outer, row + rows, column + columns)))
        first = self.analyzer.simplify(at % fragment.elements)
        if int_value(lane) != 0 or int_value(first) != 0 or int_value(address.args[1]) != 0:
            self.fail(f"{address} is not the first element of a tile of {fragment.rows} x {fragment.columns}")
        return self.registers(load.buffer, self.here), fragment, at

    def address(self, address: Expr, rows: int = 0, columns: int = 0, offset: int = 0) -> Expr:
        buffer, _, at = self.tile(address, rows, columns)
        assert isinstance(address, Call)
        return _address(buffer, (self.analyzer.simplify(at + offset),), address.args[2])

    # Calls

    def call(self, e: Call) -> Stmt:
        """Return a call on tiles as what lanes do with registers."""
        ways = {"fill_tile": self._fill_tile, "load_tile": self._load_tile, "mma_tile": self._mma_tile,
                "wgmma_tile": self._wgmma_tile}
        return ways[e.name](e)

    def _fill_tile(self, e: Call) -> Stmt:
        d, rows, columns, _, value = e.args
        buffer, fragment, _ = self.tile(d)
        self.lane(fragment.lanes)
        filled: list[Stmt] = []
        for i in range(0, int_value(rows) or 0, fragment.rows):
            for j in range(0, int_value(columns) or 0, fragment.columns):
                at = self.tile(d, i, j)[2]
                filled += [st.Store(buffer, (self.analyzer.simplify(at + n),), value) for n in range(fragment.elements)]
        return st.seq(*filled)

    def _mma_tile(self, e: Call) -> Stmt:
        shape, d, a, b, *_, turned = e.args
        self.lane(32)
        for address, scope in ((d, "mma.c"), (a, "mma.a"), (b, "mma.bt" if int_value(turned) else "mma.b")):
            self.of_scope(e, address, scope)
        return _call("mma_sync", shape, *map(self.address, (d, a, b)))

    def _wgmma_tile(self, e: Call) -> Stmt:
        shape, d, a, b, _, *rest = e.args
        self.lane(128)
        self.of_scope(e, d, "wgmma.c")
        return _call("wgmma", shape, self.address(d), a, b, *rest)

    def of_scope(self, e: Call, address: Expr, scope: str) -> None:
        load = address.args[0] if isinstance(address, Call) and is_address(address) else None
        if not isinstance(load, Load) or load.buffer.scope != scope:
            self.fail(f"{e.name} takes {address} from the scope {scope}")

    def _load_tile(self, e: Call) -> Stmt:
        d, s, rows, columns, *_ = e.args
        assert isinstance(d, Call)
        assert isinstance(s, Call)
        assert isinstance(s.args[0], Load)
        source, height, width = s.args[0], int_value(rows) or 0, int_value(columns) or 0
        fragment = self.tile(d)[1]
        chunk = CHUNK // source.buffer.dtype.bytes
        down, across = height // _MATRIX, width // chunk
        form = next((turned for turned in (False, True) if _fits(fragment, height, width, chunk, turned=turned)), None)
        if form is None or height % _MATRIX or width % chunk or fragment.lanes != 32:
            self.fail(f"ldmatrix does not load {height} x {width} of {source.buffer.dtype} to {fragment.scope}: its matrices are "
                      "8 rows of 16 bytes, turned only of 16-bit types; bind a copy to lanes instead")
        lane = self.lane(32)
        calls: list[Stmt] = []
        for first in range(0, down * across, _AT_ONCE):
            count = 1 << (min(_AT_ONCE, down * across - first).bit_length() - 1)
            if count != min(_AT_ONCE, down * across - first):
                self.fail(f"ldmatrix loads 1, 2 or 4 matrices, and {height} x {width} are {down * across}: load a box of whole "
                          "fours")
            q = first + lane // _MATRIX % count
            *outer, row, column = source.indices
            place = (*outer, row + q % down * _MATRIX + lane % _MATRIX, column + q // down * chunk)
            to = []
            for n in range(first, first + count):
                i, j = n % down * _MATRIX, n // down * chunk
                tile = i // fragment.rows * fragment.rows, j // fragment.columns * fragment.columns
                held = fragment.owner(i % fragment.rows, j % fragment.columns)
                to.append(self.address(d, *tile, held[1]))
            at = _address(source.buffer, tuple(map(self.analyzer.simplify, place)), s.args[2])
            calls.append(_call("ldmatrix", int(form), at, *to))
        return st.seq(*calls)


def _fits(fragment: Fragment, height: int, width: int, chunk: int, *, turned: bool) -> bool:
    """Return whether each lane holds what ldmatrix gives it of every matrix of a box: a register's elements of a tile."""
    packed = fragment.packed
    if turned and packed != 2:
        return False
    for i in range(0, min(height, fragment.rows), _MATRIX):
        for j in range(0, min(width, fragment.columns), chunk):
            first = fragment.owner(i, j)[1]
            for lane in range(32):
                for n in range(packed):
                    along, across = lane // 4, lane % 4 * packed + n
                    row, column = (across, along) if turned else (along, across)
                    if fragment.owner(i + row, j + column) != (lane, first + n):
                        return False
    return True


def _address(buffer: Buffer, indices: tuple[Expr, ...], mask: Expr) -> Expr:
    return Call(HANDLE, "address_of", (Load(buffer, indices), IntImm(0), mask))


def _call(name: str, *args: object) -> Stmt:
    return st.Evaluate(effect(name, *[arg.value if isinstance(arg, ir.StringImm) else arg for arg in args]))
