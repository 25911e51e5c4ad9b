"""Target "opencl": functions and models on an OpenCL device, devices by name, errors as sentences."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from clike_support import on_device
from model_support import network
from onnx import TensorProto, helper, numpy_helper
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.compiler.lower import VerifyError
from vtakit.compiler.passes import lower_late
from vtakit.runtime.cpu.arguments import ArgumentError
from vtakit.runtime.opencl import devices
from vtakit.runtime.opencl.arrays import device_array
from vtakit.runtime.opencl.devices import OpenClError, find
from vtakit.runtime.target import TargetError

BX, TX = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")


def add(target="opencl", threads=16, **options):
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], threads)
    s[c].bind(outer, BX)
    s[c].bind(inner, TX)
    return vtakit.build(s, [a, b, c], target, "add", **options)


@pytest.fixture(scope="module")
def function():
    return add()


@pytest.mark.parametrize("size", [0, 1, 16, 50, 1000])
def test_arrays_of_any_size_in_place(function, size):
    x, y = np.random.default_rng(size).standard_normal((2, size)).astype("float32")
    z = np.full(size, 7, "float32")
    function(x, y, z)
    np.testing.assert_array_equal(z, x + y)


def test_arrays_of_the_device_are_not_copied(function):
    x, y = np.arange(100, dtype="float32"), np.ones(100, "float32")
    a, b, c = (device_array(array, function.device) for array in (x, y, np.zeros(100, "float32")))
    function(a, b, c)
    function(c, b, a)
    np.testing.assert_array_equal(c.numpy(), x + 1)
    np.testing.assert_array_equal(a.numpy(), x + 2)
    with raises(ArgumentError, "… share memory, …"):
        function(a, b, a)
    with raises(ArgumentError, "… float32 … float64 …"):
        function(x.astype("float64"), y, x)
    with raises(ValueError, "… float32[100] … float32[3] …"):
        a.assign(x[:3])


def test_kernels_are_timed_by_the_device(function):
    x = np.ones(4096, "float32")
    found = function.profile(x, x.copy(), x.copy())
    assert [each.kernel for each in found] == ["add_kernel0"]
    assert 0 < found[0].seconds < 1
    assert 0 < function.time(x, x.copy(), x.copy(), repeat=2, number=3).min < 1


def test_strided_arguments_keep_what_lies_between():
    n, stride = te.size_var("n"), te.var("stride")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] * 2, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], BX)
    held = te.decl_buffer((n,), "int32", "B", strides=(stride,))
    function = vtakit.build(s, [a, held], "opencl", binds={b: held})
    whole = np.full(20, -1, "int32")
    function(np.arange(7, dtype="int32"), whole[2:16:2])
    want = np.full(20, -1)
    want[2:16:2] = np.arange(7) * 2
    np.testing.assert_array_equal(whole, want)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "bool", "int64", "float64"])
def test_every_type_of_element(kind):
    numpy_kind = np.dtype(getattr(ml_dtypes, kind, kind))
    a = te.placeholder((32,), kind, name="A")
    b = te.compute((32,), lambda i: a[31 - i], name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 4)
    s[b].bind(outer, BX)
    s[b].vectorize(inner)
    x = np.random.default_rng(1).integers(0, 2, 32).astype(numpy_kind)
    y = np.zeros(32, numpy_kind)
    vtakit.build(s, [a, b], "opencl")(x, y)
    np.testing.assert_array_equal(y, x[::-1])


def test_an_exchange_through_shared_memory_that_pocl_s_optimiser_breaks():
    """Two barriers in a loop of two iterations, under conditions on the thread: PoCL 3.0 lost the stores; see `program`."""
    a, out = (Buffer(name, (3, 4), dtype("int16")) for name in ("a", "out"))
    own, row = Buffer("own", (1,), a.dtype, "local"), Buffer("row", (4,), a.dtype, "shared")
    block, t, k, zero = Var("b"), Var("t"), Var("k"), IntImm(0)

    def few(s):
        return st.If(t < 4, s)
    turn = st.seq(few(st.Store(row, (t,), own[0])), few(st.Store(own, (zero,), row[3 - t])))
    body = st.seq(few(st.Store(own, (zero,), a[block, t])), st.For(k, IntImm(2), turn), few(st.Store(out, (block, t), own[0])))
    threads = st.For(t, IntImm(7), st.Allocate(own, st.Allocate(row, body)), st.LoopKind.THREAD, "threadIdx.x")
    function = st.Function("main", (a, out), st.For(block, IntImm(3), threads, st.LoopKind.THREAD, "blockIdx.x"))
    x = np.arange(12, dtype="int16").reshape(3, 4)
    y = np.zeros_like(x)
    on_device(lower_late(function, "gpu", shuffles=False), [x, y])
    np.testing.assert_array_equal(y, x)


# Devices and errors

def test_devices_by_number_and_by_name():
    first = find()
    assert find("opencl:0") is first
    assert find(f"opencl:{first.handle.name.split()[0].lower()}") is first
    assert add(device="opencl:0").device is first
    assert add(device=first).device is first


@pytest.mark.parametrize(("name", "words"), [
    ("opencl:99", "device 'opencl:99': there are … opencl:0 …"),
    ("opencl:no such thing", "device 'opencl:no such thing': no name has 'no such thing' in it; …"),
    ("fsim", "'fsim' is no device of target 'opencl': … 'opencl:1' …"),
])
def test_a_device_that_does_not_exist(name, words):
    with raises(OpenClError, words):
        assert add(device=name).device


def test_a_machine_without_a_device_says_what_would_help(monkeypatch):
    monkeypatch.setattr(devices, "handles", list)
    with raises(OpenClError, "… no OpenCL device … pip install 'vtakit[opencl]' …"):
        find()
    assert vtakit.target("opencl").threads == 256  # what any device has


def test_limits_of_the_target_and_of_the_device():
    with pytest.raises(VerifyError, match="a block has 16 threads, the device allows 8"):
        add(vtakit.target("opencl", threads=8), threads=16)
    most = find().threads
    big = add(vtakit.target("opencl", threads=4 * most), threads=2 * most)
    with raises(OpenClError, f"… {2 * most} … threadIdx …"):
        big(*np.zeros((3, 8), "float32"))
    with raises(TargetError, "… threads … at least 1 …"):
        vtakit.target("opencl", threads=0)
    with raises(TargetError, "… timeout_s …"):
        add(timeout_s=3)


def test_the_compiler_s_log_is_in_the_error(function):
    broken = add()
    broken.source = type(broken.source)("OpenCL C", broken.source.text.replace("{", "{ nonsense;", 1), broken.source.kernels,
                                        broken.source.uses)
    with raises(OpenClError, "… add_kernel0 … nonsense …"):
        broken(*np.zeros((3, 8), "float32"))


def test_memory_that_the_device_does_not_have(function):
    with raises(MemoryError, "… add …"):
        function._allocated(1 << 60, "an argument")


# Models

@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    held = {"w1": rng.standard_normal((24, 40)), "b1": rng.standard_normal(40), "w2": rng.standard_normal((40, 10))}
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "w2"], ["y"]), helper.make_node("Softmax", ["y"], ["z"])]
    graph = helper.make_graph(
        nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 24])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 10])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_a_model_runs_is_saved_with_its_source_and_profiled(model, tmp_path):
    assert isinstance(model, onnx.ModelProto)
    x = {"x": np.random.default_rng(1).standard_normal((4, 24)).astype(np.float32)}
    want = vtakit.compile(model, "llvm").run(x)["z"]
    made = vtakit.compile(model, "opencl")
    np.testing.assert_allclose(made.run(x)["z"], want, rtol=1e-5, atol=1e-6)
    path = tmp_path / "mlp.vtak"
    made.save(path)
    loaded = vtakit.load(path)
    assert "__kernel" in loaded.image.parts[0].source.text
    np.testing.assert_array_equal(loaded.run(x)["z"], made.run(x)["z"])
    assert len(loaded.profile(x).layers) >= 2


def test_a_network_of_convolutions_with_a_residual_is_the_processor_s():
    x = {"x": np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    want = vtakit.compile(network(), "llvm").run(x)["y"]
    made = vtakit.compile(network(), vtakit.target("opencl", threads=128))
    np.testing.assert_allclose(made.run(x)["y"], want, rtol=1e-5, atol=1e-6)


def alone(text):
    """Run a program in a process of its own, which a signal may end."""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120,
                   env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_the_handlers_of_signals_stay_those_of_python():
    """LLVM within PoCL has handlers of its own, which would take Ctrl-C from Python."""
    alone("""
import os, re, signal
FAULTS = sum(1 << each - 1 for each in (signal.SIGFPE, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL))
def caught():
    found = re.search(r"SigCgt:\\s*(\\w+)", open("/proc/self/status").read())[1][-8:]  # glibc takes two more
    return int(found, 16) & ~FAULTS
from vtakit.runtime.opencl.devices import find
before = caught()
find()
assert caught() == before
try:
    os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit("Python did not see it")
except KeyboardInterrupt:
    pass
""")


def test_an_integer_division_by_zero_does_not_end_the_process():
    """The driver has a handler of SIGFPE for kernels; the other quotients are right."""
    alone("""
import numpy as np
from onnx import TensorProto, helper
import vtakit
ports = [helper.make_tensor_value_info(name, TensorProto.INT32, [3]) for name in "xzy"]
model = helper.make_model(helper.make_graph([helper.make_node("Div", ["x", "z"], ["y"])], "net", ports[:2], ports[2:]),
                          opset_imports=[helper.make_opsetid("", 18)])
module = vtakit.compile(model, "opencl")
found = module.run({"x": np.array([7, 8, -9], "int32"), "z": np.array([2, 0, 3], "int32")})["y"]
assert found.tolist()[::2] == [3, -3], found
""")
