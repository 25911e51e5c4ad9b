"""Walks over expressions and statements: visit, change, substitute.

Parts of an expression may be one object in several places, so that it is a graph. A walk meets each object once, or its time
would grow with the number of ways that lead to one.
"""

from collections.abc import Callable, Iterator, Mapping

from vtakit.compiler.ir.base import Leaf
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Call, Expr, FloorDiv, FloorMod, Let, Load, Reduce, Var
from vtakit.compiler.ir.stmt import Allocate, Attr, Block, Region, Stmt, Store


def subexpressions(e: Expr) -> Iterator[Expr]:
    """The expression and everything in it, outermost first, each object once."""
    if not e.children():
        yield e
        return
    stack, seen = [e], set()
    while stack:
        node = stack.pop()
        key = id(node)
        if key not in seen:
            seen.add(key)
            yield node
            if operands := node.children():
                stack += operands[::-1]


def statements(s: Stmt) -> Iterator[Stmt]:
    """The statement and all those in it, outermost first, in program order."""
    stack = [s]
    while stack:
        node = stack.pop()
        yield node
        stack += node.inner()[::-1]


def expressions(s: Stmt) -> Iterator[Expr]:
    """Every expression that stands directly in the statement or in one within it (not their subexpressions)."""
    for node in statements(s):
        yield from node.operands()


def map_expr(e: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to each object in it, operands first; what was one object is one again."""
    done: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = change(node.rebuild(visit))
        return found
    return visit(e)


def map_stmt(s: Stmt, on_stmt: Callable[[Stmt], Stmt] = lambda s: s, on_expr: Callable[[Expr], Expr] = lambda e: e) -> Stmt:
    """The statement with `on_stmt` applied to each statement in it, inner ones first, and `on_expr` to each whole expression."""
    def visit(inner: Stmt) -> Stmt:
        return on_stmt(inner.rebuild(visit, on_expr))
    return visit(s)


def substitute(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced, all at once. No two binders share a variable, so none is captured."""
    if not values:
        return e
    if isinstance(e, Leaf):
        return values.get(e, e) if isinstance(e, Var) else e
    done: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        if isinstance(node, Leaf):
            return values.get(node, node) if isinstance(node, Var) else node
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = node.rebuild(visit)
        return found
    return visit(e)


def substitute_stmt(s: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """The statement with variables replaced in all its expressions and in the sizes of the buffers that it allocates."""
    if not values:
        return s
    moved = map_stmt(s, on_expr=lambda e: substitute(e, values))
    owned = {node.buffer.data for node in statements(s) if isinstance(node, Allocate) and _sized_by(node.buffer, values)}
    return replace_buffers(moved, {b: _resized(b, values) for b in _buffers(moved) if b.data in owned}) if owned else moved


def _sized_by(buffer: Buffer, values: Mapping[Var, Expr]) -> bool:
    return any(not values.keys().isdisjoint(free_vars(size)) for size in (*buffer.shape, *buffer.strides, buffer.offset))


def _resized(buffer: Buffer, values: Mapping[Var, Expr]) -> Buffer:
    shape, strides = ([substitute(size, values) for size in sizes] for sizes in (buffer.shape, buffer.strides))
    offset = substitute(buffer.offset, values)
    found = Buffer(buffer.name, shape, buffer.dtype, buffer.scope, strides=strides, align=buffer.align, offset=offset,
                   swizzle=buffer.swizzle)
    found.data = buffer.data
    return found


def _buffers(s: Stmt) -> set[Buffer]:
    """The buffers that statements allocate, store to, mark, read or say that they touch."""
    found = {node.buffer for node in statements(s) if isinstance(node, Allocate | Store)}
    found |= {node.node for node in statements(s) if isinstance(node, Attr) and isinstance(node.node, Buffer)}
    found |= {region.buffer for node in statements(s) if isinstance(node, Block) for region in (*node.reads, *node.writes)}
    return found | {x.buffer for e in expressions(s) for x in subexpressions(e) if isinstance(x, Load)}


def replace_buffers(s: Stmt, new: Mapping[Buffer, Buffer]) -> Stmt:
    """The statement with buffers exchanged for others that are read in the same way."""
    def on_expr(e: Expr) -> Expr:
        return map_expr(e, lambda x: x.replace(buffer=new[x.buffer]) if isinstance(x, Load) and x.buffer in new else x)

    def region(r: Region) -> Region:
        return r._replace(buffer=new.get(r.buffer, r.buffer))

    def on_stmt(node: Stmt) -> Stmt:
        if isinstance(node, Store) and node.buffer in new:
            return node.replace(buffer=new[node.buffer])
        if isinstance(node, Block):
            return node.replace(reads=tuple(map(region, node.reads)), writes=tuple(map(region, node.writes)))
        if isinstance(node, Allocate) and node.buffer in new:
            return node.replace(buffer=new[node.buffer])
        if isinstance(node, Attr) and isinstance(node.node, Buffer):
            return node.replace(node=new.get(node.node, node.node))
        return node
    return map_stmt(s, on_stmt, on_expr)


def free_vars(e: Expr) -> set[Var]:
    """The variables in an expression, those that it binds itself excepted."""
    found, bound = set(), set()
    for node in subexpressions(e):
        if isinstance(node, Var):
            found.add(node)
        elif isinstance(node, Let):
            bound.add(node.var)
        elif isinstance(node, Reduce):
            bound |= {axis.var for axis in node.axes}
    return found - bound


def divides(e: Expr) -> bool:
    """Return whether the expression has a quotient or a remainder, rounded down."""
    return any(isinstance(node, FloorDiv | FloorMod) for node in subexpressions(e))


def loads(e: Expr) -> Iterator[Load]:
    """Every read of a buffer in an expression, addresses excepted; one object once."""
    stack, seen = [e], set()
    while stack:
        node = stack.pop()
        key = id(node)
        if key in seen:
            continue
        seen.add(key)
        if isinstance(node, Call) and node.name == "address_of":
            stack += (*node.args[0].children(), *node.args[1:])[::-1]
            continue
        if isinstance(node, Load):
            yield node
        if operands := node.children():
            stack += operands[::-1]
