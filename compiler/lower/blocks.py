"""The leaves: what a stage computes at one point, as a block over iterators of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.comparisons import certainly_below
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.sharing import named_values
from vtakit.compiler.ir.values import const, int_value, value_of
from vtakit.compiler.ir.walk import divides, map_expr, statements, subexpressions, substitute
from vtakit.compiler.lower.plan import Plan
from vtakit.compiler.te.operation import ComputeOp

Read = Callable[[ir.ProducerLoad], Expr]  # what reads an element of a tensor in the program


class Point:
    """The iterators of a block of a stage, bound to values of its axes.

    values : of each axis, counted from its range's start; axes left out get no iterator
    """

    def __init__(self, plan: Plan, values: Mapping[IterVar, Expr], analyzer: Analyzer) -> None:
        self.plan = plan
        self.vars: dict[Var, Expr] = {}
        self.iters: list[st.BlockIter] = []
        bindings = [plan.ranges[axis].min + value for axis, value in values.items()]
        simple = [analyzer.simplify(e) for e in bindings]
        if not any(map(divides, simple)):  # else the loops' own form, in which all parts of a fused axis divide the same
            bindings = simple
        for axis, binding in zip(values, bindings, strict=True):
            var = Var(f"v{axis.name}", axis.var.dtype)
            dom = axis.dom if axis.kind is IterKind.DATA and axis.dom is not None else plan.ranges[axis]
            self.iters.append(st.BlockIter(var, dom, axis.kind, binding))
            self.vars[axis.var] = var

    def overhang(self, analyzer: Analyzer, holding: Sequence[Expr]) -> list[Expr]:
        """Conditions that keep each data iterator within its domain, where that is not certain while `holding` holds."""
        found: list[Expr] = []
        doubtful = [
            it for axis, it in zip(self.vars, self.iters, strict=True)
            if it.kind is IterKind.DATA and not any(r is it.dom for r in self.plan.ranges.values())
        ]
        if not doubtful:
            return found
        with analyzer.given(all_of(*holding)):
            for it in doubtful:
                first, end = it.dom.min, it.dom.min + it.dom.extent
                if not analyzer.prove(first <= it.binding):
                    found.append(first <= it.var)
                if not certainly_below(analyzer, it.binding, end):
                    found.append(it.var < end)
        return found


def point_of(buffer: Buffer, index: Sequence[Expr], origin: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the index, in the buffer that holds a part of a tensor, of an element of the tensor."""
    assert len(index) == len(origin) == len(buffer.shape), "one index a dimension"
    return tuple([at if int_value(first) == 0 else at - first for at, first in zip(index, origin, strict=True)])


def translate(e: Expr, point: Mapping[Var, Expr], read: Read) -> Expr:
    """An expression of a tensor's body with iterators for its axes and reads of buffers for those of tensors."""
    def change(node: Expr) -> Expr:
        if isinstance(node, ir.ProducerLoad):
            return read(node)
        return point.get(node, node) if isinstance(node, Var) else node
    return map_expr(e, change)


def with_regions(
    name: str, iters: Iterable[st.BlockIter], predicate: Expr, body: st.Stmt, notes: Mapping[str, object] = st.NO_NOTES,
) -> st.Block:
    """A block that declares each element that its stores read and write; what they need in several places is worked out once."""
    reads: dict[tuple[Buffer, tuple[Expr, ...]], None] = {}
    writes: dict[tuple[Buffer, tuple[Expr, ...]], None] = {}
    for s in statements(body):
        if isinstance(s, st.Store):
            writes[s.buffer, s.indices] = None
        for e in _direct(s):
            for node in subexpressions(e):
                if isinstance(node, ir.Load):
                    reads[node.buffer, node.indices] = None
    iters = tuple(iters)
    body = named_values(body, lambda read, where: _is_inside(read, where, iters))
    return st.Block(name, iters, _regions(reads), _regions(writes), predicate, None, body, notes)


