"""Functions and models for a GPU on the emulator of PTX."""

import numpy as np
import pytest
from gpu_fuzz import built_for, check
from model_support import network

import vtakit
from vtakit import te
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.runtime.cpu.arguments import ArgumentError
from vtakit.runtime.cpu.function import CheckError
from vtakit.runtime.cuda.errors import CudaError
from vtakit.runtime.target import TargetError
from vtakit.sim.ptx import KernelFault

pytest.importorskip("numba")


def small_model():
    """A network and its input."""
    return network(), {"x": np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype("float32")}


BX, TX = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")


def add(kind="float32"):
    n = te.var("n")
    a, b = te.placeholder((n,), kind, name="A"), te.placeholder((n,), kind, name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 32)
    s[c].bind(outer, BX)
    s[c].bind(inner, TX)
    return s, [a, b, c]


def build(name="add", **options):
    s, args = add(**options)
    return vtakit.build(s, args, "cuda", name, device="emulator")


@pytest.mark.parametrize("size", [0, 1, 31, 32, 100])
def test_a_function_of_a_symbolic_size_on_numpy_arrays(size):
    x, y = np.random.default_rng(0).standard_normal((2, size)).astype("float32")
    z = np.full(size, 7, "float32")
    build()(x, y, z)
    np.testing.assert_array_equal(z, x + y)


def test_a_function_on_arrays_of_the_device():
    x, y = np.arange(50, dtype="float32"), np.ones(50, "float32")
    dx, dy, dz = (vtakit.device_array(array, "emulator") for array in (x, y, np.zeros_like(x)))
    f = build()
    f(dx, dy, dz)
    np.testing.assert_array_equal(dz.numpy(), x + y)
    f.bound(dx, dz, dy)()
    np.testing.assert_array_equal(np.asarray(dy), 2 * x + y)
    f.recorded(dx, dy, dz, times=2).launch()
    np.testing.assert_array_equal(dz.numpy(), 3 * x + y)
    assert f.time(dx, dy, dz, repeat=2, number=1).median > 0
    with pytest.raises(BufferError, match=r"take a copy with numpy\(\)"):
        dx.__dlpack__()


def test_strided_arrays_of_numpy_are_copied_there_and_back():
    n, stride = 6, te.var("stride")
    a = te.placeholder((n, n), name="A")
    c = te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], BX)
    s[c].bind(c.op.axis[1], TX)
    b = Buffer("C", (n, n), FLOAT32, strides=[stride, 1])
    f = vtakit.build(s, [a, b], "cuda", binds={c: b}, device="emulator")
    x, wide = np.arange(36, dtype="float32").reshape(6, 6), np.full((6, 9), 7, "float32")
    f(x, wide[:, :6])
    np.testing.assert_array_equal(wide[:, :6], 2 * x)
    np.testing.assert_array_equal(wide[:, 6:], np.full((6, 3), 7))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "uint8", "int64", "float64", "bool"])
def test_elements_of_every_type(kind):
    import ml_dtypes
    x = np.array([0, 1, 1, 0, 1] * 9).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    a = te.placeholder(x.shape, kind, name="A")
    b = te.compute(x.shape, lambda i: te.select(a[i] == a[44 - i], a[i], a[0]), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], TX)
    y = np.empty_like(x)
    vtakit.build(s, [a, b], "cuda", device="emulator")(x, y)
    np.testing.assert_array_equal(y, np.where(x == x[::-1], x, x[0]))


