"""All mutants in one circuit: a rewritten site is the original, unless the pin `mutant` holds its number.

A site whose operands are plain Python numbers during elaboration stays what it is; `APPLIED` has the others.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import operator
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from mutation import sites

PIN = "mutant"
PIN_BITS = 16
MUTANT = Signal(PIN_BITS, name=PIN)
APPLIED: set[int] = set()
Rewrite = Callable[[str, str, int], tuple[ast.Module, list[sites.Site]]]  # of a source, its file and the first site's number

_MEANINGS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}


def choose(original: Value, mutants: Mapping[int, Value]) -> Value:
    """`original`, or the mutant whose number is on the pin, cut or extended to the original's shape."""
    shape = original.shape()
    chosen = original
    for number, mutant in mutants.items():
        APPLIED.add(number)
        chosen = Mux(number == MUTANT, mutant, chosen)[: shape.width]
        if shape.signed:
            chosen = chosen.as_signed()
    return chosen


def binary(sign: str, left: Any, right: Any, swapped: int, other_left: int, other_right: int) -> Any:
    """`left sign right`; mutants with another operator, or another constant for an operand that is one."""
    original = _MEANINGS[sign](left, right)
    if not isinstance(original, Value):
        return original
    mutants = {swapped: _MEANINGS[sites.SWAPS[sign]](left, right)}
    if other_left:
        mutants[other_left] = _MEANINGS[sign](sites.other_number(left), right)
    if other_right:
        mutants[other_right] = _MEANINGS[sign](left, sites.other_number(right))
    return choose(original, mutants)


def invert(operand: Any, number: int) -> Any:
    """`~operand`; the mutant is the operand."""
    original = ~operand
    return choose(original, {number: operand}) if isinstance(original, Value) else original


def reduction(name: str, operand: Any, number: int) -> Any:
    """`operand.any()` or `.all()`; the mutant is the other."""
    original = getattr(operand, name)()
    return choose(original, {number: getattr(operand, sites.REDUCTIONS[name])()}) if isinstance(original, Value) else original


def condition(value: Any, never: int, always: int) -> Value:
    """The condition; mutants never hold, or always do."""
    return choose(Value.cast(value), {never: Const(0), always: Const(1)})


def constant(value: int, number: int) -> Value:
    """The constant; the mutant is another."""
    return choose(Value.cast(value), {number: Value.cast(sites.other_number(value))})


def either(number: int, original: Any, mutant: Any) -> Value:
    """The original, or the mutant whose number this is."""
    return choose(Value.cast(original), {number: Value.cast(mutant)})


def planted(number: int) -> Value:
    """Return the condition that the mutant of this number is chosen."""
    APPLIED.add(number)
    return number == MUTANT


def later(m: Module, value: Any) -> Value:
    """The value of the cycle before, 0 at first; wherever `m` is being written, the register is under no condition."""
    held = Signal(Value.cast(value).shape(), name="later")
    part = Module()
    part.d.sync += held.eq(value)
    m.submodules += part
    return held


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one rewritten module."""

    def __init__(self, name: str, path: str, code: types.CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> types.CodeType:
        return self._code

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__[sites.HELPER] = sys.modules[__name__]
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Rewrites modules as this process imports them; the files stay as they are."""

    def __init__(self, modules: Mapping[str, Path], rewrite: Rewrite = sites.rewrite) -> None:
        self.sites: list[sites.Site] = []
        self.text = ""  # of all modules as they are rewritten
        self._loaders: dict[str, _Loader] = {}
        for name, path in sorted(modules.items()):
            file = f"{name.removeprefix('vtakit.hw.').replace('.', '/')}.py"
            tree, found = rewrite(path.read_text(), file, len(self.sites) + 1)
            self.sites += found
            self.text += ast.unparse(tree)
            self._loaders[name] = _Loader(name, str(path), compile(tree, str(path), "exec"))
        assert len(self.sites) < 1 << PIN_BITS

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        loader = self._loaders.get(fullname)
        return None if loader is None else importlib.util.spec_from_file_location(fullname, loader.path, loader=loader)

    def install(self) -> None:
        """From now on; none of the modules may be loaded yet."""
        loaded = self._loaders.keys() & sys.modules.keys()
        assert not loaded, f"{sorted(loaded)} are loaded already"
        sys.meta_path.insert(0, self)

    def applied(self) -> list[sites.Site]:
        """The mutants that the elaboration has met."""
        return [site for site in self.sites if site.number in APPLIED]
