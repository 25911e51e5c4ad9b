"""Rules about fragments of tensor cores and asynchronous copies."""

from collections.abc import Iterator

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, IfThenElse, IntImm, Load, Select, Var
from vtakit.compiler.ir.fragments import FRAGMENTS, fragment_of, grid_of, is_fragment, lanes_of, place_in, threads_of
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.ir.walk import free_vars, statements, subexpressions
from vtakit.compiler.ir.warp_calls import TILE_CALLS
from vtakit.compiler.lower.verify.program import Program, Site, effects, extent_of, is_opaque
from vtakit.compiler.lower.verify.report import Broken

LANES = "bind its loops to the lanes that hold its elements: vtakit.compiler.intrin.tensor_cores.bind_lanes"


def check_fragments(program: Program) -> Iterator[Broken]:
    """Fragments are whole tiles; calls of a warp are made by all its lanes; other accesses are to what the lane holds."""
    for s in statements(program.function.body):
        if isinstance(s, st.Allocate) and is_fragment(s.buffer.scope):
            yield from _tiles(s)
    for site in program.sites:
        yield from _uniform(program, site)
        if not is_opaque(site.block):
            yield from _own(program, site)


def _tiles(s: st.Allocate) -> Iterator[Broken]:
    fragment = fragment_of(s.buffer)
    if fragment is None:
        kinds = sorted({bits for scope, bits in FRAGMENTS if scope == s.buffer.scope})
        yield Broken(f"{s.buffer} is a fragment, and {s.buffer.scope} has no tiles of {s.buffer.dtype}", s,
                     f"use elements of {' or '.join(map(str, kinds))} bits, or another scope")
    elif grid_of(s.buffer, fragment) is None:
        yield Broken(f"{s.buffer} is a fragment, and does not consist of whole tiles of {fragment.rows} x {fragment.columns}", s,
                     "compute its stage in tiles of that size")


def _lane_loops(site: Site, scope: str) -> dict[str, st.For]:
    return {loop.thread: loop for loop in site.loops if loop.thread in threads_of(scope)}


def _uniform(program: Program, site: Site) -> Iterator[Broken]:
    """All lanes of a warp make a call on tiles, and make the same."""
    for call in effects(site.block.body):
        if call.name not in TILE_CALLS:
            continue
        buffers = [node.buffer for e in call.args for node in subexpressions(e) if isinstance(node, Load)]
        held = next((buffer for buffer in buffers if is_fragment(buffer.scope)), None)
        if held is None:
            yield Broken(f"{call.name} is made on no fragment", site.block, "keep its result in a fragment's scope")
            continue
        lanes = _lane_loops(site, held.scope)
        count = 1
        for loop in lanes.values():
            count *= extent_of(loop) or 0
        if count != lanes_of(held.scope) or len(lanes) != len(threads_of(held.scope)):
            found = ", ".join(f"{tag} has {loop.extent}" for tag, loop in lanes.items())
            found = found or f"{threads_of(held.scope)[0]} is not bound"
            yield Broken(f"{call.name} is made by {lanes_of(held.scope)} lanes together, and {found}", site.block,
                         f"bind {' and '.join(threads_of(held.scope))} to loops of {lanes_of(held.scope)} iterations together")
        varying = {loop.var for loop in lanes.values()}
        values = {it.var: it.binding for it in site.block.iters}
        used = set[Var]().union(*[free_vars(program.analyzer.simplify(e)) for e in (*values.values(), *call.args)])
        for name in sorted(var.name for var in varying & used):
            yield Broken(f"{call.name} is made by all lanes together, and it differs with {name}, which tells lanes apart",
                         site.block, f"let no loop of its stage be bound to {name}")
        for condition in site.conditions():
            for name in sorted(var.name for var in varying & free_vars(program.analyzer.simplify(condition))):
                yield Broken(f"{call.name} is made by all lanes together, and stands under a condition on {name}", site.block,
                             "move it out of the condition")


def _own(program: Program, site: Site) -> Iterator[Broken]:
    """An element that is read or written by itself is one that the lane holds."""
    touched: list[tuple[Buffer, tuple[Expr, ...], st.Stmt]] = []
    for s in statements(site.block.body):
        if isinstance(s, st.Store):
            touched.append((s.buffer, s.indices, s))
        for e in (*getattr(s, "indices", ()), *[getattr(s, name) for name in ("value", "condition") if hasattr(s, name)]):
            touched += [(node.buffer, node.indices, s) for node in subexpressions(e) if isinstance(node, Load)]
    for buffer, indices, s in touched:
        fragment = fragment_of(buffer) if is_fragment(buffer.scope) else None
        if fragment is None or grid_of(buffer, fragment) is None:
            continue
        a: Analyzer = program.analyzer
        loops = _lane_loops(site, buffer.scope)
        number: Expr = IntImm(0)
        before = 1
        for tag in threads_of(buffer.scope):
            if tag in loops:
                number, before = number + loops[tag].var * before, before * (extent_of(loops[tag]) or 0)
        lane = place_in(buffer, fragment, indices)[0]
        with a.given(all_of(*site.conditions())):
            held = before == fragment.lanes and a.prove_equal(lane, number)
        if not held:
            where = ", ".join(str(a.simplify(index)) for index in indices)
            yield Broken(f"block {site.block.name} touches {buffer.name}[{where}], which lane {a.simplify(lane)} holds and not "
                         "each lane that does it", s, LANES)


def check_asynchronous(program: Program) -> Iterator[Broken]:
    """Refuse asynchronous copies that are not from global to shared memory, or 0 under a condition."""
    for s in statements(program.function.body):
        if not isinstance(s, st.Allocate) or not s.notes.get("async_copy"):
            continue
        if s.buffer.scope != "shared":
            yield Broken(f"{s.buffer.name} is filled by asynchronous copies, and is {s.buffer.scope} memory", s,
                         "copy to the shared scope, or leave out async_copy")
        for access in program.writes.get(s.buffer, ()):
            store = access.at
            value = store.value if isinstance(store, st.Store) else None
            while isinstance(value, IfThenElse | Select) and value_of(value.false) == 0:
                value = value.true
            if not isinstance(value, Load) or value.buffer.scope != "global":
                yield Broken(f"block {access.site.block.name} fills {s.buffer.name} by asynchronous copies, and computes more "
                             "than an element of global memory", access.site.block,
                             "leave out async_copy, or compute in the stage that reads it")


def check_swizzles(program: Program) -> Iterator[Broken]:
    """Swizzled memory is shared memory."""
    for s in statements(program.function.body):
        if isinstance(s, st.Allocate) and s.buffer.swizzle and s.buffer.scope != "shared":
            yield Broken(f"{s.buffer.name} is swizzled, and is {s.buffer.scope} memory", s, "swizzle shared memory only")
