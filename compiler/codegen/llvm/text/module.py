"""A module being written: its functions, strings, messages and calls into Python."""

from typing import NamedTuple

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.declarations import Declarations
from vtakit.compiler.codegen.llvm.text.operands import Value
from vtakit.compiler.ir.dtypes import DType

OUT_OF_MEMORY, RAISED = -1, -2  # statuses of a call; 0 is success, and from 1 on they are assertions that do not hold
_LINE_BYTES = 64  # of the caches, where functions begin: a loop's time then does not follow from the code before it
_METADATA = '!1 = !{!"branch_weights", i32 2000, i32 1}\n!2 = !{!"branch_weights", i32 1, i32 2000}\n!3 = !{!"llvm.licm.disable"}'


class PackedArg(NamedTuple):
    """Kind of an argument of a call into Python: a scalar in one slot, or a buffer as an address and its extents.

    dims     : of a buffer, else -1
    writable : whether the function may write to the buffer
    """

    dtype: DType
    dims: int = -1
    writable: bool = False


class PackedSite(NamedTuple):
    """A place where code calls a Python function: each argument's slots of 8 bytes follow one another, the result goes first."""

    name: str
    args: tuple[PackedArg, ...]
    returns: DType


class Module:
    """Builder of one LLVM module."""

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target
        self.declare = Declarations()
        self.messages: list[str] = []
        self.packed: list[PackedSite] = []
        self.functions: list[str] = []
        self.globals: dict[str, str] = {}
        self._strings: dict[str, str] = {}
        self._loops: list[str] = []
        self._count = 0

    def unique(self, hint: str) -> str:
        """A name within the module that no C program can use."""
        self._count += 1
        return f"{self.name}.{hint}.{self._count}"

    def function(
        self, name: str, returns: str, params: list[str], *, internal: bool = False, whole: bool = False
    ) -> Builder:
        """Start a function, at a cache line; `finish` adds it to the module. `params` are types with attributes and names.

        whole : whether it stays a function of its own, and is not made part of those that call it
        """
        self.declare.defined.add(name)
        linkage, ending = "internal " if internal else "", " noinline" if whole else ""
        head = f"define {linkage}{returns} @{name}({', '.join(params)}) nounwind{ending} align {_LINE_BYTES}"
        return Builder(head, self.declare)

    def finish(self, builder: Builder) -> None:
        self.functions.append(builder.text())

    def fixed_loop(self) -> str:
        """Metadata for the branch back of a loop out of which LLVM is to move nothing."""
        name = f"!{len(self._loops) + 4}"
        self._loops.append(f"{name} = distinct !{{{name}, !3}}")
        return name

    def unrolled_loop(self) -> str:
        """Metadata for the branch back of a loop that LLVM is to unroll whole."""
        name = f"!{len(self._loops) + 4}"
        self._loops.append(f'{name} = distinct !{{{name}, !{{!"llvm.loop.unroll.full"}}}}')
        return name

    def string(self, text: str) -> Value:
        """The address of a constant string, with a 0 at its end."""
        name = self._strings.setdefault(text, f"@{self.name}.string.{len(self._strings)}")
        return Value(name, "ptr")

    def variable(self, name: str, definition: str) -> Value:
        """The address of a variable of the module, which all that ask for the name share."""
        full = f"@{self.name}.{name}"
        self.globals.setdefault(full, f"{full} = {definition}")
        return Value(full, "ptr")

    def constant(self, name: str, data: bytes) -> None:
        """Add bytes that who loads the code finds by their name."""
        text = "".join(f"\\{byte:02X}" for byte in data)
        self.globals[name] = f'@{name} = constant [{len(data)} x i8] c"{text}", align 8'

    def status_of(self, message: str) -> int:
        """The status that says an assertion with that message does not hold."""
        if message not in self.messages:
            self.messages.append(message)
        return self.messages.index(message) + 1

    def text(self) -> str:
        strings = []
        for text, name in self._strings.items():
            data = text.encode() + b"\0"
            escaped = "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\{c:02X}" for c in data)
            strings.append(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{escaped}"')
        known = [*strings, *self.globals.values(), self.declare.text()]
        notes = "\n".join((_METADATA, *self._loops, *_abi(self.target)))
        parts = [f'target triple = "{self.target.llvm_triple}"', *known, *self.functions, notes]
        return "\n\n".join(filter(None, parts)) + "\n"


def _abi(target: Target) -> tuple[str, ...]:
    """Metadata that says how floats are passed, where LLVM does not take it from the triple."""
    return (f'!0 = !{{i32 1, !"target-abi", !"{target.abi}"}}', "!llvm.module.flags = !{!0}") if target.abi else ()
