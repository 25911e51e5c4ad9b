"""Loops of a stage computed by a tensor intrinsic: what they compute is matched with what the intrinsic does.

The loops from the tensorized one inward must cover a box of the stage's axes exactly, without a guard among them. The block that
takes their place counts tiles: an iterator ``t`` of an axis stands for the elements ``t * extent`` on.
"""

from typing import TYPE_CHECKING, NoReturn, Protocol

from vtakit.compiler.arith.sets import Interval
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const, int_value, value_of, wrap
from vtakit.compiler.ir.walk import free_vars, map_stmt, substitute, substitute_stmt
from vtakit.compiler.lower import blocks
from vtakit.compiler.lower.axes import coming_from, parents, pass_intervals, pass_values
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.matching import Match, Operand
from vtakit.compiler.lower.plan import Plan, is_launch, loop_var
from vtakit.compiler.schedule.nest import nest_text
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor

if TYPE_CHECKING:
    from vtakit.compiler.lower.nest import Nests


# A buffer of an intrinsic -> the box of a buffer of the program that it is, and which dimension each of its own is.
Places = dict[Buffer, tuple[st.Region, tuple[int | None, ...]]]


class Write(Protocol):
    """Makes a block of code; `adds` if it also reads the outputs."""

    def __call__(self, code: st.Stmt, match: Match, *, adds: bool) -> st.Block: ...