def _is_inside(read: Expr, where: Expr, iters: Iterable[st.BlockIter]) -> bool:
    """Return whether a read stays inside its buffer for all values of the block's iterators, where a condition holds."""
    analyzer = Analyzer()
    for it in iters:
        analyzer.bind(it.var, it.dom)
    with analyzer.given(where):
        return isinstance(read, ir.Load) and all(
            analyzer.prove(const(0, at.dtype) <= at) and analyzer.prove(at < size)
            for at, size in zip(read.indices, read.buffer.shape, strict=True)
        )


def _direct(s: st.Stmt) -> list[Expr]:
    match s:
        case st.Store():
            return [*s.indices, s.value]
        case st.If():
            return [s.condition]
        case st.LetStmt():
            return [s.value]
        case _:
            return []


def _regions(points: Iterable[tuple[Buffer, tuple[Expr, ...]]]) -> tuple[st.Region, ...]:
    return tuple([st.Region(b, tuple([Range(i, const(1, i.dtype)) for i in indices])) for b, indices in points])


def compute_body(plan: Plan, point: Point, read: Read) -> st.Stmt:
    """``buffer[point] = value`` for each output of a compute that reduces nothing."""
    return st.seq(*[
        st.Store(buffer, target(plan, point, i), translate(e, point.vars, read))
        for i, (buffer, e) in enumerate(zip(plan.buffers, plan.body, strict=True))
    ])


def target(plan: Plan, point: Point, output: int) -> tuple[Expr, ...]:
    """Return the index of an output's element in its buffer."""
    assert isinstance(plan.op, ComputeOp)
    return point_of(plan.buffers[output], [point.vars[axis.var] for axis in plan.op.axis], plan.origins[output])


def reduction(plan: Plan) -> ir.Reduce:
    first = plan.body[0]
    assert isinstance(first, ir.Reduce)
    return first


def init_body(plan: Plan, point: Point, read: Read, at: Sequence[tuple[Buffer, tuple[Expr, ...]]]) -> st.Stmt:
    """The first partial results of a reduction."""
    reduce = reduction(plan)
    first = reduce.init or reduce.combiner.identity
    return st.seq(*[
        st.Store(buffer, indices, translate(e, point.vars, read)) for (buffer, indices), e in zip(at, first, strict=True)
    ])


def update_body(plan: Plan, point: Point, read: Read, at: Sequence[tuple[Buffer, tuple[Expr, ...]]]) -> st.Stmt:
    """One term of a reduction combined into the partial results."""
    reduce = reduction(plan)
    terms = [translate(e, point.vars, read) for e in reduce.source]
    body = combine(reduce.combiner, [ir.Load(buffer, indices) for buffer, indices in at], terms, at)
    if value_of(reduce.condition) == 1:
        return body
    return st.If(translate(reduce.condition, point.vars, read), body)


def combine(
    combiner: ir.CommReducer, have: Sequence[Expr], terms: Sequence[Expr], to: Sequence[tuple[Buffer, tuple[Expr, ...]]],
) -> st.Stmt:
    """``to = combiner(have, terms)``; with several values each is worked out before any is stored."""
    if len(terms) == 1:
        values = {combiner.lhs[0]: have[0], combiner.rhs[0]: terms[0]}
        (buffer, indices), = to
        return st.Store(buffer, indices, substitute(combiner.result[0], values))
    params = (*combiner.lhs, *combiner.rhs)
    names = [Var(f"{var.name}_{at}", e.dtype) for at, (var, e) in enumerate(zip(params, (*have, *terms), strict=True))]
    values = dict(zip(params, names, strict=True))
    results = [substitute(e, values) for e in combiner.result]
    body = st.seq(*[st.Store(buffer, indices, e) for (buffer, indices), e in zip(to, results, strict=True)])
    for name, e in reversed([*zip(names, (*have, *terms), strict=True)]):
        body = st.LetStmt(name, e, body)
    return body
