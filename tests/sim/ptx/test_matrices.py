"""Products on tensor cores as PTX: mma.sync, ldmatrix, cp.async and wgmma, beside exact products of small integers."""

import re

import numpy as np
import pytest
from ptx_products import product
from ptx_schedules import Emulated

from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.intrin.tensor_cores import KINDS
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.gpu.tensor_cores import Tile
from vtakit.compiler.passes import lower_late
from vtakit.sim.ptx import KernelFault


def emulated(s, args, arch):
    return Emulated(lower_late(lower(s, args), "gpu"), Arch(arch, contract=False))


def check(case, arrays, text=None, **options):
    x, y, want = arrays()
    got = np.full_like(want, 77)
    case.run([x, y, got], text, **options)
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@pytest.mark.parametrize(("dtype", "turned", "more"), [
    ("bfloat16", True, {}), ("bfloat16", False, {"result": "bfloat16", "relu": True}), ("float16", True, {"batch": 2}),
    ("float16", False, {"result": "float16"}), ("float32", True, {"relu": True}), ("int8", True, {"result": "float32"}),
])
def test_by_warps(dtype, turned, more):
    k = KINDS[dtype].k
    s, args, arrays = product(32, 16, 3 * k, dtype, Tile(16, 16, k, 1, 1, 2), turned=turned, **more)
    case = emulated(s, args, "sm_80")
    assert {"mma", "ldmatrix", "cp"} <= {name.split(".")[0] for name in re.findall(r"\b(mma|ldmatrix|cp)\.\S+", case.ptx)}
    check(case, arrays)


@pytest.mark.parametrize(("dtype", "more"), [("bfloat16", {"result": "bfloat16"}), ("float16", {}), ("float32", {}),
                                             ("int8", {})])
def test_by_a_warpgroup(dtype, more):
    depth = 1024 // KINDS[dtype].bits
    s, args, arrays = product(64, 16, 4 * depth, dtype, Tile(64, 16, depth, 1, 1, 3), groups=True, **more)
    case = emulated(s, args, "sm_90a")
    assert "wgmma.mma_async" in case.ptx
    check(case, arrays)


@pytest.mark.parametrize(("line", "least"), [
    ("cp.async.wait_group", 4), ("bar.sync", 4), ("wgmma.wait_group", 2), ("fence.proxy", 4), ("wgmma.fence", 1)])
def test_a_missing_wait_is_found(line, least):
    """Each occurrence of the line in turn is taken away: by a fault or the result, all are found that something depends on."""
    s, args, arrays = product(64, 16, 4 * 64, "bfloat16", Tile(64, 16, 64, 1, 1, 3), groups=True)
    case = emulated(s, args, "sm_90a")
    places = [found.start() for found in re.finditer(rf"\b{re.escape(line)}", case.ptx)]
    assert places
    caught = []
    for at in places:
        end = case.ptx.index(";", at)
        try:
            check(case, arrays, case.ptx[:at] + case.ptx[end:])
        except (KernelFault, AssertionError) as error:
            caught.append(str(error).splitlines()[0])
    assert len(caught) >= least, f"{len(caught)} of {len(places)}"
