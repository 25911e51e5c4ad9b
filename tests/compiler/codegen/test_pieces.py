"""Vectors of lengths that no register has: the values are those of one vector, and loops carry them in registers."""

import re

import numpy as np
import pytest
from codegen_cases import applied, buffer, compiled, elementwise, ramp

from vtakit import te
from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect, math_call
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.values import cast, const
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

X86 = "x86_64-unknown-linux-gnu"
TARGETS = {
    "plain": Target(X86, "x86-64"), "avx2": Target(X86, "x86-64-v3"),
    "avx512": Target(X86, "x86-64-v4", ("-prefer-256-bit",)), "aarch64": Target("aarch64-linux-gnu", threads=False),
}
RNG = np.random.default_rng(0)


def spread(value, like):
    return ir.Broadcast(const(value, like.dtype.scalar), like.dtype.lanes)


FUNCTIONS = {
    "sums and products": (lambda x: x * x + spread(1.5, x), lambda x: x * x + np.float32(1.5)),
    "a choice": (lambda x: ir.Select(ir.LT(x, spread(0, x)), spread(0, x), x), lambda x: np.where(x < 0, np.float32(0), x)),
    "a negated condition": (
        lambda x: ir.Select(ir.Not(ir.LT(x, spread(0, x))), x, spread(7, x)), lambda x: np.where(x < 0, np.float32(7), x)),
    "a function": (lambda x: math_call("abs", x), np.abs),
    "a cast": (lambda x: cast(cast(x, dtype("int32").with_lanes(x.dtype.lanes)), x.dtype), np.trunc),
}


@pytest.mark.parametrize("lanes", [17, 24, 28, 33, 48, 100])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_each_lane(name, lanes):
    made, wanted = FUNCTIONS[name]
    x = (RNG.standard_normal(3 * lanes) * 10).astype(np.float32)
    function = elementwise(made, lanes=lanes, target=Target.host(contract=False))
    np.testing.assert_array_equal(applied(function, x), wanted(x))


@pytest.mark.parametrize("kind", ["int8", "float16", "float64", "bool"])
def test_elements_of_every_size(kind):
    x = RNG.integers(0, 2, 3 * 100).astype(kind)
    np.testing.assert_array_equal(applied(elementwise(lambda x: x, kind=kind, lanes=100), x), x)


def in_place(value, lanes=24):
    """``A[0:lanes] = value(A)`` as one vector."""
    a = buffer("A", 64)
    return compiled("in_place", (a,), st.Store(a, (ramp(0, lanes),), value(a)))


def test_what_is_read_was_not_written_before():
    """All lanes are read before any is stored: a shift, a reversal, and an element for all."""
    values = {
        "shift up": (lambda a: ir.Load(a, (ramp(1, 24),)), lambda x: x[1:25]),
        "reversal": (lambda a: ir.Load(a, (ramp(23, 24, -1),)), lambda x: x[23::-1]),
        "one for all": (
            lambda a: ir.Load(a, (ramp(0, 24),)) + ir.Broadcast(ir.Load(a, (ir.IntImm(3),)), 24), lambda x: x[:24] + x[3]),
        "itself": (lambda a: ir.Load(a, (ramp(0, 24),)) * ir.Load(a, (ramp(0, 24),)), lambda x: x[:24] * x[:24]),
    }
    for name, (value, wanted) in values.items():
        x = RNG.standard_normal(64, np.float32)
        expected = np.r_[wanted(x), x[24:]]
        in_place(value)(x)
        np.testing.assert_array_equal(x, expected, err_msg=name)


def test_memory_used_as_another_type_is_not_taken_apart():
    """Elements of the same number lie elsewhere where they are of another size."""
    a = buffer("A", 64)
    halves = buffer("A", 128, kind="int16")
    halves.data = a.data
    value = cast(ir.Load(halves, (ramp(0, 24),)), dtype("float32").with_lanes(24))
    f = compiled("reused", (a,), st.Store(a, (ramp(0, 24),), value))
    x = RNG.integers(-99, 99, 128).astype(np.int16)
    y = x.view(np.float32).copy()
    f(y)
    np.testing.assert_array_equal(y[:24], x[:24].astype(np.float32))


def test_what_cannot_be_taken_apart_stays_whole():
    lanes = 24
    a, b, c = buffer("A", 4 * lanes, kind="uint8"), buffer("B", 4 * lanes, kind="int8"), buffer("C", lanes, kind="int32")
    call = effect("dot4_u8s8", *[ir.Load(x, (ramp(0, n),)) for x, n in ((c, lanes), (a, 4 * lanes), (b, 4 * lanes))])
    value = ir.Call(dtype("int32").with_lanes(lanes), "dot4_u8s8", call.args)
    f = compiled("dot", (a, b, c), st.Store(c, (ramp(0, lanes),), value))
    x, y, z = RNG.integers(0, 256, 96).astype(np.uint8), RNG.integers(-128, 128, 96).astype(np.int8), np.zeros(24, np.int32)
    f(x, y, z)
    np.testing.assert_array_equal(z, (x.astype(np.int32) * y).reshape(24, 4).sum(1))


@pytest.mark.parametrize("columns", [24, 28, 48])
@pytest.mark.parametrize("target", TARGETS)
def test_loops_carry_them_in_registers(target, columns):
    """A tile of sums that a loop adds to: no element is put into a vector or taken out of one."""
    A, B = te.placeholder((4, 64), name="A"), te.placeholder((64, columns), name="B")
    k = te.reduce_axis((0, 64), "k")
    C = te.compute((4, columns), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")
    s = te.create_schedule(C)
    y, x = C.op.axis
    s[C].reorder(k, y, x)
    s[C].unroll(y)
    s[C].vectorize(x)
    text = compile_for(lower_late(lower(s, [A, B, C])), TARGETS[target]).assembly
    assert "insertps" not in text
    assert not re.search(r"mov\s+v\d+\.s\[", text)


def test_what_is_read_in_pieces_is_what_was_stored():
    """Narrow results of wide sums: the tile is read by the registers of its own elements, so that it can stay in them."""
    A = te.placeholder((48,), "int32", name="A")
    B = te.compute((48,), lambda x: A[x].astype("int8"), name="B")
    s = te.create_schedule(B)
    s[B].vectorize(B.op.axis[0])
    text = compile_for(lower_late(lower(s, [A, B])), TARGETS["avx512"]).text
    assert re.findall(r"load <(\d+) x i32>", text) == ["16"] * 3
