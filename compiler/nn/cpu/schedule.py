"""The default schedule of a group of operators."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.nn.conv.bit_serial_cpu import schedule_pack
from vtakit.compiler.nn.conv.blocked_cpu import schedule_blocked
from vtakit.compiler.nn.conv.blocked_depthwise_cpu import schedule_blocked_depthwise, schedule_separable, separable
from vtakit.compiler.nn.conv.blocked_transposed_cpu import schedule_blocked_transposed
from vtakit.compiler.nn.conv.depthwise_cpu import schedule_depthwise, schedule_depthwise_planes
from vtakit.compiler.nn.conv.few_filters_cpu import schedule_few_filters
from vtakit.compiler.nn.conv.packed_bytes_cpu import schedule_packed
from vtakit.compiler.nn.conv.winograd import STEP
from vtakit.compiler.nn.conv.winograd_cpu import schedule_winograd
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extents, inlined
from vtakit.compiler.nn.cpu.simple import reduce_along, run_along, run_within
from vtakit.compiler.nn.product.byte_panels_cpu import schedule_byte_panels
from vtakit.compiler.nn.product.panels_cpu import run_panels_within, schedule_panels
from vtakit.compiler.nn.product.products_cpu import is_product_of_rows, schedule_product
from vtakit.compiler.nn.reduction.rows_cpu import schedule_rows
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.tensor import Tensor

ANCHORS = {
    "conv": schedule_product, "matmul": schedule_product, "depthwise": schedule_depthwise,
    "depthwise_planes": schedule_depthwise_planes, "conv_rows": schedule_few_filters,
    "conv_blocked": schedule_blocked, "depthwise_blocked": schedule_blocked_depthwise,
    "pool_blocked": schedule_blocked_depthwise,
    "conv_transpose_blocked": schedule_blocked_transposed, "dense_panels": schedule_panels,
    "winograd": schedule_winograd, "pack_bits": schedule_pack,
}
PACKED = "conv_packed", "conv_words", "conv_bits"


def schedule(
    outputs: Sequence[Tensor], target: Target | None = None, decisions: Mapping[str, Any] | Decisions | None = None,
) -> Schedule:
    """Return a schedule of all that outputs need, whatever operators they are made of, for a CPU (this machine's by default).

    decisions : values of the rules' decisions that are not the default: name -> candidate

    Convolutions and products are cut into tiles that fill the registers, with the operators that follow applied to each tile;
    reductions and operators on elements run by vectors, large ones on all threads. What is cheap is computed where it is read.
    """
    s = create_schedule([tensor.op for tensor in outputs], decisions)
    chosen = target or Target.host()
    machine = machine_of(chosen)
    rules = ANCHORS | dict.fromkeys(PACKED, partial(schedule_packed, target=chosen)) | {
        "dense_bytes": partial(schedule_byte_panels, target=chosen)}
    flow = Flow.of(s.outputs)
    if any(0 in extents(op) for op in flow.computes()):
        return s  # nothing to make faster
    stepped = flow.within_scans()
    anchors = [op for op in flow.computes() if op.tag in rules and op not in stepped and not is_product_of_rows(op)]
    kept = {tensor.op for op in [*anchors, *stepped] if op.tag != "pool_blocked" for tensor in op.input_tensors}
    kept |= {op for op in flow.computes() if op.name in ("padded", "block_channels", "cells") or op.tag == STEP}
    gone = inlined(flow, kept | stepped)
    followed = {op for anchor in anchors for op in flow.followers(anchor)}
    for op in gone - followed:
        s[op].compute_inline()
    for op in stepped:
        if op.tag == "step_panels":
            run_panels_within(s[op], machine)
        else:
            run_within(s[op], machine)
    reads, done = Reads(gone), set(stepped)
    pairs = separable(flow, anchors)
    for op, first in pairs.items():
        done |= schedule_separable(s, flow, first, op, machine)
    for op in anchors:
        if op not in done:
            done |= rules[op.tag](s, flow, op, machine)
    done |= schedule_rows(s, flow, done, machine, reads)
    for op in flow.computes():
        if op in done or op in gone:
            continue
        if op.reduce_axis:
            reduce_along(s, op, machine, reads)
        elif op.num_outputs == 1:
            run_along(s[op], machine, reads)
    return s
