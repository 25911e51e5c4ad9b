"""Rules about loops whose iterations run together: parallel, vectorised and thread loops."""

from collections.abc import Iterator, Sequence

from vtakit.compiler.arith import linear_coefficients
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.lower.verify.program import Program, Site, effects, extent_of, meet
from vtakit.compiler.lower.verify.report import Broken

TOGETHER = {LoopKind.PARALLEL: "parallel", LoopKind.VECTORIZED: "vectorised"}
# How far memory of a scope is shared: by blocks (0), by the threads of a block (1), by nothing. Independent of how lower works.
SHARED_TO = {"global": 0, "shared": 1, "warp": 1}


def kind_of(loop: st.For) -> str:
    """Return the name of a loop's kind if its iterations run together; "" if they follow each other."""
    if loop.kind is LoopKind.THREAD:
        return f"{loop.thread} thread"
    return TOGETHER.get(loop.kind, "")


def check_reductions(program: Program) -> Iterator[Broken]:
    """No parallel, vectorised, block- or virtual-thread loop feeds a reduction or a scan's step."""
    for site in program.sites:
        for it in site.block.iters:
            if it.kind not in (IterKind.REDUCE, IterKind.ORDERED):
                continue
            used = free_vars(it.binding)
            for loop in site.loops:
                word = kind_of(loop)
                if loop.var in used and word and not (_is_own_part(site, loop) or _apart(program, site, loop)):
                    what = "adds up terms" if it.kind is IterKind.REDUCE else "takes the steps of a scan"
                    yield Broken(
                        f"the {word} loop {loop.var} {what} of block {site.block.name}, through its iterator {it.var}, "
                        "and its iterations run together", loop,
                        "run it serially, bind it to threadIdx for a reduction across threads, or use rfactor"
                        if it.kind is IterKind.REDUCE else "run it serially",
                    )
        yield from _of_one_element(program, site)


def _of_one_element(program: Program, site: Site) -> Iterator[Broken]:
    """Threads that combine their partial results hold terms of one element."""
    for call in effects(site.block):
        if call.name != "allreduce":
            continue
        count = int_value(call.args[0]) or 0
        parts = {arg.buffer for arg in call.args[1:1 + count] if isinstance(arg, ir.Load)}
        threads = {arg for arg in call.args[2 + 2 * count:] if isinstance(arg, Var)}
        for buffer in parts:
            for write in program.writes.get(buffer, ()):
                for it in write.site.block.iters:
                    names = sorted(var.name for var in threads & free_vars(it.binding)) if it.kind is IterKind.DATA else []
                    if names:
                        yield Broken(
                            f"the threads {', '.join(names)} combine their results of block {write.site.block.name}, whose "
                            f"element {it.var} is another one for each of them", write.site.block,
                            "bind its data to other threads than its terms, or compute the stage at a loop around them")


def _apart(program: Program, site: Site, loop: st.For) -> bool:
    """Return whether a data iterator differs between any two of the loop's iterations: then they add to different elements.

    The length of an inner loop may depend on the loop, as where a row of a triangle is split into a number of parts.
    """
    inside = site.loops[site.loops.index(loop):]
    for it in site.block.iters:
        if it.kind is not IterKind.DATA or loop.var not in free_vars(it.binding):
            continue
        found = linear_coefficients(it.binding, [other.var for other in inside], program.analyzer)
        if found is None:
            continue
        step, spread = int_value(found.coefficients[0]), _spread(found.coefficients[1:], inside[1:])
        if step is not None and spread is not None and abs(step) > spread:
            return True
    return False


def _spread(coefficients: Sequence[Expr], loops: Sequence[st.For]) -> int | None:
    """Return the greatest distance of two values of a sum of loop variables; None if that is no constant."""
    total = 0
    for times, count in zip(map(int_value, coefficients), map(extent_of, loops), strict=True):
        if times == 0:
            continue
        if times is None or count is None:
            return None
        total += abs(times) * max(count - 1, 0)
    return total


def _is_own_part(site: Site, loop: st.For) -> bool:
    """Return whether the loop is one of a block's threads and the block accumulates in memory that is private to each thread."""
    if not loop.thread.startswith("threadIdx"):
        return False
    return all(region.buffer.scope not in SHARED_TO for region in site.block.writes)


def check_disjoint(program: Program) -> Iterator[Broken]:
    """Iterations that run together write different elements of what they share."""
    for site in program.sites:
        for buffer in {region.buffer for region in site.block.writes}:
            own = buffer.scope not in SHARED_TO
            for loop in site.loops_inside(program.home(buffer)) if own else _sharing(program, site, buffer):
                word = kind_of(loop)
                if not word or _varies(program, site, loop.var) or extent_of(loop) == 1:
                    continue
                yield Broken(
                    f"every iteration of the {word} loop {loop.var} writes the same elements of {buffer.name} in block "
                    f"{site.block.name}", loop,
                    f"let an axis of the block depend on {loop.var}, or run the block in one iteration only",
                )


