"""Code objects of AMD's GPUs: assembled, linked and disassembled. None has run on a GPU."""

import re
import shutil
import subprocess
from collections import Counter

import clike_fuzz
import pytest
from support import raises

from vtakit import te
from vtakit.compiler.codegen.amdgpu.compile import ARCHES, compile_launches
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

MACHINES = {"gfx90a": 0x3F, "gfx942": 0x4C}  # low byte of e_flags (LLVM, User Guide for AMDGPU Backend, "ELF Header")
AMDGPU = 224  # e_machine


def reversed_rows(threads=128):
    """Rows of 128 elements through shared memory, backwards; a wave has 64 threads."""
    a = te.placeholder((16, threads), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute(a.shape, lambda i, j: b[i, threads - 1 - j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    return split(lower_late(lower(s, [a, c]), "gpu", shuffles=False)).launches


@pytest.mark.parametrize("arch", ARCHES)
def test_a_code_object_is_of_the_architecture_and_waits_at_barriers(arch):
    made = compile_launches(reversed_rows(), arch)
    for elf in filter(None, (made.object, made.linked)):
        assert elf[:4] == b"\x7fELF"
        assert int.from_bytes(elf[18:20], "little") == AMDGPU
        assert elf[48] == MACHINES[arch]
    assert "s_barrier" in made.assembly
    assert "ds_write" in made.assembly
    assert "ds_read" in made.assembly
    assert f".amdgcn_target \"amdgcn-amd-amdhsa--{arch}\"" in made.assembly
    assert ".amdhsa_group_segment_fixed_size 512" in made.assembly


@pytest.mark.skipif(not shutil.which("llvm-objdump"), reason="apt install llvm")
def test_disassembled_it_is_the_assembly(tmp_path):
    """With the disassembler that Debian has, which does not know gfx942."""
    made = compile_launches(reversed_rows(), "gfx90a")
    path = tmp_path / "kernels.o"
    path.write_bytes(made.object)
    run = ["llvm-objdump", "-d", "--no-show-raw-insn", "--mcpu=gfx90a", str(path)]
    text = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\t([a-z_0-9]+)", text.split("<main_kernel0>:")[1], re.M)
    body = made.assembly.split("main_kernel0:\n")[1].split(".section")[0]
    want = re.findall(r"^\t([a-z_][a-z_0-9]+)", body, re.M)
    ends = len(want) - want[::-1].index("s_endpgm")
    assert len(want[:ends]) > 10
    assert found[:ends] == want[:ends]


@pytest.mark.skipif(not shutil.which("ld.lld"), reason="apt install lld")
def test_linked_it_has_a_descriptor_of_each_kernel():
    made = compile_launches(reversed_rows(), "gfx942")
    assert b"main_kernel0.kd\0" in made.linked


def test_random_schedules_have_code():
    done = 0
    for seed in range(5000, 5040):
        found = clike_fuzz.scheduled(seed, Counter())
        if found is None:
            continue
        try:
            launches = split(found[1]).launches
        except CodegenError:
            continue
        compile_launches(launches, ARCHES[done % 2])
        done += 1
        if done == 8:
            return
    raise AssertionError("too few schedules")


def test_what_has_no_code_is_refused():
    with raises(CodegenError, "there is no AMD GPU 'gfx1' here; … Known: gfx90a, gfx942"):
        compile_launches(reversed_rows(), "gfx1")
    with raises(CodegenError, "… blocks of 2048 threads …"):
        compile_launches(reversed_rows(2048), "gfx90a")
