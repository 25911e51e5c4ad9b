"""Parts of a compiled model that are kernels of a GPU."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import Kernels
from vtakit.compiler.codegen.nvptx.network import Copy, CudaNetwork, PlacedLaunch
from vtakit.compiler.codegen.nvptx.ptxas import Resources
from vtakit.compiler.codegen.places import Port, Region
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.runtime.cpu.pages import reserve
from vtakit.runtime.fields import number, text
from vtakit.runtime.placed import listed, parsed
from vtakit.runtime.target import Part

_MOST_SHARED = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CudaPart(Part):
    """A network of kernels on a GPU.

    kernels      : PTX, and machine code where an assembler made it
    steps        : what each layer launches and copies
    params       : parameters and constants
    device_bytes : size of the arena in the device's memory
    """

    kind: ClassVar[str] = "cuda"
    name: str
    kernels: Kernels
    steps: tuple[tuple[PlacedLaunch | Copy, ...], ...]
    params: npt.NDArray[np.uint8]
    device_bytes: int

    @classmethod
    def of(cls, network: Network) -> Self:
        """Return a compiled network as a part."""
        code: CudaNetwork = network.code
        params = reserve(network.params_bytes)
        params[...] = 0
        for at, array in network.params:
            params[at:at + array.nbytes] = array.reshape(-1).view(np.uint8)
        count = len(network.inputs)
        return cls(
            reads=tuple(range(count)), writes=tuple(range(count, count + len(network.outputs))), layers=network.layers,
            name=code.name, kernels=code.kernels, steps=code.steps, params=params, device_bytes=code.arena_bytes,
        )

    @property
    def constant_bytes(self) -> int:
        """Size in bytes of parameters and constants."""
        return self.params.nbytes

    @property
    def weights_bytes(self) -> int:
        """Size in bytes of parameters and constants in the host's memory."""
        return self.params.nbytes

    @property
    def launches(self) -> int:
        """Number of kernels that one run launches."""
        return sum(isinstance(each, PlacedLaunch) for step in self.steps for each in step)

    def dump(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the launches; PTX, machine code, what the assembler said, and parameters."""
        made = self.kernels
        entry = {
            "name": self.name, "arch": made.arch.name, "contract": made.arch.contract, "device": self.device_bytes,
            "dynamic": dict(made.dynamic), "steps": [[listed(each) for each in step] for step in self.steps],
        }
        resources = {name: [getattr(each, field) for field in Resources.__slots__] for name, each in made.resources.items()}
        return entry, [made.ptx.encode(), made.cubin, json.dumps(resources).encode(), self.params.tobytes()]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described."""
        ptx, cubin, said, given = blobs
        params = reserve(len(given))
        params[...] = np.frombuffer(given, np.uint8)
        arch = Arch(text(entry["arch"]), bool(entry["contract"]))
        dynamic = {text(name): number(size, _MOST_SHARED) for name, size in entry["dynamic"].items()}
        resources = {
            text(name): Resources(**dict(zip(Resources.__slots__, map(number, each), strict=True)))
            for name, each in json.loads(bytes(said)).items()
        }
        kernels = Kernels(arch, bytes(ptx).decode(), bytes(cubin), "", dynamic, resources)
        device_bytes = number(entry["device"])
        limits = {Region.INPUT: len(reads), Region.OUTPUT: len(writes), Region.PARAMS: len(given) + 1,
                  Region.ARENA: device_bytes + 1}
        steps = tuple(tuple(parsed(each, limits) for each in step) for step in entry["steps"])
        if len(steps) != len(layers):
            raise ValueError(f"{len(steps)} steps for {len(layers)} layers")
        return cls(reads=reads, writes=writes, layers=layers, name=text(entry["name"]), kernels=kernels, steps=steps,
                   params=params, device_bytes=device_bytes)
