"""Write a compiled model as C."""

from pathlib import Path
from re import ASCII, fullmatch
from typing import Literal, get_args

import vtakit
from vtakit.base import folder
from vtakit.base.errors import VtakitError, one_of
from vtakit.base.reading import read_bytes
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.reserved import is_taken, is_word
from vtakit.runtime.cpu.engine import processor
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.crt import data
from vtakit.runtime.crt.header import header
from vtakit.runtime.crt.layout import Layout, layout_of
from vtakit.runtime.crt.source import source
from vtakit.runtime.target import Image
from vtakit.runtime.vta.part import VtaPart

Embed = Literal["incbin", "c"]
_HERE = Path(__file__).parent
_ALWAYS = ("vtakit_error.c", "vtakit_error.h", "vtakit_registers.h")
_DEVICE = ("vtakit_driver.h", "vtakit_vta.c", "vtakit_vta.h", "driver_mmio.c", "driver_mmio.h", "driver_sim.c", "driver_sim.h")
_RTL_HEADER = "vtakit_rtl.h"
_RTL_INTERFACE = Path(vtakit.__file__).parent / "sim" / "rtl" / "harness.h"  # importing vtakit.sim.rtl needs an extra
RTL_LIBRARY = "libvta_rtl.so"
_DOES = {
    "vtakit_error.c": "errors and their sentences",
    "vtakit_vta.c": "the accelerator behind its registers; vtakit_vta.h says how to open one",
    "vtakit_driver.h": "five functions to fill in for a board",
    "driver_mmio.c": "these over memory-mapped registers: Linux (UIO, u-dma-buf) or bare metal",
    "driver_sim.c": "these over the RTL in Verilator",
}


def export_c(image: Image, to: str | Path, *, embed: str = "incbin", rtl: bool = False) -> tuple[str, ...]:
    """Write a model as C into a folder; return the names of the files.

    embed : "incbin" embeds weights and programs by an assembly file that includes a binary file; "c" by a C array, for compilers
            whose assembler has no .incbin
    rtl   : also build the RTL of the accelerator's configuration, as a shared library that driver_sim.c loads

    Raises VtakitError for a folder that cannot be written or holds files that no export wrote; for a model whose name is
    taken in C or by a file of the export; for `rtl` if no part runs on the accelerator.
    """
    if embed not in get_args(Embed):
        raise VtakitError(f"embed={embed!r} is no way to embed weights; {one_of(get_args(Embed), str(embed))}")
    if rtl and not image.parts_of(VtaPart):
        raise VtakitError(f"model {image.name!r} has no part for the accelerator, so there is no RTL to export")
    for part in image.parts_of(VtaPart):
        if (bits := part.program.config.inp_bits) != 8:
            raise VtakitError(f"model {image.name!r} is for an accelerator with activations of {bits} bits, and the C runtime "
                              "moves bytes: compile it for one of 8 bits")
    _check_name(image.name)
    _check_functions(image)
    layout = layout_of(image)
    files = _files(image, layout, embed, rtl=rtl)
    folder.check(Path(to), [*files, folder.MANIFEST, *([RTL_LIBRARY] if rtl else [])])
    if rtl:
        files[RTL_LIBRARY] = _rtl_library(layout)
    folder.write(to, files, _about(image, layout))
    return tuple(files)


def _check_name(name: str) -> None:
    if not (name.isidentifier() and name.isascii()) or is_word(name) or is_taken(name):
        raise CodegenError(f"{name!r} cannot name a model's functions in C: compile it with another name (--name)")
    taken = {Path(file).stem.lower() for file in (*_ALWAYS, *_DEVICE, _RTL_HEADER, "main.c", "makefile", "readme.txt")}
    if name.lower() in taken or name.lower().startswith("vtakit"):
        raise CodegenError(f"a model called {name!r} cannot be exported, because files of every export have that name: compile "
                           "it with another name (--name)")


def _check_functions(image: Image) -> None:
    """Refuse functions whose names vtakit does not give, which a module file could hold: the names become C text."""
    names = [part.name for part in image.parts_of(CpuPart)]
    for name in names:
        if not fullmatch(rf"{image.name}(_\w+)?", name, ASCII) or names.count(name) > 1:
            raise CodegenError(f"{name!r:.40} cannot be a function of the model {image.name!r}: the module is damaged or "
                               "changed; compile the model again")


