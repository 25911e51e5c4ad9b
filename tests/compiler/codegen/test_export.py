"""Object files, shared libraries, headers: used by a C program and by ctypes."""

import ctypes
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from codegen_cases import buffer, compiled, loop
from codegen_machines import HOST, in_c
from support import raises

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.reserved import is_taken
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect, math_call
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, dtype
from vtakit.compiler.ir.values import cast

HEADER = '''\
#ifndef VTAKIT_scale_H
#define VTAKIT_scale_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A: float32[n, 4], strides (s, 1)
 * B: float16[n, 4], aligned to 64 bytes
 * n: a size, at least 0
 * s: a size, at least 0
 * Buffers are row-major and do not overlap unless neither is written to.
 * Returns 0 on success,
 *         -1 if memory ran out,
 *         1 if not: n is under 100.
 */
int32_t scale(const float *A, uint16_t *B, int8_t double_, uint8_t on, int64_t n, int64_t s);

#ifdef __cplusplus
}
#endif
#endif
'''.replace("double_,", "arg_double,")


def scale(parallel: st.LoopKind = st.LoopKind.SERIAL) -> st.Function:
    n, s = ir.Var("n", size=True), ir.Var("s", size=True)
    double, on = ir.Var("double", dtype("int8")), ir.Var("on", dtype("bool"))
    a = buffer("A", n, 4, strides=(s, 1))
    b = buffer("B", n, 4, kind="float16", align=64)
    fa, fb = buffer("A", n * s), buffer("B", n * 4, kind="float16")
    fa.data, fb.data = a.data, b.data
    i, j = ir.Var("i"), ir.Var("j")
    value = cast(ir.Select(on, fa[i * s + j] * cast(double, FLOAT32), fa[i * s + j]), "float16")
    check = st.Evaluate(effect("assert_that", ir.LT(n, ir.IntImm(100)), "n is under 100"))
    return st.Function("scale", (a, b, double, on), st.seq(
        check, loop(i, n, loop(j, 4, st.Store(fb, (i * 4 + j,), value)), kind=parallel)))


def test_llvm_is_loaded_by_the_first_compilation_only():
    """Expressions and schedules, and even the code generator's modules, do without it."""
    modules = "vtakit.te, vtakit.runtime.build, vtakit.compiler.codegen.llvm.compile"
    code = f"import sys, {modules}; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_header_says_what_the_function_takes():
    assert compile_for(scale()).header == HEADER


@pytest.mark.parametrize("kind", [st.LoopKind.SERIAL, st.LoopKind.PARALLEL])
def test_a_c_program_links_the_object_and_calls_it(kind, tmp_path):
    """Parallel loops link with the compiler's OpenMP runtime."""
    n = 50
    a, b = buffer("A", n), buffer("B", n)
    i = ir.Var("i")
    double = ir.Var("double", dtype("int8"))
    f = st.Function("scale", (a, b, double), loop(i, n, st.Store(b, (i,), a[i] * cast(double, FLOAT32)), kind=kind))
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    in_c(Target.host(), HOST, tmp_path)(f, [x, y, -3])
    assert np.array_equal(y, -3 * x)


