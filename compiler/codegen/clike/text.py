"""Lines of a kernel, names in it, and the functions that it calls."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from vtakit.compiler.codegen.clike.dialect import Dialect


class Names:
    """Names that differ from each other and from the language's own."""

    def __init__(self, dialect: Dialect, taken: Iterable[str] = ()) -> None:
        self._dialect, self._taken = dialect, {*taken}

    def fresh(self, wanted: str) -> str:
        """Return a name like the wanted one."""
        clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted).strip("_") or "v"
        clean = f"v{clean}" if clean[0].isdigit() else clean
        name, count = clean, 0
        while name in self._taken or self._dialect.taken(name):
            count += 1
            name = f"{clean}_{count}"
        self._taken.add(name)
        return name


class Lines:
    """Lines of text, indented. Texts of operands remember what stands in their parentheses."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def indent(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Collect the lines that are written within, one level deeper, instead of adding them."""
        outer, self.lines = self.lines, []
        self.depth += 1
        try:
            yield self.lines
        finally:
            self.lines = outer
            self.depth -= 1


def bare(text: str) -> str:
    """Return an operand without the parentheses around it, where nothing can bind tighter."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


class Functions:
    """The functions of one source: each is defined once, before those that call it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._names: dict[object, str] = {}

    def name(self, key: object, wanted: str, define: Callable[[str], str]) -> str:
        """Return the name of a function; `define` gives the text of one that is new."""
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = wanted
            self.texts.append(define(found))
        return found


def indented(lines: Iterable[str]) -> list[str]:
    """Return the lines one level deeper."""
    return [f"  {line}" for line in lines]
