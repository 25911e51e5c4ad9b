"""Tensor intrinsics in the place of loops: statements 35 to 37 of BEHAVIOURS.md, by the interpreter."""

import numpy as np
import pytest

from vtakit import te
from vtakit.compiler.lower import LowerError, lower
from vtakit.compiler.lower.interpreter import interpret

ROWS, COLUMNS, DEPTH = 4, 8, 16


def tile(dtype="float32"):
    """The meaning: y = w @ x.T for a tile."""
    w, x = te.placeholder((ROWS, DEPTH), dtype, "w"), te.placeholder((COLUMNS, DEPTH), dtype, "x")
    k = te.reduce_axis((0, DEPTH), "r")
    return w, x, te.compute((ROWS, COLUMNS), lambda p, q: te.sum(w[p, k] * x[q, k], axis=k), name="y")


def gemm(parts=("body", "reset", "update"), dtype="float32", scope="global", strides=True):
    """The intrinsic, on operands of any row stride (or compact ones)."""
    w, x, y = tile(dtype)
    rows = [te.var(f"stride_{name}") for name in "wxy"]
    binds = {
        tensor: te.decl_buffer(tensor.shape, dtype, tensor.name, strides=[row, 1] if strides else None, scope=scope)
        for tensor, row in zip((w, x, y), rows, strict=True)
    }

    def code(ins, outs):
        pointers = ins[0].access_ptr("r"), ins[1].access_ptr("r"), outs[0].access_ptr("w")
        args = (*pointers, *(rows if strides else (DEPTH, DEPTH, COLUMNS)))
        made = {
            "body": te.hardware_intrin("gemm", *args), "reset": te.hardware_intrin("fill", args[2], args[5]),
            "update": te.hardware_intrin("gemm_add", *args),
        }
        return tuple(made[part] if part in parts else None for part in ("body", "reset", "update"))

    return te.decl_tensor_intrin(y.op, code, "gemm", binds=binds)


def gemm_python(adds):
    def run(w, x, y, w_row, x_row, y_row):
        for p in range(ROWS):
            for q in range(COLUMNS):
                total = sum((w[p * w_row + r] * x[q * x_row + r] for r in range(DEPTH)), np.float32(0))
                y[p * y_row + q] = y[p * y_row + q] + total if adds else total
    return run


def fill(y, row):
    for p in range(ROWS):
        for q in range(COLUMNS):
            y[p * row + q] = np.float32(0)


PACKED = {"gemm": gemm_python(adds=False), "gemm_add": gemm_python(adds=True), "fill": fill}


def matmul(m=8, n=24, depth=32, value=lambda a, b: b * a, dtype="float32"):
    A, B = te.placeholder((m, depth), dtype, "A"), te.placeholder((n, depth), dtype, "B")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((m, n), lambda i, j: te.sum(value(A[i, k], B[j, k]), axis=k), name="C")
    return A, B, C, te.create_schedule(C)


def check(s, args):
    A, B, C = args
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal([int(str(e)) for e in t.shape]).astype("float32") for t in (A, B))
    c = np.zeros([int(str(e)) for e in C.shape], "float32")
    function = lower(s, [A, B, C])
    interpret(function, [a, b, c], packed=PACKED)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-5)
    return str(function)


@pytest.mark.parametrize("parts", [("body", "reset", "update"), ("body", "update")], ids=["reset", "no reset"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)], ids=["ijk", "kij", "ikj"])
def test_tiles_of_a_matmul(parts, order):
    """Statement 35: regions, the reset before the first loop that reduces, or the body in the first iteration."""
    A, B, C, s = matmul()
    made = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].reorder(*[made[at] for at in order])
    s[C].tensorize(made[3], gemm(parts))
    text = check(s, (A, B, C))
    assert ("block C_init" in text) is ("reset" in parts)
    assert ("if vk == 0:" in text) is ("reset" not in parts)


def test_the_regions_are_those_of_the_tile():
    """Statement 35: region min and extent are (xo * factor, factor); strides and offsets are those of the program's buffers."""
    A, B, C, s = matmul()
    *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].tensorize(inner, gemm())
    lines = [line.strip() for line in str(lower(s, [A, B, C])).splitlines()]
    assert "block C(vi_1 = i_outer, vj_1 = j_outer, vk = k_outer):  # tensorize=gemm" in lines
    assert ("gemm_add(address_of(A[vi_1 * 4, vk * 16], 0, 'r'), address_of(B[vj_1 * 8, vk * 16], 0, 'r'), "
            "address_of(C[vi_1 * 4, vj_1 * 8], 0, 'w'), 32, 32, 24)") in lines


