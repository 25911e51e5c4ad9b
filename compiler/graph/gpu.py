"""Kernels and networks for a GPU."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vtakit.compiler.codegen.places import Port, Step
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import Limits
from vtakit.compiler.nn.gpu.host_loops import launch_host_loops
from vtakit.compiler.nn.gpu.machine import A100, GpuMachine
from vtakit.compiler.nn.gpu.schedule import schedule
from vtakit.compiler.passes import lower_late
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class GpuNetwork:
    """A network as kernels in low "gpu" form and the steps that run them, before any code is made.

    kernels     : each splits into launches; see `vtakit.compiler.codegen.gpu.launches`
    arena_bytes : size of the device memory for what lies between layers, and for the kernels' workspaces
    """

    name: str
    kernels: tuple[Function, ...]
    steps: tuple[Step, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    params_bytes: int
    arena_bytes: int


Make = Callable[[GpuNetwork], Any]


@dataclass(frozen=True, slots=True)
class GpuKernels:
    """A GPU as `compile_graph` takes one; see `KernelTarget`.

    shuffles : whether threads of a warp may exchange values without shared memory
    make     : makes code of a network; None leaves it a `GpuNetwork`
    """

    machine: GpuMachine = A100
    shuffles: bool = True
    make: Make | None = None

    @property
    def own_bytes(self) -> int:
        """No bytes: each buffer that launches pass to one another lies in the network's arena."""
        return 0

    @property
    def limits(self) -> Limits:
        """Limits of a block."""
        return self.machine.limits

    def schedule(self, outputs: Sequence[Tensor], decisions: Mapping[str, Any] | Decisions | None = None) -> Schedule:
        """Return the default schedule, but for the decisions that are given."""
        return schedule(outputs, self.machine, decisions)

    def late(self, function: Function) -> Function:
        """Return a kernel in low form. Raises PassError for an extern operation that one thread would take too long for."""
        for param in function.params:
            kind = param.dtype
            if kind.is_storage or kind.bits in (2, 4):
                what = f"{function.name} has numbers of {kind}, for which GPUs have no code: convert them before"
                raise PassError(what, function)
        return lower_late(launch_host_loops(function, self.machine), "gpu", shuffles=self.shuffles)

    def network(
        self, name: str, kernels: Sequence[Function], steps: Sequence[Step], inputs: Sequence[Port], outputs: Sequence[Port], *,
        params_bytes: int, arena_bytes: int,
    ) -> Any:
        """Return what `make` makes of the network."""
        found = GpuNetwork(name, tuple(kernels), tuple(steps), tuple(inputs), tuple(outputs), params_bytes, arena_bytes)
        return found if self.make is None else self.make(found)
