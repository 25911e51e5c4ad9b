"""Launches of a network on one arena in the device's memory: every grid and every argument is known when it is compiled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vtakit.compiler.codegen.gpu.host import Grid, HostCode
from vtakit.compiler.codegen.gpu.launches import Launch, Program
from vtakit.compiler.codegen.gpu.steps import Check
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.places import Place, Region, Step
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var

ALIGN = 256  # bytes, of a workspace in the arena


class Scalar(NamedTuple):
    """A scalar argument: the name of its type, and its value."""

    kind: str
    value: int | float


@dataclass(frozen=True, slots=True)
class PlacedLaunch:
    """A launch with its arguments.

    kernel : name of the kernel
    args   : places in the network's memory, and scalars, in order
    """

    kernel: str
    grid: Grid
    block: Grid
    args: tuple[Place | Scalar, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `size` bytes."""

    source: Place
    to: Place
    size: int


class Placer:
    """Gives launches of steps their arguments.

    end   : of the arena, workspaces included; all steps share one place for theirs
    align : bytes, of a workspace
    """

    def __init__(self, programs: Sequence[Program], arena_bytes: int, align: int = ALIGN) -> None:
        self.programs, self.hosts = programs, [HostCode(program) for program in programs]
        self.align = align
        self.begin = self.end = -(-arena_bytes // align) * align

    def step(self, step: Step) -> tuple[PlacedLaunch | Copy, ...]:
        """Return what the device does in a step.

        Raises CodegenError for a kernel with a scalar parameter, or a condition that does not hold.
        """
        if step.kernel < 0:
            source, to = step.args
            return (Copy(source, to, step.copied_bytes),)
        program, host = self.programs[step.kernel], self.hosts[step.kernel]
        places = {param.data: place for param, place in zip(_buffers(program), step.args, strict=True)}
        at = self.begin
        for buffer, elements in zip(program.workspaces, host.workspaces({}), strict=True):
            places[buffer.data] = Place(Region.ARENA, at)
            at += -(-elements * buffer.dtype.bytes // self.align) * self.align
        self.end = max(self.end, at)
        found: list[PlacedLaunch] = []

        def launch(number: int, grid: Grid, scalars: tuple[Any, ...]) -> None:
            if 0 not in grid:
                found.append(_placed(program.launches[number], grid, places, scalars))

        def fail(check: Check) -> Exception:
            return CodegenError(f"{program.function.name}: {check.reason} does not hold")
        host.run({}, launch, fail)
        return tuple(found)


def _buffers(program: Program) -> Iterator[Buffer]:
    for param in program.function.params:
        if not isinstance(param, Buffer):
            raise CodegenError(f"{program.function.name}, a kernel of a network, has the scalar parameter {param.name}")
        yield param


def _placed(launch: Launch, grid: Grid, places: dict[Var, Place], scalars: Sequence[Any]) -> PlacedLaunch:
    todo = iter(scalars)
    args = tuple(
        places[param.data] if isinstance(param, Buffer) else Scalar(str(param.dtype), next(todo)) for param in launch.params
    )
    return PlacedLaunch(launch.name, grid, launch.block, args)
