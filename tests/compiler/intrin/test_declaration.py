"""Declaring tensor intrinsics: statement 19 of BEHAVIOURS.md, and the published snippet."""

import re

import pytest

from vtakit import te


def tile():
    w, x = te.placeholder((8, 8), "int8", name="w"), te.placeholder((8, 8), "int8", name="x")
    k = te.reduce_axis((0, 8), "k")
    return w, x, te.compute((8, 8), lambda i, j: te.sum(w[i, k].astype("int32") * x[j, k].astype("int32"), axis=k), name="y")


def gemm_intrin_lower(inputs, outputs):
    ww_ptr = inputs[0].access_ptr("r")
    xx_ptr = inputs[1].access_ptr("r")
    zz_ptr = outputs[0].access_ptr("w")
    compute = te.hardware_intrin("gemm8x8", ww_ptr, xx_ptr, zz_ptr)
    reset = te.hardware_intrin("fill_zero", zz_ptr)
    update = te.hardware_intrin("fuse_gemm8x8_add", ww_ptr, xx_ptr, zz_ptr)
    return compute, reset, update


def test_the_published_intrinsic():
    """Statement 19: op, inputs and buffers are kept."""
    w, x, y = tile()
    gemm = te.decl_tensor_intrin(y.op, gemm_intrin_lower)
    assert gemm.op is y.op
    assert gemm.inputs == (w, x)
    assert [str(buffer) for buffer in gemm.buffers] == ["w: int8[8, 8]", "x: int8[8, 8]", "y: int32[8, 8]"]
    assert gemm.input_buffers + gemm.output_buffers == gemm.buffers
    assert str(gemm.body) == "gemm8x8(address_of(w[0, 0], 0, 'r'), address_of(x[0, 0], 0, 'r'), address_of(y[0, 0], 0, 'w'))"
    assert str(gemm.reset) == "fill_zero(address_of(y[0, 0], 0, 'w'))"
    assert str(gemm.update).startswith("fuse_gemm8x8_add(")


def test_a_single_statement_gives_no_reset():
    """Statement 19."""
    _, _, y = tile()
    f = te.hardware_intrin("f")
    for make in (lambda i, o: f, lambda i, o: (f,), lambda i, o: [f, None]):
        intrin = te.decl_tensor_intrin(y.op, make, "f")
        assert (intrin.name, intrin.reset, intrin.update) == ("f", None, None)
    intrin = te.decl_tensor_intrin(y, lambda i, o: (te.hardware_intrin("f"), None, te.hardware_intrin("g")))
    assert (str(intrin.body), intrin.reset, str(intrin.update)) == ("f()", None, "g()")


def test_scalar_parameters_are_the_last_arguments_in_order():
    """Statement 19."""
    a, b = te.var("a", "float32"), te.var("b", "float32")
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] * a + b, name="y")
    intrin = te.decl_tensor_intrin(
        y.op, lambda ins, outs, params: te.hardware_intrin("axpb", ins[0].access_ptr("r"), outs[0].access_ptr("w"), *params),
        scalar_params=[a, b])
    assert intrin.scalar_params == (a, b)
    assert str(intrin.body) == "axpb(address_of(x[0], 0, 'r'), address_of(y[0], 0, 'w'), a, b)"


def test_buffers_may_be_given():
    w, x, y = tile()
    stride = te.var("stride")
    mine = te.decl_buffer(w.shape, "int8", "W", strides=[stride, 1], scope="inp", offset_factor=8)
    intrin = te.decl_tensor_intrin(
        y.op, lambda ins, outs: te.hardware_intrin("f", *[buffer.access_ptr("r") for buffer in ins], ins[0].strides[0]),
        binds={w: mine}, default_buffer_params={"scope": "wgt", "data_alignment": 16})
    assert intrin.buffers[0] is mine
    assert [buffer.scope for buffer in intrin.buffers] == ["inp", "wgt", "wgt"]
    assert [buffer.align for buffer in intrin.buffers] == [64, 16, 16]
    assert str(intrin.body).endswith(", stride)")
    assert x in intrin.inputs


W, X, Y = tile()
MAP = te.compute((8,), lambda i: i, name="m")
REFUSED = {
    "no compute": (lambda: te.decl_tensor_intrin(W.op, gemm_intrin_lower),
                   "decl_tensor_intrin of PlaceholderOp(w): its meaning is a te.compute, given as tensor.op"),
    "a foreign tensor": (
        lambda: te.decl_tensor_intrin(Y.op, gemm_intrin_lower, "g", binds={MAP: te.decl_buffer((8,))}),
        "tensor intrinsic 'g': binds has m: int32[8], which it neither reads nor makes: its tensors are w, x, y"),
    "a buffer of another type": (
        lambda: te.decl_tensor_intrin(Y.op, gemm_intrin_lower, "g", binds={W: te.decl_buffer((8, 8), name="b")}),
        "tensor intrinsic 'g': the buffer b: float32[8, 8] does not fit the tensor w: int8[8, 8]"),
    "a number as parameter": (
        lambda: te.decl_tensor_intrin(Y.op, gemm_intrin_lower, "g", scalar_params=[3]),
        "tensor intrinsic 'g': the scalar parameter 3 is no variable: make one with te.var"),
    "four statements": (
        lambda: te.decl_tensor_intrin(Y.op, lambda i, o: [te.hardware_intrin("f")] * 4, "g"),
        "tensor intrinsic 'g': its function gives 4 statements; it gives body, or (body, reset, update)"),
    "no body": (lambda: te.decl_tensor_intrin(Y.op, lambda i, o: None, "g"), "tensor intrinsic 'g': its function gives no body"),
    "no code": (
        lambda: te.decl_tensor_intrin(Y.op, lambda i, o: "f", "g"),
        "tensor intrinsic 'g': its function gives 'f' of type str; it gives statements or calls"),
    "a reset alone": (
        lambda: te.decl_tensor_intrin(Y.op, lambda i, o: [te.hardware_intrin("f")] * 2, "g"),
        "tensor intrinsic 'g': it has a reset but no update: give (body, reset, update)"),
    "an update of no reduction": (
        lambda: te.decl_tensor_intrin(MAP.op, lambda i, o: [te.hardware_intrin("f")] * 3, "g"),
        "tensor intrinsic 'g': it has an update, but m is no reduction"),
    "a call of no name": (lambda: te.hardware_intrin(3), "hardware_intrin names its instruction by a string, got 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_intrinsic_is_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(te.ExpressionError, match=f"^{re.escape(message)}$"):
        make()
