"""Kernels and networks for a CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vtakit.compiler.codegen.llvm.lowering.statements import STACK_BYTES
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.network import CompiledNetwork, compile_network
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.places import Port, Step
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import Limits
from vtakit.compiler.lower.verify.limits import NO_LIMITS
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.passes import lower_late
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor


@dataclass(frozen=True, slots=True)
class CpuKernels:
    """A processor as `compile_graph` takes one; see `KernelTarget`."""

    target: Target

    @property
    def machine(self) -> Machine:
        """The record that estimates read."""
        return machine_of(self.target)

    @property
    def own_bytes(self) -> int:
        """Most bytes of one buffer on a thread's stack."""
        return STACK_BYTES

    @property
    def limits(self) -> Limits:
        """No limits: LLVM splits vectors of any length, and memory is the system's."""
        return NO_LIMITS

    def schedule(self, outputs: Sequence[Tensor], decisions: Mapping[str, Any] | Decisions | None = None) -> Schedule:
        """Return the default schedule, but for the decisions that are given."""
        return schedule(outputs, self.target, decisions)

    def late(self, function: Function) -> Function:
        """Return a kernel in low form."""
        return lower_late(function)

    def network(
        self, name: str, kernels: Sequence[Function], steps: Sequence[Step], inputs: Sequence[Port], outputs: Sequence[Port], *,
        params_bytes: int, arena_bytes: int,
    ) -> CompiledNetwork:
        """Return machine code."""
        return compile_network(
            name, kernels, steps, inputs, outputs, self.target, params_bytes=params_bytes, arena_bytes=arena_bytes)