def test_a_bfloat16_and_float16_are_rounded_to_nearest_even():
    import ml_dtypes
    x = np.array([1.0, 1 + 2**-9, 1 + 3 * 2**-9, 65504, 65520, 1e-8, 3e38, 3.4e38, -0.0], "float32")
    for kind, number in (("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)):
        a = te.placeholder(x.shape, name="A")
        b = te.compute(x.shape, lambda i, a=a, kind=kind: a[i].astype(kind), name="B")
        s = te.create_schedule(b.op)
        s[b].bind(b.op.axis[0], TX)
        y = np.empty(x.shape, number)
        vtakit.build(s, [a, b], "cuda", device="emulator")(x, y)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(y.view(np.uint16), x.astype(number).view(np.uint16))


def test_what_a_function_requires_of_its_sizes_is_checked():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], BX)
    f = vtakit.build(s, [a, b], "cuda", device="emulator")
    x = np.arange(5, dtype="float32")
    y = np.empty_like(x)
    f(x, y)
    np.testing.assert_array_equal(y, x[::-1])
    with pytest.raises((ArgumentError, CheckError)):
        f(x, np.empty(4, "float32"))


def test_more_blocks_than_a_grid_has_are_refused():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.y"))
    x = np.zeros(65536, "float32")
    with pytest.raises(ArgumentError, match=r"65536 blocks in blockIdx.y, and a grid has at most 65535: bind the longest axis"):
        vtakit.build(s, [a, b], "cuda", device="emulator")(x, x.copy())


def test_options_and_devices_are_checked():
    s, args = add()
    with pytest.raises(TargetError, match="no option of a build for a GPU"):
        vtakit.build(s, args, "cuda", threads=4)
    with pytest.raises(TargetError, match="no device of target 'cuda', which runs on cuda or emulator"):
        vtakit.build(s, args, "cuda", device="fsim")
    with pytest.raises(TargetError, match="no GPU architecture 'sm_70'"):
        vtakit.target("cuda", arch="sm_70")
    with pytest.raises(CudaError):
        vtakit.device_array(np.zeros(3), "emulated")


def test_an_access_outside_of_an_array_is_named():
    """The module's text is changed so that it reads behind its argument."""
    f = build("add_behind")
    kernels = f.kernels
    line = next(line for line in kernels.ptx.splitlines() if "ld.global" in line)
    object.__setattr__(kernels, "ptx", kernels.ptx.replace(line, line.replace("]", "+65536]"), 1))
    x = np.zeros(32, "float32")
    with pytest.raises(KernelFault, match="add_behind_kernel0"):
        f(x, x.copy(), x.copy())


@pytest.mark.parametrize("seed", range(0, 24, 8))
def test_random_schedules(seed):
    for at in range(seed, seed + 8):
        assert check(at, built_for("cuda", device="emulator"))


# Models


def test_a_model_runs_is_profiled_saved_and_loaded(tmp_path):
    model, given = small_model()
    want = vtakit.compile(model, "llvm").run(given)
    module = vtakit.compile(model, "cuda", device="emulator")
    for name, array in module.run(given).items():
        np.testing.assert_allclose(array, want[name], rtol=1e-5, atol=1e-5)
    profile = module.profile(given, repeat=1)
    assert len(profile.layers) == len(module.image.layers)
    assert module.placement is not None
    module.save(tmp_path / "model.vtak")
    loaded = vtakit.load(tmp_path / "model.vtak", device="emulator")
    for name, array in loaded.run(given).items():
        np.testing.assert_array_equal(array, module.run(given)[name])
    (first,), (second,) = module.image.parts, loaded.image.parts
    assert first.steps == second.steps
    assert first.kernels.ptx == second.kernels.ptx
    assert first.kernels.resources == second.kernels.resources
    module.close()
    assert module.run(given).keys() == want.keys()


def test_decisions_of_a_model_are_listed():
    model, _ = small_model()
    assert vtakit.decisions(model, "cuda") is not None


def test_a_model_without_a_gpu_says_what_is_missing():
    from vtakit.runtime.cuda import driver
    if not driver.missing():
        pytest.skip("this machine has a GPU")
    model, given = small_model()
    module = vtakit.compile(model, "cuda")
    with pytest.raises(CudaError, match='or use device "emulator"'):
        module.run(given)
