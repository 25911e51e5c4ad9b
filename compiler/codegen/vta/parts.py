"""Parts of a program: the instructions that store to one buffer in DRAM, such as an operator's result, are one part."""

from collections.abc import Iterator, Mapping, Sequence

from vtakit.compiler.codegen.vta.actions import Requantized, Transfer
from vtakit.compiler.codegen.vta.stream import Step
from vtakit.compiler.codegen.vta.tree import Let, Memory, Nest, Node, Row, nests
from vtakit.compiler.codegen.vta.windows import AnyAction
from vtakit.hw.isa.insns import MEMORIES, Stage
from vtakit.hw.isa.program import Part


class Parts:
    """The parts of a tree, each a row of its outermost pieces, up to the last one that stores to the same buffers.

    names : of the buffers that a part stores to, joined by "+"
    """

    def __init__(self, root: Node, actions: Mapping[Nest, AnyAction]) -> None:
        self.names: list[str] = []
        self._number: dict[Node, int] = {}
        waiting: list[Node] = []  # what is computed for a part before its first store
        for piece in _pieces(root):
            waiting.append(piece)
            stored = "+".join(dict.fromkeys(_stores(piece, actions)))
            if stored:
                if self.names[-1:] != [stored]:
                    self.names.append(stored)
                self._number |= dict.fromkeys(waiting, len(self.names) - 1)
                waiting = []
        self._number |= dict.fromkeys(waiting, max(len(self.names) - 1, 0))

    def number(self, node: Node, otherwise: int) -> int:
        """The part of a piece; `otherwise` for what is none."""
        return self._number.get(node, otherwise)

    def ends(self, steps: Sequence[Step]) -> tuple[Part, ...]:
        """Return the end of each part in the finished program: behind the last instruction that was emitted for it."""
        ends = [0] * len(self.names)
        for at, step in enumerate(steps):
            if 0 <= step.part < len(ends):
                ends[step.part] = at + 1
        found, end, again = [], 0, dict.fromkeys(self.names, 0)
        for number, name in enumerate(self.names):
            end = len(steps) if number == len(ends) - 1 else max(end, ends[number])
            again[name] += 1
            found.append(Part(name if again[name] == 1 else f"{name}#{again[name]}", end))
        return tuple(found)


def _pieces(node: Node) -> Iterator[Node]:
    match node:
        case Row():
            for part in node.parts:
                yield from _pieces(part)
        case Memory() | Let():
            yield from _pieces(node.body)
        case _:
            yield node


def _stores(node: Node, actions: Mapping[Nest, AnyAction]) -> Iterator[str]:
    for nest in nests(node):
        action = actions[nest]
        if isinstance(action, Transfer | Requantized) and action.symbol and MEMORIES[action.kind].stage is Stage.STORE:
            yield action.symbol
