"""The row of late passes for each kind of target."""

from collections.abc import Callable, Mapping
from functools import partial

from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.passes.ahead import prefetch_ahead
from vtakit.compiler.passes.all_reduce import lower_all_reduce
from vtakit.compiler.passes.async_copies import async_copies
from vtakit.compiler.passes.base import Pass, run_passes
from vtakit.compiler.passes.blocks import inline_blocks
from vtakit.compiler.passes.double_buffer import double_buffer
from vtakit.compiler.passes.flatten import flatten
from vtakit.compiler.passes.fragments import fragments_to_registers
from vtakit.compiler.passes.hoist import hoist_ifs
from vtakit.compiler.passes.memory_access import check_memory
from vtakit.compiler.passes.partition import partition_loops
from vtakit.compiler.passes.simplify import simplify
from vtakit.compiler.passes.storage import rewrite_storage
from vtakit.compiler.passes.swizzle import swizzle
from vtakit.compiler.passes.thread_sync import thread_sync
from vtakit.compiler.passes.unroll import unroll
from vtakit.compiler.passes.vectorize import vectorize
from vtakit.compiler.passes.virtual_threads import virtual_threads
from vtakit.compiler.passes.waits import check_waits

TARGET_KINDS = ("cpu", "gpu")


def late_passes(target_kind: str, capacity: Mapping[str, int] | None = None, *, shuffles: bool = True) -> tuple[Pass, ...]:
    """The passes for a kind of target, "cpu" or "gpu", in order; raises ValueError for another.

    capacity : bytes of each memory scope that has a limit
    shuffles : whether threads of a GPU can read each other's registers, in warps of 32
    """
    if target_kind not in TARGET_KINDS:
        raise ValueError(f"{target_kind!r} is no kind of target: use one of {', '.join(TARGET_KINDS)}")
    gpu = target_kind == "gpu"
    steps = (
        Pass("inline_blocks", inline_blocks),
        Pass("check_memory", check_memory) if gpu else None,
        Pass("partition_loops", partition_loops),
        Pass("virtual_threads", virtual_threads),
        Pass("double_buffer", double_buffer),  # while buffers still have dimensions, to which it adds one
        Pass("fragments_to_registers", fragments_to_registers) if gpu else None,  # while tiles have rows and columns
        Pass("flatten", flatten),
        Pass("simplify", simplify),  # indices that are ramps of stride 1 must show
        Pass("vectorize", vectorize),
        Pass("async_copies", async_copies) if gpu else None,  # of whole vectors
        # Its buffers are planned and synchronised as others.
        Pass("lower_all_reduce", partial(lower_all_reduce, shuffles=shuffles)) if gpu else None,
        Pass("hoist_ifs", hoist_ifs) if not gpu else None,  # before a loop's copies each have the condition
        Pass("unroll", unroll),
        Pass("rewrite_storage", partial(rewrite_storage, capacity=capacity)),  # after what needs more: virtual threads, vectors
        Pass("thread_sync", thread_sync) if gpu else None,  # sees which buffers share memory
        Pass("check_waits", check_waits) if gpu else None,
        Pass("swizzle", swizzle) if gpu else None,  # no analysis of indices follows
        Pass("simplify_again", simplify),
        Pass("prefetch_ahead", prefetch_ahead) if not gpu else None,  # sees the loads that are left
    )
    return tuple(step for step in steps if step is not None)


def lower_late(
    function: Function, target_kind: str = "cpu", *, capacity: Mapping[str, int] | None = None, shuffles: bool = True,
    after: Callable[[Pass, Function], None] | None = None,
) -> Function:
    """A function in the low form (see `vtakit.compiler.passes`).

    capacity : bytes of each memory scope that has a limit
    shuffles : whether threads of a GPU can read each other's registers, in warps of 32
    after    : sees the result of each pass, for dumps (``after=lambda step, f: print(step.name, f, sep="\\n")``) and checks

    Raises PassError where the program cannot be lowered.
    """
    return run_passes(function, late_passes(target_kind, capacity, shuffles=shuffles), after)
