"""Expressions: what operators build, fold and refuse; equality; walks."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import raises

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.base import same
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import INT32, DataTypeError, dtype
from vtakit.compiler.ir.ops import all_of, any_of, if_then_else, maximum, minimum, negate, select, truncdiv, truncmod
from vtakit.compiler.ir.values import cast, common_type, const, int_value, rounded, value_of, wrap
from vtakit.compiler.ir.walk import free_vars, loads, map_expr, subexpressions, substitute

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
i, j, n = ir.Var("i"), ir.Var("j"), ir.Var("n", size=True)


def test_a_type_is_its_name():
    for name in (*INTS, "bool", "float16", "float32", "float64", "bfloat16", "handle", "int4", "int8x4", "float32x16"):
        assert str(dtype(name)) == name
        assert dtype(name) is dtype(dtype(name))
    assert dtype(np.float32) is dtype("float32")
    assert dtype(np.dtype("int8")) is dtype("int8")
    assert dtype(ml_dtypes.bfloat16) is dtype("bfloat16")
    assert (dtype("int8x4").bytes, dtype("bool").bytes, dtype("int8").min, dtype("uint8").max) == (4, 1, -128, 255)


def test_another_name_is_refused_with_the_list():
    names = ("int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16, bool, handle, "
             "int1, int2, int4, uint2, uint4, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, "
             "float8_e8m0fnu, float4_e2m1fn")
    with raises(DataTypeError, f"'int9' is no data type: use one of {names}; a vector adds 'x' and its lanes"):
        dtype("int9")
    with pytest.raises(ValueError, match="'int8x0' is no data type"):
        dtype("int8x0")


@pytest.mark.parametrize(("e", "text"), [
    (i * 4 + j, "i * 4 + j"), ((i + j) * 4, "(i + j) * 4"), (i - (j - 1), "i - (j - 1)"), ((i - j) - 1, "i - j - 1"),
    (i + 0, "i"), (0 + i, "i"), (i * 1, "i"), (i * 0, "0"), (i // 1, "i"), (i % 1, "0"), (minimum(i, i), "i"),
    ((i < n) & (j == 0), "i < n and j == 0"), (any_of(i < n, all_of(j < 2, i != j)), "i < n or j < 2 and i != j"),
    (~(i < n), "n <= i"), (negate(i == n), "i != n"), (i > 3, "3 < i"), (i >= 3, "3 <= i"),
    (i << 2, "i << 2"), (-i, "0 - i"), (truncdiv(i, 3), "truncdiv(i, 3)"), (i.astype("float32") * 2, "float32(i) * 2.0"),
    (select(i < 3, i, 7), "select(i < 3, i, 7)"), (if_then_else(True, i, j), "i"), (all_of(), "True"),
    (any_of(i < 3, True), "True"),
    (ir.Ramp(i, wrap(1), 4) + 1, "ramp(i, 1, 4) + broadcast(1, 4)"), (const(2, "int8x4"), "broadcast(int8(2), 4)"),
    (math_call("exp", i.astype("float32")), "exp(float32(i))"), (ir.Let(i, wrap(3), i + 1), "(let i = 3 in i + 1)"),
], ids=str)
def test_operators_build_and_fold(e, text):
    assert str(e) == text


@pytest.mark.parametrize("kind", INTS)
@given(a=st.integers(-(1 << 63), (1 << 64) - 1), b=st.integers(-(1 << 63), (1 << 64) - 1))
def test_constants_fold_as_machine_arithmetic_does(kind, a, b):
    """Against NumPy, which wraps; floor division and remainder against Python."""
    t = dtype(kind)
    x, y = cast(const(a, "int64") if a < 1 << 63 else const(a, "uint64"), t), cast(const(b % (1 << 64), "uint64"), t)
    p, q = np.array([x.value], kind), np.array([y.value], kind)
    with np.errstate(over="ignore"):
        assert int((p + q)[0]) == (x + y).value
        assert int((p - q)[0]) == (x - y).value
        assert int((p * q)[0]) == (x * y).value
    assert (minimum(x, y).value, maximum(x, y).value) == (min(x.value, y.value), max(x.value, y.value))
    assert bool(value_of(x < y)) == (x.value < y.value)
    if y.value not in (0, -1):
        assert ((x // y).value, (x % y).value) == (x.value // y.value, x.value % y.value)
        rest = truncmod(x, y).value
        assert truncdiv(x, y).value * y.value + rest == x.value
        assert abs(rest) < abs(y.value)
        assert rest == 0 or (rest < 0) == (x.value < 0)


@given(st.floats(allow_nan=False))
def test_floats_round_to_each_type_as_numpy_does(value):
    for kind, numpy_type in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("float32", np.float32)):
        with np.errstate(over="ignore"):
            through = np.float32(value) if kind == "bfloat16" else value  # as the machine does: through float32
            want = float(np.array(through).astype(numpy_type))
        got = rounded(value, dtype(kind))
        assert got == want
        assert math.copysign(1, got) == math.copysign(1, want)


def test_operands_meet_in_a_common_type():
    names = {
        ("int8", "int32"): "int32", ("uint8", "int16"): "int16", ("int8", "float32"): "float32",
        ("float16", "bfloat16"): "float32", ("float64", "float32"): "float64", ("bool", "int8"): "int8",
        ("uint8", "uint16"): "uint16",
    }
    for (a, b), want in names.items():
        assert str(common_type(dtype(a), dtype(b))) == want
        assert str(common_type(dtype(b), dtype(a))) == want
    x = ir.Var("x", dtype("int8"))
    assert (x + 1).dtype is dtype("int8")
    assert (x + 300).dtype is dtype("int32")
    assert (x * 0.5).dtype is dtype("float32")
    assert (ir.Var("h", dtype("float16")) * 0.5).dtype is dtype("float16")


@pytest.mark.parametrize(("make", "message"), [
    (lambda: ir.Var("x", dtype("int8")) + ir.Var("y", dtype("uint8")),
     "int8 and uint8 … no common type … convert … .astype(…)"),
    (lambda: i / j,
     "i / j … integers … // … down … te.truncdiv … zero … .astype('float32')"),
    (lambda: i.astype("float32") // 2, "// takes integers, got float32(i) and 2.0 of float32: use /"),
    (lambda: all_of(i), "all … conditions … i … int32 … compare … .astype('bool')"),
    (lambda: math_call("exp", i), "exp … floating-point … i … int32 … .astype('float32')"),
    (lambda: wrap("x"), "'x' … str … no expression … number, a variable, an axis or a tensor's element"),
    (lambda: bool(i < j), ("… truth value … i < j … not known … te.if_then_else, te.all or te.any … if, and, or")),
    (lambda: list(i), "i cannot be iterated … elements … index"),
])
def test_what_makes_no_sense_is_refused(make, message):
    with raises(TypeError, message):
        make()


def test_division_by_the_constant_0_and_wide_shifts_are_refused():
    with raises(ZeroDivisionError, "// of 4 by the constant 0"):
        wrap(4) // wrap(0)
    with raises(ValueError, "a shift of int32 by 32: the count is within 0 to 31"):
        wrap(4) << 32


def test_equality_is_of_structure():
    assert (i * 4 + j) == (i * 4 + j)
    assert not bool((i * 4 + j) == (j + i * 4))
    assert same(i * 4 + j, i * 4 + j)
    assert not same(i, ir.Var("i"))
    assert same(const(math.nan, "float32"), const(math.nan, "float32"))
    assert not same(const(0.0, "float32"), const(-0.0, "float32"))
    assert {i * 4 + j: "found"}[i * 4 + j] == "found"
    assert (i + 1) not in {i: 0, i + 2: 0}
    assert isinstance(i == j, ir.EQ)
    assert isinstance(i != 0, ir.NE)


def test_walks():
    a = Buffer("A", (n, 16), dtype("float32"))
    e = a[i, j] * 2.0 + a[i, 0]
    assert [str(x) for x in loads(e)] == ["A[i, j]", "A[i, 0]"]
    assert free_vars(e) == {i, j}
    assert str(substitute(e, {i: j, j: i + 1})) == "A[j, i + 1] * 2.0 + A[j, 0]"
    assert str(map_expr(e, lambda x: const(3.0, "float32") if isinstance(x, ir.FloatImm) else x)) == "A[i, j] * 3.0 + A[i, 0]"
    assert substitute(e, {n: wrap(1)}) is e
    assert len(list(subexpressions(i * 4 + j))) == 5
    assert list(loads(a.access_ptr("r"))) == []


def test_buffers_know_their_strides():
    assert [str(s) for s in Buffer("A", (n, 3, 4), dtype("int8")).compact_strides()] == ["12", "4", "1"]
    assert Buffer("A", (), dtype("int8")).compact_strides() == ()
    assert [int_value(s) for s in Buffer("A", (2, 3), dtype("int8"), strides=(8, 2)).compact_strides()] == [8, 2]
    assert repr(Buffer("A", (n, 3), INT32, "shared")) == "A: int32[n, 3] in shared"
    with raises(ValueError, "buffer 'A' … 2 dimensions … 1 strides … give one a dimension …"):
        Buffer("A", (2, 3), INT32, strides=(1,))
    with raises(ValueError, "buffer 'A' has 2 dimensions, got 1 indices"):
        Buffer("A", (2, 3), INT32)[0]
    with raises(ValueError, "access_ptr of buffer 'A': the mask 'x' is not 'r', 'w' or 'rw'"):
        Buffer("A", (2, 3), INT32).access_ptr("x")


def test_a_constant_of_a_narrow_type_is_what_that_type_holds():
    """Also where it is made wider; a Python number beside a float64 is not narrow."""
    narrow = const(0.1, "float32")
    wide = cast(narrow, "float64")
    assert isinstance(wide, ir.FloatImm)
    assert wide.value == float(np.float32(0.1))
    assert str(wide) == "float64(0.10000000149011612)"
    x, y = ir.Var("x", dtype("float64")), ir.Var("y", dtype("float32"))
    assert str(x + 0.1) == "x + float64(0.1)"
    assert str(cast(0.1, "float64")) == "float64(0.1)"
    assert same(y + 0.1, y + narrow)


@pytest.mark.parametrize(("value", "kind", "text"), [
    (0.1, "float32", "0.1"), (1 / 3, "float32", "0.33333334"), (65504, "float16", "float16(65504.0)"),
    (0.1, "float16", "float16(0.1)"),
    (1e-45, "float32", "1e-45"), (16777217, "float32", "16777216.0"), (-0.0, "float32", "-0.0"), (np.inf, "float32", "inf"),
    (0.1, "bfloat16", "bfloat16(0.1)"), (0.1, "float64", "float64(0.1)"),
])
def test_floats_are_printed_with_the_digits_that_tell_them(value, kind, text):
    made = const(value, kind)
    assert str(made) == text
    assert isinstance(made, ir.FloatImm)
    assert const(float(text.partition("(")[2].rstrip(")") or text), kind).value == made.value
