"""NVIDIA's assembler of PTX, where one is installed: machine code, and what each kernel takes of a multiprocessor."""

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.nvptx.arch import Arch

VARIABLE = "VTAKIT_PTXAS"  # path of an assembler, or "off" for none
TIMEOUT_S = 300.0
_ENTRY = re.compile(r"(?:Compiling entry function|Function properties for) '?([A-Za-z_$][\w$]*)'?")
_FIGURES = {
    "registers": re.compile(r"Used (\d+) registers"), "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"), "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"), "spill_loads": re.compile(r"(\d+) bytes spill loads"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources that a kernel takes, as the assembler says.

    registers : of a thread
    shared_bytes : of a block, declared by the kernel
    stack_bytes, spill_stores, spill_loads : bytes of a thread's local memory, stored and loaded for lack of registers
    barriers  : of a block
    """

    registers: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    barriers: int = 0


class Assembled(NamedTuple):
    """Machine code; b"" without an assembler."""

    cubin: bytes
    resources: Mapping[str, Resources]
    warnings: tuple[str, ...]


@functools.cache
def find_ptxas() -> Path | None:
    """Return the assembler: of the environment, of PyPI's nvidia-cuda-nvcc, of Triton, on the path, of CUDA; None without one."""
    given = os.environ.get(VARIABLE, "")
    if given == "off":
        return None
    places = [Path(given)] if given else []
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        places += sorted(Path(folder).glob("cu[0-9]*/bin/ptxas"), reverse=True)
        places.append(Path(folder, "cuda_nvcc", "bin", "ptxas"))
    triton = find_spec("triton")  # brings one
    for folder in (triton.submodule_search_locations or ()) if triton else ():
        places.append(Path(folder, "backends", "nvidia", "bin", "ptxas"))
    if on_path := shutil.which("ptxas"):
        places.append(Path(on_path))
    places.append(Path("/usr/local/cuda/bin/ptxas"))
    return next((place for place in places if os.access(place, os.X_OK) and place.is_file()), None)


@functools.cache
def version_of(ptxas: Path) -> tuple[int, int] | None:
    """Return the release of CUDA that an assembler is of, as (13, 0); None if it does not say."""
    try:
        said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"release (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None


def assemble(ptx: str, arch: Arch, *, ptxas: Path | None = None) -> Assembled:
    """Assemble PTX with the assembler that is found, or the given one; nothing without one.

    Raises CodegenError for PTX that it refuses, a defect of the code generator or a limit of the architecture.
    """
    tool = ptxas or find_ptxas()
    if tool is None:
        return Assembled(b"", {}, ())
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(ptx)
        command = [str(tool), f"-arch={arch.name}", "-v", str(source), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise CodegenError(f"{tool} has not assembled kernels for {arch.name} in {TIMEOUT_S:.0f} s: unroll fewer "
                               "loops") from None
        except OSError as error:
            raise CodegenError(f"{tool} could not be run: {error.strerror or error}; set {VARIABLE}=off to do without") from None
        said = done.stdout + done.stderr
        if done.returncode:
            lines = [line for line in said.splitlines() if "error" in line or "fatal" in line] or said.splitlines()
            raise CodegenError(f"{tool} refuses kernels for {arch.name}: {'; '.join(lines[:3]) or 'it says nothing'}")
        return Assembled(result.read_bytes(), resources_of(said), warnings_of(said))


def resources_of(said: str) -> dict[str, Resources]:
    """Return what each kernel takes, by what ``ptxas -v`` says."""
    found: dict[str, dict[str, int]] = {}
    name = ""
    for line in said.splitlines():
        if entry := _ENTRY.search(line):
            name = entry[1]
        for key, pattern in _FIGURES.items():
            if name and (figure := pattern.search(line)):
                found.setdefault(name, {})[key] = int(figure[1])
    return {name: Resources(**figures) for name, figures in found.items()}


def warnings_of(said: str) -> tuple[str, ...]:
    """Return the warnings, and advice on performance, in what an assembler says."""
    return tuple(line.strip() for line in said.splitlines() if "warning" in line.lower() or "Potential Performance Loss" in line)
