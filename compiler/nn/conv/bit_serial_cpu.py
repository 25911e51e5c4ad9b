"""Packing of bit planes: a word of channels at a time, in all planes."""

from vtakit.compiler.codegen.llvm.kernels.bit_kernels import bit_pack
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.nn.cpu.flow import Flow, extent, extents
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation


def schedule_pack(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "pack_bits"; return the operations that are done with. Threads share rows of the image.

    What puts pads around the words follows by vectors, as a loop of its own.
    """
    stage = s[anchor]
    n, y, _, _, i = anchor.axis
    stage.tensorize(i, bit_pack(extent(anchor.reduce_axis[0]), extents(anchor)[-1], anchor.attrs["zero"]))
    stage.parallel(stage.fuse(n, y))
    return {anchor}
