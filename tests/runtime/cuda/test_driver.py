"""The driver run time, by a stand-in for NVIDIA's bindings that writes down what is called."""

import gc

import fake_cuda
import numpy as np
import pytest
from fake_cuda import FakeDriver, Status

import vtakit
from vtakit import te
from vtakit.runtime.cpu.arguments import ArgumentError
from vtakit.runtime.cuda import device as devices
from vtakit.runtime.cuda import dlpack, driver
from vtakit.runtime.cuda.device import cuda_device, stream_of
from vtakit.runtime.cuda.devices import find
from vtakit.runtime.cuda.errors import CudaError

BX, TX = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")


@pytest.fixture
def fake(monkeypatch):
    """The stand-in, in place of the driver."""
    found = FakeDriver()
    monkeypatch.setattr(driver, "bindings", lambda: found)
    cuda_device.cache_clear()
    yield found
    gc.collect()
    cuda_device.cache_clear()


@pytest.fixture(autouse=True)
def no_assembler(monkeypatch):
    from vtakit.compiler.codegen.nvptx import ptxas
    monkeypatch.setattr(ptxas, "find_ptxas", lambda: None)


def scaled(threads=32):
    n = te.var("n")
    a, factor = te.placeholder((n,), name="A"), te.var("f", "int32")
    b = te.compute((n,), lambda i: a[i] * factor.astype("float32"), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], threads)
    s[b].bind(outer, BX)
    s[b].bind(inner, TX)
    return s, [a, factor, b]


def built(name="scaled", **options):
    s, args = scaled()
    return vtakit.build(s, args, "cuda", name, **options)


def test_without_a_driver_all_but_running_works_and_running_says_what_is_missing():
    if not driver.missing():
        pytest.skip("this machine has a GPU")
    f = built()
    assert ".entry scaled_kernel0(" in f.ptx
    x = np.zeros(4, "float32")
    with pytest.raises(CudaError, match=r"no driver of NVIDIA's|finds no GPU|needs the package cuda-bindings") as caught:
        f(x, 2, x.copy())
    assert "emulator" in str(caught.value) or "pip install" in str(caught.value)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    driver.bindings.cache_clear()
    with pytest.raises(CudaError, match=r"needs the package cuda-bindings: pip install 'vtakit\[gpu\]'"):
        driver.bindings()
    driver.bindings.cache_clear()


def test_a_call_copies_in_launches_waits_and_copies_back(fake):
    f = built()
    fake.sizes = [8, 8, 4, 4]
    x, y = np.arange(70, dtype="float32"), np.ones(70, "float32")
    f(x, 3, y)
    ((kernel, grid, block, shared, args, stream),) = fake.launches
    assert (kernel, grid, block, shared, stream) == ("scaled_kernel0", (3, 1, 1), (32, 1, 1), 0, 0)
    a, b, factor, n = (int.from_bytes(arg, "little") for arg in args)
    assert (factor, n) == (3, 70)
    names = [name for name, *_ in fake.calls]
    order = [names.index("cuMemAlloc"), names.index("cuMemcpyHtoDAsync"), names.index("cuLaunchKernel"),
             names.index("cuStreamQuery"), names.index("cuMemcpyDtoHAsync")]
    assert order == sorted(order)
    assert len(fake.named("cuMemcpyDtoHAsync")) == 1  # only what is written comes back
    assert a != b
    np.testing.assert_array_equal(y, np.ones(70, "float32"))
    gc.collect()
    assert not fake.memory, "memory of arguments is given back"


def test_arrays_of_the_device_go_in_without_a_copy_and_without_a_wait(fake):
    f = built()
    fake.sizes = [8, 8, 4, 4]
    x, y = (vtakit.device_array(np.ones(64, "float32")) for _ in range(2))
    copies = len(fake.named("cuMemcpyHtoDAsync"))
    waits = len(fake.named("cuStreamQuery"))
    f(x, 2, y, stream=77)
    assert len(fake.named("cuMemcpyHtoDAsync")) == copies
    assert len(fake.named("cuStreamQuery")) == waits
    (_, _, _, _, args, stream) = fake.launches[-1]
    assert int.from_bytes(args[0], "little") == x.address
    assert stream == 77
    np.testing.assert_array_equal(x.numpy(), np.ones(64, "float32"))


def test_nothing_is_launched_for_an_empty_array(fake):
    x = np.zeros(0, "float32")
    built()(x, 2, x.copy())
    assert not fake.launches


def test_a_recorded_run_is_a_graph_of_launches_on_a_stream_of_its_own(fake):
    f = built()
    fake.sizes = [8, 8, 4, 4]
    x, y = (vtakit.device_array(np.ones(64, "float32")) for _ in range(2))
    graph = f.recorded(x, 2, y, times=3)
    (begun,) = fake.named("cuStreamBeginCapture")
    assert [launch[-1] for launch in fake.launches] == [begun[0]] * 3
    graph.launch(5)
    assert fake.named("cuGraphLaunch") == [[graph.handle, 5]]
    handle = graph.handle
    del graph
    gc.collect()
    assert fake.named("cuGraphExecDestroy") == [[handle]]


