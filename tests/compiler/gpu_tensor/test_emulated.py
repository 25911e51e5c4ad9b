"""PTX of products on tensor cores, run by the emulator of PTX text, which knows nothing of the fragments and waits of the IR."""

import ml_dtypes
import numpy as np
import pytest
from tensor_support import product

import vtakit
from vtakit.compiler.nn.gpu.machine import MACHINES
from vtakit.compiler.nn.gpu.schedule import schedule
from vtakit.compiler.nn.gpu.tensor_cores import Tile
from vtakit.compiler.nn.product.matmul import gemm
from vtakit.compiler.te.language import placeholder

CASES = [
    ("sm_80", {}, Tile(32, 32, 32, 2, 2, 3)),
    ("sm_80", {"turned": False, "result": "bfloat16", "relu": True}, Tile(64, 32, 32, 2, 1, 4)),
    ("sm_80", {"dtype": "float16", "batch": 2}, Tile(16, 32, 64, 1, 2, 2)),
    ("sm_80", {"dtype": "int8"}, Tile(32, 16, 64, 2, 1, 2)),
    ("sm_80", {"dtype": "float32"}, Tile(32, 16, 32, 2, 1, 2)),
    ("sm_90a", {"groups": True}, Tile(64, 32, 64, 1, 1, 3)),
    ("sm_90a", {"groups": True, "result": "bfloat16"}, Tile(128, 64, 64, 2, 1, 4)),
    ("sm_90a", {"groups": True, "dtype": "float32"}, Tile(64, 16, 32, 1, 1, 4)),
    ("sm_90a", {"groups": True, "dtype": "int8"}, Tile(64, 16, 128, 1, 1, 5)),
]


@pytest.mark.parametrize(("arch", "options", "tile"), CASES)
def test_products(arch, options, tile):
    s, args, arrays = product(2 * tile.rows, tile.columns, 5 * tile.depth, tile=tile, **options)
    run = vtakit.build(s, args, vtakit.target("cuda", arch=arch), device="emulator")
    x, y, want = arrays()
    got = np.full_like(want, 77)
    run(x, y, got)
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@pytest.mark.parametrize("seed", range(4))
def test_random_tiles(seed):
    rng = np.random.default_rng(seed)
    groups = bool(seed % 2)
    down, across = (int(rng.integers(1, 3)), 1) if groups else map(int, rng.integers(1, 3, 2))
    stages = int(rng.integers(3, 6))
    tile = Tile(down * (64 if groups else 16), across * 16 * int(rng.integers(1, 4)), 64 if groups else 32, down, across, stages)
    dtype = ("bfloat16", "float16")[int(rng.integers(2))]
    s, args, arrays = product(tile.rows, tile.columns, tile.depth * int(rng.integers(1, 9)), dtype, groups=groups, tile=tile,
                              turned=groups or bool(rng.integers(2)))
    run = vtakit.build(s, args, vtakit.target("cuda", arch="sm_90a" if groups else "sm_80"), device="emulator")
    x, y, want = arrays(seed)
    got = np.zeros_like(want)
    run(x, y, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("turned", "name"), [(True, "wgmma.mma_async"), (False, "mma.sync")])
def test_the_default_schedule_takes_tensor_cores(turned, name):
    a = placeholder((128, 128), "bfloat16", name="A")
    b = placeholder((64, 128) if turned else (128, 64), "bfloat16", name="B")
    out = gemm(a, b, trans_b=turned)
    s = schedule([out], MACHINES["h100"].changed({"tensor_cores": 2}))
    run = vtakit.build(s, [a, b, out], vtakit.target("cuda", arch="sm_90a"), device="emulator")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, [int(e.value) for e in t.shape]).astype(ml_dtypes.bfloat16) for t in (a, b))
    got = np.zeros((128, 64), ml_dtypes.bfloat16)
    run(x, y, got)
    want = x.astype("float32") @ (y.T if turned else y).astype("float32")
    np.testing.assert_array_equal(got, want.astype(ml_dtypes.bfloat16))
    assert name in run.kernels.ptx


def test_float32_stays_on_ordinary_cores():
    a, b = placeholder((128, 128), "float32", name="A"), placeholder((128, 128), "float32", name="B")
    s = schedule([gemm(a, b, trans_b=True)], MACHINES["h100"].changed({"tensor_cores": 2}))
    assert "tensorize" not in str(s.trace)
