"""Names for values that an expression needs in several places, and for parts of deep expressions.

With them the text of a program, and the time of every walk over it, grow with what is computed and not with the number of ways
that lead there; and walks by recursion come to the end of a deep expression.
"""

import functools
from collections.abc import Callable, Container, Iterator, Mapping

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import HANDLE
from vtakit.compiler.ir.expr import Expr, Let, Var
from vtakit.compiler.ir.ops import negate
from vtakit.compiler.ir.stmt import If, LetStmt, Stmt, Store
from vtakit.compiler.ir.values import TRUE, value_of

MOST_NODES = 512  # of an expression that is left as it is; its parts keep the forms that rules and intrinsics look for
LEAST_NODES = 16  # of a value that gets a name as it is needed again
MOST_LEVELS = 48  # of operands within operands that have no name
MOST_WORK = 50_000  # steps in finding names for one expression

IsSafe = Callable[[Expr, Expr], bool]  # whether a read is inside of its tensor wherever a condition holds
Names = tuple[tuple[Var, Expr], ...]  # each variable with its value, which may use those before it


class TooManyWaysError(Exception):
    """Branches within branches need the same values, in which reads may be outside of tensors: each would be written anew."""


def with_names(e: Expr, is_safe: IsSafe = lambda read, where: False) -> Expr:
    """Return a large expression with a `Let` for each value in it that is deep or needed several times; a small one as it is.

    ``(A[i] + 1) * (A[i] + 1)``, where both operands are one object  ->  ``let t = A[i] + 1 in t * t``

    A value is computed where the first that certainly needs it is. What is needed only in one of the cases of an if_then_else
    is named there, since its reads may be outside of a tensor in others; so it may get a name in each. One of more than
    `MOST_NODES` nodes is computed before, if its reads are safe or done in any case: of branches that stand beside each other
    and need it, within others that do, there are too many. Raises TooManyWaysError where such a one is not safe.
    """
    if not _is_large(e):
        return e
    names, body = _Naming(e, is_safe).scope(e, {})
    return _lets(names, body)


def named_values(s: Stmt, is_safe: IsSafe = lambda read, where: False) -> Stmt:
    """Return a block's body with the values that `with_names` finds in its stores as statements before them."""
    part = "condition" if isinstance(s, If) else "value"
    if not isinstance(s, If | LetStmt | Store) or not _is_large(getattr(s, part)):
        return s.rebuild(lambda inner: named_values(inner, is_safe), lambda e: with_names(e, is_safe))
    e = getattr(s, part)
    names, value = _Naming(e, is_safe).scope(e, {})
    found: Stmt = s.replace(**{part: value}).rebuild(
        lambda inner: named_values(inner, is_safe), lambda e: e if e is value else with_names(e, is_safe)
    )
    for var, of in reversed(names):
        found = LetStmt(var, of, found)
    return found


def _lets(names: Names, body: Expr) -> Expr:
    for var, value in reversed(names):
        body = Let(var, value, body)
    return body


def _is_large(e: Expr) -> bool:
    """Return whether an expression is deep, or has many nodes, most of them the same objects again."""
    sizes: dict[int, int] = {}
    levels: dict[int, int] = {}
    for node in _operands_first(e):
        children = [id(child) for child in node.children()]
        sizes[id(node)] = 1 + sum([sizes[child] for child in children])
        levels[id(node)] = 1 + max([levels[child] for child in children], default=0)
    return levels[id(e)] > MOST_LEVELS or sizes[id(e)] > max(MOST_NODES, 2 * len(sizes))


def _operands_first(e: Expr, leaves: Container[int] = ()) -> Iterator[Expr]:
    """Yield each object in an expression once, after its operands; those of `leaves` without theirs."""
    stack, seen = [(e, iter(e.children()))], {id(e)}
    while stack:
        node, rest = stack[-1]
        child = next((child for child in rest if id(child) not in seen), None)
        if child is None:
            stack.pop()
            yield node
        else:
            seen.add(id(child))
            stack.append((child, iter(child.children() if id(child) not in leaves else ())))


