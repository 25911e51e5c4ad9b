"""Text of kernels: reviewed files for each language, and what a language refuses.

`python tests/compiler/clike/test_text.py` writes the files of tests/compiler/clike/golden anew.
"""

from pathlib import Path

import pytest
from support import raises

from vtakit import te
from vtakit.compiler.codegen.clike.kernel import source
from vtakit.compiler.codegen.clike.metal import Metal
from vtakit.compiler.codegen.clike.opencl import OpenCL
from vtakit.compiler.codegen.clike.wgsl import Wgsl
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, dtype
from vtakit.compiler.ir.expr import Call, IntImm, Load, Var
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import lower_late

GOLDEN = Path(__file__).parent / "golden"
BX, BY, TX, TY = (te.thread_axis(tag) for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
DIALECTS = {"cl": OpenCL(), "metal": Metal(), "wgsl": Wgsl()}


def vector_add():
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 64)
    s[c].bind(outer, BX)
    s[c].bind(inner, TX)
    return s, [a, b, c]


def product():
    """Tiles of float16 in shared memory, sums in float32, four columns of a thread stored at once."""
    a, b = (te.placeholder((64, 64), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    caches = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    by, bx, yi, xi = s[c].tile(*c.op.axis, 16, 16)
    tx, xi = s[c].split(xi, 4)
    s[c].reorder(by, bx, yi, tx, xi)
    for axis, thread in ((by, BY), (bx, BX), (yi, TY), (tx, TX)):
        s[c].bind(axis, thread)
    s[c].vectorize(xi)
    s[local].compute_at(s[c], tx)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, *s[local].op.axis)
    for cache in caches:
        s[cache].compute_at(s[local], ko)
        rest, inner = s[cache].split(s[cache].fuse(*s[cache].op.axis), 4)
        _, outer = s[cache].split(rest, 16)
        s[cache].bind(outer, TY)
        s[cache].bind(inner, TX)
    return s, [a, b, c]


def row_maxima():
    """The index of each row's greatest element, by 32 threads of a block; shuffles where the language has them."""
    a, k = te.placeholder((3, 40), name="A"), te.reduce_axis((0, 40), name="k")
    pick = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax")
    at, most = te.compute((3,), lambda i: pick((k.var, a[i, k]), axis=k), name="C")
    s = te.create_schedule(at.op)
    inner = s[at].split(k, 32)[1]
    s[at].bind(at.op.axis[0], BX)
    s[at].bind(inner, TX)
    return s, [a, at, most]


PROGRAMS = {made.__name__: made for made in (vector_add, product, row_maxima)}


def text(name, language):
    s, args = PROGRAMS[name]()
    low = lower_late(lower(s, args, name), "gpu", shuffles=language == "metal")
    return source(split(low), DIALECTS[language]).text


@pytest.mark.parametrize("language", DIALECTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_text_is_the_reviewed_one(name, language):
    assert text(name, language) == (GOLDEN / f"{name}.{language}").read_text()


def kernel(*body, params):
    loop = st.For(Var("t"), IntImm(4, INT32), st.seq(*body), st.LoopKind.THREAD, "threadIdx.x")
    return split(st.Function("main", params, loop))


def copied(kind):
    a, b, i = Buffer("a", (4,), dtype(kind)), Buffer("b", (4,), dtype(kind)), IntImm(0, INT32)
    return kernel(st.Store(b, (i,), Load(a, (i,)) + Load(a, (i,))), params=(a, b))


@pytest.mark.parametrize(("language", "kind", "cure"), [
    ("metal", "float64", "use float32"), ("wgsl", "float64", "use float32"), ("wgsl", "int64", "use int32"),
    ("wgsl", "uint64", "use uint32"),
])
def test_a_type_that_a_language_lacks_is_refused(language, kind, cure):
    with raises(CodegenError, f"… {kind}: {cure}"):
        source(copied(kind), DIALECTS[language])


def test_calls_that_no_kernel_can_make_are_refused():
    b, zero = Buffer("b", (4,), FLOAT32), IntImm(0, INT32)
    outside = st.Store(b, (zero,), Call(FLOAT32, "strange", (Load(b, (zero,)),), "extern"))
    with raises(CodegenError, "… OpenCL C … strange …"):
        source(kernel(outside, params=(b,)), OpenCL())
    with raises(CodegenError, "… warp …"):
        source(kernel(st.Evaluate(effect("sync", "warp")), outside, params=(b,)), OpenCL())
    moved = st.Store(b, (zero,), effect("shuffle_down", Load(b, (zero,)), 1, 4, returns=FLOAT32))
    with raises(CodegenError, "… shuffles=False …"):
        source(kernel(moved, params=(b,)), OpenCL())


def test_names_of_a_language_are_not_given_to_buffers_and_variables():
    names = ("float", "kernel", "half", "min", "a b", "3", "")
    buffers = [Buffer(name, (4,), FLOAT32) for name in names]
    stores = [st.Store(b, (IntImm(0, INT32),), Load(b, (IntImm(1, INT32),))) for b in buffers]
    taken = {"cl": ("float", "kernel", "half", "min"), "metal": ("float", "kernel", "half"), "wgsl": ("min",)}
    for language, words in taken.items():
        made = source(kernel(*stores, params=tuple(buffers)), DIALECTS[language]).text
        assert "a_b[0] = a_b[1]" in made
        for word in words:
            assert f" {word}_1[0] = {word}_1[1]" in made


if __name__ == "__main__":
    for each in PROGRAMS:
        for ending in DIALECTS:
            (GOLDEN / f"{each}.{ending}").write_text(text(each, ending))
