"""The interface of back ends at the graph level: `KernelTarget`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from vtakit.compiler.codegen.places import Port, Step
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import Limits
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor


class Estimates(Protocol):
    """Record of a machine, as far as the graph level reads it."""

    def threads_pay(self, macs: int, moved_bytes: int) -> bool:
        """Return whether a kernel is faster with all threads of a processor in its parallel loops.

        macs : multiply-adds       moved_bytes : size of what it reads and writes
        """

    def separable_pays(self, moved_bytes: int) -> bool:
        """Return whether a depthwise convolution in blocks and the one of single pixels behind it are best one kernel.

        moved_bytes : size of the data and result of the first
        """


class KernelTarget(Protocol):
    """A back end for kernels: it schedules a group of operators, and makes code of the loop programs that follow.

    Equal ones make the same kernels; their hashes are equal.
    """

    @property
    def machine(self) -> Estimates:
        """The record that decides what is one kernel, and which kernels run on several threads of a processor."""

    @property
    def own_bytes(self) -> int:
        """Most bytes of one buffer that a kernel's code allocates for itself; larger ones are lent from the network's arena."""

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks."""

    def schedule(self, outputs: Sequence[Tensor], decisions: Mapping[str, Any] | Decisions | None = None) -> Schedule:
        """Return a schedule of all that the outputs of a group need.

        decisions : values of its rules' decisions that are not the default: name -> candidate
        """

    def late(self, function: Function) -> Function:
        """Return a kernel in low form: the passes after lowering."""

    def network(
        self, name: str, kernels: Sequence[Function], steps: Sequence[Step], inputs: Sequence[Port], outputs: Sequence[Port], *,
        params_bytes: int, arena_bytes: int,
    ) -> Any:
        """Return the code of a network: kernels in low form, called by steps on one arena."""
