"""A network as kernels in a C-like language, and launches on one arena in the device's memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.clike.dialect import Dialect
from vtakit.compiler.codegen.clike.kernel import Source, source_of
from vtakit.compiler.codegen.gpu.launches import Launch, split
from vtakit.compiler.codegen.gpu.placed import Copy, PlacedLaunch, Placer
from vtakit.compiler.codegen.gpu.strip import is_barrier
from vtakit.compiler.codegen.places import Step
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import statements


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Facts of a kernel that a run time needs beside its text.

    spans        : bytes of each buffer among its arguments, in order
    shared_bytes : of a block
    barriers     : whether threads wait for each other
    """

    block: tuple[int, int, int]
    spans: tuple[int, ...]
    shared_bytes: int
    barriers: bool


@dataclass(frozen=True, slots=True, eq=False)
class SourceNetwork:
    """Source of a network.

    facts       : of each kernel, by name
    steps       : what each step of the network runs, in order
    arena_bytes : size of the device memory for what lies between launches
    """

    name: str
    source: Source
    facts: Mapping[str, KernelFacts]
    steps: tuple[tuple[PlacedLaunch | Copy, ...], ...]
    arena_bytes: int


def network_source(
    name: str, functions: Sequence[Function], steps: Sequence[Step], dialect: Dialect, arena_bytes: int, align: int,
) -> SourceNetwork:
    """Return the source of a network.

    functions   : kernels in low "gpu" form, whose buffers have constant shapes
    arena_bytes : size of the arena that the steps name places in; workspaces come on top
    align       : bytes that the place of a buffer is a multiple of

    Raises CodegenError for what the language cannot say.
    """
    programs = [split(function) for function in functions]
    launches = [launch for program in programs for launch in program.launches]
    text = source_of(launches, dialect)
    facts = {kernel: facts_of(launch) for kernel, launch in zip(text.kernels, launches, strict=True)}
    placer = Placer(programs, arena_bytes, align)
    placed = tuple(placer.step(step) for step in steps)
    return SourceNetwork(name, text, facts, placed, placer.end)


def facts_of(launch: Launch) -> KernelFacts:
    """Return the facts of a launch; a buffer of symbolic shape has a span of 1."""
    spans = tuple(_span(param) for param in launch.params if isinstance(param, Buffer))
    return KernelFacts(launch.block, spans, launch.shared_bytes, any(map(is_barrier, statements(launch.body))))


def _span(buffer: Buffer) -> int:
    size = buffer.dtype.bytes
    for extent in buffer.shape:
        size *= int_value(extent) or 0
    return max(size, 1)
