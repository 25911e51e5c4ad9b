"""Copies that a DMA engine can do: recognised in loops, given as shapes and strides."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, IntImm, Load, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import map_stmt
from vtakit.compiler.passes.affine import linear
from vtakit.compiler.passes.base import PassError


@dataclass(frozen=True, slots=True)
class Copy:
    """A box of elements from one buffer to another, both flat.

    shape : elements in each dimension, outermost first, pads not counted
    source_offset, target_offset : of the first element that is copied, from the buffer's address
    source_strides, target_strides : elements from one index to the next in each dimension
    pad_before, pad_after : elements of `pad_value` written before and after in each dimension; () for none
    """

    source: Buffer
    target: Buffer
    shape: tuple[Expr, ...]
    source_offset: Expr
    target_offset: Expr
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]
    pad_before: tuple[Expr, ...] = ()
    pad_after: tuple[Expr, ...] = ()
    pad_value: Expr | None = None

    def __str__(self) -> str:
        text = (
            f"{self.target.name}[{self.target_offset}; strides {_row(self.target_strides)}] = "
            f"{self.source.name}[{self.source_offset}; strides {_row(self.source_strides)}], shape {_row(self.shape)}"
        )
        return text if self.pad_value is None else (
            f"{text}, padded by {self.pad_value}: {_row(self.pad_before)} before, {_row(self.pad_after)} after"
        )


def inject_copies(function: Function, pragma: str, make: Callable[[Copy], Stmt | str]) -> Function:
    """Each loop nest noted with a pragma becomes what `make` gives for its copy.

    ``for i in range(8):  # dma=1``, ``for j in range(4): B[i * 4 + j] = A[i * 16 + j]``  ->  ``make(Copy(shape (8, 4), …))``

    make : a statement, or a sentence on why this copy cannot be done, which a PassError then says with shape and strides
    Flat buffers only. Raises PassError for a noted nest that is no copy.
    """
    def on_stmt(s: Stmt) -> Stmt:
        if not (isinstance(s, st.For) and pragma in s.notes) and not (isinstance(s, st.Attr) and s.key == pragma):
            return s
        found = find_copy(s.body if isinstance(s, st.Attr) else s)
        if isinstance(found, str):
            raise PassError(f"pragma {pragma!r} is on what is no copy: {found}", function, s)
        made = make(found)
        if isinstance(made, str):
            raise PassError(f"pragma {pragma!r}: {made}: {found}", function, s)
        return made
    return function._replace(body=map_stmt(function.body, on_stmt))


def find_copy(s: Stmt) -> Copy | str:
    """The copy that a loop nest (or a single store) is, or why it is none."""
    loops: list[tuple[Var, Expr]] = []
    analyzer = Analyzer()
    while isinstance(s, st.For):
        if int_value(s.extent) != 1:
            analyzer.bind(s.var, Range(IntImm(0, s.var.dtype), s.extent))
            loops.append((s.var, s.extent))
            s = s.body
        else:
            analyzer.bind(s.var, IntImm(0, s.var.dtype))
            s = s.body
    if not isinstance(s, st.Store):
        return f"its body is no single store but\n{s}"
    value, condition, pad = s.value, None, None
    chosen = s.value
    if isinstance(chosen, ir.Select | ir.IfThenElse):
        value, condition, pad = chosen.true, chosen.condition, chosen.false
    if isinstance(value, ir.Cast) and value.dtype is value.value.dtype:
        value = value.value
    if not isinstance(value, Load):
        return f"the value stored is no element of a buffer but {value}"
    if pad is not None and any(isinstance(x, Load | Var) for x in _all(pad)):
        return f"the value beside the copied ones is no constant but {pad}"
    source = _strided(analyzer.simplify(value.indices[0]), loops)
    target = _strided(analyzer.simplify(s.indices[0]), loops)
    if source is None or target is None:
        bad = value.indices[0] if source is None else s.indices[0]
        return f"the index {bad} is not linear in the loops {', '.join(var.name for var, _ in loops)}"
    shape = [extent for _, extent in loops]
    before: list[Expr] = [IntImm(0, INT32) for _ in loops]
    after = list(before)
    if condition is not None:
        problem = _clip(condition, loops, analyzer, before, after)
        if problem:
            return problem
    first, second = source[0], target[0]
    for i, (stride, other, skip) in enumerate(zip(source[1], target[1], before, strict=True)):
        first, second = first + skip * stride, second + skip * other
        shape[i] = shape[i] - skip - after[i]
    return _folded(Copy(
        value.buffer, s.buffer, tuple(map(analyzer.simplify, shape)), analyzer.simplify(first), analyzer.simplify(second),
        source[1], target[1], *((tuple(map(analyzer.simplify, before)), tuple(map(analyzer.simplify, after)), pad)
                                if pad is not None else ()),
    ))


def _strided(index: Expr, loops: list[tuple[Var, Expr]]) -> tuple[Expr, tuple[int, ...]] | None:
    """The index with all loops at 0, and the step of each loop."""
    form = linear(index)
    variables = {var for var, _ in loops}
    for atom in form.terms:
        if atom not in variables and any(x in variables for x in _all(atom) if isinstance(x, Var)):
            return None
    return form.without(variables).expr(), tuple(form.terms.get(var, 0) for var, _ in loops)


def _clip(
    condition: Expr, loops: list[tuple[Var, Expr]], analyzer: Analyzer, before: list[Expr], after: list[Expr]
) -> str | None:
    """Adds what a condition takes from the start and the end of each loop; or says why it is no box."""
    if isinstance(condition, ir.And):
        return _clip(condition.a, loops, analyzer, before, after) or _clip(condition.b, loops, analyzer, before, after)
    text = f"the condition {condition} bounds no single loop from one side"
    if not isinstance(condition, ir.LT | ir.LE):
        return text
    form = linear(analyzer.simplify(condition.a - condition.b))
    concerned = [i for i, (var, _) in enumerate(loops) if var in form.terms]
    if len(concerned) != 1:
        return text
    i = concerned[0]
    var, extent = loops[i]
    step = form.terms[var]
    rest = form.without([var]).expr() + (1 if isinstance(condition, ir.LT) else 0)  # step * var + rest <= 0
    if abs(step) != 1 or any(x is var for x in _all(rest)):
        return text
    zero = IntImm(0, INT32)
    if step < 0:
        before[i] = maximum(before[i], minimum(maximum(rest, zero), extent))
    else:
        after[i] = maximum(after[i], minimum(maximum(extent - 1 + rest, zero), extent))
    return None


def _folded(copy: Copy) -> Copy:
    """The copy with dimensions merged that lie next to each other in both buffers, as after a split."""
    if copy.pad_value is not None or len(copy.shape) < 2:
        return copy
    shape, sources, targets = [copy.shape[-1]], [copy.source_strides[-1]], [copy.target_strides[-1]]
    for extent, source, target in reversed([*zip(copy.shape, copy.source_strides, copy.target_strides, strict=True)][:-1]):
        size = int_value(shape[0])
        if size is not None and source == sources[0] * size and target == targets[0] * size:
            shape[0] = extent * size
        else:
            shape, sources, targets = [extent, *shape], [source, *sources], [target, *targets]
    return replace(copy, shape=tuple(shape), source_strides=tuple(sources), target_strides=tuple(targets))


def _all(e: Expr) -> list[Expr]:
    return [e, *[x for child in e.children() for x in _all(child)]]


def _row(items: tuple[Expr | int, ...]) -> str:
    return f"({', '.join(map(str, items))})"