def test_a_shared_library_and_its_header(tmp_path):
    compiled_ = compile_for(scale(st.LoopKind.PARALLEL))
    compiled_.save_library(tmp_path / "scale.so")
    assert (tmp_path / "scale.h").read_text() == HEADER
    entry = ctypes.CDLL(str(tmp_path / "scale.so")).scale
    x, y = np.arange(24, dtype=np.float32).reshape(3, 8), np.zeros((3, 4), np.float16)
    pointers = (ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
    sizes = (ctypes.c_int64(3), ctypes.c_int64(8))
    assert entry(*pointers, ctypes.c_int8(2), ctypes.c_uint8(1), *sizes) == 0
    assert np.array_equal(y, 2 * x[:, :4])
    assert entry(*pointers, ctypes.c_int8(2), ctypes.c_uint8(0), *sizes) == 0
    assert np.array_equal(y, x[:, :4])
    assert entry(*pointers, ctypes.c_int8(2), ctypes.c_uint8(0), ctypes.c_int64(100), ctypes.c_int64(8)) == 1


def test_a_cpp_program_reads_the_header(tmp_path):
    """Arguments whose names are words of C++ get others."""
    a, b = buffer("new", 4), buffer("this", 4)
    i = ir.Var("i")
    made = compile_for(st.Function("twice", (a, b), loop(i, 4, st.Store(b, (i,), a[i] * 2.0))))
    assert "int32_t twice(const float *arg_new, float *arg_this);" in made.header
    (tmp_path / "twice.h").write_text(made.header)
    (tmp_path / "use.cpp").write_text('#include "twice.h"\nint32_t (*f)(const float *, float *) = twice;\n')
    subprocess.run(["c++", "-Wall", "-Werror", "-c", "use.cpp", "-o", "use.o"], cwd=tmp_path, check=True)


ODD = ["typeof", "linux", "int32_t", "INT8_MAX", "_Bool", "__attribute__", "a b", "é", "*/", "", "1a", "NULL", "x\ny"]


@pytest.mark.parametrize("compiler", [("cc", "-std=gnu17"), ("cc", "-std=c11"), ("c++",)], ids=" ".join)
def test_any_name_of_an_argument_gives_a_header_that_compiles(compiler, tmp_path):
    """Also of a size, in a comment too, and in the message of an assertion."""
    lines = []
    for number, name in enumerate(ODD):
        n, i = ir.Var(name, size=True), ir.Var("i")
        a, b = buffer(name, n), buffer("b", n)
        check = st.Evaluate(effect("assert_that", ir.LT(n, ir.IntImm(100)), f"{name} is /* under */ 100"))
        body = st.seq(check, loop(i, n, st.Store(b, (i,), a[i])))
        made = compile_for(st.Function(f"f{number}", (a, b, ir.Var(name)), body))
        (tmp_path / f"f{number}.h").write_text(made.header)
        lines += [f'#include "f{number}.h"', f"int32_t (*g{number})(const float *, float *, int32_t, int64_t) = f{number};"]
    source = tmp_path / ("use.cpp" if compiler == ("c++",) else "use.c")
    source.write_text("\n".join([*lines, "#include <math.h>", "#include <stdio.h>", ""]))
    subprocess.run([*compiler, "-Wall", "-Werror", "-c", str(source), "-o", "use.o"], cwd=tmp_path, check=True)


def test_headers_of_names_that_differ_in_case_only_are_two():
    first, second = (compile_for(st.Function(name, (), st.NOTHING)).header for name in ("f", "F"))
    assert {line for line in first.splitlines() if line.startswith("#define")}.isdisjoint(second.splitlines())


@pytest.mark.parametrize("name", ["main", "int", "class", "exp", "malloc", "read", "GOMP_parallel", "int8_t", "_Exit", "llvm"])
def test_a_name_that_c_keeps_for_itself_is_not_exported(name, tmp_path):
    """`build` calls a function main if it is given no name."""
    made = compile_for(st.Function(name, (), st.NOTHING))
    with raises(CodegenError, f"{name} … meaning … in C … cannot name … another name … vtakit.build(…, name='f')"):
        made.save_object(tmp_path / "f.o")
    with raises(CodegenError, f"'{name}' … meaning … C or C++ … another name"):
        str(made.header)


@pytest.mark.parametrize("name", ["sin", "fmod", "malloc", "free", "memcpy", "GOMP_parallel", "llvm", "main"])
def test_a_function_may_have_the_name_of_what_it_calls(name):
    """In this process: it calls the library's function of that name and not itself."""
    n = 20000
    a, b, c, t = (buffer(label, n, kind="float64") for label in ("A", "B", "C", "T"))
    i, j = ir.Var("i"), ir.Var("j")
    value = ir.TruncMod(math_call("sin", a[i]), a[i] + 1.0)
    f = compiled(name, (a, b, c), st.Allocate(t, st.seq(
        loop(i, n, st.Store(t, (i,), value), kind=st.LoopKind.PARALLEL), loop(j, n, st.Store(b, (j,), t[j])),
        loop(ir.Var("k"), 1, st.NOTHING))), loop(k := ir.Var("k"), n, st.Store(c, (k,), a[k])))
    x = np.random.default_rng(0).random(n)
    found, copied = np.zeros(n), np.zeros(n)
    f(x, found, copied)
    np.testing.assert_allclose(found, np.fmod(np.sin(x), x + 1), rtol=1e-12)
    assert np.array_equal(copied, x)


def test_code_that_calls_python_stays_in_this_process(tmp_path):
    a = buffer("A", 4)
    call = st.Evaluate(effect("call_packed", "my.print", a.access_ptr("r")))
    f = compiled("f", (a,), call, packed={"my.print": lambda x: None})
    with raises(CodegenError, "f calls Python (my.print), so it cannot become a library: use a C function (te.extern's kind "
                              "'extern') in its place, or run it from Python"):
        f.compiled.save_library(tmp_path / "f.so")


def test_a_linker_that_fails_says_why(tmp_path):
    with raises(CodegenError, f"false could not link {tmp_path / 'scale.so'}: it says nothing"):
        compile_for(scale()).save_library(tmp_path / "scale.so", linker=("false",))


def test_a_linker_that_is_not_there(tmp_path):
    with raises(CodegenError, f"no-such-cc could not link {tmp_path / 'scale.so'}: No such file or directory"):
        compile_for(scale()).save_library(tmp_path / "scale.so", linker=("no-such-cc",))
    assert not any(tmp_path.iterdir())


def test_files_that_cannot_be_written_leave_what_was_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = compile_for(scale())
    (tmp_path / "taken.h").mkdir()
    (tmp_path / "kept.h").write_text("mine")
    before = sorted(tmp_path.iterdir())
    for path, says in {
        "kept.h": "cannot write library 'kept.h': a .h file is written beside it: use another suffix",
        "taken.so": "cannot write library 'taken.so': 'taken.h' is a folder; give the path of a file",
        "": "cannot write library '': '.' is a folder; give the path of a file",
        "missing/f.so": "cannot write C header 'missing/f.h': No such file or directory",
    }.items():
        with raises(CodegenError, says):
            made.save_library(path)
    with raises(CodegenError, "cannot write object file '': '.' is a folder; give the path of a file"):
        made.save_object("")
    with raises(CodegenError, "cannot write object file 'missing/f.o': No such file or directory"):
        made.save_object("missing/f.o")
    with raises(CodegenError, "cannot write object file '/dev/full': No space left on device"):
        compile_for(scale()).save_object("/dev/full")
    with raises(CodegenError, "cannot write object file to None: give the path of a file"):
        made.save_object(None)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "kept.h").read_text() == "mine"


