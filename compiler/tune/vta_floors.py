"""Least cycles of candidates for the accelerator, whatever the schedule: products, or bytes of operands on the bus.

A convolution takes a step for each block of products, and each chunk of a tile loads the pixels and weights that its products
read. Pads are not loaded. Nothing else is counted: neither results, nor instructions, nor latency. So a floor is below the cycles
of any program of the candidate, and no program need be made of a candidate whose floor is far above the best.
`benchmarks/tuner_truth.py` compares every measurement with its floor.
"""

from functools import cache

from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.cuts import Cut, Work
from vtakit.compiler.tune.task import Candidate
from vtakit.compiler.tune.vta import VtaTask


def floor_of(task: VtaTask, given: Candidate) -> int:
    """Return the least cycles of a candidate; 0 for an operator other than a convolution."""
    layer = task.layer
    if not isinstance(layer, Conv2d) or layer.pooling is not None or (
            layer.work.row_step != layer.stride[0] and any(layer.pad)):  # rows are left out, and pads not known apart
        return 0
    work, cfg, cut = layer.work, task.target.config, task.cut(given)
    rows = _loaded(work.rows, work.kernel_rows, cut.rows, cut.kernel_rows, work.row_step, work.row_dilation, layer.pad[0],
                   work.in_rows)
    columns = _loaded(work.columns, work.kernel_columns, cut.columns, cut.kernel_columns, work.column_step, work.column_dilation,
                      layer.pad[2], work.in_columns)
    inputs = work.images * work.in_blocks * -(-work.out_blocks // cut.out_blocks) * rows * columns * cfg.inp_bytes
    weights = work.out_blocks * work.in_blocks * work.kernel_rows * work.kernel_columns * cfg.wgt_bytes
    outputs = work.images * work.out_blocks * work.rows * work.columns
    residuals = work.tensors * outputs * cfg.inp_bytes
    read = inputs + weights * (1 if cut.keep else _tiles(work, cut)) + residuals
    steps = outputs * work.in_blocks * work.kernel_rows * work.kernel_columns * work.taken * task.target.params.gemm_passes
    return int(work.repeats * max(steps, read / task.target.system.bytes_a_cycle))


def _tiles(work: Work, cut: Cut) -> int:
    """Return the tiles of the same output blocks."""
    return -(-work.images // cut.images) * -(-work.rows // cut.rows) * -(-work.columns // cut.columns)


@cache
def _loaded(outputs: int, taps: int, tile: int, chunk: int, step: int, dilation: int, pad: int, size: int) -> int:
    """Return the rows or columns of an input of `size` that all chunks of all tiles read together."""
    count = 0
    for first in range(0, outputs, tile):
        for tap in range(0, taps, chunk):
            read = {at * step + each * dilation - pad for at in range(first, min(first + tile, outputs))
                    for each in range(tap, min(tap + chunk, taps))}
            count += sum(0 <= at < size for at in read)
    return count
