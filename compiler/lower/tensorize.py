"""Stages computed by a tensor intrinsic: its code stands where the inner loops do what it says it does.

From the tensorized loop inward each axis of the operation covers a tile; the intrinsic's own operation has the same tiles as its
axes. Both bodies are brought into terms of the intrinsic's axes and tensors and must have one normal form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from vtakit.compiler.arith import Interval, region
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import free_vars, map_expr, map_stmt, substitute, substitute_stmt
from vtakit.compiler.lower.axes import ceil_div, coming_from, guards, pass_intervals, pass_values
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.plan import Plan, is_launch, loop_var
from vtakit.compiler.schedule.relations import Mark
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor

if TYPE_CHECKING:
    from vtakit.compiler.lower.nest import Nests


CURE = "use an intrinsic of the same body and types"


class Tile(NamedTuple):
    """What one axis covers: ``first <= axis < first + extent``, and the block's iterator that says which tile it is."""

    first: Expr
    extent: int
    iter: st.BlockIter


class Box(NamedTuple):
    """The part of a buffer that stands for one of the intrinsic's."""

    buffer: Buffer
    first: tuple[Expr, ...]
    extents: tuple[int, ...]

    def region(self) -> st.Region:
        return st.Region(self.buffer, tuple([
            Range(first, const(extent, first.dtype)) for first, extent in zip(self.first, self.extents, strict=True)
        ]))


def tensorized_at(plan: Plan) -> int | None:
    """Which leaf the stage is tensorized at; None if it is not."""
    for at, leaf in enumerate(plan.stage.leaf_iter_vars):
        if plan.stage.note(leaf).mark is Mark.TENSORIZED:
            return at
    return None


