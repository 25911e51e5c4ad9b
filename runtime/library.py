"""A compiled model that is all machine code as files for C: a shared library, a header and the parameters."""

from contextlib import ExitStack
from pathlib import Path

from vtakit.compiler.codegen.llvm import link
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.hw.isa.file import unwritable, written_whole
from vtakit.hw.isa.text import counted
from vtakit.runtime.image import Image


def export(image: Image, path: str | Path, linker: tuple[str, ...]) -> None:
    """Write a shared library, its C header and its parameters; see `Module.export`.

    Raises CodegenError if a part of the model runs on the accelerator.
    """
    if image.vta_parts:
        raise CodegenError(
            f"model {image.name!r} has {counted(len(image.vta_parts), 'part')} for the accelerator, and a shared library has "
            "machine code only: write C source with export_c (vtakit export), or a module with save"
        )
    (part,) = image.cpu_parts
    library, header, params = link.files(path, "library", ".h", ".params")
    with ExitStack() as all_or_none:
        file = all_or_none.enter_context(written_whole(library, "library"))
        texts = (params, part.params.tobytes(), "parameters"), (header, image.header(part).encode(), "C header")
        for beside, data, what in texts:
            other = all_or_none.enter_context(written_whole(beside, what))
            with unwritable(beside, what):
                other.write_bytes(data)
        link.library(part.code, image.target, file, linker, threads=part.parallel, name=library)