def test_times_are_those_of_events(fake):
    f = built()
    fake.sizes = [8, 8, 4, 4]
    x, y = (vtakit.device_array(np.ones(64, "float32")) for _ in range(2))
    found = f.time(x, 2, y, repeat=3, number=4)
    assert found.seconds == (5e-4,) * 3
    assert len(fake.launches) == 1 + 3 * 4


def test_more_shared_memory_than_a_kernel_may_declare_is_asked_for(fake):
    n = 20000
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    outer, inner = s[b].split(b.op.axis[0], 16384)
    s[b].bind(outer, BX)
    inner, lane = s[b].split(inner, 256)
    s[b].bind(lane, TX)
    s[shared].compute_at(s[b], outer)
    s[shared].bind(s[shared].split(s[shared].op.axis[0], 256)[1], TX)
    f = vtakit.build(s, [a, b], vtakit.target("cuda", arch="sm_90"), "wide")
    assert f.kernels.dynamic == {"wide_kernel0": 65536}
    fake.sizes = [8, 8]
    f(np.zeros(n, "float32"), np.zeros(n, "float32"))
    assert fake.named("cuFuncSetAttribute") == [["wide_kernel0", 8, 65536]]
    assert fake.launches[0][3] == 65536


@pytest.mark.parametrize(("function", "status", "kind", "words"), [
    ("cuMemAlloc", Status.CUDA_ERROR_OUT_OF_MEMORY, MemoryError, "argument A of scaled, 256 bytes on cuda:0"),
    ("cuLaunchKernel", Status.CUDA_ERROR_INVALID_VALUE, CudaError, "a launch: the driver says CUDA_ERROR_INVALID_VALUE"),
    ("cuStreamQuery", Status.CUDA_ERROR_ILLEGAL_ADDRESS, CudaError, "a kernel touched memory outside of its arrays"),
    ("cuModuleLoadDataEx", Status.CUDA_ERROR_INVALID_PTX, CudaError, "line 7: no such instruction"),
    ("cuModuleLoadDataEx", Status.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CudaError, "the driver is older than the code"),
])
def test_failures_of_the_driver_are_sentences(fake, function, status, kind, words):
    f = built()
    fake.sizes = [8, 8, 4, 4]
    fake.fails[function] = status
    fake.log = b"line 7: no such instruction\n\0"
    x = np.zeros(64, "float32")
    with pytest.raises(kind) as caught:
        f(x, 2, x.copy())
    assert words in str(caught.value)


def test_a_kernel_that_does_not_end_is_an_error_after_the_time_limit(fake):
    f = built(timeout_s=0.02)
    fake.sizes = [8, 8, 4, 4]
    fake.fails["cuStreamQuery"] = Status.CUDA_ERROR_NOT_READY
    x = np.zeros(64, "float32")
    with pytest.raises(CudaError, match=r"still runs after 0.02 s"):
        f(x, 2, x.copy())


def test_code_for_another_architecture_names_the_one_to_compile_for(fake):
    fake.capability = (8, 6)
    s, args = scaled()
    f = vtakit.build(s, args, vtakit.target("cuda", arch="sm_90a"))
    x = np.zeros(64, "float32")
    words = r"the code is for sm_90a, and cuda:0 \(A GPU\) has compute capability 8.6: .*arch='sm_86'"
    with pytest.raises(CudaError, match=words):
        f(x, 2, x.copy())


