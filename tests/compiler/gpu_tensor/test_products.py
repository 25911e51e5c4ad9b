"""Products on tensor cores: tile shapes, types and orders of operands, by the interpreter before and after the passes."""

import numpy as np
import pytest
from tensor_support import SMALL, check, numpy_type, product, run

from vtakit.compiler.intrin.meaning import updating
from vtakit.compiler.intrin.tensor_cores import KINDS, load, mma, wgmma
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.ir.warp_calls import WARP_CALLS, parsed
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.lower.interpreter.memory import Pointer
from vtakit.compiler.nn.gpu.tensor_cores import Tile
from vtakit.compiler.passes import lower_late


@pytest.mark.parametrize(("dtype", "turned", "more"), [
    ("bfloat16", True, {}), ("bfloat16", False, {"result": "bfloat16", "relu": True}), ("float16", True, {"batch": 2}),
    ("float16", False, {"result": "float16"}), ("float32", True, {"relu": True}), ("int8", True, {"result": "float32"}),
])
def test_by_warps(dtype, turned, more):
    k = KINDS[dtype].k
    low = check(*product(32, 16, 3 * k, dtype, turned=turned, tile=Tile(16, 16, k, 1, 1, 2), **more))
    names = {getattr(getattr(s, "value", None), "name", "") for s in statements(low.body)}
    assert {"mma_sync", "ldmatrix", "async_copy", "async_wait"} <= names


@pytest.mark.parametrize(("dtype", "more"), [
    ("bfloat16", {"result": "bfloat16"}), ("float16", {}), ("float32", {}), ("int8", {}),
])
def test_by_a_warpgroup(dtype, more):
    depth = 1024 // KINDS[dtype].bits  # of rows of 128 bytes
    low = check(*product(64, 16, 4 * depth, dtype, groups=True, tile=Tile(64, 16, depth, 1, 1, 3), **more))
    assert "wgmma('m64n16" in str(low)


@pytest.mark.parametrize("seed", range(6))
def test_random_tiles(seed):
    rng = np.random.default_rng(seed)
    groups = seed % 3 == 2
    down, across = (1, 1) if groups else rng.choice([1, 2], 2)
    rows = int(down) * (64 if groups else 16 * int(rng.integers(1, 3)))
    columns, depth = int(across) * 16 * int(rng.integers(1, 3)), 64 if groups else 32
    stages = int(rng.integers(3 if groups else 2, 5))
    tile = Tile(rows, columns, depth, int(down), int(across), stages)
    m, n, k = rows, columns * int(rng.integers(1, 3)), depth * int(rng.integers(1, 6))
    check(*product(m, n, k, groups=groups, tile=tile, turned=groups or bool(seed % 2)))


def test_tf32_rounds_operands_towards_zero():
    """Numbers of 23 fraction bits lose 13: the result is the product of what is left."""
    s, args, _ = product(16, 16, 8, "float32", tile=Tile(16, 16, 8, 1, 1, 2))
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((16, 8)).astype("float32") for _ in range(2))
    cut = [(v.view("uint32") & 0xFFFFE000).view("float32") for v in (x, y)]
    want = cut[0] @ cut[1].T
    assert abs(want - x @ y.T).max() > 1e-4
    got = np.zeros((16, 16), "float32")
    interpret(lower_late(lower(s, args), "gpu"), [x, y, got])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("intrin", [
    mma("bfloat16"), mma("float16", turned=True), mma("int8"), wgmma("bfloat16", 8, turned_b=True),
], ids=lambda intrin: intrin.name)
def test_a_call_does_what_its_tensor_expression_says(intrin):
    """The numpy meaning of the call beside the interpreted expression, on integers, whose sums are exact."""
    rng = np.random.default_rng(0)
    shapes = [[int(e.value) for e in t.shape] for t in (*intrin.inputs, intrin.op.output(0))]
    types = [numpy_type(str(t.dtype)) for t in (*intrin.inputs, intrin.op.output(0))]
    arrays = {t.name: rng.integers(-3, 4, shape).astype(kind)
              for t, shape, kind in zip((*intrin.inputs, intrin.op.output(0)), shapes, types, strict=True)}
    pointers = {name: Pointer([*x.reshape(-1)], 0, x.shape, x.dtype, "rw", name) for name, x in arrays.items()}
    again = {name: Pointer([*x.reshape(-1)], 0, x.shape, x.dtype, "rw", name) for name, x in arrays.items()}
    name, shape = intrin.name.split(".")[:2]
    a, b, c = (pointers[key] for key in "abc")
    widths = [arrays[key].shape[1] for key in "cab"]
    turned = [int(intrin.name.endswith(".bt"))]
    WARP_CALLS[name].run(shape, c, a, b, *widths, *([0] if name == "wgmma_tile" else []), *turned)
    updating(intrin)([*[again[t.name] for t in intrin.inputs], again["c"]])
    np.testing.assert_array_equal(c.array(), again["c"].array())
    assert parsed(shape)[2] == KINDS[str(intrin.inputs[0].dtype)].k


def test_a_copy_by_ldmatrix_is_a_copy():
    assert load("mma.a", "bfloat16", 16, 16).op.body[0].tensor.name == "s"


def test_results_do_not_depend_on_what_shared_memory_held():
    """Three tiles of blocks one after another, the second starting where the first left off."""
    s, args, arrays = product(48, 16, 64, tile=SMALL[False])
    run(lower_late(lower(s, args), "gpu"), *arrays(3))
