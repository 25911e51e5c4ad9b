"""A tensor intrinsic's code in the place of the loops that it computes."""

from typing import Protocol

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const, int_value, wrap
from vtakit.compiler.ir.walk import loads, map_stmt, substitute_stmt
from vtakit.compiler.lower.axes import coming_from, parents, pass_values
from vtakit.compiler.lower.blocks import Point, point_of, reduction, translate
from vtakit.compiler.lower.loops import Loops
from vtakit.compiler.lower.matching import Match, Operand
from vtakit.compiler.lower.plan import Plan, is_launch, loop_var
from vtakit.compiler.lower.tile import Intrinsic, Tile

# A buffer of an intrinsic -> the box of a buffer of the program that it is, and which dimension each of its own is.
Places = dict[Buffer, tuple[st.Region, tuple[int | None, ...]]]


class Write(Protocol):
    """Makes a block of code; `adds` if it also reads the outputs."""

    def __call__(self, code: st.Stmt, *, adds: bool) -> st.Block: ...


class Writer:
    """Writes blocks of an intrinsic's code for a tile of a stage that it matches."""

    def __init__(self, tile: Tile, match: Match) -> None:
        self.tile, self.match = tile, match
        self.params = {var: translate(e, {}, tile.nests.read) for var, e in match.values.items()}

    def inputs(self) -> Places:
        """Return the places of the intrinsic's input buffers in the program."""
        found: Places = {}
        for declared, tensor in zip(self.tile.intrin.input_buffers, self.tile.intrin.inputs, strict=True):
            operand = self.match.operands[tensor]
            buffer, origin = self.tile.nests.memory.of(operand.tensor)
            found[declared] = self._region(buffer, origin, operand, declared), operand.dims
        return found

    def outputs(self, starts: dict[Var, Expr]) -> Places:
        """Return the places of the intrinsic's output buffers, for the first values of the data axes."""
        found: Places = {}
        moving = [at for at, axis in enumerate(self.tile.op.axis) if self.tile.extents[axis] > 1]
        for i, declared in enumerate(self.tile.intrin.output_buffers):
            buffer, origin = self.tile.plan.buffers[i], self.tile.plan.origins[i]
            rest = iter(moving)
            dims = tuple([next(rest) if int_value(extent) != 1 else None for extent in declared.shape])
            operand = Operand(self.tile.op.output(i), tuple([starts[axis.var] for axis in self.tile.op.axis]), dims)
            found[declared] = self._region(buffer, origin, operand, declared), dims
        return found

    def block(self, name: str, iters: list[st.BlockIter], where: Expr, inputs: Places, outputs: Places) -> Write:
        """Return a function that makes blocks of the intrinsic's code."""
        def write(code: st.Stmt, *, adds: bool) -> st.Block:
            reads = [*inputs.values(), *(outputs.values() if adds else ())]
            body = self.code(code, inputs | outputs)
            read, written = (tuple([region for region, _ in places]) for places in (reads, outputs.values()))
            points = [
                st.Region(load.buffer, tuple([Range(i, const(1, i.dtype)) for i in load.indices]))
                for value in self.params.values() for load in loads(value)
            ]
            notes = {"tensorize": self.tile.intrin.name}
            return st.Block(name, tuple(iters), (*read, *points), written, where, None, body, notes)
        return write

    def reset(self, first: IterVar, code: st.Stmt) -> st.Stmt:
        """Return the loops that run the intrinsic's reset for all tiles that the loops from `first` on compute."""
        plan = self.tile.plan
        relations, leaves = plan.stage.relations, plan.stage.leaf_iter_vars
        data = coming_from(relations, self.tile.op.axis)
        values: dict[IterVar, Expr] = {}
        loops: list[tuple[IterVar, Var]] = []
        for at, leaf in enumerate(leaves):
            value = plan.leaves[leaf]
            if leaf not in data or leaf in self.tile.inner:
                value = const(0, value.dtype)
            elif at > plan.stage.position(first) and isinstance(value, Var) and not is_launch(plan.tag(leaf)):
                value = loop_var(leaf, "_reset")
                self.tile.analyzer.bind(value, Range(const(0, value.dtype), plan.extents[leaf]))
                loops.append((leaf, value))
            values[leaf] = value
        values = pass_values(relations, values, plan.extents)
        iters, starts = [], {}
        for axis in self.tile.op.axis:
            it, starts[axis.var] = self.tile.count(axis, self.tile.analyzer.simplify(plan.ranges[axis].min + values[axis]))
            iters.append(it)
        mine = [relation for relation in relations if any(axis in data for axis in parents(relation))]
        point = Point(plan, {axis: values[axis] for axis in self.tile.op.axis}, self.tile.analyzer)
        where = all_of(*self.tile.guards(self.tile.nests.where(plan, point, values, mine), point, starts))
        body: st.Stmt = self.block(f"{plan.stage.label}_init", iters, where, {}, self.outputs(starts))(code, adds=False)
        for leaf, var in reversed(loops):
            body = self.tile.nests.loop(plan, leaf, var, body)
        return body

    def _region(self, buffer: Buffer, origin: tuple[Expr, ...], operand: Operand, declared: Buffer) -> st.Region:
        """Return the box of a buffer that an operand is. Raises LowerError unless scope and strides are as declared."""
        if declared.scope not in ("global", buffer.scope):
            truth = f"the operand {declared.name} is in the scope {declared.scope}, but {buffer.name} is in {buffer.scope}"
            self.tile.fail(truth, f"keep it in {declared.scope}, with cache_read, cache_write or set_scope")
        if declared.dtype is not buffer.dtype:
            truth = f"the operand {declared.name} is of {declared.dtype}, but {buffer.name} of {buffer.dtype}"
            self.tile.fail(truth, "convert it before")
        sizes: list[Expr] = [const(1, index.dtype) for index in operand.base]
        have, want = buffer.compact_strides(), declared.compact_strides()
        for at, dim in enumerate(operand.dims):
            if dim is None:
                continue
            sizes[dim] = declared.shape[at]
            if not isinstance(want[at], Var) and not self.tile.analyzer.prove_equal(have[dim], want[at]):
                strides = f"a stride of {want[at]} in dimension {at}, but {buffer.name} one of {have[dim]}"
                self.tile.fail(
                    f"the operand {declared.name} has {strides}",
                    "declare the operand's buffer with strides that are variables, or keep the tile compact in a cache")
        first = point_of(buffer, operand.base, origin)
        return st.Region(buffer, tuple([Range(self.tile.analyzer.simplify(i), n) for i, n in zip(first, sizes, strict=True)]))

    def code(self, body: st.Stmt, places: Places) -> st.Stmt:
        """Return the intrinsic's statements on the program's buffers."""
        values: dict[Var, Expr] = dict(self.params)
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
                values[declared.offset] = self.tile.analyzer.simplify(offset)

        def at(declared: Buffer, indices: tuple[Expr, ...]) -> ir.Load:
            region, dims = places[declared]
            index = [range_.min for range_ in region.ranges]
            for step, dim in zip(indices, dims, strict=True):
                if dim is not None:
                    index[dim] = index[dim] + step
            return ir.Load(region.buffer, tuple(index))

        def on_expr(e: Expr) -> Expr:
            load = e.args[0] if isinstance(e, ir.Call) and e.name == "address_of" else None
            if isinstance(e, ir.Call) and isinstance(load, ir.Load) and load.buffer in places:
                moved = _unflattened(on_expr(e.args[1]), load.buffer)
                steps = tuple([i + j for i, j in zip(load.indices, moved, strict=True)])
                return e.replace(args=(at(load.buffer, steps), wrap(0), e.args[2]))
            if isinstance(e, ir.Load) and e.buffer in places:
                return at(e.buffer, tuple(map(on_expr, e.indices)))
            return e.rebuild(on_expr)

        def on_stmt(s: st.Stmt) -> st.Stmt:
            if isinstance(s, st.For | st.LetStmt):  # the code may stand in the program more than once
                own = Var(s.var.name, s.var.dtype)
                return s.replace(var=own, body=substitute_stmt(s.body, {s.var: own}))
            if isinstance(s, st.Store) and s.buffer in places:
                load = at(s.buffer, s.indices)
                return s.replace(buffer=load.buffer, indices=load.indices)
            return s
        return substitute_stmt(map_stmt(body, on_stmt, on_expr), values)


