"""Launches become assembly text and a code object, linked where LLVM's linker is installed."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vtakit.base.errors import one_of
from vtakit.compiler.codegen.amdgpu.builder import AmdBuilder
from vtakit.compiler.codegen.gpu.launches import Launch
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.passes import machine_code
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.module import Module
from vtakit.compiler.codegen.nvptx.compile import define_library, write_kernel
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.lower import Limits

TRIPLE = "amdgcn-amd-amdhsa"
ARCHES = ("gfx90a", "gfx942")  # MI200, MI300
SHARED_BYTES = 64 << 10  # of a block (AMD Instinct MI200 and MI300 instruction set architectures, "LDS")
MOST_THREADS = 1024  # of a block
VECTOR_BYTES = 16  # of one access
LINKER = "ld.lld"
_FLAG = "!99999"  # behind the metadata of loops
_CODE_OBJECT = '!{i32 1, !"amdhsa_code_object_version", i32 400}'
LIMITS = Limits(threads=MOST_THREADS, vector_bytes=VECTOR_BYTES, scope_bytes={"shared": SHARED_BYTES})


@dataclass(frozen=True, slots=True)
class CodeObject:
    """Code of several kernels.

    assembly : as LLVM writes it
    object   : relocatable ELF file
    linked   : code object that AMD's run time loads; b"" where there is no linker
    """

    arch: str
    assembly: str
    object: bytes
    linked: bytes


@deep()
def compile_launches(launches: Sequence[Launch], arch: str, *, contract: bool = True) -> CodeObject:
    """Return the code of launches with different names, lowered without shuffles.

    contract : whether ``a * b + c`` of floats is rounded once

    Raises CodegenError for what has no code.
    """
    if arch not in ARCHES:
        raise CodegenError(f"there is no AMD GPU {arch!r:.40} here; {one_of(ARCHES, str(arch))}")
    target = Target(TRIPLE, arch, (), contract, threads=False)
    module = Module("kernels", target)
    for launch in launches:
        _write(module, launch, arch)
    define_library(module)
    text = f"{module.text()}\n{_FLAG} = {_CODE_OBJECT}\n!llvm.module.flags = !{{{_FLAG}}}\n"
    made = machine_code(text, target, "object")
    return CodeObject(arch, machine_code(text, target, "assembly").decode(), made, _linked(made))


def _write(module: Module, launch: Launch, arch: str) -> None:
    if launch.threads > MOST_THREADS or launch.shared_bytes > SHARED_BYTES:
        raise CodegenError(f"{launch.name} has blocks of {launch.threads} threads with {launch.shared_bytes} bytes of shared "
                           f"memory, and {arch} has {MOST_THREADS} and {SHARED_BYTES}: split its tiles by smaller factors")
    size = f'"amdgpu-flat-work-group-size"="{launch.threads},{launch.threads}"'
    write_kernel(module, launch, lambda params: AmdBuilder(
        f"define amdgpu_kernel void @{launch.name}({params}) nounwind {size}", module.declare), SHARED_BYTES)


def _linked(made: bytes) -> bytes:
    """Return a relocatable object as a shared one."""
    tool = shutil.which(LINKER)
    if tool is None:
        return b""
    with tempfile.TemporaryDirectory(prefix="vtakit.") as folder:
        source, result = Path(folder, "kernels.o"), Path(folder, "kernels.hsaco")
        source.write_bytes(made)
        done = subprocess.run([tool, "-shared", str(source), "-o", str(result)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CodegenError(f"{LINKER} refuses the code object that was made, a defect of the code generator: "
                               f"{done.stderr[:500]}")
        return result.read_bytes()
