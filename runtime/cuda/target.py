"""NVIDIA GPUs as a target."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.process import TIMEOUT_S
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.nvptx.arch import DEFAULT_ARCH, Arch
from vtakit.compiler.codegen.nvptx.network import CudaNetwork, compile_network
from vtakit.compiler.graph.gpu import GpuKernels, GpuNetwork
from vtakit.compiler.ir.stmt import Function as Lowered
from vtakit.compiler.lower import Limits
from vtakit.compiler.nn.gpu.machine import machine_of_arch
from vtakit.compiler.nn.gpu.tensor_cores import instructions_of
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cuda.device import EMULATOR, KIND, Device
from vtakit.runtime.cuda.devices import find
from vtakit.runtime.cuda.engine import CudaEngine
from vtakit.runtime.cuda.function import Function
from vtakit.runtime.cuda.part import CudaPart
from vtakit.runtime.fields import text
from vtakit.runtime.gpu_target import GpuTarget
from vtakit.runtime.target import Engine, Image, Opening, Part, TargetError


@dataclass(frozen=True)
class Cuda(GpuTarget):
    """An NVIDIA GPU.

    arch     : architecture by name, as "sm_90a"
    contract : whether ``a * b + c`` of floats is rounded once; off, results are those of the interpreter
    """

    arch: str = DEFAULT_ARCH
    contract: bool = True

    name: ClassVar[str] = "cuda"
    summary: ClassVar[str] = "an NVIDIA GPU: kernels as PTX, through LLVM"
    devices: ClassVar[tuple[str, ...]] = (KIND, EMULATOR)
    options: ClassVar[tuple[str, ...]] = ("arch", "contract")
    kinds: ClassVar[tuple[type[Part], ...]] = (CudaPart,)
    part: ClassVar[type[CudaPart]] = CudaPart

    def __post_init__(self) -> None:
        try:
            Arch(self.arch, self.contract)
        except CodegenError as error:
            raise TargetError(str(error)) from None

    @classmethod
    def make(cls, *, arch: str | None = None, contract: bool = True, **options: Any) -> Self:
        """Return the target; without `arch` it is that of this machine's first GPU, or sm_80 if there is none."""
        return cls(_arch_here() if arch is None else arch, contract)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"arch": self.arch, "contract": self.contract}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the target of these fields."""
        return cls(text(data["arch"]), bool(data["contract"]))

    @property
    def architecture(self) -> Arch:
        """The architecture with its limits."""
        return Arch(self.arch, self.contract)

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks."""
        return self.architecture.limits

    def late(self, function: Lowered) -> Lowered:
        """Return a function in the low form."""
        return lower_late(function, "gpu", capacity=self.limits.scope_bytes)

    def function(self, function: Lowered, options: Mapping[str, Any]) -> Function:
        """Return a lowered function as one of arrays; options: device, timeout_s."""
        for name in options:
            if name not in ("device", "timeout_s"):
                raise TargetError(f"{name!r} is no option of a build for a GPU; {one_of(('device', 'timeout_s'), name)}")
        given = options.get("device", KIND)
        if not isinstance(given, Device) and str(given).partition(":")[0] not in self.devices:
            raise TargetError(f"{given!r:.60} is no device of target 'cuda', which runs on {' or '.join(self.devices)}")
        return Function(split(self.late(function)), self.architecture, given, timeout_s=options.get("timeout_s", TIMEOUT_S))

    @property
    def kernels(self) -> GpuKernels:
        """Back end of kernels: their schedules, and the PTX of networks."""
        machine = machine_of_arch(self.arch).changed({"tensor_cores": instructions_of(self.arch)})
        return GpuKernels(machine, make=partial(_network, self.architecture))

    def is_device(self, given: object) -> bool:
        """Return whether `given` is an open GPU."""
        return isinstance(given, Device)

    def engines(self, image: Image, opening: Opening) -> dict[str, Engine]:
        """Return what runs an image; the first run opens the device."""
        return {CudaPart.kind: CudaEngine(image, opening, self.devices[0])}


def _network(arch: Arch, network: GpuNetwork) -> CudaNetwork:
    return compile_network(network.name, network.kernels, network.steps, arch, network.arena_bytes)


def _arch_here() -> str:
    try:
        return find(KIND).arch.name
    except (VtakitError, MemoryError):
        return DEFAULT_ARCH
