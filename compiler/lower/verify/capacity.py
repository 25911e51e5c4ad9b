"""Rules about what a device has room for."""

from collections.abc import Iterator
from math import prod

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower.verify.program import Program, accesses_of, extent_of, parts
from vtakit.compiler.lower.verify.report import Broken

UNBOUNDED = float("inf")
# What no device is asked for: the time to compile it is minutes.
MOST_LANES = 4096
MOST_COPIES = 8192
REGISTER_BYTES = 64  # of a vector register; a longer vector is as many instructions


def check_threads(program: Program) -> Iterator[Broken]:
    """A block has no more threads, and a thread axis no more indices, than the device has."""
    limits = program.limits
    for loop, path in program.loops:
        most = limits.thread_extents.get(loop.thread)
        extent = extent_of(loop)
        if most is not None and extent is not None and extent > most:
            yield Broken(
                f"{loop.thread} has {extent} indices, the device has {most}", loop, f"bind a loop of at most {most} iterations",
            )
        if loop.thread.startswith("threadIdx") and limits.threads is not None:
            around = [s for s, _ in path if isinstance(s, st.For) and s.thread.startswith("threadIdx")]
            if not any(isinstance(s, st.For) and s.thread.startswith("threadIdx") for s in statements(loop.body)):
                total = prod(extent_of(s) or 1 for s in (*around, loop))
                if total > limits.threads:
                    yield Broken(
                        f"a block has {total} threads, the device allows {limits.threads}", (*around, loop)[0],
                        f"bind loops with at most {limits.threads} iterations together",
                    )


def check_vectors(program: Program) -> Iterator[Broken]:
    """A vectorised loop has a constant number of iterations, and what they access is no wider than the device's vectors."""
    for loop, _ in program.loops:
        if loop.kind is not LoopKind.VECTORIZED:
            continue
        lanes = extent_of(loop)
        if lanes is None:
            yield Broken(
                f"the vectorised loop {loop.var} has {loop.extent} iterations, which is no constant", loop,
                "split it by a constant factor and vectorise the inner loop",
            )
            continue
        if lanes > MOST_LANES:
            yield Broken(
                f"the vectorised loop {loop.var} has {lanes} iterations, and vectors have at most {MOST_LANES} lanes", loop,
                "split it by a factor such as 16 and vectorise the inner loop",
            )
        most = program.limits.vector_bytes
        if most is None:
            continue
        for site in program.sites:
            if not any(s is loop for s, _ in site.path):
                continue
            for access in accesses_of(program, site):
                if access.buffer.dtype.bytes * lanes > most:
                    kind = access.buffer.dtype
                    yield Broken(
                        f"{lanes} lanes of {kind} are {kind.bytes * lanes} bytes, the device's vectors have {most}", loop,
                        f"vectorise a loop of at most {most // kind.bytes} iterations",
                    )
                    break


def check_copies(program: Program) -> Iterator[Broken]:
    """Loops whose iterations become copies of a body, unrolled or of virtual threads, have a constant number, not too many."""
    for loop, _ in program.loops:
        if _makes_copies(loop) and extent_of(loop) is None:
            word, verb = (f"{loop.thread} loop", "bind") if loop.thread else ("unrolled loop", "unroll")
            yield Broken(
                f"the {word} {loop.var} has {loop.extent} iterations, which is no constant", loop,
                f"split it by a constant factor and {verb} the inner loop",
            )
    for site in program.sites:
        around = [loop for loop in site.loops if _makes_copies(loop)]
        copies = prod(extent_of(loop) or 1 for loop in around)
        lanes = prod(extent_of(loop) or 1 for loop in site.loops if loop.kind is LoopKind.VECTORIZED)
        widest = max((access.buffer.dtype.bytes for access in accesses_of(program, site)), default=1) if lanes > 1 else 1
        vectors = max(lanes * widest // REGISTER_BYTES, 1)
        if around and copies * vectors > MOST_COPIES:
            names, of = ", ".join(str(loop.var) for loop in around), f" of {vectors} vectors each" if vectors > 1 else ""
            yield Broken(
                f"block {site.block.name} becomes {copies} copies{of} by the loops {names}, and {MOST_COPIES} is the most",
                around[0], "split the loops and unroll only inner parts of a few iterations",
            )


def _makes_copies(loop: st.For) -> bool:
    virtual = loop.kind is LoopKind.THREAD and not loop.thread.startswith(("blockIdx", "threadIdx"))
    return loop.kind is LoopKind.UNROLLED or virtual


def check_memory(program: Program) -> Iterator[Broken]:
    """Each buffer, and the memory of a scope that is in use at one time, fits the device."""
    for s in statements(program.function.body) if program.limits.buffer_bytes else ():
        if isinstance(s, st.Allocate):
            size, room = _bytes(program, s.buffer), program.limits.buffer_bytes.get(s.buffer.scope, UNBOUNDED)
            if size > room:
                yield Broken(
                    f"{s.buffer.name} has {_number(size)} bytes of {s.buffer.scope} memory, the device has {int(room)}", s,
                    "compute the stage at an inner loop, or split its reader's loops into smaller tiles",
                )
    for scope, most in program.limits.scope_bytes.items():
        used, culprit = _in_use(program, program.function.body, scope)
        if used > most:
            assert culprit is not None
            yield Broken(
                f"{_number(used)} bytes of {scope} memory are in use at one time, the device has {most}", culprit,
                "compute the stage at an inner loop, or split its reader's loops into smaller tiles",
            )


def _in_use(program: Program, s: st.Stmt, scope: str) -> tuple[float, st.Stmt | None]:
    """The most bytes of a scope in use within a statement, and the allocation that makes it so."""
    inner = [_in_use(program, part, scope) for part in parts(s)]
    used, culprit = max(inner, key=lambda pair: pair[0], default=(0, None))
    if isinstance(s, st.Allocate) and s.buffer.scope == scope:
        copies = max(2, int(s.notes["double_buffer"])) if s.notes.get("double_buffer") else 1
        return used + copies * _bytes(program, s.buffer), s
    return used, culprit


def _number(size: float) -> str:
    return "an unknown number of" if size == UNBOUNDED else str(int(size))


def _bytes(program: Program, buffer: Buffer) -> float:
    if buffer.strides and buffer.shape:
        return max(program.analyzer.bounds(buffer.strides[0] * buffer.shape[0]).hi, 0) * buffer.dtype.bytes
    return prod(max(program.analyzer.bounds(extent).hi, 0) for extent in buffer.shape) * buffer.dtype.bytes
