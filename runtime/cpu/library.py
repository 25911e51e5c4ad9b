"""A compiled model that is all machine code as files for C: a shared library, a header and the parameters."""

from contextlib import ExitStack
from pathlib import Path

from vtakit.base.writing import unwritable, written_whole
from vtakit.compiler.codegen.llvm import link
from vtakit.runtime.cpu.engine import processor
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.target import Image


def export(image: Image, path: str | Path, linker: tuple[str, ...]) -> None:
    """Write a shared library, its C header and its parameters; see `Module.export`. The model is one part."""
    (part,) = image.parts_of(CpuPart)
    library, header, params = link.files(path, "library", ".h", ".params")
    with ExitStack() as all_or_none:
        file = all_or_none.enter_context(written_whole(library, "library"))
        texts = (params, part.params.tobytes(), "parameters"), (header, part.header(image.values).encode(), "C header")
        for beside, data, what in texts:
            other = all_or_none.enter_context(written_whole(beside, what))
            with unwritable(beside, what):
                other.write_bytes(data)
        link.library(part.code, processor(image.target), file, linker, threads=part.parallel, name=library)