def _sharing(program: Program, site: Site, buffer: Buffer) -> list[st.For]:
    """The loops whose iterations share memory that is seen by more than one thread."""
    rank = SHARED_TO[buffer.scope]
    depth = program.home(buffer)
    found = []
    for at, (s, _) in enumerate(site.path):
        if isinstance(s, st.For):
            launched = s.thread.startswith(("blockIdx", "threadIdx"))
            if (launched and rank <= (0 if s.thread.startswith("blockIdx") else 1)) or (not launched and at >= depth):
                found.append(s)
    return found


def _varies(program: Program, site: Site, var: Var) -> bool:
    """Return whether the variable decides where the block writes, or whether it runs at all."""
    if any(var in free_vars(e) for e in site.conditions()):
        return True
    return any(var in free_vars(it.binding) for it in site.block.iters if it.kind is not IterKind.REDUCE) or not site.block.iters


def check_launches(program: Program) -> Iterator[Broken]:
    """A thread axis has one constant number of indices in a kernel and is set once."""
    for loop, path in program.loops:
        if not loop.thread:
            continue
        if loop.thread.startswith("threadIdx") and extent_of(loop) is None:
            yield Broken(f"{loop.thread} has {loop.extent} indices, which is no constant", loop, "bind a loop of constant extent")
        launched = loop.thread.startswith(("blockIdx", "threadIdx"))
        for s, _ in path:
            if launched and isinstance(s, st.For) and s.thread == loop.thread:
                same = program.analyzer.prove_equal(s.extent, loop.extent)
                sizes = "" if same else f", with {s.extent} indices and with {loop.extent}"
                yield Broken(f"{loop.thread} is bound to two loops within each other{sizes}", loop, "bind one of them")


def check_scopes(program: Program) -> Iterator[Broken]:
    """Memory of a block or a thread is used within the kernel that it is allocated in."""
    for buffer, home in program.allocations.items():
        if buffer.scope == "global":
            continue
        own = [s for s, _ in home if isinstance(s, st.For) and s.thread.startswith(("blockIdx", "threadIdx"))]
        for access in (*program.writes.get(buffer, ()), *program.reads.get(buffer, ())):
            for loop in access.site.loops:
                if loop.thread.startswith(("blockIdx", "threadIdx")) and not any(loop is s for s in own):
                    yield Broken(
                        f"{buffer.name} is {buffer.scope} memory allocated outside the kernel that uses it in block "
                        f"{access.site.block.name}", home[-1][0],
                        "compute its stage within a loop of the kernel, or give it the global scope",
                    )
                    return


def check_barriers(program: Program) -> Iterator[Broken]:
    """All threads of a block reach each barrier, and each reduction across threads."""
    threads = {loop.var for loop, _ in program.loops if loop.thread.startswith("threadIdx")}
    if not threads:
        return
    for site in program.sites:
        for call in effects(site.block):
            if call.name not in ("sync", "allreduce"):
                continue
            for condition in site.conditions():
                names = sorted(v.name for v in threads & free_vars(program.analyzer.simplify(condition)))
                if names:
                    what = "barrier" if call.name == "sync" else "reduction across threads"
                    yield Broken(
                        f"the {what} stands under a condition on {', '.join(names)}", site.block, "move it out of the condition",
                    )
            for loop in site.loops:
                if threads & free_vars(loop.extent):
                    yield Broken(f"a barrier stands in the loop {loop.var}, whose length differs between threads", loop,
                                 "make the loop's length the same for all threads")
    yield from _exchanges(program, threads)


def _exchanges(program: Program, threads: set[Var]) -> Iterator[Broken]:
    """Between a write and a read of memory that threads share stands a barrier, so all of them take the loops around both."""
    for buffer, writes in program.writes.items():
        if buffer.scope not in ("shared", "warp"):
            continue
        for write in writes:
            for read in program.reads.get(buffer, ()):
                for s, _ in write.site.path[: meet(write.site, read.site)]:
                    length = s.extent if isinstance(s, st.For) else s.condition if isinstance(s, st.If) else None
                    if length is not None and threads & free_vars(length):
                        yield Broken(
                            f"threads exchange elements of {buffer.name} where not all of them come: {length} differs between "
                            "them", s, "let the loops around the stage be the same for all threads, or use the local scope",
                        )
                        return