def _files(image: Image, layout: Layout, embed: str, *, rtl: bool) -> dict[str, bytes]:
    name = image.name
    texts = {f"{name}.h": header(image, layout), f"{name}.c": source(image, layout)}
    files = {file: text.encode() for file, text in texts.items()}
    if embed == "incbin":
        files |= {f"{name}_data.S": data.assembly(name).encode(), f"{name}.bin": layout.data}
    else:
        files[f"{name}_data.c"] = data.array(name, layout.data).encode()
    objects = {f"{name}_part{number}.o": part.code for number, part in enumerate(image.parts_of(CpuPart))}
    files |= objects
    runtime = (*_ALWAYS, *(_DEVICE if layout.device else ()))
    files |= {file: read_bytes(_HERE / "sources" / file, "a source of the C runtime") for file in runtime}
    if layout.device:
        files[_RTL_HEADER] = read_bytes(_RTL_INTERFACE, "a source of the C runtime")
    words = _words(image, layout, embed, tuple(objects), rtl=rtl)
    for file in ("main.c", "Makefile", "README.txt"):
        text = read_bytes(_HERE / "templates" / file, "a source of the C runtime").decode()
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        files[file] = text.encode()
    return files


def _words(image: Image, layout: Layout, embed: str, objects: tuple[str, ...], *, rtl: bool) -> dict[str, str]:
    """Return the text for each @word@ of the templates."""
    name, on_device = image.name, layout.device is not None
    model = [f"{name}.o", f"{name}_data.o", "vtakit_error.o", *(["vtakit_vta.o"] if on_device else [])]
    arrays = [f"in[{at}]" for at in range(len(image.inputs))] + [f"out[{at}]" for at in range(len(image.outputs))]
    openmp = "-fopenmp" if any(part.parallel for part in image.parts_of(CpuPart)) else ""
    return {
        "name": name, "NAME": name.upper(), "CALL": ", ".join(["model", *arrays]), "CC": _compiler(processor(image.target)),
        "OPENMP": openmp, "MODEL_OBJECTS": " ".join(model), "CPU_OBJECTS": " ".join(objects),
        "DATA": f"{name}_data.S {name}.bin" if embed == "incbin" else f"{name}_data.c",
        "DATA_FLAGS": "" if embed == "incbin" else "$(FLAGS) ",
        "DRIVERS": "driver_mmio.o" if on_device else "", "SIM_DRIVERS": "driver_sim.o" if on_device else "",
        "SIM_LIBS": "-ldl" if on_device else "",
        "FILES": "\n".join(_listing(name, embed, on_device=on_device)),
        "TRY": "\n".join(_tries(image, on_device=on_device, rtl=rtl)),
    }


def _listing(name: str, embed: str, *, on_device: bool) -> list[str]:
    """Return the lines of README.txt that describe the files."""
    files = {f"{name}.h": f"the functions of the model: {name}_init, {name}_run, {name}_close", f"{name}.c": "its parts in order"}
    if embed == "incbin":
        files |= {f"{name}.bin": "parameters, programs and weights", f"{name}_data.S": "brings them into a program"}
    else:
        files[f"{name}_data.c"] = "parameters, programs and weights"
    files |= {file: _DOES[file] for file in (*_ALWAYS, *(_DEVICE if on_device else ())) if file in _DOES}
    width = max(map(len, files))
    return [f"  {file:{width}}  {does}" for file, does in files.items()]


def _tries(image: Image, *, on_device: bool, rtl: bool) -> list[str]:
    """Return the command lines that run the example."""
    files = " ".join([*(f"in{at}.bin" for at in range(len(image.inputs))), *(f"out{at}.bin" for at in range(len(image.outputs)))])
    if not on_device:
        return [f"  build/{image.name} {files}"]
    library = f"./{RTL_LIBRARY}" if rtl else "RTL.so"
    return [f"  build/{image.name} --rtl {library} {files}",
            f"  build/{image.name} --uio /dev/uio0 --dma /dev/udmabuf0 {files}"]


def _compiler(target: Target) -> str:
    """Return the name of the C compiler for a machine: cc, or that of a GCC cross compiler."""
    host = Target.host()
    if (target.arch, target.system) == (host.arch, host.system):
        return "cc"
    return "-".join([*(part for part in target.triple.split("-") if part not in ("unknown", "pc", "none")), "gcc"])


def _about(image: Image, layout: Layout) -> dict[str, object]:
    """Return the description of a model for the manifest."""
    device = layout.device
    return {
        "model": image.name, "target": str(processor(image.target)),
        "inputs": {port.name: str(port) for port in image.inputs}, "outputs": {port.name: str(port) for port in image.outputs},
        "workspace_bytes": layout.host.size, "data_bytes": len(layout.data),
        **({"config": device.config.to_dict(), "launches": len(device.launches), "device_bytes": device.size} if device else {}),
    }


def _rtl_library(layout: Layout) -> bytes:
    """Return the bytes of the configuration's RTL as a shared library; it is built unless it is cached."""
    from vtakit.runtime.vta.registry import options_of

    options_of("rtl")  # raises if an extra is missing
    from vtakit.cache.entry import read
    from vtakit.hw.params import CoreParams
    from vtakit.sim.rtl.build import library

    assert layout.device is not None
    path = library(CoreParams(cfg=layout.device.config)).path
    found = read(path.parent, path.name)  # None if its hash is wrong
    if found is None:
        raise VtakitError(f"the RTL's library {str(path)!r} was changed while it was exported: run the command again")
    return found
