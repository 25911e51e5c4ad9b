"""OpenCL devices as a target."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from vtakit.base.errors import VtakitError, one_of
from vtakit.compiler.codegen.clike.kernel import source
from vtakit.compiler.codegen.clike.network import SourceNetwork, network_source
from vtakit.compiler.codegen.clike.opencl import OpenCL
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.graph.gpu import GpuKernels, GpuNetwork
from vtakit.compiler.ir.stmt import Function as Lowered
from vtakit.compiler.lower import Limits
from vtakit.compiler.nn.gpu.machine import MACHINES
from vtakit.compiler.passes import lower_late
from vtakit.runtime.fields import number
from vtakit.runtime.gpu_target import GpuTarget
from vtakit.runtime.opencl.devices import KIND, Device, OpenClError, find
from vtakit.runtime.opencl.engine import ALIGN, OpenClEngine
from vtakit.runtime.opencl.function import Function
from vtakit.runtime.opencl.part import OpenClPart
from vtakit.runtime.target import Engine, Image, Opening, Part, TargetError

# What every device of a desktop or server has; a device may have more.
THREADS, SHARED_BYTES = 256, 32 << 10
_MACHINE = MACHINES["portable"]
VECTOR_BYTES = 128  # of the widest vector of OpenCL C, 16 numbers of 64 bits


@dataclass(frozen=True)
class OpenCl(GpuTarget):
    """OpenCL C for devices of at least these limits.

    threads      : most threads of a block
    shared_bytes : size in bytes of the memory that they share
    contract     : whether a product and a sum may become one operation, rounded once
    """

    threads: int = THREADS
    shared_bytes: int = SHARED_BYTES
    contract: bool = True

    name: ClassVar[str] = "opencl"
    summary: ClassVar[str] = "any OpenCL device: kernels as OpenCL C"
    devices: ClassVar[tuple[str, ...]] = (KIND,)
    options: ClassVar[tuple[str, ...]] = ("threads", "shared_bytes", "contract")
    kinds: ClassVar[tuple[type[Part], ...]] = (OpenClPart,)
    part: ClassVar[type[OpenClPart]] = OpenClPart
    align: ClassVar[int] = ALIGN

    @classmethod
    def make(
        cls, *, threads: int | None = None, shared_bytes: int | None = None, contract: bool = True, **_: Any
    ) -> Self:
        """Return the target. Limits that are not given are those of this machine's first device, or of any if it has none."""
        for name, value in (("threads", threads), ("shared_bytes", shared_bytes)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise TargetError(f"{name} of target 'opencl' is {value!r:.40} and must be a whole number of at least 1")
        if threads is None or shared_bytes is None:
            here = _limits_here()
            threads, shared_bytes = threads or here[0], shared_bytes or here[1]
        return cls(threads, shared_bytes, bool(contract))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"threads": self.threads, "shared_bytes": self.shared_bytes, "contract": self.contract}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the target of these fields."""
        return cls(number(data["threads"]), number(data["shared_bytes"]), bool(data["contract"]))

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks."""
        return Limits(threads=self.threads, vector_bytes=VECTOR_BYTES, scope_bytes={"shared": self.shared_bytes})

    @property
    def dialect(self) -> OpenCL:
        """The language of its kernels."""
        return OpenCL(contract=self.contract)

    def late(self, function: Lowered) -> Lowered:
        """Return a function in the low form; threads exchange values through shared memory only."""
        return lower_late(function, "gpu", capacity={"shared": self.shared_bytes}, shuffles=False)

    def function(self, function: Lowered, options: Mapping[str, Any]) -> Function:
        """Return a lowered function as one of arrays; options: device."""
        for name in options:
            if name != "device":
                raise TargetError(f"{name!r} is no option of a build for OpenCL; {one_of(('device',), name)}")
        program = split(self.late(function))
        return Function(program, source(program, self.dialect), _device(options.get("device", KIND)))

    @property
    def kernels(self) -> GpuKernels:
        """Back end of kernels: their schedules, and the source of networks."""
        machine = _MACHINE
        if self.threads < machine.threads_per_block:
            machine = machine.changed({"threads_per_block": self.threads})
        return GpuKernels(machine, shuffles=False, make=partial(_network, self.dialect))

    def is_device(self, given: object) -> bool:
        """Return whether `given` is an open OpenCL device."""
        return isinstance(given, Device)

    def engines(self, image: Image, opening: Opening) -> dict[str, Engine]:
        """Return what runs an image; the first run opens the device and compiles the source."""
        return {OpenClPart.kind: OpenClEngine(image, opening, KIND)}


def _network(dialect: OpenCL, network: GpuNetwork) -> SourceNetwork:
    return network_source(network.name, network.kernels, network.steps, dialect, network.arena_bytes, ALIGN)


def _limits_here() -> tuple[int, int]:
    try:
        device = find()
    except (VtakitError, MemoryError):
        return THREADS, SHARED_BYTES
    return device.threads, device.shared_bytes


def _device(given: object) -> str | Device:
    if isinstance(given, Device):
        return given
    if not isinstance(given, str) or given.partition(":")[0] != KIND:
        raise OpenClError(f"{given!r:.40} is no device of target 'opencl': name one as 'opencl', 'opencl:1' or 'opencl:geforce'")
    return given
