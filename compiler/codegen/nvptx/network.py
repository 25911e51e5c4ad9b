"""A network as PTX, and launches on one arena in the device's memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.gpu import split
from vtakit.compiler.codegen.gpu.placed import Copy, PlacedLaunch, Placer, Scalar
from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import Kernels, compile_launches
from vtakit.compiler.codegen.places import Step
from vtakit.compiler.ir.stmt import Function

__all__ = ["Copy", "CudaNetwork", "PlacedLaunch", "Scalar", "compile_network"]


@dataclass(frozen=True, slots=True, eq=False)
class CudaNetwork:
    """Code of a network.

    name        : of the network
    kernels     : PTX and machine code of all kernels
    steps       : what each step of the network runs, in order
    arena_bytes : size of the device memory for what lies between launches
    """

    name: str
    kernels: Kernels
    steps: tuple[tuple[PlacedLaunch | Copy, ...], ...]
    arena_bytes: int


def compile_network(name: str, functions: Sequence[Function], steps: Sequence[Step], arch: Arch, arena_bytes: int) -> CudaNetwork:
    """Compile a network.

    functions   : kernels in low "gpu" form, whose buffers have constant shapes
    arena_bytes : size of the arena that the steps name places in; workspaces come on top

    Raises CodegenError for what has no code.
    """
    programs = [split(function) for function in functions]
    made = compile_launches([launch for program in programs for launch in program.launches], arch)
    placer = Placer(programs, arena_bytes)
    placed = tuple(placer.step(step) for step in steps)
    return CudaNetwork(name, made, placed, placer.end)
