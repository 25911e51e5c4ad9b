"""Layers in integers by bit-serial products: which can be, and which are by default."""

from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.kernels.bit_encodings import WORD_BITS
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.bounds import Bounds
from vtakit.compiler.graph.ir import Node
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.nn.conv.bit_weights import Encoding, encoding_of, excess
from vtakit.compiler.nn.conv.packed_weights import block_of

MOST_FEW = 4  # planes of data and digits of weights of a layer that may be bit-serial
_TOGETHER = 4  # bytes that a lane multiplies in a step


class BitForm(NamedTuple):
    """A layer's data as planes of ``x - low``, and the encoding of its weights."""

    planes: int
    low: int
    encoding: Encoding

    def excess(self, weight: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return by how much the sums of filters [K, …] are larger than those of the data as it is."""
        by_low: npt.NDArray[np.int64] = self.low * weight.reshape(len(weight), -1).astype(np.int64).sum(1)
        return excess(weight, self.encoding, self.planes) - by_low

    def most(self, weight: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return what the sums of filters [K, …] are at most, of either sign."""
        sizes = np.abs(weight.reshape(len(weight), -1).astype(np.int64)).sum(1)
        found: npt.NDArray[np.int64] = ((1 << self.planes) - 1) * sizes + excess(weight, self.encoding, self.planes)
        return found


def bit_form(weight: npt.NDArray[Any], bounds: Bounds, fill: int) -> BitForm | None:
    """Return the bit-serial form of a layer whose data is within bounds and whose pads are `fill`; None for too many bits."""
    low, high = min(bounds[0], fill), max(bounds[1], fill)
    found = BitForm(max(1, (high - low).bit_length()), low, encoding_of(weight))
    return found if max(found.planes, found.encoding.digits) <= MOST_FEW else None


def bits_pay(node: Node, form: BitForm, machine: Machine) -> bool:
    """Return whether bit-serial products are estimated to be faster than those of bytes, packing of the planes included.

    node : `conv_integer` or `matmul_integer`, of one group
    """
    x, result = node.reads[0].type.shape, node.outputs[0].type.shape
    macs = prod(result) * prod(node.reads[1].type.shape) // result[1]
    lanes, each = machine.lanes(INT32), min(block_of(x[1]), WORD_BITS)
    words = prod((x[0], *x[2:])) * -(-x[1] // each) * form.planes
    counts = macs / (each * lanes) * form.planes * form.encoding.digits
    steps = macs / (_TOGETHER * lanes)
    return counts * machine.count_cycles + words * machine.pack_cycles < steps * machine.byte_step_cycles