class Intrinsic(Protocol):
    """What is asked of a tensor intrinsic: `vtakit.compiler.intrin.tensor_intrin.TensorIntrin`."""

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

    def __init__(self, nests: "Nests", plan: Plan, leaf: IterVar, intrin: Intrinsic) -> None:
        self.nests, self.plan, self.leaf, self.intrin = nests, plan, leaf, intrin
        self.analyzer = nests.analyzer
        op = plan.op
        assert isinstance(op, ComputeOp)
        self.op = op
        at = plan.stage.position(leaf)
        self.outer, self.inner = plan.stage.leaf_iter_vars[:at], plan.stage.leaf_iter_vars[at:]
        for held in self.inner:
            if nests.within.get((plan, held)):
                self.fail(f"{nests.within[plan, held][0].stage.label} is computed within {held.name}, which the intrinsic replaces",
                          "compute it at a loop outside of the intrinsic")
        self.extents = self._box()
        first = {axis: const(0, axis.dtype) if axis in self.inner else plan.leaves[axis] for axis in plan.stage.leaf_iter_vars}
        starts = pass_values(plan.stage.relations, first, plan.extents)
        self.bases = {axis: self.analyzer.simplify(plan.ranges[axis].min + starts[axis]) for axis in op.root_iter_vars}
        self.where = self._guard()
        self.iters: list[st.BlockIter] = []
        self.starts: dict[Var, Expr] = {}
        for axis in op.root_iter_vars:
            it, self.starts[axis.var] = self._count(axis, self.bases[axis])
            self.iters.append(it)

    def fail(self, truth: str, cure: str) -> NoReturn:
        """Raise LowerError about this stage and intrinsic."""
        name = self.plan.stage.axis_labels[self.leaf]
        raise LowerError(
            f"tensorize of {self.plan.stage.label}'s loop {name} by {self.intrin.name}: {truth}\n\n"
            f"{nest_text(self.plan.stage, self.leaf)}\n\nhint: {cure}"
        )

    def _box(self) -> dict[IterVar, int]:
        """How many values each axis takes within the inner loops, which must make every combination of them once."""
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
                self.fail(f"how much of {axis.name} the loops cover depends on the loops around them",
                          "split evenly, or compute whole tiles with cache_write and guard the copy")
            found[axis] = size
            elements *= size
        if elements != iterations:
            box = " × ".join(f"{axis.name}: {size}" for axis, size in found.items())
            self.fail(f"the {iterations} iterations of the inner loops do not cover a box of the axes ({box})",
                      "let the inner loops be the inner parts of even splits")
        return found

    def _guard(self) -> Expr:
        """The condition under which the stage's block runs; it may not tell the inner iterations apart."""
        plan = self.plan
        point = blocks.Point(plan, {axis: plan.values[axis] for axis in self.op.root_iter_vars}, self.analyzer)
        found = self.nests.where(plan, point, plan.values, plan.stage.relations)
        moving = {v for leaf in self.inner if isinstance(v := plan.leaves[leaf], Var)} | {it.var for it in point.iters}
        if free_vars(found) & moving:
            self.fail(f"the condition {found} guards single elements of the intrinsic's tile",
                      "split evenly, or compute whole tiles with cache_write and guard the copy")
        return found

    def _count(self, axis: IterVar, base: Expr) -> tuple[st.BlockIter, Expr]:
        """An iterator over the tiles of an axis (over its elements where tiles do not divide it), and a tile's first element."""
        a, size = self.analyzer, self.extents[axis]
        dom = axis.dom if axis.kind is IterKind.DATA and axis.dom is not None else self.plan.ranges[axis]
        var = Var(f"v{axis.name}", axis.dtype)
        whole = a.prove_equal(dom.extent % size, 0) and a.prove_equal(dom.min, 0) and a.prove_equal(base % size, 0)
        if whole and size > 1:
            tiles = Range(const(0, axis.dtype), a.simplify(dom.extent // size))
            return st.BlockIter(var, tiles, axis.kind, a.simplify(base // size)), var * size
        return st.BlockIter(var, dom, axis.kind, base), var

    def match(self) -> Match:
        """What the intrinsic's operands and parameters stand for; raises LowerError with both bodies if they differ."""
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
            return found.expr(substitute(have, inside), substitute(want, still))
        a, b = have.combiner, want.combiner
        same = a is b or (str(a), str(a.identity), a.lhs[0].dtype) == (str(b), str(b.identity), b.lhs[0].dtype)
        plain = value_of(have.condition) == 1 and value_of(want.condition) == 1 and not have.init and not want.init
        return same and plain and all(
            found.expr(substitute(x, inside), substitute(y, still)) for x, y in zip(have.source, want.source, strict=True))

    def _one_term(self, reduce: ir.Reduce) -> bool:
        """Whether all of a reduction is one term, so that the term is its value."""
        return all(int_value(self.plan.ranges[axis].extent) == 1 for axis in reduce.axes)

    def _differ(self) -> NoReturn:
        theirs = "\n".join(f"    {tensor.name} = {e}" for tensor, e in zip(self.intrin.op.outputs, self.intrin.op.body, strict=True))
        ours = "\n".join(f"    {tensor.name} = {e}" for tensor, e in zip(self.op.outputs, self.plan.body, strict=True))
        self.fail(f"what the loops compute,\n{ours}\nis not what the intrinsic does,\n{theirs}",
                  "declare the intrinsic with the same operations, types and order of operands' dimensions")

    # -- code --------------------------------------------------------------------------------------------------------------

    def inputs(self, match: Match) -> "Places":
        """Where the intrinsic's input buffers are in the program."""
        found: Places = {}
        for declared, tensor in zip(self.intrin.input_buffers, self.intrin.inputs, strict=True):
            operand = match.operands[tensor]
            buffer, origin = self.nests.memory.of(operand.tensor)
            found[declared] = self._region(buffer, origin, operand, declared), operand.dims
        return found

    def outputs(self, starts: dict[Var, Expr]) -> "Places":
        """Where the intrinsic's output buffers are, for the first values of the data axes."""
        found: Places = {}
        moving = [at for at, axis in enumerate(self.op.axis) if self.extents[axis] > 1]
        for i, (declared, buffer, origin) in enumerate(zip(self.intrin.output_buffers, self.plan.buffers, self.plan.origins, strict=True)):
            rest = iter(moving)
            dims = tuple([next(rest) if int_value(extent) != 1 else None for extent in declared.shape])
            operand = Operand(self.op.output(i), tuple([starts[axis.var] for axis in self.op.axis]), dims)
            found[declared] = self._region(buffer, origin, operand, declared), dims
        return found

    def block(self, name: str, iters: list[st.BlockIter], where: Expr, inputs: "Places", outputs: "Places") -> "Write":
        """What makes a block of some of the intrinsic's code."""
        def write(code: st.Stmt, match: Match, *, adds: bool) -> st.Block:
            reads = [*inputs.values(), *(outputs.values() if adds else ())]
            return st.Block(
                name, tuple(iters), tuple([region for region, _ in reads]), tuple([region for region, _ in outputs.values()]), where, None,
                self.code(code, match, inputs | outputs), {"tensorize": self.intrin.name},
            )
        return write

    def reset(self, first: IterVar, code: st.Stmt, match: Match) -> st.Stmt:
        """The loops that run the intrinsic's reset for all tiles that the loops from `first` on compute."""
        plan = self.plan
        relations, leaves = plan.stage.relations, plan.stage.leaf_iter_vars
        data = coming_from(relations, self.op.axis)
        values: dict[IterVar, Expr] = {}
        loops: list[tuple[IterVar, Var]] = []
        for at, leaf in enumerate(leaves):
            value = plan.leaves[leaf]
            if leaf not in data or leaf in self.inner:
                value = const(0, value.dtype)
            elif at > plan.stage.position(first) and isinstance(value, Var) and not is_launch(plan.tag(leaf)):
                value = loop_var(leaf, "_reset")
                self.analyzer.bind(value, Range(const(0, value.dtype), plan.extents[leaf]))
                loops.append((leaf, value))
            values[leaf] = value
        values = pass_values(relations, values, plan.extents)
        iters, starts = [], {}
        for axis in self.op.axis:
            it, starts[axis.var] = self._count(axis, self.analyzer.simplify(plan.ranges[axis].min + values[axis]))
            iters.append(it)
        mine = [relation for relation in relations if any(axis in data for axis in parents(relation))]
        point = blocks.Point(plan, {axis: values[axis] for axis in self.op.axis}, self.analyzer)
        where = self.nests.where(plan, point, values, mine)
        body: st.Stmt = self.block(f"{plan.stage.label}_reset", iters, where, {}, self.outputs(starts))(code, match, adds=False)
        for leaf, var in reversed(loops):
            body = self.nests.loop(plan, leaf, var, body)
        return body

    def _region(self, buffer: Buffer, origin: tuple[Expr, ...], operand: Operand, declared: Buffer) -> st.Region:
        """The box of a buffer that an operand is; its scope and strides must be those that the intrinsic declares."""
        if declared.scope not in ("global", buffer.scope):
            self.fail(f"the operand {declared.name} is in the scope {declared.scope}, but {buffer.name} is in {buffer.scope}",
                      f"keep it in {declared.scope}, with cache_read, cache_write or set_scope")
        if declared.dtype is not buffer.dtype:
            self.fail(f"the operand {declared.name} is of {declared.dtype}, but {buffer.name} of {buffer.dtype}", "convert it before")
        sizes: list[Expr] = [const(1, index.dtype) for index in operand.base]
        have, want = buffer.compact_strides(), declared.compact_strides()
        for at, dim in enumerate(operand.dims):
            if dim is None:
                continue
            sizes[dim] = declared.shape[at]
            if not isinstance(want[at], Var) and not self.analyzer.prove_equal(have[dim], want[at]):
                self.fail(
                    f"the operand {declared.name} has a stride of {want[at]} in dimension {at}, but {buffer.name} one of {have[dim]}",
                    "declare the operand's buffer with strides that are variables, or keep the tile compact in a cache")
        first = blocks.point_of(buffer, operand.base, origin)
        return st.Region(buffer, tuple([Range(self.analyzer.simplify(i), n) for i, n in zip(first, sizes, strict=True)]))

    def code(self, body: st.Stmt, match: Match, places: "Places") -> st.Stmt:
        """The intrinsic's statements on the program's buffers."""
        values: dict[Var, Expr] = dict(match.values)
        for declared, (region, dims) in places.items():
            strides = region.buffer.compact_strides()
            values[declared.data] = region.buffer.data
            for stride, dim in zip(declared.strides, dims, strict=False):
                if isinstance(stride, Var):
                    values[stride] = strides[dim] if dim is not None else const(0, stride.dtype)
            if isinstance(declared.offset, Var):
                offset: Expr = region.buffer.offset
                for range_, stride in zip(region.ranges, strides, strict=True):
                    offset = offset + range_.min * stride
                values[declared.offset] = self.analyzer.simplify(offset)

        def at(declared: Buffer, indices: tuple[Expr, ...]) -> ir.Load:
            region, dims = places[declared]
            index = [range_.min for range_ in region.ranges]
            for step, dim in zip(indices, dims, strict=True):
                if dim is not None:
                    index[dim] = index[dim] + step
            return ir.Load(region.buffer, tuple(index))

        def on_expr(e: Expr) -> Expr:
            if isinstance(e, ir.Call) and e.name == "address_of" and isinstance(load := e.args[0], ir.Load) and load.buffer in places:
                moved = _unflattened(on_expr(e.args[1]), load.buffer)
                steps = tuple([i + j for i, j in zip(load.indices, moved, strict=True)])
                return e.replace(args=(at(load.buffer, steps), wrap(0), e.args[2]))
            if isinstance(e, ir.Load) and e.buffer in places:
                return at(e.buffer, tuple(map(on_expr, e.indices)))
            return e.rebuild(on_expr)

        def on_stmt(s: st.Stmt) -> st.Stmt:
            if isinstance(s, st.Store) and s.buffer in places:
                load = at(s.buffer, s.indices)
                return s.replace(buffer=load.buffer, indices=load.indices)
            return s
        return substitute_stmt(map_stmt(body, on_stmt, on_expr), values)


def _unflattened(offset: Expr, buffer: Buffer) -> tuple[Expr, ...]:
    """The index that a row-major offset into a buffer's shape is."""
    found: list[Expr] = []
    for extent in buffer.shape[:0:-1]:
        found.insert(0, offset % extent)
        offset = offset // extent
    return (offset, *found) if buffer.shape else ()


def tensorized(nests: "Nests", plan: Plan, leaf: IterVar, intrin: Intrinsic) -> st.Stmt:
    """The loops of a stage down to `leaf`, with the intrinsic's code in them.

    Where loops around it reduce, the intrinsic's reset stands before the first of them and its update in them; without a reset
    the first of their iterations runs its body and the others its update. Raises LowerError, with the stage's loops, where what
    they compute is not what the intrinsic does, or its operands' memory is not as it declares.
    """
    tile = Tile(nests, plan, leaf, intrin)
    match = tile.match()
    relations = plan.stage.relations
    reducing = coming_from(relations, tile.op.reduce_axis)
    around = [outer for outer in tile.outer if outer in reducing and isinstance(plan.leaves[outer], Var)]
    inputs = tile.inputs(match)
    block = tile.block(plan.stage.label, tile.iters, tile.where, inputs, tile.outputs(tile.starts))
    if not around:
        return nests.loops(plan, block(intrin.body, match, adds=False), leave_out=tile.inner)
    if intrin.update is None:
        names = ", ".join(axis.name for axis in around)
        tile.fail(f"the reduction goes on in {names}, but the intrinsic only overwrites", "declare an update, or reduce within the intrinsic")
    if intrin.reset is not None:
        update = block(intrin.update, match, adds=True)
        return nests.loops(plan, update, {around[0]: tile.reset(around[0], intrin.reset, match)}, leave_out=tile.inner)
    first = all_of(*[it.var <= it.dom.min for it in tile.iters if it.kind is IterKind.REDUCE])
    both = st.If(first, intrin.body, intrin.update)
    return nests.loops(plan, block(both, match, adds=True), leave_out=tile.inner)
