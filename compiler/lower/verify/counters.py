"""Effect of a loop in a body of one's own on the numbers that it changes.

The loop's body is run once on symbols. Where a symbol comes back with something added, the number is what it was before plus
that, times the iterations so far; where something else comes back, it is that or what it was before.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vtakit.compiler.arith import region
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of, maximum
from vtakit.compiler.ir.values import cast, const
from vtakit.compiler.ir.walk import free_vars, map_expr, subexpressions, substitute
from vtakit.compiler.lower.verify.numbers import Ends, Held, Numbers, State, extreme, is_single


class Start(NamedTuple):
    """State of buffers at the start of an iteration, as symbols: one for a single number, or two for the ends of several."""

    state: State
    symbols: dict[Buffer, tuple[Var, Var]]
    since: int  # how many variables there were before


class Run(NamedTuple):
    """State of buffers at the start of each iteration of a loop, and after the loop."""

    within: State
    after: State


class _Side(NamedTuple):
    """An end of a number where the first iteration begins, and what each iteration moves it by, at most."""

    first: Expr
    step: Expr


def start(numbers: Numbers, changed: Iterable[Buffer], state: State) -> Start:
    """Symbols for what the body of a loop changes."""
    found = Start({}, {}, len(numbers.known))
    for buffer in changed:
        if numbers.is_of_data(state[buffer]) or not is_index(buffer.dtype):
            found.state[buffer] = state[buffer]
            continue
        low = Var(buffer.name, buffer.dtype)
        high = low if is_single(buffer) else Var(buffer.name, buffer.dtype)
        found.symbols[buffer] = low, high
        found.state[buffer] = low if low is high else numbers.between(low, Ends(low, high))
    return found


class Loop:
    """A loop that changes numbers.

    begun   : what its body was given
    counter : its variable and how many iterations it has; None for a loop that ends by a condition
    holding : what holds where an iteration begins, of the symbols
    """

    def __init__(
        self, numbers: Numbers, begun: Start, counter: tuple[Var, Expr] | None, holding: Sequence[Expr] = (),
    ) -> None:
        self.numbers, self.begun, self.counter, self.holding = numbers, begun, counter, all_of(*holding)
        self.analyzer = numbers.analyzer
        self.symbols = {var for pair in begun.symbols.values() for var in pair}
        self.solved: dict[Var, Expr] = {}  # symbols of which it is known what they are where an iteration begins

    def run(self, before: State, end: State) -> Run:
        """Return the states within and after the loop, where its body turns its symbols into `end`."""
        found, waiting = Run({}, {}), [*self.begun.state]
        while waiting:
            left = [buffer for buffer in waiting if not self._solve(buffer, before[buffer], end[buffer], found)]
            if len(left) == len(waiting):
                break
            waiting = left
        for buffer in waiting:
            found.within[buffer], found.after[buffer] = self.numbers.unknown(buffer), self.numbers.unknown(buffer)
        return found

    def _solve(self, buffer: Buffer, before: Held, end: Held, found: Run) -> bool:
        """Find what a buffer holds; False if that is not known (yet)."""
        numbers = self.numbers
        ways = numbers.ways(end, self.begun.since) if end is not None else []
        if any(map(numbers.is_of_data, (before, *[e for way in ways for e in (way, *self._ends(way))]))):
            within = found.within[buffer] = numbers.of_data(buffer)
            found.after[buffer] = numbers.of_data(buffer)
            if isinstance(begun := self.begun.state[buffer], Var):
                self.solved[begun] = within
            return True
        if buffer not in self.begun.symbols or end is None:
            return False
        low, high = self.begun.symbols[buffer]
        firsts = Ends(before, before) if before is None or is_single(buffer) else numbers.ends(before, 0)
        given = before is not None
        down = self._side(ways, low, firsts.least, given, False)
        up = self._side(ways, high, firsts.greatest, given, True)
        if down is None and up is None:
            return False
        same = down is not None and up is not None and all(ir.same(a, b) for a, b in zip(down, up, strict=True))
        for state, count in zip(found, self._counts(), strict=True):
            least, greatest = self._at(down, count, False), self._at(up, count, True)
            exact = same and is_single(buffer) and self.counter is not None
            value: Expr = least if exact and least is not None else numbers.between(low, Ends(least, greatest))
            state[buffer] = value
            if state is found.within:
                ends = (value, value) if is_single(buffer) else (least, greatest)
                self.solved.update({var: e for var, e in zip((low, high), ends, strict=True) if e is not None})
        return True

    def _ends(self, e: Expr) -> Ends:
        found = self.numbers.ends(substitute(e, self.solved), self.begun.since)
        if not self.solved:
            return found
        known = [self.numbers.ends(substitute(end, self.solved), self.begun.since) if end is not None else Ends(None, None)
                 for end in found]
        return Ends(known[0].least, known[1].greatest)

    def _side(self, ways: Sequence[Expr], symbol: Var, first: Held, given: bool, greatest: bool) -> _Side | None:
        """One end: of what it was before (if that is given), of what comes back moved, and of what else comes back."""
        moves = [self._move(way, symbol, greatest) for way in ways]
        known = [move for of in moves if of is not None for move in of]
        firsts = [] if first is None else [first]
        firsts += [value for value, step in known if step is None]
        if None in moves or (given and first is None) or not firsts:
            return None
        zero = const(0, symbol.dtype)
        steps = [zero if step is None else step for _, step in known]
        return _Side(*[self.analyzer.simplify(extreme(of, greatest)) for of in (firsts, steps)])

    def _move(self, way: Expr, symbol: Var, greatest: bool) -> list[tuple[Expr, Expr | None]] | None:
        """Return the moves of an end in one iteration, of which one happens; None if not known.

        A move is the end and a step, or another value and None.
        """
        plain, solved = self.numbers.ends(way, self.begun.since)[greatest], self._ends(way)[greatest]
        for end in (plain, solved):
            if end is None:
                continue
            step = self.analyzer.simplify(end - symbol)
            if not free_vars(step) & self.symbols:
                over = self._over_all(step, greatest)
                stops = self._where_it_stops(way, over, greatest)
                if stops is not None:
                    return [(stops, None)]
                return None if over is None else [(end, over)]
            if not free_vars(end) & self.symbols:
                over = self._over_all(end, greatest)
                return None if over is None else [(over, None)]
            if self._moves_in(end, symbol, greatest):
                return [(end, const(0, symbol.dtype))]
        bound = self.analyzer.bounds(way)[greatest]
        if not isinstance(bound, float) and abs(bound) < way.dtype.max:
            return [(const(bound, way.dtype), None)]
        choice = next((node for node in subexpressions(way) if isinstance(node, ir.Min | ir.Max)), None)
        if choice is None:
            return None
        a, b = [self._move(_with(way, choice, part), symbol, greatest) for part in (choice.a, choice.b)]
        return None if a is None or b is None else a + b

    def _where_it_stops(self, way: Expr, step: Expr | None, greatest: bool) -> Expr | None:
        """Return where the condition of a loop without a counter stops an end that moves outward. None if it does not."""
        zero = const(0, way.dtype)
        if self.counter is not None or (step is not None and self.analyzer.prove(step <= zero if greatest else step >= zero)):
            return None
        with self.analyzer.given(self.holding):
            bound = self.analyzer.bounds(way)[greatest]
        return None if isinstance(bound, float) or abs(bound) >= way.dtype.max else const(bound, way.dtype)

    def _moves_in(self, value: Expr, symbol: Var, greatest: bool) -> bool:
        """Return whether an iteration never moves an end outward, under the loop's condition."""
        with self.analyzer.given(self.holding):
            return self.analyzer.prove(value <= symbol if greatest else value >= symbol)

    def _over_all(self, e: Expr, greatest: bool) -> Expr | None:
        """The end of a value over all iterations."""
        if self.counter is None or self.counter[0] not in free_vars(e):
            return e
        var, extent = self.counter
        found = region(e, {var: Range(const(0, var.dtype), extent)}, self.analyzer)
        return found[greatest] if found is not None else None

    def _counts(self) -> tuple[Expr | None, Expr | None]:
        """Return the number of iterations before the current one, and in all; None where that is not known."""
        if self.counter is None:
            return None, None
        var, extent = self.counter
        return var, extent if self.analyzer.prove(extent >= 0) else maximum(extent, const(0, extent.dtype))

    def _at(self, side: _Side | None, count: Expr | None, greatest: bool) -> Expr | None:
        """An end after so many iterations."""
        if side is None:
            return None
        if count is not None:
            return self.analyzer.simplify(side.first + side.step * cast(count, side.step.dtype))
        return side.first if self.analyzer.prove(side.step <= 0 if greatest else side.step >= 0) else None


def _with(e: Expr, part: Expr, other: Expr) -> Expr:
    return map_expr(e, lambda node: other if node is part else node)