def _unflattened(offset: Expr, buffer: Buffer) -> tuple[Expr, ...]:
    """Return the indices that a row-major offset into a buffer's shape stands for."""
    found: list[Expr] = []
    for extent in buffer.shape[:0:-1]:
        found.insert(0, offset % extent)
        offset = offset // extent
    return (offset, *found) if buffer.shape else ()


def tensorized(nests: Loops, plan: Plan, leaf: IterVar, intrin: Intrinsic) -> st.Stmt:
    """Return the loops of a stage down to `leaf`, with the intrinsic's code in them.

    A reduction that begins with values has these stored by loops before, and the intrinsic's update in all of its own. Otherwise,
    where loops around it reduce, the intrinsic's reset stands before the first of them and its update in them; without a reset
    the first of their iterations runs its body and the others its update. Raises LowerError, with the stage's loops, where what
    they compute is not what the intrinsic does, or its operands' memory is not as it declares.
    """
    tile = Tile(nests, plan, leaf, intrin)
    writer = Writer(tile, tile.match())
    relations = plan.stage.relations
    reducing = coming_from(relations, tile.op.reduce_axis)
    around = [outer for outer in tile.outer if outer in reducing and isinstance(plan.leaves[outer], Var)]
    inputs = writer.inputs()
    block = writer.block(plan.stage.label, tile.iters, tile.where, inputs, writer.outputs(tile.starts))
    if reduction(plan).init if tile.op.reduce_axis else ():
        assert intrin.update is not None, "a match of a reduction that begins with values has an update"
        outermost = around[0] if around else leaf
        start = nests.init(plan, tile.op, plan.stage.position(outermost))
        return nests.loops(plan, block(intrin.update, adds=True), {outermost: start}, leave_out=tile.inner)
    if not around:
        return nests.loops(plan, block(intrin.body, adds=False), leave_out=tile.inner)
    if intrin.update is None:
        truth = f"the reduction goes on in {', '.join(axis.name for axis in around)}, but the intrinsic only overwrites"
        tile.fail(truth, "declare an update, or reduce within the intrinsic")
    if intrin.reset is not None:
        update = block(intrin.update, adds=True)
        return nests.loops(plan, update, {around[0]: writer.reset(around[0], intrin.reset)}, leave_out=tile.inner)
    first = all_of(*[ir.EQ(it.var, it.dom.min) for it in tile.iters if it.kind is IterKind.REDUCE])
    both = st.If(first, intrin.body, intrin.update)  # which reads only what its own first iteration wrote
    return nests.loops(plan, block(both, adds=False), leave_out=tile.inner)
