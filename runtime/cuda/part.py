"""Parts of a compiled model that are kernels of a GPU."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import Kernels
from vtakit.compiler.codegen.nvptx.ptxas import Resources
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.runtime.fields import number, text
from vtakit.runtime.placed import MOST_SHARED, PlacedPart


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CudaPart(PlacedPart):
    """A network of kernels on a GPU.

    kernels : PTX, and machine code where an assembler made it
    """

    kind: ClassVar[str] = "cuda"
    kernels: Kernels

    @classmethod
    def of(cls, network: Network) -> Self:
        """Return a compiled network as a part."""
        return cls.placed(network, kernels=network.code.kernels)

    def dump(self) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """Return the launches; PTX, machine code, what the assembler said, and parameters."""
        made = self.kernels
        entry = self.entry() | {"arch": made.arch.name, "contract": made.arch.contract, "dynamic": dict(made.dynamic)}
        resources = {name: [getattr(each, field) for field in Resources.__slots__] for name, each in made.resources.items()}
        return entry, [made.ptx.encode(), made.cubin, json.dumps(resources).encode(), self.params.data]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described."""
        ptx, cubin, said, given = blobs
        arch = Arch(text(entry["arch"]), bool(entry["contract"]))
        dynamic = {text(name): number(size, MOST_SHARED) for name, size in entry["dynamic"].items()}
        resources = {
            text(name): Resources(**dict(zip(Resources.__slots__, map(number, each), strict=True)))
            for name, each in json.loads(bytes(said)).items()
        }
        kernels = Kernels(arch, bytes(ptx).decode(), bytes(cubin), "", dynamic, resources)
        return cls.read(entry, given, reads=reads, writes=writes, layers=layers, kernels=kernels)
