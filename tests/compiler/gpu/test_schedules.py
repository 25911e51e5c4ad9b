"""Schedules of operators for a GPU: low form by the interpreter, against onnxruntime's or the processor's results."""

import random

import numpy as np
import pytest
from gpu_support import A100, PORTABLE, by_opencl, lowered, run_gpu, run_group
from nn_support import check, floats, integers, onnx_run, placeholders, run

from vtakit import te
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.ir.stmt import For, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.errors import VerifyError
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.gpu.host_loops import MOST_STEPS
from vtakit.compiler.nn.gpu.schedule import schedule
from vtakit.compiler.nn.operators import find
from vtakit.compiler.passes.base import PassError

CONV = {"pads": [1] * 4}
CASES = {
    "relu": ([floats(3, 37)], {}), "add": ([floats(4, 64), floats(64)], {}), "gelu": ([floats(1)], {}),
    "softmax": ([floats(5, 40)], {"axis": -1}), "log_softmax": ([floats(2, 5, 4)], {"axis": 1}),
    "reduce_sum": ([floats(3, 67)], {"axes": [1]}), "reduce_mean": ([floats(41, 3)], {"axes": [0]}),
    "reduce_max": ([floats(2, 3, 50)], {"axes": [1, 2], "keepdims": False}), "reduce_l2": ([floats(7, 11)], {}),
    "reduce_log_sum_exp": ([floats(4, 9)], {"axes": [1]}), "layer_norm": ([floats(3, 5, 48), floats(48), floats(48)], {}),
    "instance_norm": ([floats(2, 3, 5, 5), floats(3), floats(3)], {}), "max_pool": ([floats(1, 3, 9, 9)], {
        "kernel_shape": [3, 3], "strides": [2, 2], **CONV}),
    "max_pool_with_indices": ([floats(1, 2, 6, 5)], {"kernel_shape": [2, 2]}),
    "average_pool": ([floats(1, 3, 7, 9)], {"kernel_shape": [3, 3], "strides": [2, 1], **CONV}),
    "global_average_pool": ([floats(2, 5, 7, 7)], {}), "transpose": ([floats(33, 40)], {"perm": (1, 0)}),
    "concat": ([floats(2, count) for count in (1, 70, 3, 2, 5, 4)], {"axis": 1}),
    "gather": ([floats(5, 6), integers(0, 5, (4,))], {}),
    "split": ([floats(3, 7)], {"axis": 1, "sizes": (2, 0, 5)}), "top_k": ([floats(3, 9)], {"k": 4}),
    "argmax": ([floats(4, 37)], {"axis": 1}), "cumsum": ([floats(3, 7)], {"axis": 1}),
    "scatter_elements": ([floats(3, 4), integers(0, 3, (2, 4)), floats(2, 4)], {"reduction": "add"}),
    "lstm": ([floats(3, 2, 5), floats(2, 16, 5), floats(2, 16, 4), floats(2, 32)], {"direction": "bidirectional"}),
    "gru": ([floats(3, 2, 5), floats(1, 12, 5), floats(1, 12, 4)], {}), "matmul_integer": (
        [integers(-9, 9, (17, 12), "int8"), integers(-9, 9, (12, 19), "int8")], {}),
    "einsum": ([floats(3, 4, 5), floats(4, 6)], {"equation": "bij,ik->bjk"}), "conv_transpose": ([floats(1, 3, 5, 5), floats(
        3, 2, 3, 3)], {"strides": [2, 2]}), "nll_loss": ([floats(5, 3), integers(0, 3, (5,), "int64")], {}),
}
PRODUCTS = {
    "primes": ("matmul", [floats(19, 23), floats(23, 29)], {}), "even": ("matmul", [floats(32, 16), floats(16, 32)], {}),
    "batch": ("matmul", [floats(2, 20, 8), floats(2, 8, 24)], {}), "row": ("matmul", [floats(1, 50), floats(50, 21)], {}),
    "rows by rows": ("gemm", [floats(2, 40), floats(9, 40), floats(9)], {"trans_b": True}),
    "turned": ("gemm", [floats(17, 12), floats(19, 12), floats(19)], {"trans_b": True, "alpha": 2.0}),
    "conv": ("conv", [floats(1, 4, 7, 7), floats(16, 4, 3, 3)], CONV),
    "1x1": ("conv", [floats(1, 8, 6, 6), floats(16, 8, 1, 1)], {}),
    "groups": ("conv", [floats(1, 8, 7, 7), floats(32, 4, 3, 3)], {"groups": 2, "strides": [2, 2], **CONV}),
    "depthwise": ("conv", [floats(1, 6, 9, 9), floats(6, 1, 3, 3)], {"groups": 6, "strides": [2, 2], **CONV}),
    "line": ("conv", [floats(1, 3, 70), floats(8, 3, 5)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_it_does_on_a_processor(name):
    arrays, attributes = CASES[name]
    check(run_gpu(name, *arrays, **attributes), run(name, *arrays, how="plain", **attributes), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_by_an_opencl_device(name):
    op, arrays, attributes = PRODUCTS[name]
    want = run(op, *arrays, how="plain", **attributes)
    check(run_gpu(op, *arrays, runner=by_opencl, kernels=PORTABLE, **attributes), want, rtol=1e-4, atol=1e-4)


def test_softmax_and_a_convolution_as_onnxruntime_has_them():
    x, w = floats(2, 4, 6, 6), floats(16, 4, 3, 3)
    check(run_gpu("conv", x, w, **CONV), onnx_run("Conv", x, w, **CONV), rtol=1e-4, atol=1e-4)
    check(run_gpu("softmax", x, axis=3), onnx_run("Softmax", x, axis=3))


@pytest.mark.parametrize("seed", range(6))
def test_random_decisions_of_a_product_with_what_follows(seed):
    """Each decision is drawn among its candidates; the interpreter checks bounds, races and barriers."""
    r = random.Random(seed)
    sizes = [r.choice((16, 17, 24, 31)) for _ in range(3)]
    a, b, bias = (te.placeholder(shape, name=name) for name, shape in
                  (("a", (sizes[0], sizes[1])), ("b", (sizes[1], sizes[2])), ("bias", (sizes[2],))))
    out = find("relu").define(find("add").define(find("matmul").define(a, b), bias))
    given: dict[str, object] = {}
    while left := [one for one in schedule([out], A100.machine, given).decisions if one.name not in given]:
        given[left[0].name] = r.choice(left[0].candidates)
    arrays = [floats(*sizes[:2]), floats(*sizes[1:]), floats(sizes[2])]
    (got,) = run_group(arrays, [a, b, bias], [out], decisions=given)
    want = np.maximum(arrays[0] @ arrays[1] + arrays[2], 0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=str(given))


@pytest.mark.parametrize("form", ["thread", "warp", "block", "columns", "split"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_every_form_of_a_reduction(form, axes):
    x = floats(37, 41)
    x_in = te.placeholder(x.shape, name="x")
    out = find("exp").define(find("reduce_sum").define(x_in, axes=axes))
    label = "reduce_sum"
    known = schedule([out]).decisions
    if form not in next(one.candidates for one in known if one.name == f"{label}.form"):
        assert form == "columns"  # of a single column
        return
    (got,) = run_group([x * 0.1], [x_in], [out], decisions={f"{label}.form": form})
    np.testing.assert_allclose(got, np.exp((x * 0.1).sum(axes, keepdims=True)), rtol=1e-4)


def test_each_stage_that_is_left_is_one_launch():
    def launches(name, *shapes, **attributes):
        tensors = placeholders(tuple(floats(*shape) for shape in shapes))
        return len(split(lowered([find(name).define(*tensors, **attributes)], tensors)[0]).launches)
    assert launches("softmax", (64, 128), axis=-1) == 1
    assert launches("conv", (1, 16, 14, 14), (256, 16, 3, 3), **CONV) <= 2
    assert launches("relu", (7,)) == 1
    assert launches("global_average_pool", (1, 64, 7, 7)) == 1
    assert launches("reduce_sum", (1 << 20,)) == 2


def test_a_recurrent_layer_launches_its_steps_from_the_host():
    x, w, r = (te.placeholder(shape, name=name) for name, shape in (("x", (5, 1, 8)), ("w", (1, 32, 8)), ("r", (1, 32, 8))))
    outputs = find("lstm").define(x, w, r)
    low, _ = lowered([*outputs], [x, w, r])
    loops = [s for s in statements(low.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL and any(
        isinstance(inner, For) and inner.thread == "blockIdx.x" for inner in statements(s.body))]
    assert len(loops) == 1
    threads = [s for s in statements(low.body) if isinstance(s, For) and s.kind is LoopKind.THREAD]
    assert not any(inner is loops[0] for s in threads for inner in statements(s.body))


def test_loops_that_one_thread_would_take_too_long_for_belong_on_a_processor():
    x, at, by = (te.placeholder(shape, kind, name) for name, shape, kind in (
        ("x", (9,), "float32"), ("at", (MOST_STEPS + 1,), "int32"), ("by", (MOST_STEPS + 1,), "float32")))
    with pytest.raises(PassError, match="Run it on a processor"):
        lowered([find("scatter_elements").define(x, at, by)], [x, at, by])


def test_threads_do_not_combine_results_of_different_elements():
    """The verifier refuses it: thread 0 would get terms of the elements of all others."""
    a, k = te.placeholder((4, 4), name="A"), te.reduce_axis((0, 4), "k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((4,), lambda i: c[i] * 2, name="D")
    s = te.create_schedule(d.op)
    thread = te.thread_axis((0, 4), "threadIdx.x")
    s[d].bind(d.op.axis[0], thread)
    s[c].compute_at(s[d], d.op.axis[0])
    s[c].set_scope("local")
    s[c].bind(k, thread)
    with pytest.raises(VerifyError, match=r"whose element .* is another one for each"):
        lower(s, [a, d])


def test_storage_align_changes_where_rows_begin():
    a = te.placeholder((8, 8), "int32", name="A")
    b = te.compute((8, 8), lambda i, j: a[j, i] + 1, name="B")
    s = te.create_schedule(b.op)
    copy = s.cache_read(a, "shared", [b])
    block, row = s[b].split(b.op.axis[0], 8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[b], block)
    s[copy].storage_align(s[copy].op.axis[0], 32, 1)
    function = lower(s, [a, b])
    low = A100.late(function)
    assert "A_shared[threadIdx.x * 33 + threadIdx.y]" in str(low)
    x, y = np.arange(64, dtype="int32").reshape(8, 8), np.zeros((8, 8), "int32")
    interpret(low, [x, y])
    np.testing.assert_array_equal(y, x.T + 1)
