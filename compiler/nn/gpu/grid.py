"""Loops bound to a GPU's blocks and threads."""

from collections.abc import Sequence
from math import prod

from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import WHOLE
from vtakit.compiler.nn.cpu.flow import extent
from vtakit.compiler.nn.gpu.machine import GpuMachine
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import thread_axis

MOST_BLOCKS = 65535  # along y and z: a limit of every API


def bind_thread(stage: Stage, axis: IterVar, count: int, way: str = "x") -> None:
    """Bind a loop of at most `count` iterations to the threads of a block along a way, of which there are `count`.

    Threads beyond the loop's extent do nothing in it. With one thread the loop stays, so that no kernel has an axis for nothing.
    """
    if count > 1:
        stage.bind(axis, thread_axis((0, count), f"threadIdx.{way}"))


def bind_block(stage: Stage, axis: IterVar, way: str = "x") -> None:
    """Bind a loop to blocks. It stays one kernel: no pass takes iterations apart where a guard ceases to hold."""
    stage.bind(axis, thread_axis(f"blockIdx.{way}"))
    stage.pragma(axis, WHOLE)


def fused(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """Return one loop over axes; over none, on an operation of rank 0, a loop of one iteration."""
    return axes[0] if len(axes) == 1 else stage.fuse(*axes)


def powers(most: int, least: int = 1) -> list[int]:
    """Return the powers of two from `least`, which is one, up to `most`."""
    return [1 << at for at in range(least.bit_length() - 1, max(most, 0).bit_length()) if 1 << at >= least]


def up_to(count: int) -> int:
    """Return the least power of two that is no less than a number."""
    return 1 << max(count - 1, 0).bit_length()


def thread_counts(machine: GpuMachine, least: int = 32) -> list[int]:
    """Return the numbers of threads that a block may have."""
    return powers(machine.threads_per_block, least)


def filling(machine: GpuMachine) -> int:
    """Return the threads that keep all SMs busy: half of those that they hold."""
    return machine.sms * machine.threads_per_sm // 2


def count_of(axes: Sequence[IterVar]) -> int:
    """Return the number of iterations of axes together."""
    return prod([extent(axis) for axis in axes])
