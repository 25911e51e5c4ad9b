"""Tensors and what is refused: statements 1 to 6 of BEHAVIOURS.md, as far as they need no running."""

import re

import numpy as np
import pytest

from vtakit import te
from vtakit.base.errors import VtakitError


def refused(message):
    return pytest.raises(te.ExpressionError, match=f"^{re.escape(message)}$")


def test_symbolic_shapes_placeholders_and_equality():
    """Statement 1."""
    m, n = te.var("m"), te.var("n")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n * 2), lambda i, j: A[i, j // 2], name="B")
    assert [str(extent) for extent in B.shape] == ["m", "n * 2"]
    assert (A.op.name, A.op.num_outputs, str(A.dtype), A.ndim) == ("A", 1, "float32", 2)
    assert isinstance(A.op, te.PlaceholderOp)
    assert A.op.output(0) == A
    assert hash(A.op.output(0)) == hash(A)
    assert A != B
    assert len({A, A.op.output(0), B}) == 2
    assert B.op.input_tensors == (A,)
    assert m.size
    assert not te.var("alpha", "float32").size


def test_an_axis_is_named_after_the_parameter():
    C = te.compute((4, 5, 6), lambda y, *rest: rest[0] + rest[1] + y, name="C")
    assert [axis.name for axis in C.op.axis] == ["y", "i1", "i2"]
    assert [axis.name for axis in te.compute((2,), lambda *i: i[0]).op.axis] == ["i0"]
    assert te.compute(8, lambda i: i).ndim == 1


def test_rank_zero_tensors_are_expressions():
    """Statement 2."""
    n = te.var("n")
    A, k = te.placeholder((n,), name="A"), te.reduce_axis((0, n), "k")
    total = te.compute((), lambda: te.sum(A[k], axis=k), name="total")
    assert total.shape == ()
    mean = te.compute((), lambda: total / n.astype("float32"), name="mean")
    assert str(mean.op.body[0]) == "total[] / float32(n)"
    assert str(te.exp(total) + total()) == "exp(total[]) + total[]"
    assert str(total == 3) == "total[] == 3.0"


def test_slices_read_the_same_element_and_indices_are_counted():
    """Statement 3."""
    A = te.placeholder((4, 5, 6), name="A")
    i = te.var("i")
    assert bool(A[0][i][2] == A[0, i, 2])
    assert bool(A[0, i][2] == A[0, i, 2])
    with refused("tensor 'A' has 3 dimensions, got 4 indices: give one index a dimension"):
        A[0, 1, 2, 3]
    with refused("tensor 'A' has 3 dimensions, got 1 index: give one index a dimension"):
        A[0] + 1
    with refused("tensor 'A' has 3 dimensions, got 2 indices: give one index a dimension"):
        A(0, 1)
    with pytest.raises(TypeError, match=r"^A\[0, 1, 2\]\[3\] has 4 indices: tensor 'A' has 3 dimensions$"):
        A[0][1][2][3]
    with refused("index 1 of tensor 'A' is a Python slice: an expression reads one element, so compute a tensor of the slice's "
                 "shape instead"):
        A[0, 1:2, 3]
    with refused("index 0 of tensor 'A' is '...': an expression reads one element, so give one index a dimension"):
        A[...]
    for index in ("x", True, None):
        with refused(f"index 0 of tensor 'A' is {index!r}: an index is an integer or an expression"):
            A[index]
        with refused(f"index 1 of tensor 'A' is {index!r}: an index is an integer or an expression"):
            A[0, index, 1]
    with refused("index 0 of tensor 'A' is 1.5 of float32: an index is an integer, so use .astype('int32')"):
        A[1.5, 0, 0]


def test_tensors_slices_and_buffers_are_not_iterated():
    """Python would read elements 0, 1, 2, … of them without end."""
    A, buffer = te.placeholder((4, 5), name="A"), te.decl_buffer((4,), name="b")
    for made in (A, A[0], buffer):
        with pytest.raises(TypeError, match=r" cannot be iterated while a program is being described"):
            list(made)
    with pytest.raises(TypeError, match=r"^C: float32"):
        _first, _second = te.compute((4,), lambda i: A[i, 0], name="C")


def test_reductions_over_several_axes_and_of_several_values():
    """Statement 4."""
    A = te.placeholder((8, 9), "int32", "A")
    i, j = te.reduce_axis((0, 8), "i"), te.reduce_axis((1, 9), "j")
    for axes in ((i, j), [i, j]):
        C = te.compute((), lambda axes=axes: te.max(A[i, j], axis=axes), name="C")
        assert C.op.reduce_axis == (i, j)
    assert str(C.op.body[0]) == "max(A[i, j], axis=[i, j])"
    assert str(C.op.body[0].combiner) == "max(x, y) -> max(x, y)"
    assert str(C.op.body[0].combiner.identity[0]) == "-2147483648"
    assert str(j.dom) == "(1, +8)"
    argmax = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax",
    )
    index, value = te.compute((9,), lambda c: argmax((i.var, A[i, c]), axis=i, where=i > 0), name="T")
    assert index.op is value.op
    assert (index.value_index, value.value_index) == (0, 1)
    assert (index.name, value.name) == ("T.v0", "T.v1")
    assert str(index.op.body[1]) == "argmax((i, A[i, c]), axis=[i], where=0 < i)[1]"
    assert te.sum(A[i, 0], axis=i).combiner is te.sum(A[i, 1], axis=i).combiner


