"""Rules about a block's iterators and its declaration."""

from collections.abc import Iterator, Sequence

from vtakit.compiler.arith.comparisons import certainly_below
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.walk import expressions, free_vars, loads, statements, substitute
from vtakit.compiler.lower.verify.cover import SEEN_BY, covered
from vtakit.compiler.lower.verify.program import Program, Site, conjuncts, is_opaque, is_whole, values_of_lets
from vtakit.compiler.lower.verify.report import Broken


def check_bindings(program: Program) -> Iterator[Broken]:
    """Each iterator stays within its domain, and a block that adds up takes each point of its iterators at most once."""
    a = program.analyzer
    for site in program.sites:
        for it in site.block.iters:
            if it.kind is IterKind.OPAQUE:
                continue
            low, end = it.dom.min, it.dom.min + it.dom.extent
            if not (a.prove(low <= it.binding) and certainly_below(a, it.binding, end)):
                with a.given(all_of(*site.conditions())):
                    if not (a.prove(low <= it.binding) and certainly_below(a, it.binding, end)):
                        yield Broken(
                            f"the iterator {it.var} of block {site.block.name} is {it.binding}, which is not certain to be "
                            f"within {low} to {a.simplify(end - 1)}", site.block,
                            "guard the block with a predicate, or shorten its loops",
                        )
        if any(it.kind is IterKind.REDUCE for it in site.block.iters):
            yield from _once(program, site)


def _once(program: Program, site: Site) -> Iterator[Broken]:
    """A block that adds up runs once at each point: every loop around it and its result's home makes another point."""
    home = max((program.home(region.buffer) for region in site.block.writes), default=0)
    own = any(region.buffer.scope not in SEEN_BY for region in site.block.writes)  # each thread's part may be some of the terms
    found = covered(program, site, home, together=own)
    if found.reason or found.overlaps:
        reason = found.reason or "the steps of its iterators overlap"
        yield Broken(f"block {site.block.name} is not certain to run once at each point: {reason}", site.block,
                     "bind its iterators to sums of loop variables that splits and fuses make")
        return
    bound = {var for it in site.block.iters for var in free_vars(it.binding)}
    fixed = {c.a for whole in site.conditions() for c in conjuncts(whole) if isinstance(c, ir.EQ) and isinstance(c.a, ir.Var)}
    for loop in site.loops_inside(home):
        if loop.var not in bound and loop.var not in fixed and not program.analyzer.prove(loop.extent <= 1):
            yield Broken(f"block {site.block.name} adds up the same terms in every iteration of the loop {loop.var}", loop,
                         "let an iterator depend on the loop, or move the block out of it")


def check_declared(program: Program) -> Iterator[Broken]:
    """A block touches nothing outside what it declares to read and write."""
    for site in program.sites:
        block = site.block
        if is_opaque(block):
            reads, writes = {r.buffer for r in block.reads}, {r.buffer for r in block.writes}
            own = {s.buffer for s in statements(block.body) if isinstance(s, st.Allocate)}
            for s in statements(block.body):
                if isinstance(s, st.Store) and s.buffer not in writes | own:
                    yield _undeclared(block, s.buffer, "write")
            for e in expressions(block.body):
                for load in loads(e):
                    if load.buffer not in reads | writes | own:
                        yield _undeclared(block, load.buffer, "read")
            continue
        meant = values_of_lets(block)
        sources, targets = _Declared(program, block.reads), _Declared(program, block.writes)
        for s in statements(block.body):
            if isinstance(s, st.Store) and not targets.hold(s.buffer, [substitute(index, meant) for index in s.indices]):
                yield _undeclared(block, s.buffer, "write")
        for e in expressions(block.body):
            for load in loads(e):
                if not sources.hold(load.buffer, [substitute(index, meant) for index in load.indices]):
                    yield _undeclared(block, load.buffer, "read")


def _undeclared(block: st.Block, buffer: Buffer, what: str) -> Broken:
    return Broken(f"block {block.name} {what}s elements of {buffer.name} that it does not declare to {what}", block,
                  f"add them to the block's {what}s")


class _Declared:
    """Regions that a block declares. There may be thousands, one for each read of a long expression: most are looked up."""

    def __init__(self, program: Program, regions: tuple[st.Region, ...]) -> None:
        self.prove, self.regions = program.analyzer.prove, regions
        self.whole = {region.buffer for region in regions if is_whole(region)}
        self.starts = {(region.buffer, *[r.min for r in region.ranges]) for region in regions}

    def hold(self, buffer: Buffer, indices: Sequence[Expr]) -> bool:
        """Return whether a declared region has the element. A whole buffer has any; the rule "inside" checks that it exists."""
        if buffer in self.whole or (buffer, *indices) in self.starts:
            return True
        return any(
            all(self.prove(r.min <= index) and self.prove(index < r.min + r.extent)
                for index, r in zip(indices, region.ranges, strict=True))
            for region in self.regions if region.buffer is buffer
        )