def test_a_reduction_within_the_intrinsic_needs_no_update():
    A, B, C, s = matmul(depth=DEPTH)
    *_, inner, _ = s[C].tile("i", "j", ROWS, COLUMNS)
    s[C].tensorize(inner, gemm(("body",)))
    assert "gemm(" in check(s, (A, B, C))


def test_several_loops_of_a_reduction_may_be_outside():
    """Statement 35: without a reset, also with several reduce loops, the first iteration of all of them is the body."""
    A, B, C, s = matmul(depth=4 * DEPTH)
    _, _, outer, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].split(outer, 2)
    s[C].tensorize(inner, gemm(("body", "update")))
    check(s, (A, B, C))


def test_compact_tiles_in_caches():
    """Operands of fixed strides and of a scope of their own are met by caches of whole tiles."""
    A, B, C, s = matmul()
    local = s.cache_write(C, "acc")
    caches = [s.cache_read(t, "acc", [local]) for t in (A, B)]
    io, jo, _, _ = s[C].tile("i", "j", ROWS, COLUMNS)
    s[local].compute_at(s[C], jo)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], DEPTH)
    s[local].reorder(ko, *s[local].op.axis)
    for cache in caches:
        s[cache].compute_at(s[local], ko)
    s[local].tensorize("i", gemm(scope="acc", strides=False))
    text = check(s, (A, B, C))
    assert "16, 16, 8)" in text
    assert io in s[C].leaf_iter_vars


def test_equivalent_forms_match():
    """Statement 36: operands in another order, and indices that simplify to the intrinsic's."""
    A, B, C, s = matmul(value=lambda a, b: a * b)
    *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].tensorize(inner, gemm())
    check(s, (A, B, C))
    X = te.placeholder((9, 9), name="X")
    Y = te.compute((3, 3, 3), lambda a, i, j: X[a * 3 + (j // 3) + (i % 3), j], name="Y")
    u = te.placeholder((3, 3), name="u")
    v = te.compute((3, 3), lambda i, j: u[i, j], name="v")
    row = te.var("row")
    copy = te.decl_tensor_intrin(
        v.op, lambda ins, outs: te.hardware_intrin("copy", ins[0].access_ptr("r"), outs[0].access_ptr("w"), row), "copy",
        binds={u: te.decl_buffer((3, 3), name="u", strides=[row, 1])})
    s = te.create_schedule(Y)
    s[Y].tensorize("i", copy)
    x, y = np.arange(81, dtype="float32").reshape(9, 9), np.zeros((3, 3, 3), "float32")

    def copying(source, target, source_row):
        for i in range(3):
            for j in range(3):
                target[i * 3 + j] = source[i * source_row + j]
    interpret(lower(s, [X, Y]), [x, y], packed={"copy": copying})
    np.testing.assert_array_equal(y, x.reshape(3, 3, 9)[:, :, :3])


def test_scalar_parameters_take_what_stands_in_their_place():
    a, b = te.var("a", "float32"), te.var("b", "float32")
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] * a + b, name="y")
    axpb = te.decl_tensor_intrin(
        y.op, lambda ins, outs, ps: te.hardware_intrin("axpb", ins[0].access_ptr("r"), outs[0].access_ptr("w"), *ps),
        scalar_params=[a, b])
    X, S = te.placeholder((4, 8), name="X"), te.placeholder((4,), name="S")
    Y = te.compute((4, 8), lambda i, j: X[i, j] * 3 + S[i], name="Y")
    s = te.create_schedule(Y)
    s[Y].tensorize("j", axpb)
    function = lower(s, [X, S, Y])
    assert "axpb(address_of(X[vi, 0], 0, 'r'), address_of(Y[vi, 0], 0, 'w'), 3.0, S[vi])" in str(function)


def refused(schedule, args, message):
    with pytest.raises(LowerError) as error:
        lower(schedule, args)
    assert str(error.value).strip() == message.strip()


def test_other_operations_are_refused_with_both_bodies():
    """Statement 36."""
    A, B, C, s = matmul(value=lambda a, b: a + b)
    *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].tensorize(inner, gemm())
    refused(s, [A, B, C], """\
tensorize: C's loop i_inner by gemm: what the loops compute,
    C = sum(A[i, k] + B[j, k], axis=[k])  # C: float32, A: float32, B: float32
is not what the intrinsic does,
    y = sum(w[p, r] * x[q, r], axis=[r])  # y: float32, w: float32, x: float32

      # C, an output
      for i_outer in range(2):
          for j_outer in range(3):
              for k_outer in range(2):  # reduce
-->               for i_inner in tensorized(4):  # by gemm
                      for j_inner in range(8):
                          for k_inner in range(16):  # reduce
                              C[i, j] = sum(A[i, k] + B[j, k], axis=[k])

hint: declare the intrinsic with the same operations, types and order of operands' dimensions
""")