class _Naming:
    """The values of one expression: how often each is needed, which are large, which may have a name."""

    def __init__(self, e: Expr, is_safe: IsSafe) -> None:
        self.is_safe = functools.cache(is_safe)
        self.work = 0
        self.needed: dict[int, int] = {}  # by how many operands an object is
        self.fixed: set[int] = set()  # objects that have no value of their own: effects, addresses
        self.bound: set[Var] = set()  # variables that parts of the expression bind
        sizes: dict[int, int] = {}
        for node in _operands_first(e):
            children = node.children()
            sizes[id(node)] = 1 + sum([sizes[id(child)] for child in children])
            for child in children:
                self.needed[id(child)] = self.needed.get(id(child), 0) + 1
            if _has_effect(node) or node.dtype is HANDLE or any(id(child) in self.fixed for child in children):
                self.fixed.add(id(node))
            if isinstance(node, Let):
                self.bound.add(node.var)
            elif isinstance(node, ir.Reduce):
                self.bound |= {axis.var for axis in node.axes}
        self.huge = {key for key, size in sizes.items() if size > MOST_NODES and self.needed.get(key, 0) > 1}
        self.large = {key for key, size in sizes.items() if size >= LEAST_NODES}
        self.always: dict[int, dict[int, Expr]] = {}

    def scope(self, e: Expr, outer: dict[int, Var]) -> tuple[Names, Expr]:
        """Return an expression evaluated as a whole, and the values that it needs several times, by those named outside of it."""
        if id(e) in outer:
            return (), outer[id(e)]
        known = dict(outer)
        names: list[tuple[Var, Expr]] = []
        levels: dict[int, int] = {}
        certain = self.evaluated(e)
        for key, node in (self.with_huge(e, certain, known) if self.huge else certain).items():
            if key in known:
                continue
            if key not in certain:
                value = _lets(*self.scope(node, known))
                known[key] = Var("t", node.dtype)
                names.append((known[key], value))
                continue
            levels[key] = 1 + max([levels.get(id(child), 0) for child in node.children()], default=0)
            if node is not e and self._may_have_name(node) and (self._is_shared(key) or levels[key] >= MOST_LEVELS):
                value = self._with(node, known)
                known[key] = Var("t", node.dtype)
                names.append((known[key], value))
                del levels[key]
        return tuple(names), self._with(e, known)

    def step(self) -> None:
        self.work += 1
        if self.work > MOST_WORK:
            raise TooManyWaysError

    def _is_shared(self, key: int) -> bool:
        return self.needed[key] > 1 and key in self.large

    def _may_have_name(self, e: Expr) -> bool:
        """Return whether a value may have a name. Conditions keep their form, by which rules know where a read is inside."""
        return id(e) not in self.fixed and not e.dtype.is_bool

    def evaluated(self, e: Expr) -> dict[int, Expr]:
        """Return the objects that are evaluated whenever an expression is, operands first."""
        found = self.always.get(id(e))
        if found is None:
            found = self.always[id(e)] = {}
            self._evaluate(e, found)
        return found

    def with_huge(self, e: Expr, certain: Mapping[int, Expr], known: Mapping[int, Var]) -> dict[int, Expr]:
        """Return the objects evaluated whenever an expression is, and the huge ones that may as well be, operands first.

        known : those that have names, into which it does not look
        """
        reads: set[Expr] = {node for node in certain.values() if isinstance(node, ir.Load | ir.ProducerLoad)}
        risks: dict[int, set[Expr] | None] = {}
        found: dict[int, Expr] = {}
        for node in _operands_first(e, known):
            self.step()
            key = id(node)
            risks[key] = set() if key in certain or key in known else self._risks(node, risks, reads)
            if key in certain or (key in self.huge and risks[key] == set() and self._may_have_name(node)):
                found[key] = node
        return found

    def _risks(self, e: Expr, risks: Mapping[int, set[Expr] | None], reads: set[Expr]) -> set[Expr] | None:
        """Return the reads in an expression that are not safe where it is not needed; None if it needs to be where it is."""
        match e:
            case Let() | ir.Reduce():
                return None
            case ir.FloorDiv() | ir.FloorMod() | ir.TruncDiv() | ir.TruncMod() if not value_of(e.b):
                return None
        if id(e) in self.fixed or (isinstance(e, Var) and e in self.bound):
            return None
        found: set[Expr] = set()
        for child, where in _cases(e):
            inner = risks[id(child)]
            if inner is None:
                return None
            found |= {read for read in inner if value_of(where) == 1 or not self.is_safe(read, where)}
        if isinstance(e, ir.Load | ir.ProducerLoad) and e not in reads and not self.is_safe(e, TRUE):
            found.add(e)
        return found

    def _evaluate(self, e: Expr, found: dict[int, Expr]) -> None:
        stack: list[tuple[Expr, bool]] = [(e, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in found:
                continue
            if not ready:
                stack.append((node, True))
                stack += [(child, False) for child in reversed(_certain(node))]
                continue
            if isinstance(node, ir.IfThenElse):  # what both cases need
                other = self.evaluated(node.false)
                found.update((key, x) for key, x in self.evaluated(node.true).items() if key in other)
            found[id(node)] = node

    def _with(self, e: Expr, known: dict[int, Var]) -> Expr:
        """Return an expression with the names known for objects in it, itself excepted."""
        done: dict[int, Expr] = {}

        def visit(node: Expr) -> Expr:
            key = id(node)
            if key in known:
                return known[key]
            if key not in done:
                done[key] = rebuilt(node)
            return done[key]

        def rebuilt(node: Expr) -> Expr:
            self.step()
            certain = {id(child) for child in _certain(node)}
            return node.rebuild(lambda child: visit(child) if id(child) in certain else _lets(*self.scope(child, known)))
        return rebuilt(e)


def _certain(e: Expr) -> tuple[Expr, ...]:
    """Return the operands that are evaluated whenever it is, and under no axes or variables of its own."""
    if isinstance(e, ir.Let | ir.Reduce):
        return ()
    return e.children()[:1] if isinstance(e, ir.IfThenElse | ir.And | ir.Or) else e.children()


def _cases(e: Expr) -> list[tuple[Expr, Expr]]:
    """Return the operands, each with the condition under which it is evaluated."""
    match e:
        case ir.IfThenElse():
            return [(e.condition, TRUE), (e.true, e.condition), (e.false, negate(e.condition))]
        case ir.And():
            return [(e.a, TRUE), (e.b, e.a)]
        case ir.Or():
            return [(e.a, TRUE), (e.b, negate(e.a))]
    return [(child, TRUE) for child in e.children()]


def _has_effect(e: Expr) -> bool:
    return isinstance(e, ir.Call) and e.kind != "pure"
