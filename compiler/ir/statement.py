"""The base of all statements: parts, and walks over them."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

from vtakit.compiler.ir.base import PRINTERS
from vtakit.compiler.ir.expr import Expr


class Stmt:
    """A statement."""

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.fields = (*cls.fields, *cls.__dict__.get("__slots__", ()))

    def replace(self, **parts: Any) -> Self:
        """Return the same statement with the named parts exchanged."""
        node = object.__new__(type(self))
        for field in self.fields:
            setattr(node, field, parts.get(field, getattr(self, field)))
        return node

    def rebuild(self, on_stmt: "Callable[[Stmt], Stmt]", on_expr: Callable[[Expr], Expr]) -> Self:
        """Return the same statement with each statement and expression directly in it changed; itself if none was."""
        parts: dict[str, Any] = {}
        for field in self.fields:
            value = getattr(self, field)
            new = on_stmt(value) if isinstance(value, Stmt) else _rebuild(value, on_stmt, on_expr)  # a call less a level
            if new is not value:
                parts[field] = new
        return self.replace(**parts) if parts else self

    def inner(self) -> "tuple[Stmt, ...]":
        """Return the statements directly in it, in order."""
        return tuple(_flat(self, Stmt))

    def operands(self) -> tuple[Expr, ...]:
        """Return the expressions directly in it, also within its tuples, in order."""
        return tuple(_flat(self, Expr))

    def __repr__(self) -> str:
        return PRINTERS[Stmt](self)


class Alone(Stmt):
    """A statement without others in it."""

    __slots__ = ()

    def inner(self) -> tuple[Stmt, ...]:
        """Return an empty tuple."""
        return ()


class Around(Stmt):
    """A statement around one other, its `body`."""

    __slots__ = ()
    body: Stmt

    def inner(self) -> tuple[Stmt, ...]:
        """Return the body."""
        return (self.body,)


def _flat(node: Stmt, kind: type[Any]) -> Iterator[Any]:
    """Yield the nodes of a kind that stand directly in a statement, also within its tuples."""
    stack: list[Any] = [getattr(node, field) for field in reversed(node.fields)]
    while stack:
        value = stack.pop()
        if isinstance(value, kind):
            yield value
        elif isinstance(value, tuple):
            stack.extend(reversed(value))


def _rebuild(value: Any, on_stmt: Callable[[Stmt], Stmt], on_expr: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, Expr):
        return on_expr(value)
    if isinstance(value, Stmt):
        return on_stmt(value)
    if isinstance(value, tuple) and value:
        items: list[Any] = [on_stmt(item) if isinstance(item, Stmt) else _rebuild(item, on_stmt, on_expr) for item in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