def first_line(schedule, args):
    with pytest.raises(LowerError) as error:
        lower(schedule, args)
    return str(error.value).splitlines()[0], str(error.value).splitlines()[-1]


def test_a_guard_that_depends_on_an_inner_loop_is_refused():
    """Statement 37."""
    A, B, C, s = matmul(m=10)
    *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].tensorize(inner, gemm())
    assert first_line(s, [A, B, C]) == (
        "tensorize: C's loop i_inner by gemm: the condition i_outer * 4 + i_inner < 10 guards single elements of its tile",
        "hint: split evenly, or compute a tensor of whole tiles from padded operands, and copy the part that is needed")


def test_what_else_does_not_fit_is_refused():
    """Statement 37: types, which the message shows; extents, scopes, strides, a missing update."""
    A, B, C, s = matmul(dtype="float64")
    *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].tensorize(inner, gemm())
    with pytest.raises(LowerError) as error:
        lower(s, [A, B, C])
    assert str(error.value).splitlines()[:4] == [
        "tensorize: C's loop i_inner by gemm: what the loops compute,",
        "    C = sum(B[j, k] * A[i, k], axis=[k])  # C: float64, B: float64, A: float64", "is not what the intrinsic does,",
        "    y = sum(w[p, r] * x[q, r], axis=[r])  # y: float32, w: float32, x: float32"]
    A, B, C, s = matmul()
    *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, 12, DEPTH)
    s[C].tensorize(inner, gemm())
    assert first_line(s, [A, B, C]) == (
        "tensorize: C's loop i_inner by gemm: the loops cover 4 × 12 elements, the intrinsic 4 × 8",
        "hint: split to the intrinsic's extents")
    for intrin, truth in (
        (gemm(scope="acc"), "the operand w is in the scope acc, but A is in global"),
        (gemm(strides=False), "the operand w has a stride of 16 in dimension 0, but A one of 32"),
        (gemm(("body",)), "the reduction goes on in k_outer, but the intrinsic only overwrites"),
    ):
        A, B, C, s = matmul()
        *_, inner, _, _ = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
        s[C].tensorize(inner, intrin)
        assert first_line(s, [A, B, C])[0] == f"tensorize: C's loop i_inner by gemm: {truth}"


def test_a_stage_within_the_intrinsic_is_refused():
    A, B, C, s = matmul()
    cache = s.cache_read(A, "local")
    *_, inner, _, last = s[C].tile("i", "j", "k", ROWS, COLUMNS, DEPTH)
    s[C].tensorize(inner, gemm())
    s[cache].compute_at(s[C], last)
    assert first_line(s, [A, B, C])[0] == (
        "tensorize: C's loop i_inner by gemm: A_local is computed within k_inner, which the intrinsic replaces")


def test_an_uneven_result_is_computed_in_whole_tiles_and_copied():
    """Statement 35: uneven extents. Ours pads on purpose: the original let the intrinsic run over the edge of its operands."""
    A, B = te.placeholder((10, 32), name="A"), te.placeholder((20, 32), name="B")
    P = te.compute((12, 32), lambda i, k: te.if_then_else(i < 10, A[i, k], 0.0), name="P")
    Q = te.compute((24, 32), lambda j, k: te.if_then_else(j < 20, B[j, k], 0.0), name="Q")
    k = te.reduce_axis((0, 32), "k")
    whole = te.compute((12, 24), lambda i, j: te.sum(P[i, k] * Q[j, k], axis=k), name="whole")
    C = te.compute((10, 20), lambda i, j: whole[i, j], name="C")
    s = te.create_schedule(C)
    _, jo, _, _ = s[C].tile("i", "j", ROWS, COLUMNS)
    s[whole].compute_at(s[C], jo)  # at the root only the part that C reads would be computed
    ko, _ = s[whole].split("k", DEPTH)
    s[whole].reorder(ko, "i", "j")
    s[whole].tensorize("i", gemm())
    text = check(s, (A, B, C))
    assert "where i_outer * 4 + i_inner < 10 and j_outer * 8 + j_inner < 20:" in text
    assert text.count(" where ") == 1
