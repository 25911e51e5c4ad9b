"""Parts of a compiled model that are programs of the accelerator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer
from vtakit.hw.isa import file as program_file
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.runtime.fields import texts
from vtakit.runtime.target import Part


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VtaPart(Part):
    """One program of the accelerator: a launch.

    reads, writes : numbers of the model's values in int8, in blocks as in the device's memory, which holds `inp_bits` of each
    program       : instructions, micro-ops, weights and all other constants
    inputs, outputs : names of the program's buffers for `reads` and `writes`, in order
    layers        : one for each part of the program
    """

    kind: ClassVar[str] = "vta"
    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def dump(self) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """Return the names of buffers; the program file."""
        return {"inputs": self.inputs, "outputs": self.outputs}, [program_file.dump(self.program)]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        """Return the part that `dump` described."""
        (data,) = blobs
        program = program_file.parse(bytes(data), "its program")
        found = cls(reads=reads, writes=writes, layers=layers, program=program, inputs=texts(entry["inputs"]),
                    outputs=texts(entry["outputs"]))
        for kind, names, numbers in (
            (BufferKind.INPUT, found.inputs, reads), (BufferKind.OUTPUT, found.outputs, writes),
        ):
            sizes = {buffer.name: buffer.size_bytes for buffer in program.buffers if buffer.kind is kind}
            wanted = [values[at].bytes * program.config.inp_bits // 8 for at in numbers]
            if sizes != dict(zip(names, wanted, strict=True)) or len(set(names)) < len(names):
                raise VtakitError(f"the {kind} buffers of a program are not the values of its part")
        return found

    @property
    def constant_bytes(self) -> int:
        """Size in bytes of the constants in the device's memory."""
        return sum(len(buffer.data or b"") for buffer in self.program.buffers)
