"""Setups that a processor needs before some code runs, hoisted out of as many loops around that code as keep them.

Setting up tile registers takes longer than a product of two of them, so it is done once before a loop. A call of another
function ends it, as the calling convention says, and so does another setup.
"""

from dataclasses import dataclass, field


class Slot:
    """A place within a block whose lines are known later."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: list[str] = []


@dataclass(slots=True)
class _Span:
    """A function or a loop being written: the slot before it, the setups wanted in it with their slots, and what ends them."""

    before: Slot
    wanted: list[tuple[Slot, str]] = field(default_factory=list)
    disturbed: bool = False


class Setups:
    """The setups of one function."""

    def __init__(self) -> None:
        self.entry = Slot()
        self.exits: list[Slot] = []
        self.undo = ""
        self._spans = [_Span(self.entry)]

    def begin(self) -> Slot:
        """A loop begins behind the slot."""
        slot = Slot()
        self._spans.append(_Span(slot))
        return slot

    def end(self) -> None:
        """The loop ends. One setup that nothing within it ends is left to what is around it."""
        span, around = self._spans.pop(), self._spans[-1]
        if span.wanted and not self._alike(span):
            self._fill(span)
            around.disturbed = True
        elif span.wanted:
            around.wanted.append((span.before, span.wanted[0][1]))
        around.disturbed |= span.disturbed

    def want(self, line: str, undo: str) -> Slot:
        """The setup that `line` does holds behind the slot; `undo` is what the function does before it returns."""
        slot = Slot()
        self._spans[-1].wanted.append((slot, line))
        self.undo = undo
        return slot

    def leave(self) -> Slot:
        """The function returns behind the slot."""
        self.exits.append(Slot())
        return self.exits[-1]

    def disturb(self) -> None:
        """Something ends whatever was set up."""
        self._spans[-1].disturbed = True

    def finish(self) -> None:
        """The function is written: fill the slots."""
        (span,) = self._spans
        if span.wanted and self._alike(span):
            self.entry.lines.append(span.wanted[0][1])
        else:
            self._fill(span)
        for slot in self.exits:
            slot.lines += [self.undo] if self.undo else []

    @staticmethod
    def _alike(span: _Span) -> bool:
        return not span.disturbed and len({line for _, line in span.wanted}) == 1

    @staticmethod
    def _fill(span: _Span) -> None:
        for slot, line in span.wanted:
            slot.lines.append(line)
