"""A compiled model as data: what a `Module` runs and a module file holds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.network import Port
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.function import empty


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A compiled model.

    name        : of its entry function
    code        : the bytes of an object file, for `target`
    symbols     : what the code offers, the entry first
    outside     : the C functions that it calls
    messages    : what status 1, 2, … says does not hold
    header      : C text that declares the functions
    layers      : what each step is
    params      : the bytes at which the code finds its parameters, aligned
    arena_bytes : memory that a run needs
    graph       : the graph's text after all passes, for people
    """

    name: str
    target: Target
    code: bytes
    symbols: tuple[str, ...]
    outside: tuple[str, ...]
    messages: tuple[str, ...]
    header: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    layers: tuple[Layer, ...]
    params: npt.NDArray[np.uint8]
    arena_bytes: int
    graph: str

    @property
    def parallel(self) -> bool:
        """Whether the code calls an OpenMP runtime."""
        return any(name in openmp.ENTRIES for name in self.outside)


def image_of(network: Network, graph: str) -> Image:
    """The image of a compiled network."""
    code = network.code
    params = empty((network.params_bytes,), "uint8")
    params[...] = 0
    for at, array in network.params:
        params[at:at + array.nbytes] = array.reshape(-1).view(np.uint8)
    return Image(
        code.name, code.target, code.code, code.symbols, code.outside, code.messages, code.header, network.inputs,
        network.outputs, network.layers, params, network.arena_bytes, graph,
    )
