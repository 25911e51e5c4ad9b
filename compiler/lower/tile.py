"""Loops of a stage computed by a tensor intrinsic: what they compute is matched with what the intrinsic does.

The loops from the tensorized one inward must cover a box of the stage's axes exactly, without a guard among them. The block that
takes their place counts tiles: an iterator ``t`` of an axis stands for the elements ``t * extent`` on.
"""

from collections.abc import Mapping
from typing import NoReturn, Protocol

from vtakit.compiler.arith.sets import Interval, conjuncts, region
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const, int_value, value_of
from vtakit.compiler.ir.walk import free_vars, substitute
from vtakit.compiler.lower.axes import pass_intervals, pass_values
from vtakit.compiler.lower.blocks import Point
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.loops import Loops
from vtakit.compiler.lower.matching import Match
from vtakit.compiler.lower.plan import Plan
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor

PAD = "split evenly, or compute a tensor of whole tiles from padded operands, and copy the part that is needed"


class Intrinsic(Protocol):
    """The interface of a tensor intrinsic: `vtakit.compiler.intrin.tensor_intrin.TensorIntrin`."""

    @property
    def name(self) -> str: ...
    @property
    def op(self) -> ComputeOp: ...
    @property
    def inputs(self) -> tuple[Tensor, ...]: ...
    @property
    def input_buffers(self) -> tuple[Buffer, ...]: ...
    @property
    def output_buffers(self) -> tuple[Buffer, ...]: ...
    @property
    def scalar_params(self) -> tuple[Var, ...]: ...
    @property
    def body(self) -> st.Stmt: ...
    @property
    def reset(self) -> st.Stmt | None: ...
    @property
    def update(self) -> st.Stmt | None: ...


