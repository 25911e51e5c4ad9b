"""Arguments of compiled functions: what fits is bound, what does not is refused with the whole reason."""

import ml_dtypes
import numpy as np
import pytest
from codegen_cases import buffer, compiled, flat, loop
from support import raises

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.dtypes import FLOAT32, dtype
from vtakit.compiler.ir.values import cast, const
from vtakit.runtime.cpu.arguments import ArgumentError
from vtakit.runtime.cpu.function import empty


@pytest.fixture(scope="module")
def scale():
    """``B[i, j] = A[i, j] * factor`` for (n, 4) arrays, with `times` an int8."""
    n, factor, times = ir.Var("n", size=True), ir.Var("factor", FLOAT32), ir.Var("times", dtype("int8"))
    a, b = buffer("A", n, 4), buffer("B", n, 4)
    i = ir.Var("i")
    fa, fb = flat(a, 0), flat(b, 0)
    return compiled("scale", (a, b, factor, times), loop(i, n * 4, st.Store(fb, (i,), fa[i] * factor * cast(times, FLOAT32))))


def arrays(n=3):
    return np.arange(4 * n, dtype=np.float32).reshape(n, 4), np.zeros((n, 4), np.float32)


def test_what_fits_is_bound(scale):
    a, b = arrays()
    scale(a, b, 0.5, np.int8(4))
    assert np.array_equal(b, 2 * a)
    scale(a, b, np.float64(2), True)
    assert np.array_equal(b, 2 * a)


def test_arrays_of_other_libraries_come_by_dlpack(scale):
    class Tensor:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    a, b = arrays()
    scale(Tensor(a), Tensor(b), 1, 1)
    assert np.array_equal(b, a)


def test_an_array_of_another_library_that_cannot_be_read_is_told(scale):
    class Tensor:
        def __dlpack__(self, **options):
            raise BufferError("use\n detach()")

        def __dlpack_device__(self):
            return 1, 0

    message = "argument A of scale: expected an array of float32[n, 4], got a Tensor that NumPy cannot read: use detach()"
    with raises(ArgumentError, message):
        scale(Tensor(), B, 1, 1)