def test_reducers_also_combine_two_values():
    a, b = te.var("a"), te.var("b")
    assert str(te.max(a, b)) == "max(a, b)"
    assert str(te.min(a, 3)) == "min(a, 3)"
    assert str(te.sum(a, b, 4)) == "a + b + 4"
    k = te.reduce_axis((0, 8), "k")
    assert str(te.sum(k + 1, k, k < 3, 2)) == "sum(k + 1, axis=[k], where=k < 3, init=2)"


A8 = te.placeholder((8, 8), name="A")
K = te.reduce_axis((0, 8), "k")
NESTED = (
    "compute 'C' uses a reduction within an expression, sum(A[i, k], axis=[k]): a reduction is the whole value of a tensor, "
    "so compute it as a tensor of its own and read that tensor here"
)
REFUSED = {
    "a reduction in arithmetic (statement 5)": (
        lambda: te.compute((8,), lambda i: te.sum(A8[i, K], axis=K) + 1, name="C"), NESTED),
    "a reduction in a call (statement 5)": (
        lambda: te.compute((8,), lambda i: te.exp(te.sum(A8[i, K], axis=K)), name="C"), NESTED),
    "a reduction in a reduction (statement 5)": (
        lambda: te.compute((8,), lambda i: te.max(te.sum(A8[i, K], axis=K), axis=te.reduce_axis((0, 8), "r")), name="C"), NESTED),
    "two reductions in one operation": (
        lambda: te.compute((8,), lambda i: (te.sum(A8[i, K], axis=K), te.max(A8[i, K], axis=K)), name="C"),
        ("compute 'C' has 2 values that are not the values of one reduction, in order: return what one reducer gives, or compute "
         "each in a tensor of its own")),
    "a division by 0": (
        lambda: te.compute((8,), lambda i: A8[i // 0, 0], name="C"), "compute 'C' has i // 0, a division by the constant 0"),
    "a remainder of a division by 0": (
        lambda: te.compute((8,), lambda i: te.truncmod(i, 0), name="C"),
        "compute 'C' has truncmod(i, 0), a division by the constant 0"),
    "a shift beyond the bits": (
        lambda: te.compute((8,), lambda i: (i << 32) + 1, name="C"),
        "compute 'C' has i << 32, a shift of int32 by 32: the count is within 0 to 31"),
    "a shift by less than nothing": (
        lambda: te.compute((8,), lambda i: i >> -1, name="C"),
        "compute 'C' has i >> -1, a shift of int32 by -1: the count is within 0 to 31"),
    "a function of too few indices": (
        lambda: te.compute((8, 8), lambda i: i, name="C"),
        "compute 'C' has 2 dimensions, but its function has 1 parameter: give it one a dimension, or *indices"),
    "a function without a value": (
        lambda: te.compute((8,), lambda i: None, name="C"),
        "compute 'C' gives no value: its function returned None; does it lack a return?"),
    "no function": (lambda: te.compute((8,), 3, name="C"), "compute 'C' takes a function of its indices, got 3"),
    "no values": (
        lambda: te.compute((8,), lambda i: (), name="C"), "compute 'C' gives no value: its function returned an empty tuple"),
    "a negative extent": (lambda: te.placeholder((8, -1), name="A"), "extent 1 of 'A' is -1: an extent is at least 0"),
    "a fractional extent": (
        lambda: te.placeholder((8.5,), name="A"), "extent 0 of 'A' is 8.5 of float32: give an integer or a size (te.var)"),
    "a size of 8 bits": (
        lambda: te.placeholder((te.var("n", "int8"),), name="A"), "extent 0 of 'A' is n of int8: sizes are int32 or int64"),
    "an unsigned size": (
        lambda: te.compute((te.var("n", "uint32"),), lambda i: i, name="A"),
        "extent 0 of 'A' is n of uint32: sizes are int32 or int64"),
    "a short domain": (
        lambda: te.reduce_axis((te.var("a", "int8"), te.var("b", "int8")), "k"),
        "the domain of axis 'k' is (a, b) of int8: its ends are int32 or int64; convert them with .astype('int32')"),
    "a word as extent": (lambda: te.placeholder(["n"], name="A"), "extent 0 of 'A' is 'n': give an integer or a size (te.var)"),
    "an unknown type": (
        lambda: te.placeholder((8,), "float99"),
        ("'float99' is no data type: use one of int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, "
         "float64, bfloat16, bool, handle, int1, int2, int4, uint2, uint4, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, "
         "float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn; a vector adds 'x' and its lanes")),
    "a size that is no integer": (
        lambda: te.size_var("n", "float32"), "the size 'n' cannot have type float32: a size is an int32 or int64"),
    "a reduction over a data axis": (
        lambda: te.sum(A8[0, 0], axis=te.thread_axis("vthread")),
        "sum over vthread: thread: the axis of a reduction is made by te.reduce_axis((0, n))"),
    "a reduction over an axis twice": (
        lambda: te.sum(A8[K, K], axis=[K, K]), "sum over axes ['k', 'k']: give at least one axis, and each once"),
    "a reduction over the index of a tensor": (
        lambda: te.compute((8,), lambda i: te.sum(A8[i, K], axis=i), name="C"),
        "sum over i: the axis of a reduction is made by te.reduce_axis((0, n))"),
    "an axis and another value": (
        lambda: te.max(A8[K, K], 0.0, axis=K), "max of 2 values: an axis, a condition or a first value goes with one"),
    "an axis given twice": (
        lambda: te.sum(A8[K, K], K, axis=K), "sum takes one value, its axis, where and init, and each once"),
    "a combination of one": (
        lambda: te.comm_reducer(lambda x: x, lambda t: 0)(A8[K, K], axis=K),
        "the combination of reducer 'reduce' is called with two partial results: too many positional arguments"),
    "an identity of no type": (
        lambda: te.comm_reducer(lambda x, y: x, lambda: 0)(A8[K, K], axis=K),
        "the identity of reducer 'reduce' is called with 1 type: too many positional arguments"),
    "a sum of conditions": (
        lambda: te.sum(A8[K, K] > 0, axis=K),
        "sum of a condition, 0.0 < A[k, k]: say in which type to count, with .astype('int32')"),
    "a where that is no condition": (
        lambda: te.sum(A8[K, K], axis=K, where=K.var + 1), "sum where k + 1 of int32: give a condition"),
    "an init that depends on the axis": (
        lambda: te.sum(A8[K, K], axis=K, init=A8[K, 0]), "init of sum depends on the axis k that it reduces over"),
    "a domain that ends before it begins": (
        lambda: te.reduce_axis((4, 2), "k"), "the domain of axis 'k' ends at 2, before its first value 4"),
    "a domain of one number": (
        lambda: te.reduce_axis(4, "k"), "the domain of axis 'k' is 4: give its first value and its end, as in (0, n)"),
    "an unknown thread": (
        lambda: te.thread_axis("threadIdx.w"),
        ("'threadIdx.w' is no thread index: did you mean 'threadIdx.z'? Known: blockIdx.x, blockIdx.y, blockIdx.z, cthread, "
         "threadIdx.x, threadIdx.y, threadIdx.z, vthread")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name):
    make, message = REFUSED[name]
    with refused(message):
        make()


def test_a_domain_may_depend_on_data_axes_but_not_on_reduce_axes():
    i2 = te.reduce_axis((0, 8), "p")
    C = te.compute((8,), lambda i: te.sum(A8[i, K], axis=te.reduce_axis((0, i + 1), "r")), name="C")
    assert str(C.op.reduce_axis[0].dom) == "(0, +i + 1)"
    with refused("the domain of axis 'r' in compute 'D' depends on another axis of the reduction: only axes of the tensor may "
                 "stand in it; give the whole range and a where= condition"):
        te.compute((8,), lambda i: te.sum(A8[i, i2], axis=[i2, te.reduce_axis((0, i2 + 1), "r")]), name="D")


def test_small_numbers_of_any_type_are_extents():
    assert [str(extent.dtype) for extent in te.placeholder((np.uint8(3), np.int64(4), 5), name="A").shape] == [
        "int32", "int64", "int32"]


def test_constants_have_a_type_of_their_own_or_that_of_their_value():
    assert [str(te.const(value).dtype) for value in (1, 2**40, 1.5, True)] == ["int32", "int64", "float32", "bool"]
    assert str(te.const(1, dtype="int8").dtype) == "int8"
    with refused("300 is not a value of uint8, whose values are the integers 0 to 255"):
        te.const(300, "uint8")
    with refused("'x' of type str is no expression: give a number, a variable, an axis or a tensor's element"):
        te.const("x")


def test_several_outputs_share_one_operation():
    """Statement 6."""
    A, B = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", "B")
    first, second = te.compute((8,), lambda i: (A[i] + 1, B[i] * 2), name="T")
    assert first.op is second.op
    assert (first.value_index, second.value_index) == (0, 1)
    assert [str(tensor.dtype) for tensor in first.op.outputs] == ["float32", "int32"]
    s = te.create_schedule(first.op)
    assert s[first] is s[second]
    with pytest.raises(IndexError, match=r"^'T' has 2 outputs, numbered from 0; there is no output 2$"):
        first.op.output(2)


def test_axes_take_part_in_arithmetic_and_comparisons():
    """An axis stands for its variable, also where Python asks the other operand first."""
    assert [str(e) for e in (K + 1, 2 * K, K // 3, -K, np.int32(3) * K, K == 3, K.var != K, K < 4)] == [
        "k + 1", "2 * k", "k // 3", "0 - k", "3 * k", "k == 3", "k != k", "k < 4"]
    other = te.reduce_axis((0, 8), "k")
    assert bool(K.var == K)
    assert not bool(other == K)
    assert {K: 1, other: 2}[K] == 1


def test_functions_of_floats_refuse_integers():
    with pytest.raises(TypeError, match=r"^exp takes floating-point values, got k of int32: use \.astype\('float32'\)$"):
        te.exp(K)
    assert str(te.exp(1)) == "exp(1.0)"
    assert str(te.power(A8[0, 0], 2)) == "pow(A[0, 0], 2.0)"
    assert str(te.fmod(A8[0, 0], 2)) == "truncmod(A[0, 0], 2.0)"
    assert str(te.div(K, 3)) == "truncdiv(k, 3)"
    assert str(te.fma(A8[0, 0], 2, 1)) == "fma(A[0, 0], 2.0, 1.0)"
    assert str(te.abs(K)) == "abs(k)"
    assert str(te.abs(te.var("u", "uint8"))) == "u"


def test_names_and_types_that_are_none():
    with refused("the name of a variable is 3: give a string"):
        te.var(3)
    with refused("the name of a variable is 3: give a string"):
        te.size_var(3)
    with refused("int32 has no infinity: use te.max_value('int32')"):
        te.infinity("int32")
    with pytest.raises(VtakitError, match=r"^'foo' is no data type: use one of int8, int16, "):
        te.var("n").astype("foo")


def test_equal_compares():
    n = te.var("n")
    assert str(n.equal(0)) == str(n == 0) == "n == 0"
    assert str(n.equal(n)) != str(n.equal(n + 1))
