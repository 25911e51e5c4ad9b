"""The default schedule of a group of operators."""

from collections.abc import Sequence

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.nn.cpu.blocked import schedule_blocked, schedule_blocked_depthwise
from vtakit.compiler.nn.cpu.depthwise import schedule_depthwise
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extents, inlined
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.nn.cpu.products import is_product_of_rows, schedule_product
from vtakit.compiler.nn.cpu.simple import reduce_along, run_along, run_within
from vtakit.compiler.nn.cpu.windows import schedule_windows
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.tensor import Tensor

ANCHORS = {
    "conv": schedule_product, "matmul": schedule_product, "depthwise": schedule_depthwise,
    "conv_blocked": schedule_blocked, "depthwise_blocked": schedule_blocked_depthwise,
    "conv_packed": schedule_windows, "conv_words": schedule_windows,
}


def schedule(outputs: Sequence[Tensor], target: Target | None = None) -> Schedule:
    """A schedule of all that outputs need, whatever operators they are made of, for a CPU (this machine's by default).

    Convolutions and products are cut into tiles that fill the registers, with the operators that follow applied to each tile;
    reductions and operators on elements run by vectors, large ones on all threads. What is cheap is computed where it is read.
    """
    s = create_schedule([tensor.op for tensor in outputs])
    machine = Machine.of(target)
    flow = Flow.of(s.outputs)
    if any(0 in extents(op) for op in flow.computes()):
        return s  # nothing to make faster
    stepped = flow.within_scans()
    anchors = [op for op in flow.computes() if op.tag in ANCHORS and op not in stepped and not is_product_of_rows(op)]
    kept = {tensor.op for op in [*anchors, *stepped] for tensor in op.input_tensors}
    kept |= {op for op in flow.computes() if op.name == "padded"}
    gone = inlined(flow, kept | stepped)
    followed = {op for anchor in anchors for op in flow.followers(anchor)}
    for op in gone - followed:
        s[op].compute_inline()
    for op in stepped:
        run_within(s[op], machine)
    reads, done = Reads(gone), set(stepped)
    for op in anchors:
        done |= ANCHORS[op.tag](s, flow, op, machine)
    for op in flow.computes():
        if op in done or op in gone:
            continue
        if op.reduce_axis:
            reduce_along(s, op, machine, reads)
        elif op.num_outputs == 1:
            run_along(s[op], machine, reads)
    return s