class Tensorize:
    """One stage with its intrinsic."""

    def __init__(self, nests: "Nests", plan: Plan, op: ComputeOp, at: int) -> None:
        self.nests, self.plan, self.op, self.at = nests, plan, op, at
        self.analyzer = nests.analyzer
        self.leaves = plan.stage.leaf_iter_vars
        self.inner = self.leaves[at:]
        self.intrin: Any = plan.stage.note(self.leaves[at]).intrin
        for leaf in self.inner:
            if nests.within.get((plan, leaf)):
                self.fail(f"{nests.within[plan, leaf][0].stage.label} is computed within its loops", "compute it outside of them")

    def fail(self, found: str, cure: str) -> NoReturn:
        name, leaf = self.intrin.name, self.leaves[self.at].name
        raise LowerError(f"tensorize of stage {self.plan.stage.label!r} at {leaf!r} by {name!r}: {found}: {cure}")

    def nest(self) -> st.Stmt:
        """The loops outside the tensorized ones around the intrinsic's code."""
        plan, intrin = self.plan, self.intrin
        tiles = self.tiles(plan.leaves)
        boxes = self.match(tiles)
        where = self.where(tiles)
        outer = [leaf for leaf in self.leaves[: self.at] if isinstance(plan.leaves[leaf], Var)]
        reducing = coming_from(plan.stage.relations, self.op.reduce_axis)
        around = [leaf for leaf in outer if leaf in reducing]
        if not around:
            return self.loops(self.block(intrin.body, tiles, boxes, where, adds=False))
        if intrin.update is None:
            self.fail(
                f"the loop {around[0].name!r} around it continues its reduction, but it has no update",
                "give it (body, reset, update)",
            )
        if intrin.reset is not None:
            first = self.leaves.index(around[0])
            update = self.block(intrin.update, tiles, boxes, where, adds=True)
            return self.loops(update, {around[0]: self.reset(first)})
        begins = all_of(*[plan.leaves[leaf] <= 0 for leaf in around])
        whole = st.If(begins, intrin.body, intrin.update)
        return self.loops(self.block(whole, tiles, boxes, where, adds=False))

    def loops(self, body: st.Stmt, before: Mapping[IterVar, st.Stmt] | None = None) -> st.Stmt:
        return self.nests.loops(self.plan, body, before or {}, leave_out=self.inner)

    def reset(self, first: int) -> st.Stmt:
        """The loops that set the outputs to the reduction's identity, from the leaf `first` on."""
        plan = self.plan
        data = coming_from(plan.stage.relations, self.op.axis)
        leaves: dict[IterVar, Expr] = {}
        made: list[tuple[IterVar, Var]] = []
        for at, leaf in enumerate(self.leaves):
            value = plan.leaves[leaf]
            if leaf not in data:
                value = const(0, value.dtype)
            elif first <= at < self.at and isinstance(value, Var) and not is_launch(plan.tag(leaf)):
                value = loop_var(leaf, "_init")
                self.analyzer.bind(value, Range(const(0, value.dtype), plan.extents[leaf]))
                made.append((leaf, value))
            leaves[leaf] = value
        tiles = {axis: tile for axis, tile in self.tiles(leaves).items() if axis.kind is IterKind.DATA}
        outputs = self.outputs(tiles)
        body: st.Stmt = self.block(self.intrin.reset, tiles, outputs, self.where(tiles), adds=False, name="_init")
        for leaf, var in reversed(made):
            body = self.nests.loop(plan, leaf, var, body)
        return body

    # -- tiles -----------------------------------------------------------------------------------------------------------

    def tiles(self, leaves: Mapping[IterVar, Expr]) -> dict[IterVar, Tile]:
        """What each axis of the operation covers from the tensorized loop inward, the other leaves having values."""
        plan, a = self.plan, self.analyzer
        sets = {leaf: Interval(value, value) for leaf, value in leaves.items()}
        for leaf in self.inner:
            length = plan.extents[leaf]
            sets[leaf] = Interval(const(0, length.dtype), a.simplify(length - 1))
        found = pass_intervals(plan.stage.relations, sets, plan.extents, a)
        tiles = {}
        for axis in self.op.root_iter_vars:
            start, whole = plan.ranges[axis]
            low = found[axis].min
            covers = found[axis].extent(a)
            extent = int_value(covers)
            if extent is None:
                self.fail(f"{axis.name!r} covers {covers} values, which is no constant", "split it by a constant factor")
            if not a.prove_equal(low % extent, const(0, low.dtype)):
                self.fail(f"{axis.name!r} starts at {low}, no multiple of the {extent} that it covers", "reorder its loops")
            var = Var(f"v{axis.name}", low.dtype)
            step = const(extent, low.dtype)
            binding = a.simplify(low // step)
            dom = Range(const(0, low.dtype), ceil_div(whole, step, a))
            first = start if int_value(binding) == 0 else start + var * extent
            tiles[axis] = Tile(first, extent, st.BlockIter(var, dom, axis.kind, binding))
        return tiles

    def where(self, tiles: Mapping[IterVar, Tile]) -> Expr:
        """The condition on the outer loops; raises LowerError for one that depends on the inner ones."""
        plan = self.plan
        inner = {value for leaf in self.inner if isinstance(value := plan.leaves[leaf], Var)}
        values = pass_values(plan.stage.relations, plan.leaves, plan.extents)
        conditions = guards(plan.stage.relations, values, plan.extents, self.analyzer)
        for condition in conditions:
            names = sorted(var.name for var in inner & free_vars(condition))
            if names:
                self.fail(
                    f"the guard {condition} depends on {', '.join(names)} within the tensorized loops",
                    "split axes by factors that divide them, or pad the tensors",
                )
        for axis, tile in tiles.items():
            if axis.kind is IterKind.DATA and axis.dom is not None and axis.dom is not plan.ranges[axis]:
                low, end = axis.dom.min, axis.dom.min + axis.dom.extent
                first = substitute(tile.first, {tile.iter.var: tile.iter.binding})
                if not (self.analyzer.prove(low <= first) and self.analyzer.prove(first + tile.extent <= end)):
                    self.fail(
                        f"{axis.name!r} covers {first} to {first + (tile.extent - 1)}, beyond its {axis.dom.extent} values",
                        "split the readers' axes by factors that divide them, or pad the tensors",
                    )
        return all_of(*conditions)

    # -- the match -------------------------------------------------------------------------------------------------------

    def match(self, tiles: Mapping[IterVar, Tile]) -> dict[Buffer, Box]:
        """What stands for each of the intrinsic's buffers; raises LowerError if the loops do something else."""
        intrin = self.intrin
        at: dict[Var, Expr] = {}
        self.align(self.op.axis, intrin.op.axis, "data", tiles, at)
        self.align(self.op.reduce_axis, intrin.op.reduce_axis, "reduce", tiles, at)
        extents = {axis.var: axis.dom for axis in (*intrin.op.axis, *intrin.op.reduce_axis)}
        for var, dom in extents.items():
            self.analyzer.bind(var, dom)
        boxes, places = self.inputs(at, extents)
        for mine_body, theirs_body in zip(self.plan.body, intrin.op.body, strict=True):
            if not self.same(mine_body, theirs_body, at, places):
                self.mismatch(at, places)
        return boxes | self.outputs(tiles)

    def align(
        self, mine: Sequence[IterVar], theirs: Sequence[IterVar], word: str, tiles: Mapping[IterVar, Tile], at: dict[Var, Expr],
    ) -> None:
        """Put the intrinsic's axes beside the stage's last ones; those before cover one value each."""
        extra = len(mine) - len(theirs)
        have = ", ".join(str(tiles[axis].extent) for axis in mine)
        want = ", ".join(str(axis.dom.extent) for axis in theirs if axis.dom)
        fits = extra >= 0 and all(tiles[axis].extent == 1 for axis in mine[:max(extra, 0)]) and all(
            axis.dom is not None and int_value(axis.dom.extent) == tiles[own].extent
            for own, axis in zip(mine[max(extra, 0):], theirs, strict=False)
        )
        if not fits:
            self.fail(f"its {word} axes cover ({have}), the intrinsic's ({want})", "split the axes by the intrinsic's extents")
        for axis in mine[:extra]:
            at[axis.var] = tiles[axis].first
        for axis, other in zip(mine[extra:], theirs, strict=True):
            at[axis.var] = tiles[axis].first + other.var

    def inputs(self, at: Mapping[Var, Expr], extents: Mapping[Var, Range]) -> tuple[dict[Buffer, Box], dict[Tensor, Any]]:
        """The part of each input that is read, as the box of a buffer, and as what the intrinsic's input is of the tensor."""
        reads: dict[Tensor, list[tuple[Expr, ...]]] = {}
        for load in self.plan.reads():
            reads.setdefault(load.tensor, []).append(tuple([substitute(e, at) for e in load.indices]))
        if len(reads) != len(self.intrin.inputs):
            names = ", ".join(tensor.name for tensor in reads)
            self.fail(f"it reads {len(reads)} tensors ({names}), the intrinsic {len(self.intrin.inputs)}", CURE)
        boxes: dict[Buffer, Box] = {}
        places: dict[Tensor, Any] = {}
        for (tensor, all_indices), theirs, declared in zip(
            reads.items(), self.intrin.inputs, self.intrin.input_buffers, strict=True,
        ):
            if tensor.dtype is not theirs.dtype:
                self.fail(f"it reads {tensor.name} of {tensor.dtype}, the intrinsic {theirs.name} of {theirs.dtype}", CURE)
            first, counts = self.around(tensor, all_indices, extents)
            extra = len(first) - len(theirs.shape)
            want = [int_value(e) for e in theirs.shape]
            if extra < 0 or counts[extra:] != want or any(count != 1 for count in counts[:extra]):
                self.fail(
                    f"it reads {counts} elements of {tensor.name}, the intrinsic {want} of {theirs.name}", "split the axes alike",
                )
            buffer, origin = self.nests.memory.of(tensor)
            low = tuple([self.analyzer.simplify(f - o) for f, o in zip(first, origin, strict=True)])
            boxes[declared] = Box(buffer, low, tuple(counts))
            places[tensor] = theirs, first, extra
        return boxes, places

    def around(
        self, tensor: Tensor, reads: Sequence[tuple[Expr, ...]], extents: Mapping[Var, Range],
    ) -> tuple[list[Expr], list[int]]:
        """The box around all reads of a tensor while the intrinsic's axes run."""
        first: list[Expr] = []
        counts: list[int] = []
        for d in range(tensor.ndim):
            spans = [region(indices[d], extents, self.analyzer) for indices in reads]
            if any(span is None for span in spans):
                self.fail(f"index {d} of {tensor.name} is not affine", CURE)
            known = [span for span in spans if span is not None]
            low = next((s.min for s in known if all(self.analyzer.prove(s.min <= o.min) for o in known)), known[0].min)
            high = next((s.max for s in known if all(self.analyzer.prove(o.max <= s.max) for o in known)), known[0].max)
            count = int_value(self.analyzer.simplify(high - low + 1))
            if count is None:
                self.fail(f"it reads {high - low + 1} indices in dimension {d} of {tensor.name}", "split the axes by constants")
            first.append(self.analyzer.simplify(low))
            counts.append(count)
        return first, counts

    def in_terms(self, e: Expr, at: Mapping[Var, Expr], places: Mapping[Tensor, Any]) -> Expr:
        """A part of the stage's body over the intrinsic's axes and inputs."""
        def change(node: Expr) -> Expr:
            if isinstance(node, ir.ProducerLoad) and node.tensor in places:
                theirs, first, extra = places[node.tensor]
                indices = [self.analyzer.simplify(i - f) for i, f in zip(node.indices, first, strict=True)]
                return ir.ProducerLoad(theirs, tuple(indices[extra:]))
            return at.get(node, node) if isinstance(node, Var) else node
        return map_expr(e, change)

    def same(self, mine: Expr, theirs: Expr, at: Mapping[Var, Expr], places: Mapping[Tensor, Any]) -> bool:
        if isinstance(mine, ir.Reduce) and isinstance(theirs, ir.Reduce):
            pairs = [*zip(mine.source, theirs.source, strict=True), (mine.condition, theirs.condition)]
            return not mine.init and _same_combiner(mine.combiner, theirs.combiner) and all(
                self.equal(self.in_terms(x, at, places), y) for x, y in pairs
            )
        if isinstance(mine, ir.Reduce) or isinstance(theirs, ir.Reduce):
            return False
        return self.equal(self.in_terms(mine, at, places), theirs)

    def equal(self, x: Expr, y: Expr) -> bool:
        return x.dtype is y.dtype and ir.same(self.analyzer.simplify(x), self.analyzer.simplify(y))

    def mismatch(self, at: Mapping[Var, Expr], places: Mapping[Tensor, Any]) -> None:
        def text(e: Expr) -> str:
            if isinstance(e, ir.Reduce):
                e = e.replace(source=tuple(self.analyzer.simplify(self.in_terms(x, at, places)) for x in e.source))
                return str(e)
            return str(self.analyzer.simplify(self.in_terms(e, at, places)))
        mine = ", ".join(map(text, self.plan.body))
        theirs = ", ".join(map(str, self.intrin.op.body))
        self.fail(f"its loops compute {mine}, the intrinsic {theirs}", CURE)

    def outputs(self, tiles: Mapping[IterVar, Tile]) -> dict[Buffer, Box]:
        boxes = {}
        for declared, buffer, origin in zip(self.intrin.output_buffers, self.plan.buffers, self.plan.origins, strict=True):
            first = tuple([
                tiles[axis].first if int_value(o) == 0 else self.analyzer.simplify(tiles[axis].first - o)
                for axis, o in zip(self.op.axis, origin, strict=True)
            ])
            boxes[declared] = Box(buffer, first, tuple(tiles[axis].extent for axis in self.op.axis))
        return boxes

    # -- the block -------------------------------------------------------------------------------------------------------

    def block(
        self, code: st.Stmt, tiles: Mapping[IterVar, Tile], boxes: Mapping[Buffer, Box], where: Expr, *,
        adds: bool, name: str = "",
    ) -> st.Block:
        """The intrinsic's code over the buffers of the program. adds : whether it reads what it writes."""
        layout: dict[Var, Expr] = {}
        for declared, box in boxes.items():
            self.bind_layout(declared, box, layout)
        outputs = [boxes[b].region() for b in self.intrin.output_buffers]
        inputs = [boxes[b].region() for b in self.intrin.input_buffers if b in boxes]
        body = _placed(code, boxes, lambda e: substitute(e, layout))
        notes = {"tensorize": self.intrin.name}
        return st.Block(
            f"{self.plan.stage.label}{name}", tuple([tile.iter for tile in tiles.values()]),
            (*inputs, *(outputs if adds else ())), tuple(outputs), where, None, body, notes,
        )

    def bind_layout(self, declared: Buffer, box: Box, layout: dict[Var, Expr]) -> None:
        """Give the intrinsic's stride and offset variables their values; raises LowerError where the memory has other strides."""
        strides = box.buffer.compact_strides()
        mine = strides[len(strides) - len(declared.shape):]
        for d, (want, have) in enumerate(zip(declared.compact_strides(), mine, strict=True)):
            if isinstance(want, Var):
                layout[want] = have
            elif int_value(declared.shape[d]) != 1 and not self.analyzer.prove_equal(want, have):
                self.fail(
                    f"{declared.name} has stride {want} in dimension {d}, {box.buffer.name} has {have}",
                    "declare the intrinsic's buffer with a variable as its stride, or copy the tile by cache_read or cache_write",
                )
        if isinstance(declared.offset, Var):
            total: Expr = const(0, declared.offset.dtype)
            for first, stride in zip(box.first, strides, strict=True):
                total = total + first * stride
            layout[declared.offset] = total
        if declared.scope not in ("", "global", box.buffer.scope):
            self.fail(f"{declared.name} is in {declared.scope} memory, {box.buffer.name} in {box.buffer.scope}", "use set_scope")


def _placed(code: st.Stmt, boxes: Mapping[Buffer, Box], values: Callable[[Expr], Expr]) -> st.Stmt:
    """The code with the program's buffers in place of the intrinsic's."""
    def moved(box: Box, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        extra = len(box.first) - len(indices)
        return (*box.first[:extra], *[first + i for first, i in zip(box.first[extra:], indices, strict=True)])

    def on_expr(e: Expr) -> Expr:
        def change(node: Expr) -> Expr:
            if isinstance(node, ir.Load) and node.buffer in boxes:
                box = boxes[node.buffer]
                return ir.Load(box.buffer, moved(box, node.indices))
            return node
        return values(map_expr(e, change))

    def on_stmt(s: st.Stmt) -> st.Stmt:
        if isinstance(s, st.For | st.LetStmt):  # the code may stand in the program more than once
            own = Var(s.var.name, s.var.dtype)
            return s.replace(var=own, body=substitute_stmt(s.body, {s.var: own}))
        if isinstance(s, st.Store) and s.buffer in boxes:
            box = boxes[s.buffer]
            return s.replace(buffer=box.buffer, indices=moved(box, s.indices))
        return s
    return map_stmt(code, on_stmt, on_expr)


def _same_combiner(a: ir.CommReducer, b: ir.CommReducer) -> bool:
    """Whether two reducers combine alike, whatever they call their operands."""
    if a is b:
        return True
    names = dict(zip((*a.lhs, *a.rhs), (*b.lhs, *b.rhs), strict=False))
    return len(a.lhs) == len(b.lhs) and all(
        ir.same(x, y) for x, y in zip(a.identity, b.identity, strict=True)
    ) and all(ir.same(substitute(x, names), y) for x, y in zip(a.result, b.result, strict=True))