@pytest.mark.parametrize(("capability", "arch"), [((8, 0), "sm_80"), ((8, 6), "sm_86"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a"),
                                                  ((12, 0), "sm_120a"), ((10, 7), "sm_103")])
def test_the_architecture_is_that_of_the_first_gpu(fake, capability, arch):
    fake.capability = capability
    assert vtakit.target("cuda").arch == arch


def test_devices_have_numbers(fake):
    assert find("cuda:1").number == 1
    assert find("cuda") is find("cuda:0")
    with pytest.raises(CudaError, match=r"device 'cuda:2' does not exist: this machine has cuda:0, cuda:1"):
        find("cuda:2")
    with pytest.raises(CudaError, match="no device of target 'cuda'"):
        find("gpu")
    f = built(device="cuda:1")
    x = vtakit.device_array(np.zeros(64, "float32"), "cuda:0")
    with pytest.raises(ArgumentError, match=r"argument A of scaled is on cuda:0, and the function runs on cuda:1"):
        f(x, 2, x)


def test_wrong_arguments_are_refused_before_anything_runs(fake):
    f = built()
    good = vtakit.device_array(np.zeros(64, "float32"))
    other = vtakit.device_array(np.zeros(64, "float32"))
    wrong = [
        ((vtakit.device_array(np.zeros(64, "int32")), 2, good), r"expected float32\[n\], got int32\[64\]"),
        ((vtakit.device_array(np.zeros(63, "float32")), 2, good), r"dimension 0 is 64, but n is 63"),
        ((good, 2), "takes 3 arguments"),
        ((good, "2", other), "expected a number of type int32"),
        ((good, 2, good), "share memory"),
    ]
    for args, words in wrong:
        with pytest.raises(ArgumentError, match=words):
            f(*args)
    with pytest.raises(ArgumentError, match="bound to arrays of the device"):
        f.bound(np.zeros(64, "float32"), 2, good)
    assert not fake.launches


def test_an_array_in_the_middle_of_a_word_of_16_bytes_is_refused(fake):
    f = built()
    base = vtakit.device_array(np.zeros(65, "float32"))
    part = vtakit.runtime.cuda.arrays.DeviceArray((64,), "float32", base.device, address=base.address + 4, owner=base)
    with pytest.raises(ArgumentError, match="no multiple of 16 bytes"):
        f(part, 2, vtakit.device_array(np.zeros(64, "float32")))


# Arrays


def test_an_array_goes_to_another_library_and_back_by_dlpack(fake):
    x = vtakit.device_array(np.arange(6, dtype="float32").reshape(2, 3))
    assert x.__dlpack_device__() == (2, 0)
    taken = dlpack.take(x.__dlpack__(), "test")
    assert (taken.address, taken.shape, taken.strides, taken.dtype) == (x.address, (2, 3), (3, 1), np.dtype("float32"))
    address = x.address
    del x
    gc.collect()
    assert address in fake.memory, "it lives as long as the other library has it"
    del taken
    gc.collect()
    assert address not in fake.memory


def test_a_capsule_that_nobody_takes_lets_go(fake):
    x = vtakit.device_array(np.zeros(3, "float32"))
    capsule = x.__dlpack__()
    assert len(dlpack._given) == 1
    del capsule
    gc.collect()
    assert not dlpack._given


def test_a_capsule_is_taken_once(fake):
    capsule = vtakit.device_array(np.zeros(3, "float32")).__dlpack__()
    first = dlpack.take(capsule, "a tensor")
    with pytest.raises(CudaError, match="another library has taken it"):
        dlpack.take(capsule, "a tensor")
    assert first.shape == (3,)


class Tensor:
    """An array of another library, by DLPack or by its interface of CUDA arrays."""

    def __init__(self, of, **interface):
        self.of = of
        if interface:
            self.__cuda_array_interface__ = of.__cuda_array_interface__ | interface
        else:
            self.__dlpack__, self.__dlpack_device__ = of.__dlpack__, of.__dlpack_device__


def test_arrays_of_other_libraries_are_taken_without_a_copy(fake):
    x = vtakit.device_array(np.arange(4, dtype="float32"))
    for other in (Tensor(x), Tensor(x, strides=(4,)), Tensor(x, strides=None)):
        assert vtakit.device_array(other).address == x.address
    with pytest.raises(CudaError, match="make a contiguous copy"):
        vtakit.device_array(Tensor(x, strides=(8,)))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "uint8", "int64", "float64", "bool"])
def test_elements_of_every_type_go_both_ways(fake, kind):
    import ml_dtypes
    x = np.arange(5).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    on = vtakit.device_array(x)
    np.testing.assert_array_equal(on.numpy(), x)
    assert dlpack.take(on.__dlpack__(), "x").dtype == x.dtype


def test_arrays_are_assigned_and_converted_for_numpy(fake):
    x = vtakit.device_array(np.zeros((2, 3), "float32"))
    x.assign(np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(np.asarray(x), np.ones((2, 3)))
    y = vtakit.device_array(np.zeros((2, 3), "float32"))
    y.assign(x)
    np.testing.assert_array_equal(y, np.ones((2, 3)))
    with pytest.raises(CudaError, match=r"takes float32\[2, 3\], got float64\[2, 3\]"):
        x.assign(np.ones((2, 3)))
    assert repr(x) == "<float32[2, 3] on cuda:0>"


def test_streams_of_other_libraries_are_taken():
    class Torch:
        cuda_stream = 12

    class CuPy:
        ptr = 13
    assert [stream_of(each) for each in (None, 0, 7, Torch(), CuPy())] == [0, 0, 7, 12, 13]
    with pytest.raises(CudaError, match="is no stream"):
        stream_of("fast")


def test_the_fake_has_every_function_that_is_called():
    """Each name that the tests rest on exists in NVIDIA's package, where that is installed."""
    real = pytest.importorskip("cuda.bindings.driver")
    import inspect
    import re
    source = inspect.getsource(devices) + inspect.getsource(driver)
    names = set(re.findall(r"\"(cu[A-Z]\w+)\"", source)) | set(re.findall(r"api\.(cu[A-Z]\w+)", source))
    assert len(names) > 20
    for name in names:
        assert hasattr(real, name), name
    for group in ("CUdevice_attribute", "CUjit_option", "CUfunction_attribute", "CUstreamCaptureMode"):
        kind = getattr(real, group)
        for member in dir(getattr(FakeDriver(), group)):
            if member.startswith("CU_"):
                assert hasattr(kind, member), member
    for status in fake_cuda.Status:
        assert int(getattr(real.CUresult, status.name)) == status
