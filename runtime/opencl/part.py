"""Parts of a compiled model that are kernels in OpenCL C."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from vtakit.compiler.codegen.clike.kernel import Source
from vtakit.compiler.codegen.clike.network import KernelFacts, SourceNetwork
from vtakit.compiler.codegen.gpu.placed import PlacedLaunch
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.fields import number, text, texts
from vtakit.runtime.placed import MOST_SHARED, MOST_THREADS, PlacedPart


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpenClPart(PlacedPart):
    """A network of kernels; a device's driver compiles them when it is opened.

    source : of all kernels
    facts  : of each kernel, in the order of `source.kernels`
    """

    kind: ClassVar[str] = "opencl"
    source: Source
    facts: tuple[KernelFacts, ...]

    @classmethod
    def of(cls, network: Network) -> Self:
        """Return a compiled network as a part."""
        code: SourceNetwork = network.code
        return cls.placed(network, source=code.source, facts=tuple(code.facts[name] for name in code.source.kernels))

    def dump(self) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """Return the launches; the source, and parameters."""
        entry = self.entry() | {
            "kernels": list(self.source.kernels), "uses": sorted(map(str, self.source.uses)), "language": self.source.language,
            "facts": [[each.block, each.spans, each.shared_bytes, each.barriers] for each in self.facts],
        }
        return entry, [self.source.text.encode(), self.params.data]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described."""
        source, given = blobs
        made = Source(text(entry["language"]), bytes(source).decode(), texts(entry["kernels"]),
                      frozenset(map(dtype, texts(entry["uses"]))))
        facts = tuple(map(_facts, entry["facts"]))
        part = cls.read(entry, given, reads=reads, writes=writes, layers=layers, source=made, facts=facts)
        launched = {each.kernel for step in part.steps for each in step if isinstance(each, PlacedLaunch)}
        if len(facts) != len(made.kernels) or not launched <= {*made.kernels}:
            raise ValueError(f"{len(facts)} facts for {len(made.kernels)} kernels, of which {len(launched)} are launched")
        return part


def _facts(given: Sequence[Any]) -> KernelFacts:
    block, spans, shared_bytes, barriers = given
    x, y, z = (number(size, MOST_THREADS + 1) for size in block)
    return KernelFacts((x, y, z), tuple(map(number, spans)), number(shared_bytes, MOST_SHARED), bool(barriers))
