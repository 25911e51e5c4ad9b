"""The functions that a module calls but does not define."""

from collections.abc import Sequence

from vtakit.compiler.codegen.llvm.errors import CodegenError


class Declarations:
    """The functions that a module calls but does not define, and those that it defines."""

    def __init__(self) -> None:
        self.outside: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
        self.defined: set[str] = set()

    def use(self, name: str, returns: str, args: list[str], extend: Sequence[str]) -> None:
        """Note a call. Raises CodegenError if the name was used with other types."""
        if name in self.defined:
            return
        known = self.outside.setdefault(name, (returns, tuple(args), tuple(extend)))
        if known[:2] != (returns, tuple(args)):
            raise CodegenError(
                f"the function {name} is called as {returns} ({', '.join(args)}) and as {known[0]} ({', '.join(known[1])}): "
                "a C function has one type, so cast the arguments to it"
            )

    def text(self) -> str:
        lines = []
        for name, (returns, args, extend) in sorted(self.outside.items()):
            marks = [*extend, *[""] * (len(args) + 1 - len(extend))]
            listed = ", ".join(f"{arg} {mark}".rstrip() for arg, mark in zip(args, marks, strict=False))
            lines.append(f"declare {marks[len(args)]}{returns} @{name}({listed})")
        return "\n".join(lines)
