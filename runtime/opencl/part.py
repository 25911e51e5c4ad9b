"""Parts of a compiled model that are kernels in OpenCL C."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.clike.kernel import Source
from vtakit.compiler.codegen.clike.network import KernelFacts, SourceNetwork
from vtakit.compiler.codegen.gpu.placed import Copy, PlacedLaunch
from vtakit.compiler.codegen.places import Port, Region
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.cpu.pages import reserve
from vtakit.runtime.fields import number, text, texts
from vtakit.runtime.placed import MOST_THREADS, listed, parsed
from vtakit.runtime.target import Part

_MOST_SHARED = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpenClPart(Part):
    """A network of kernels; a device's driver compiles them when it is opened.

    source       : of all kernels
    facts        : of each kernel, in the order of `source.kernels`
    steps        : what each layer launches and copies
    params       : parameters and constants
    device_bytes : size of the arena in the device's memory
    """

    kind: ClassVar[str] = "opencl"
    name: str
    source: Source
    facts: tuple[KernelFacts, ...]
    steps: tuple[tuple[PlacedLaunch | Copy, ...], ...]
    params: npt.NDArray[np.uint8]
    device_bytes: int

    @classmethod
    def of(cls, network: Network) -> Self:
        """Return a compiled network as a part."""
        code: SourceNetwork = network.code
        params = reserve(network.params_bytes)
        params[...] = 0
        for at, array in network.params:
            params[at:at + array.nbytes] = array.reshape(-1).view(np.uint8)
        count = len(network.inputs)
        return cls(
            reads=tuple(range(count)), writes=tuple(range(count, count + len(network.outputs))), layers=network.layers,
            name=code.name, source=code.source, facts=tuple(code.facts[name] for name in code.source.kernels), steps=code.steps,
            params=params, device_bytes=code.arena_bytes,
        )

    @property
    def constant_bytes(self) -> int:
        """Size in bytes of parameters and constants."""
        return self.params.nbytes

    @property
    def weights_bytes(self) -> int:
        """Size in bytes of parameters and constants in the host's memory."""
        return self.params.nbytes

    def dump(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the launches; the source, and parameters."""
        entry = {
            "name": self.name, "device": self.device_bytes, "kernels": list(self.source.kernels),
            "uses": sorted(map(str, self.source.uses)), "language": self.source.language,
            "facts": [[each.block, each.spans, each.shared_bytes, each.barriers] for each in self.facts],
            "steps": [[listed(each) for each in step] for step in self.steps],
        }
        return entry, [self.source.text.encode(), self.params.tobytes()]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described."""
        source, given = blobs
        params = reserve(len(given))
        params[...] = np.frombuffer(given, np.uint8)
        made = Source(text(entry["language"]), bytes(source).decode(), texts(entry["kernels"]),
                      frozenset(map(dtype, texts(entry["uses"]))))
        facts = tuple(map(_facts, entry["facts"]))
        device_bytes = number(entry["device"])
        limits = {Region.INPUT: len(reads), Region.OUTPUT: len(writes), Region.PARAMS: len(given) + 1,
                  Region.ARENA: device_bytes + 1}
        steps = tuple(tuple(parsed(each, limits) for each in step) for step in entry["steps"])
        launched = {each.kernel for step in steps for each in step if isinstance(each, PlacedLaunch)}
        if len(steps) != len(layers) or len(facts) != len(made.kernels) or not launched <= {*made.kernels}:
            raise ValueError(f"{len(steps)} steps for {len(layers)} layers, {len(facts)} facts for {len(made.kernels)} kernels")
        return cls(reads=reads, writes=writes, layers=layers, name=text(entry["name"]), source=made, facts=facts, steps=steps,
                   params=params, device_bytes=device_bytes)


def _facts(given: Sequence[Any]) -> KernelFacts:
    block, spans, shared_bytes, barriers = given
    x, y, z = (number(size, MOST_THREADS + 1) for size in block)
    return KernelFacts((x, y, z), tuple(map(number, spans)), number(shared_bytes, _MOST_SHARED), bool(barriers))