def test_c_functions_are_called(tmp_path):
    """Statement 63: external C functions, of this process and of a library, with narrow integers widened as C does."""
    (tmp_path / "own.c").write_text("#include <stdint.h>\nint8_t twice(int8_t a, float b) { return a * 2 + (int)b; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "own.c", "-o", "own.so"], cwd=tmp_path, check=True)
    a, b = buffer("A", 8, kind="int8"), buffer("B", 8, kind="int8")
    i, x = ir.Var("i"), ir.Ramp(ir.IntImm(0), ir.IntImm(1), 8)
    one = ir.FloatImm(1.0, FLOAT32)
    scalar = loop(i, 8, st.Store(b, (i,), ir.Call(dtype("int8"), "twice", (a[i], one), "extern")))
    lanes = st.Store(b, (x,), ir.Call(dtype("int8x8"), "twice", (ir.Load(a, (x,)), one), "extern"))
    given = np.array([1, -1, 100, -100, 63, -64, 0, 5], np.int8)
    for body in (scalar, lanes):
        found = np.zeros(8, np.int8)
        compiled("f", (a, b), body, libraries=(tmp_path / "own.so",))(given, found)
        assert np.array_equal(found, (given.astype(int) * 2 + 1).astype(np.int8))
    c = buffer("C", 1, kind="int32")
    found32 = np.zeros(1, np.int32)
    compiled("g", (c,), st.Store(c, (ir.IntImm(0),), ir.Call(INT32, "abs", (ir.IntImm(-7),), "extern")))(found32)
    assert found32[0] == 7


def test_a_library_that_is_not_there_is_named():
    says = "/no/such.so: cannot open shared object file: No such file or directory"
    with raises(CodegenError, f"libraries=('/no/such.so',): {says}"):
        compiled("f", (), st.NOTHING, libraries=("/no/such.so",))


def test_a_c_function_that_nobody_has_is_named():
    f = st.Function("f", (), st.Evaluate(ir.Call(INT32, "no_such_function", (), "extern")))
    with raises(CodegenError, "f … C function no_such_function … neither … process … library … build(libraries=(path, …))"):
        compiled("f", (), f.body)


@pytest.mark.parametrize(("target", "says"), [
    (Target("x86_64-linux-gnu", "nonsense"),
     "no code for x86_64-linux-gnu nonsense: LLVM says 'nonsense' is not a recognized processor for this target"),
    (Target("aarch64-linux-gnu", features=("+nonsense",)),
     "no code for aarch64-linux-gnu: LLVM says '+nonsense' is not a recognized feature for this target"),
    (Target("foo-bar"), (
        "no code for foo-bar: LLVM has no target for the triple 'foo-bar' (No available targets are compatible with triple "
        "\"foo-bar\"): use one such as 'x86_64-unknown-linux-gnu', 'aarch64-linux-gnu' or 'wasm32-unknown-unknown'"
    )),
])
def test_what_llvm_does_not_know_is_an_error_and_not_the_end_of_the_process(target, says):
    with raises(CodegenError, says):
        compile_for(scale(), target)


def test_a_library_whose_header_meets_a_full_disk_is_not_written(tmp_path):
    header = tmp_path / "scale.h"
    header.symlink_to("/dev/full")
    with raises(CodegenError, f"cannot write C header {str(header)!r}: No space left on device"):
        compile_for(scale()).save_library(tmp_path / "scale.so")
    assert [*tmp_path.iterdir()] == [header]


def test_a_full_disk_under_the_linker_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(CodegenError, match=r"^false could not link .*scale\.so: No such file or directory$"):
        compile_for(scale()).save_library(tmp_path / "scale.so", linker=("false",))


def test_headers_of_c_keep_their_names():
    """A model's header of such a name would stand in their place."""
    assert all(map(is_taken, ("stdio", "stdint", "string", "math", "unistd")))
    assert not any(map(is_taken, ("resnet18", "net", "std")))
