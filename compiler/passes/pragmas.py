"""The pragmas that something here acts upon."""

from vtakit.base.errors import one_of
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.passes.base import PassError

LAUNCH = "parallel_launch_point"  # the threads start once, before a loop, and share out the parallel loops in it
STRIDED = "parallel_stride_pattern"  # a thread takes every so many-th iteration of a parallel loop
BARRIER = "parallel_barrier_when_finish"  # threads wait for each other behind a parallel loop, which they always do
KNOWN = (st.AUTO_STEPS, BARRIER, LAUNCH, st.PARTITION, st.PREFETCH_AHEAD, STRIDED, st.WHOLE)


def check_pragmas(function: st.Function) -> None:
    """Raise PassError for a pragma on a loop that nobody will act upon, such as a misspelt one."""
    for s in statements(function.body):
        if isinstance(s, st.For):
            for key in s.notes:
                if key not in KNOWN:
                    raise PassError(f"loop {s.var.name!r} has the pragma {key!r}, which nothing here acts upon: "
                                    f"{one_of(KNOWN, key)}", function, s)