A, B = arrays()
WRONG = {
    "count": ((A, B), "scale takes 4 arguments (A, B, factor, times), got 2"),
    "list": (
        ([[1.0]], B, 1, 1),
        "argument A of scale: expected an array of float32[n, 4], got list: use numpy.array(…, 'float32')",
    ),
    "type": (
        (A.astype("f8"), B, 1, 1),
        "argument A of scale: expected float32[n, 4], got float64[3, 4]: convert it with .astype('float32')",
    ),
    "byte order": (
        (A.astype(">f4"), B, 1, 1),
        "argument A of scale: expected float32[n, 4], got >f4[3, 4]: convert it with .astype('float32')",
    ),
    "dimensions": ((A[0], B, 1, 1), "argument A of scale: expected float32[n, 4], got float32[4]"),
    "extent": (
        (np.zeros((3, 5), "f4"), B, 1, 1),
        "argument A of scale: expected float32[n, 4] with n = 3, got float32[3, 5]",
    ),
    "size": ((A, np.zeros((2, 4), "f4"), 1, 1), "argument B of scale: dimension 0 is 2, but n is 3 by argument A"),
    "strides": ((np.zeros((3, 8), "f4")[:, ::2], B, 1, 1), (
        "argument A of scale has strides of (8, 2) elements, expected those of row-major order: pass a contiguous "
        "array (numpy.ascontiguousarray makes a copy that is)"
    )),
    "overlap": ((A, A, 1, 1), "arguments B and A of scale share memory, and B is written to: pass a copy"),
    "part": ((A[:2], A[1:], 1, 1), "arguments B and A of scale share memory, and B is written to: pass a copy"),
    "number": ((A, B, "2", 1), "argument factor of scale: expected a number of type float32, got str"),
    "range": ((A, B, 1, 128), "argument times of scale: 128 is outside int8's -128 to 127"),
    "float": ((A, B, 1, 1.5), "argument times of scale: expected a number of type int8, got float"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(scale, case):
    args, says = WRONG[case]
    with raises(ArgumentError, says):
        scale(*args)


def test_a_read_only_output_is_refused(scale):
    a, b = arrays()
    b.flags.writeable = False
    with raises(ArgumentError, "argument B of scale is written to, and the array is read-only: pass a copy"):
        scale(a, b, 1, 1)
    a.flags.writeable = False  # an input may be
    scale(a, np.zeros_like(a), 1, 1)


def test_one_input_twice_is_fine():
    a, b, c = (buffer(name, 4) for name in "ABC")
    i = ir.Var("i")
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    compiled("add", (a, b, c), loop(i, 4, st.Store(c, (i,), a[i] + b[i])))(x, x, y)
    assert np.array_equal(y, 2 * x)


def aligned(align=64):
    a = buffer("A", 4, align=align)
    i = ir.Var("i")
    return compiled("f", (a,), loop(i, 4, st.Store(a, (i,), const(1.0, FLOAT32))))


def test_alignment_is_checked_where_it_is_asked_for():
    right = empty((5,), align=64)
    aligned()(right[:4])
    address = right.ctypes.data + 4
    with raises(ArgumentError, f"argument A of f starts at the address {address:#x}, which is no multiple of 64 bytes: make "
                               "the array with vtakit.runtime.cpu.function.empty(shape, dtype, align)"):
        aligned()(right[1:])


def test_every_type_needs_its_own_alignment():
    odd = np.zeros(17, np.uint8)[1:].view(np.float32)
    address = odd.ctypes.data
    with raises(ArgumentError, f"argument A of f starts at the address {address:#x}, which is no multiple of 4 bytes: make "
                               "the array with vtakit.runtime.cpu.function.empty(shape, dtype, align)"):
        aligned(0)(odd)


def test_symbolic_strides_and_computed_extents():
    """Statement 1: strides are read off the array, an extent that is computed is checked."""
    n, s = ir.Var("n", size=True), ir.Var("s", size=True)
    a, b = buffer("A", n, 2, strides=(s, 1)), buffer("B", n * 2)
    i, j = ir.Var("i"), ir.Var("j")
    fa = flat(a, 0)
    f = compiled("pack", (a, b), loop(i, n, loop(j, 2, st.Store(b, (i * 2 + j,), fa[i * s + j]))))
    whole = np.arange(15, dtype=np.float32).reshape(3, 5)
    found = np.zeros(6, np.float32)
    f(whole[:, 1:3], found)
    assert np.array_equal(found, whole[:, 1:3].ravel())
    with raises(ArgumentError, "argument B of pack: expected float32[n * 2] with n = 3, s = 5, got float32[5]"):
        f(whole[:, 1:3], found[:5])
    with raises(ArgumentError, "argument A of pack has strides of (10, 5) elements, expected (10, 1): pass a contiguous array "
                               "(numpy.ascontiguousarray makes a copy that is)"):
        f(np.zeros((3, 10), "f4")[:, ::5], found)


def test_a_size_that_no_shape_tells_must_be_a_parameter():
    n = ir.Var("n", size=True)
    a = buffer("A", n * 2)
    with raises(ArgumentError, "the size n of f cannot be read off a shape: it is only part of A: float32[n * 2]; make "
                              "n a parameter"):
        compiled("f", (a,), st.NOTHING)
    i = ir.Var("i")
    f = compiled("f", (a, n), loop(i, n * 2, st.Store(a, (i,), const(1.0, FLOAT32))))
    found = np.zeros(6, np.float32)
    f(found, 3)
    assert found.all()
    with raises(ArgumentError, "argument A of f: expected float32[n * 2] with n = 2, got float32[6]"):
        f(found, 2)
    with raises(ArgumentError, "argument n of f: -1 is outside int32's 0 to 2147483647"):
        f(found, -1)


def test_scalars_and_arrays_of_rank_0():
    """Statement 2."""
    a, b = buffer("A"), buffer("B")
    zero = ir.IntImm(0)
    f = compiled("double", (a, b), st.Store(flat(b, 1), (zero,), flat(a, 1)[0] * 2.0))
    found = np.zeros((), np.float32)
    f(np.array(21, np.float32), found)
    assert found == 42


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "bool", "uint64", "float64"])
def test_scalars_of_every_type(kind):
    s, a = ir.Var("s", dtype(kind)), buffer("A", 1, kind=kind)
    f = compiled("put", (a, s), st.Store(a, (ir.IntImm(0),), s))
    of = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    found = np.zeros(1, of)
    value = {"bool": True, "uint64": 2**64 - 1}.get(kind, 0.1)
    f(found, value)
    assert found[0] == np.array(value).astype(of)