class Tile:
    """The part of a stage that one run of the intrinsic computes.

    extents : of each axis of the operation, how many elements; bases : the first one, counted from 0, by the outer loops
    """

    def __init__(self, nests: Loops, plan: Plan, leaf: IterVar, intrin: Intrinsic) -> None:
        self.nests, self.plan, self.leaf, self.intrin = nests, plan, leaf, intrin
        self.analyzer = nests.analyzer
        op = plan.op
        assert isinstance(op, ComputeOp)
        self.op = op
        at = plan.stage.position(leaf)
        self.outer, self.inner = plan.stage.leaf_iter_vars[:at], plan.stage.leaf_iter_vars[at:]
        for held in self.inner:
            if nests.within.get((plan, held)):
                label = nests.within[plan, held][0].stage.label
                self.fail(f"{label} is computed within {held.name}, which the intrinsic replaces",
                          "compute it at a loop outside of the intrinsic")
        self.extents = self._box()
        first = {axis: const(0, axis.dtype) if axis in self.inner else plan.leaves[axis] for axis in plan.stage.leaf_iter_vars}
        starts = pass_values(plan.stage.relations, first, plan.extents)
        self.bases = {axis: self.analyzer.simplify(plan.ranges[axis].min + starts[axis]) for axis in op.root_iter_vars}
        self.iters: list[st.BlockIter] = []
        self.starts: dict[Var, Expr] = {}
        for axis in op.root_iter_vars:
            it, self.starts[axis.var] = self.count(axis, self.bases[axis])
            self.iters.append(it)
        self.where = self._guard()

    def fail(self, truth: str, cure: str) -> NoReturn:
        """Raise LowerError about this stage and intrinsic."""
        name = self.plan.stage.axis_labels[self.leaf]
        found = f"{self.plan.stage.label}'s loop {name} by {self.intrin.name}: {truth}"
        raise LowerError("tensorize", found, cure, (self.plan.stage, self.leaf))

    def _box(self) -> dict[IterVar, int]:
        """Return the extent of each axis within the inner loops. Raises LowerError unless they make every combination once."""
        plan, a = self.plan, self.analyzer
        leaves = {}
        iterations = 1
        for leaf in plan.stage.leaf_iter_vars:
            value = plan.leaves[leaf]
            if leaf in self.inner:
                extent = plan.extents[leaf]
                count = int_value(extent)
                if count is None:
                    self.fail(f"the extent of {leaf.name} is {extent}, no number", "tensorize loops of known extents")
                iterations *= count
                leaves[leaf] = Interval(const(0, value.dtype), const(count - 1, value.dtype))
            else:
                leaves[leaf] = Interval(value, value)
        found: dict[IterVar, int] = {}
        elements = 1
        spans = pass_intervals(plan.stage.relations, leaves, plan.extents, a)
        for axis in self.op.root_iter_vars:
            size = int_value(a.simplify(spans[axis].max - spans[axis].min + 1))
            if size is None:
                self.fail(f"how much of {axis.name} the loops cover depends on the loops around them", PAD)
            found[axis] = size
            elements *= size
        if elements != iterations:
            box = " × ".join(f"{axis.name}: {size}" for axis, size in found.items())
            self.fail(f"the {iterations} iterations of the inner loops do not cover a box of the axes ({box})",
                      "let the inner loops be the inner parts of even splits")
        return found

    def _guard(self) -> Expr:
        """Return the condition under which the stage's block runs; it holds for all of a tile or for none of it."""
        plan = self.plan
        point = Point(plan, {axis: plan.values[axis] for axis in self.op.root_iter_vars}, self.analyzer)
        inner = {
            value: Range(const(0, value.dtype), plan.extents[leaf])
            for leaf in self.inner if isinstance(value := plan.leaves[leaf], Var)
        }
        found = []
        for part in self.guards(self.nests.where(plan, point, plan.values, plan.stage.relations), point, self.starts):
            whole = self._of_tile(part, inner) if free_vars(part) & {*inner} else part
            if whole is None:
                self.fail(f"the condition {part} guards single elements of its tile", PAD)
            found.append(whole)
        return all_of(*found)

    def guards(self, where: Expr, point: Point, starts: Mapping[Var, Expr]) -> list[Expr]:
        """Return the parts of a condition on the iterators of a point, in terms of loops.

        A part on axes of which a tile has one element stays in terms of iterators, those of `starts`: the verifier sees that
        it only keeps them within their domains.
        """
        single = {point.vars[axis.var]: starts[axis.var] for axis in self.op.root_iter_vars
                  if self.extents[axis] == 1 and axis.var in point.vars and axis.var in starts}
        loops, own = bindings(point), {it.var for it in point.iters}
        return [substitute(part, {v: single[v] for v in used} if (used := free_vars(part) & own) <= single.keys() else loops)
                for part in conjuncts(where)]

    def _of_tile(self, part: Expr, inner: dict[Var, Range]) -> Expr | None:
        """Return ``first i < n`` for ``i < n`` if i stays between two multiples of a tile's extent and n is one, else None."""
        if not isinstance(part, ir.LT):
            return None
        a, ends = self.analyzer, region(part.a, inner, self.analyzer)
        for size in set(self.extents.values()):
            if ends and a.prove_equal(part.b % size, 0) and a.prove_equal(ends.min // size, ends.max // size):
                return ends.min < part.b
        return None

    def count(self, axis: IterVar, base: Expr) -> tuple[st.BlockIter, Expr]:
        """Return an iterator over an axis's tiles, or over its elements if tiles do not divide it, and a tile's first element."""
        a, size = self.analyzer, self.extents[axis]
        dom = axis.dom if axis.kind is IterKind.DATA and axis.dom is not None else self.plan.ranges[axis]
        var = Var(f"v{axis.name}", axis.dtype)
        whole = a.prove_equal(dom.extent % size, 0) and a.prove_equal(dom.min, 0) and a.prove_equal(base % size, 0)
        if whole and size > 1:
            tiles = Range(const(0, axis.dtype), a.simplify(dom.extent // size))
            return st.BlockIter(var, tiles, axis.kind, a.simplify(base // size)), var * size
        return st.BlockIter(var, dom, axis.kind, base), var

    def match(self) -> Match:
        """Return what the intrinsic's operands and parameters stand for. Raises LowerError with both bodies if they differ."""
        want = self.intrin.op
        inside: dict[Var, Expr] = dict(self.starts)
        ours = {kind: [axis for axis in self.op.root_iter_vars if axis.kind is kind and self.extents[axis] > 1]
                for kind in (IterKind.DATA, IterKind.REDUCE)}
        theirs: dict[IterKind, list[tuple[IterVar, int]]] = {IterKind.DATA: [], IterKind.REDUCE: []}
        still: dict[Var, Expr] = {}
        for axis in want.root_iter_vars:
            size = int_value(axis.dom.extent) if axis.dom else None
            if size is None:
                self.fail(f"the intrinsic's axis {axis.name} has no extent that is a number", "declare it for one size")
            if size == 1:
                still[axis.var] = const(0, axis.dtype)
            else:
                theirs[axis.kind].append((axis, size))
        for kind, mine in ours.items():
            if [self.extents[axis] for axis in mine] != [size for _, size in theirs[kind]]:
                shapes = [" × ".join(map(str, sizes)) or "1" for sizes in (
                    [self.extents[axis] for axis in mine], [size for _, size in theirs[kind]])]
                word = "elements" if kind is IterKind.DATA else "terms of the reduction"
                self.fail(f"the loops cover {shapes[0]} {word}, the intrinsic {shapes[1]}", "split to the intrinsic's extents")
            for axis, (other, _) in zip(mine, theirs[kind], strict=True):
                inside[axis.var] = self.starts[axis.var] + other.var
        moving = frozenset(axis.var for pairs in theirs.values() for axis, _ in pairs)
        for pairs in theirs.values():
            for axis, _ in pairs:
                if axis.dom is not None:
                    self.analyzer.bind(axis.var, axis.dom)
        for it in self.iters:
            self.analyzer.bind(it.var, it.dom)
        found = Match(self.analyzer, moving, self.intrin.scalar_params)
        for have, need in zip(self.plan.body, want.body, strict=False):
            if not self._same_value(found, have, need, inside, still):
                self._differ()
        if len(self.plan.body) != len(want.body):
            self._differ()
        return found

    def _same_value(self, found: Match, have: Expr, want: Expr, inside: dict[Var, Expr], still: dict[Var, Expr]) -> bool:
        if isinstance(have, ir.Reduce) != isinstance(want, ir.Reduce):
            return isinstance(have, ir.Reduce) and self._one_term(have) and found.expr(
                substitute(have.source[have.value_index], inside), substitute(want, still))
        if not isinstance(have, ir.Reduce) or not isinstance(want, ir.Reduce):
            return self._alike(found, substitute(have, inside), substitute(want, still))
        a, b = have.combiner, want.combiner
        same = a is b or (str(a), str(a.identity), a.lhs[0].dtype) == (str(b), str(b.identity), b.lhs[0].dtype)
        plain = value_of(have.condition) == 1 and value_of(want.condition) == 1 and not want.init
        begun = not have.init or self.intrin.update is not None  # loops before the intrinsic's set what it updates
        pairs = zip(have.source, want.source, strict=True)
        return same and plain and begun and all(self._alike(found, substitute(x, inside), substitute(y, still)) for x, y in pairs)

    def _alike(self, found: Match, have: Expr, want: Expr) -> bool:
        """Return whether the expressions match in their normal forms, or as they stand."""
        a, before = self.analyzer, (dict(found.operands), dict(found.values))
        if found.expr(a.simplify(have), a.simplify(want)):
            return True
        found.operands, found.values = before
        return found.expr(have, want)

    def _one_term(self, reduce: ir.Reduce) -> bool:
        """Return whether all of a reduction is one term, so that the term is its value."""
        return all(int_value(self.plan.ranges[axis].extent) == 1 for axis in reduce.axes)

    def _differ(self) -> NoReturn:
        def text(op: ComputeOp, body: tuple[Expr, ...]) -> str:
            lines = [f"    {tensor.name} = {e}" for tensor, e in zip(op.outputs, body, strict=True)]
            lines[-1] += f"  # {', '.join(f'{tensor.name}: {tensor.dtype}' for tensor in (*op.outputs, *op.input_tensors))}"
            return "\n".join(lines)
        ours, theirs = text(self.op, self.plan.body), text(self.intrin.op, self.intrin.op.body)
        self.fail(f"what the loops compute,\n{ours}\nis not what the intrinsic does,\n{theirs}",
                  "declare the intrinsic with the same operations, types and order of operands' dimensions")


def bindings(point: Point) -> dict[Var, Expr]:
    """Return the value of each iterator of a point, in terms of the loops around."""
    return {it.var: it.binding for it in point.iters}
