"""The default schedule of a group of operators."""

from collections.abc import Mapping, Sequence
from typing import Any

from vtakit.compiler.ir.stmt import LAUNCHES
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extents, inlined
from vtakit.compiler.nn.gpu.elements import run_elements
from vtakit.compiler.nn.gpu.machine import A100, GpuMachine
from vtakit.compiler.nn.gpu.products import is_tiled, operands, schedule_product
from vtakit.compiler.nn.gpu.reductions import run_reduction
from vtakit.compiler.nn.gpu.rows import schedule_rows
from vtakit.compiler.nn.gpu.tensor_cores import schedule_tensor_cores
from vtakit.compiler.nn.gpu.transposes import run_transposed
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.operation import ComputeOp, ScanOp
from vtakit.compiler.te.tensor import Operation, Tensor


def schedule(
    outputs: Sequence[Tensor], machine: GpuMachine = A100, decisions: Mapping[str, Any] | Decisions | None = None,
) -> Schedule:
    """Return a schedule of all that outputs need, whatever operators they are made of, for a GPU.

    decisions : values of the rules' decisions that are not the default: name -> candidate

    Each stage that is not computed where it is read is a kernel, with what follows it element by element.
    """
    s = create_schedule([tensor.op for tensor in outputs], decisions)
    flow = Flow.of(s.outputs)
    empty = {op for op in flow.computes() if 0 in extents(op)}  # which have no loops
    stepped = flow.within_scans()
    reducing = [op for op in flow.computes() if op.reduce_axis and op not in empty]
    behind, followed = _behind(flow, [op for op in reducing if op not in stepped])
    tiled = {op: operands(flow, op) - followed for op in reducing if op not in stepped and is_tiled(op)}
    gone = inlined(flow, {made for own in tiled.values() for made in own})
    reads, done = Reads(gone), set[Operation]()
    for op in gone - followed:
        s[op].compute_inline()
    for op, own in tiled.items():
        tensor = schedule_tensor_cores(s, flow, op, behind[op], machine) if not own else None
        done |= tensor or schedule_product(s, flow, op, behind[op], own, machine)
    if not empty:
        done |= schedule_rows(s, flow, done | stepped, followed & gone, machine, reads)
    for op in flow.ops:
        if isinstance(op, ScanOp):
            s[op].pragma(op.scan_axis, LAUNCHES)
    for op in flow.computes():
        if op in done or op in empty or (op in gone and op not in followed):
            continue
        first = 1 if op in stepped else 0
        if op.reduce_axis:
            done |= run_reduction(s, op, behind.get(op, []), machine, reads, first=first)
        elif first or not run_transposed(s, flow, op, machine, reads):
            run_elements(s[op], machine, reads, first=first)
    return s


def _behind(flow: Flow, reducing: Sequence[ComputeOp]) -> tuple[dict[ComputeOp, list[ComputeOp]], set[Operation]]:
    """Return what follows each reduction element by element, and all of that; what follows several is the last one's."""
    behind: dict[ComputeOp, list[ComputeOp]] = {}
    followed: set[Operation] = set()
    for op in reversed(reducing):
        found = flow.followers(op)
        behind[op] = [] if followed & {*found} else found
        followed |= {*behind[op]}
    return behind, followed
