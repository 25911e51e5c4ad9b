"""A compiled model as data: what a `Module` runs and a module file holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.manifest import digest
from vtakit.compiler.codegen.llvm.network import Port, c_header
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.compiler.graph.vta.compile import Compiled
from vtakit.compiler.graph.vta.place import Left
from vtakit.compiler.graph.vta.region import Launch
from vtakit.hw.isa.program import Program
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.pages import reserve
from vtakit.runtime.source import Source


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CpuPart:
    """One native function: the layers of a model that the CPU runs in one go.

    reads, writes : numbers of the model's values, in the order of the function's inputs and outputs
    code          : object file
    symbols       : names that the code exports: the entry, the function of one step, the manifest
    outside       : C functions that the code calls
    messages      : the condition that status 1, 2, … reports as violated
    layers        : one for each step
    params        : parameters and constants, aligned
    arena_bytes   : size of the memory plan's arena
    live_bytes    : most of the arena that is live at one time
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    code: bytes
    symbols: tuple[str, ...]
    outside: tuple[str, ...]
    messages: tuple[str, ...]
    layers: tuple[Layer, ...]
    params: npt.NDArray[np.uint8]
    arena_bytes: int
    live_bytes: int

    @property
    def name(self) -> str:
        """Name of the entry function."""
        return self.symbols[0]

    @property
    def parallel(self) -> bool:
        """Whether the code calls an OpenMP runtime."""
        return any(name in openmp.ENTRIES for name in self.outside)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VtaPart:
    """One program of the accelerator: a launch.

    reads, writes : numbers of the model's values, each packed as in the device's memory
    program       : instructions, micro-ops, weights and all other constants
    inputs, outputs : names of the program's buffers for `reads` and `writes`, in order
    layers        : one for each part of the program
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]


Part = CpuPart | VtaPart


@dataclass(frozen=True, eq=False)
class Image:
    """A compiled model: parts that run in order, and the values that one part passes to another.

    name    : name of the entry function, if the CPU runs the whole model
    target  : processor of all machine code
    between : values that one part passes to a later one; numbered after inputs and outputs
    graph   : text of the graph after all passes, for reading
    left    : operators that the accelerator leaves to the CPU, with reasons; none of a model for a CPU
    said    : one line on what a CPU computes in 16 bits; "" in float32
    source  : imported graph and options, from which `recompile` builds; None if unknown
    """

    name: str
    target: Target
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    between: tuple[Port, ...]
    parts: tuple[Part, ...]
    graph: str
    left: tuple[Left, ...] = ()
    said: str = ""
    source: Source | None = None

    @cached_property
    def values(self) -> tuple[Port, ...]:
        """All values, indexed by their numbers."""
        return (*self.inputs, *self.outputs, *self.between)

    @property
    def cpu_parts(self) -> tuple[CpuPart, ...]:
        """The parts that are machine code."""
        return tuple([part for part in self.parts if isinstance(part, CpuPart)])

    @property
    def vta_parts(self) -> tuple[VtaPart, ...]:
        """The parts that run on the accelerator."""
        return tuple([part for part in self.parts if isinstance(part, VtaPart)])

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers of all parts, in order."""
        return tuple([layer for part in self.parts for layer in part.layers])

    @property
    def params_bytes(self) -> int:
        """Size in bytes of parameters and constants, those in the device's memory included."""
        own = sum(part.params.nbytes for part in self.cpu_parts)
        return own + sum(len(buffer.data or b"") for part in self.vta_parts for buffer in part.program.buffers)

    @property
    def arena_bytes(self) -> int:
        """Size in bytes of the host memory that a run needs beside inputs, outputs and parameters."""
        return sum(part.arena_bytes for part in self.cpu_parts) + sum(port.bytes for port in self.between)

    @property
    def live_bytes(self) -> int:
        """Most bytes of that memory that are live at one time: the lower bound of any memory plan."""
        return max((part.live_bytes for part in self.cpu_parts), default=0) + sum(port.bytes for port in self.between)

    def manifest(self, part: CpuPart) -> bytes:
        """Return the digest of what the image says about a part; its machine code has the same."""
        reads, writes = ([self.values[at] for at in numbers] for numbers in (part.reads, part.writes))
        return digest(
            self.target, part.name, reads, writes, params_bytes=part.params.nbytes, arena_bytes=part.arena_bytes,
            steps=len(part.layers), messages=part.messages, outside=part.outside,
        )

    def header(self, part: CpuPart) -> str:
        """Return the C header of a part's functions."""
        inputs, outputs = (tuple([self.values[at] for at in numbers]) for numbers in (part.reads, part.writes))
        return c_header(part.name, inputs, outputs, part.messages, part.params.nbytes, part.arena_bytes)


def cpu_part(network: Network, reads: Sequence[int], writes: Sequence[int]) -> CpuPart:
    """Return a compiled network as a part of an image."""
    code = network.code
    params = reserve(network.params_bytes)
    params[...] = 0
    for at, array in network.params:
        params[at:at + array.nbytes] = array.reshape(-1).view(np.uint8)
    return CpuPart(
        reads=tuple(reads), writes=tuple(writes), code=code.code, symbols=code.symbols, outside=code.outside,
        messages=code.messages, layers=network.layers, params=params, arena_bytes=network.arena_bytes,
        live_bytes=network.live_bytes,
    )


def image_of(network: Network, graph: str, left: tuple[Left, ...] = (), said: str = "") -> Image:
    """Return the image of a network that is one native function; see `Image`."""
    count = len(network.inputs)
    part = cpu_part(network, range(count), range(count, count + len(network.outputs)))
    return Image(network.code.name, network.code.target, network.inputs, network.outputs, (), (part,), graph, left, said)


def image_of_parts(compiled: Compiled, target: Target) -> Image:
    """Return the image of a graph that was compiled for the accelerator and the CPU.

    target : processor of the machine code
    """
    graph = compiled.placement.graph
    inputs = tuple([Port(value.name, value.type.shape, value.type.dtype) for value in graph.inputs])
    outputs = tuple([Port(name, value.type.shape, value.type.dtype) for name, value in graph.outputs])
    if len(compiled.parts) == 1 and not isinstance(compiled.parts[0], Launch):
        return image_of(compiled.parts[0].network, str(compiled.placement), compiled.placement.left)
    numbers = {value: at for at, value in enumerate(graph.inputs)}
    between: list[Port] = []
    parts: list[Part] = []
    for each in compiled.parts:
        reads = [numbers[value] for value in each.reads]
        if each is compiled.parts[-1]:  # it gives the outputs
            writes = list(range(len(inputs), len(inputs) + len(outputs)))
        else:
            for value in each.writes:
                numbers[value] = len(inputs) + len(outputs) + len(between)
                between.append(Port(value.name, value.type.shape, value.type.dtype))
            writes = [numbers[value] for value in each.writes]
        if isinstance(each, Launch):
            parts.append(VtaPart(reads=tuple(reads), writes=tuple(writes), program=each.program, inputs=each.inputs,
                                 outputs=each.outputs, layers=each.layers))
        else:
            parts.append(cpu_part(each.network, reads, writes))
    return Image(graph.name, target, inputs, outputs, tuple(between), tuple(parts), str(compiled.placement),
                 compiled.placement.left)
