"""Parts of a compiled model that are machine code of a CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.manifest import digest
from vtakit.compiler.codegen.llvm.network import c_header
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.pages import filled, reserve
from vtakit.runtime.fields import number, text, texts
from vtakit.runtime.target import Part


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CpuPart(Part):
    """One native function: the layers of a model that the CPU runs in one go.

    reads, writes : numbers of the model's values, in the order of the function's inputs and outputs
    code          : object file
    symbols       : names that the code exports: the entry, the function of one step, the manifest
    outside       : C functions that the code calls
    messages      : the condition that status 1, 2, … reports as violated
    layers        : one for each step
    params        : parameters and constants, aligned
    """

    kind: ClassVar[str] = "cpu"
    code: bytes
    symbols: tuple[str, ...]
    outside: tuple[str, ...]
    messages: tuple[str, ...]
    params: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, network: Network, reads: Sequence[int], writes: Sequence[int]) -> Self:
        """Return a compiled network as a part."""
        code = network.code
        params = filled(network.params_bytes, network.params)
        return cls(
            reads=tuple(reads), writes=tuple(writes), code=code.code, symbols=code.symbols, outside=code.outside,
            messages=code.messages, layers=network.layers, params=params, arena_bytes=network.arena_bytes,
            live_bytes=network.live_bytes,
        )

    def dump(self) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """Return names, messages and sizes; code and parameters."""
        entry = {"symbols": self.symbols, "outside": self.outside, "messages": self.messages, "arena": self.arena_bytes,
                 "live": self.live_bytes}
        return entry, [self.code, self.params.data]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described."""
        code, given = blobs
        params = reserve(len(given))
        params[...] = np.frombuffer(given, np.uint8)
        entry_name, step_name, manifest = map(text, entry["symbols"])
        return cls(
            reads=reads, writes=writes, layers=layers, code=bytes(code), symbols=(entry_name, step_name, manifest),
            outside=texts(entry["outside"]), messages=texts(entry["messages"]), params=params,
            arena_bytes=number(entry["arena"]), live_bytes=number(entry["live"]),
        )

    @property
    def name(self) -> str:
        """Name of the entry function."""
        return self.symbols[0]

    @property
    def parallel(self) -> bool:
        """Return whether the code runs loops in parallel, by an OpenMP runtime."""
        return any(name in openmp.ENTRIES for name in self.outside)

    @property
    def constant_bytes(self) -> int:
        """Size in bytes of parameters and constants."""
        return self.params.nbytes

    @property
    def weights_bytes(self) -> int:
        """Size in bytes of parameters and constants."""
        return self.params.nbytes

    @property
    def code_bytes(self) -> int:
        """Size in bytes of the object file."""
        return len(self.code)

    def manifest(self, target: Target, values: Sequence[Port]) -> bytes:
        """Return the digest of what a model says about the part; its machine code has the same."""
        reads, writes = ([values[at] for at in numbers] for numbers in (self.reads, self.writes))
        return digest(
            target, self.name, reads, writes, params_bytes=self.params.nbytes, arena_bytes=self.arena_bytes,
            steps=len(self.layers), messages=self.messages, outside=self.outside,
        )

    def header(self, values: Sequence[Port]) -> str:
        """Return the C header of the part's functions."""
        inputs, outputs = (tuple([values[at] for at in numbers]) for numbers in (self.reads, self.writes))
        return c_header(self.name, inputs, outputs, self.messages, self.params.nbytes, self.arena_bytes)
