"""PTX of products on tensor cores: ptxas takes it without spills and without its advice on performance."""

import pytest
from tensor_support import product

from vtakit.compiler.codegen.gpu import split
from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import compile_launches
from vtakit.compiler.codegen.nvptx.ptxas import find_ptxas
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.gpu.tensor_cores import Tile
from vtakit.compiler.passes import lower_late


def kernels(arch, *sizes, **options):
    s, args, _ = product(*sizes, **options)
    return compile_launches(split(lower_late(lower(s, args), "gpu")).launches, Arch(arch))


@pytest.mark.parametrize(("dtype", "turned", "instruction"), [
    ("bfloat16", True, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    ("float16", False, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ("float32", True, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    ("int8", True, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_by_warps(arch, dtype, turned, instruction):
    depth = 32 * 16 // {"float32": 32, "int8": 8}.get(dtype, 16)
    found = kernels(arch, 64, 64, 4 * depth, dtype, turned=turned, tile=Tile(64, 64, depth, 2, 2, 3))
    assert instruction in found.ptx
    assert "ldmatrix.sync.aligned.m8n8.x4" + ("" if turned else ".trans") in found.ptx
    assert "cp.async.cg.shared.global.L2::128B" in found.ptx
    assert found.ptx.count("cp.async.wait_group 1;") == 4
    _clean(found)


@pytest.mark.parametrize(("dtype", "kinds", "k"), [("bfloat16", "f32.bf16.bf16", 16), ("float16", "f32.f16.f16", 16),
                                                   ("float32", "f32.tf32.tf32", 8), ("int8", "s32.s8.s8", 32)])
def test_by_warpgroups(dtype, kinds, k):
    depth = 4 * k  # rows of 128 bytes
    found = kernels("sm_90a", 128, 128, 5 * depth, dtype, groups=True, tile=Tile(128, 128, depth, 2, 1, 4))
    assert f"wgmma.mma_async.sync.aligned.m64n128k{k}.{kinds}" in found.ptx
    assert found.ptx.count("wgmma.wait_group.sync.aligned 1;") == found.ptx.count("wgmma.commit_group.sync.aligned;") == 5
    assert found.ptx.count("wgmma.wait_group.sync.aligned 0;") == 1
    _clean(found)


def test_the_tile_of_large_products_has_its_sums_in_registers():
    found = kernels("sm_90a", 1024, 1024, 1024, groups=True, result="bfloat16", tile=Tile(128, 256, 64, 2, 1, 4))
    _clean(found)
    assert [*found.dynamic.values()] == [4 * (128 + 256) * 64 * 2]


def _clean(found):
    if find_ptxas() is None:
        pytest.skip("no ptxas is installed")
    (used,) = found.resources.values()
    assert (used.spill_stores, used.spill_loads, used.stack_bytes) == (0, 0, 0)
    assert found.warnings == ()
