"""What cannot become machine code is refused with the whole reason."""

import pytest
from codegen_cases import buffer, loop, ramp
from support import raises

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.passes import machine_code
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.builder import Builder, Phi
from vtakit.compiler.codegen.llvm.text.declarations import Declarations
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant
from vtakit.compiler.codegen.llvm.text.setups import Slot
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, dtype
from vtakit.compiler.ir.values import TRUE, const

A, M = buffer("A", 8), buffer("M", 2, 4)
V = buffer("V", 8, kind="float32x4")
i = ir.Var("i")
ZERO, ONE = ir.IntImm(0), const(1.0, FLOAT32)
x = ir.Var("x")

CASES = {
    "block": (
        st.Block("C", (), (), (), TRUE, None, st.NOTHING),
        "the block 'C' cannot become machine code: run vtakit.compiler.passes.lower_late first",
    ),
    "thread": (
        st.For(i, ZERO + 4, st.NOTHING, st.LoopKind.THREAD, "threadIdx.x"),
        ("the loop over i is bound to threadIdx.x, which is no loop of machine code: a CPU has no such threads, so leave the "
         "axis unbound, or run the program by the interpreter"),
    ),
    "vectorized": (
        loop(i, 4, kind=st.LoopKind.VECTORIZED),
        "the loop over i is vectorized, which is no loop of machine code: run vtakit.compiler.passes.lower_late first",
    ),
    "dimensions": (
        st.Store(M, (ZERO, ZERO), ONE),
        (
            "buffer 'M' is accessed with 2 indices: machine code is made of buffers of one dimension; run the flatten "
            "pass first"
        ),
    ),
    "lanes": (
        st.Store(buffer("B", 100000), (ramp(0, 100000),), ir.Broadcast(ONE, 100000)),
        "a vector of 100000 lanes of float is too long: vectorise loops of at most 4096 iterations",
    ),
    "allocated": (
        st.Allocate(buffer("T", 2, 2), st.NOTHING),
        "buffer 'T' is allocated with 2 dimensions: run the flatten pass first",
    ),
    "memory": (
        st.Store(buffer("B", 4), (ZERO,), ONE),
        "buffer 'B' has no memory here: it is neither a parameter nor allocated around this point",
    ),
    "variable": (
        st.Store(A, (x,), ONE),
        "the variable x has no value here: it is neither a parameter, nor a loop's, nor a let's",
    ),
    "stored": (
        st.Store(A, (ramp(0, 4),), ONE),
        "A[ramp(0, 1, 4)] = 1.0 stores float32 where the buffer and the index ask for float32x4",
    ),
    "stored, more than a register": (
        st.Store(A, (ramp(0, 24),), ir.Broadcast(ONE, 12)),
        "A[ramp(0, 1, 24)] = broadcast(1.0, 12) stores float32x12 where the buffer and the index ask for float32x24",
    ),
    "stored without an index": (
        st.Store(A, (), ONE),
        "buffer 'A' is accessed with 0 indices: machine code is made of buffers of one dimension; run the flatten pass first",
    ),
    "gather": (
        st.Store(A, (ramp(0, 8),), ir.Load(V, (ramp(0, 2, 2),))),
        "V[ramp(0, 2, 2)] gathers vectors: elements of float32x4 can be read one at a time, or in a row",
    ),
    "while": (
        st.While(ir.LT(ramp(0, 4), ramp(1, 4)), st.NOTHING),
        "while ramp(0, 1, 4) < ramp(1, 1, 4) has a condition of 4 lanes: such a loop must stay scalar",
    ),
    "sync": (
        st.Evaluate(effect("sync", "shared")),
        (
            "the call sync('shared') means nothing to this code generator: it knows the math functions, abs, address_of, "
            "assert_that, call_packed, clz, fma, isfinite, isinf, isnan, nextafter, popcount, prefetch, reinterpret, the "
            "intrinsics dot4_u8s8, dot_bf16, dot_bits, dot_u8s8s32, dot_words, gemm_bf16, gemm_f32, gemm_s8s8s32, gemm_u8s8s32, "
            "pack_bits, tiles_bf16, tiles_store, tiles_u8s8s32, tiles_words, tiles_zero, transpose_32, and C functions (calls "
            "of kind 'extern')"
        ),
    ),
    "half in C": (
        st.Evaluate(ir.Call(INT32, "g", (const(1.0, "float16"),), "extern")),
        "g(float16(1.0)) passes float16, for which C has no agreed type: cast it to float32",
    ),
    "C name": (
        st.Evaluate(ir.Call(INT32, "a b", (), "extern")),
        "'a b' is no name of a C function",
    ),
    "C types": (
        st.seq(st.Evaluate(ir.Call(INT32, "g", (ONE,), "extern")), st.Evaluate(ir.Call(INT32, "g", (ZERO,), "extern"))),
        (
            "the function g is called as i32 (i32) and as i32 (float): a C function has one type, so cast the arguments "
            "to it"
        ),
    ),
    "itself": (
        st.Evaluate(ir.Call(INT32, "f", (), "extern")),
        "f() calls the function that it stands in: give the compiled function another name",
    ),
    "masked effect": (
        st.If(ir.LT(ramp(0, 4), ramp(1, 4)), st.Evaluate(effect("assert_that", TRUE, "fine"))),
        "the effect of assert_that(True, 'fine') depends on lanes of a vector: such a statement must stay scalar",
    ),
    "masked scalar": (
        st.If(ir.LT(ramp(0, 4), ramp(1, 4)), st.Store(A, (ZERO,), ONE)),
        "A[0] = 1.0 depends on lanes of a vector: such a statement must stay scalar",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_no_machine_code_says_why(case):
    body, says = CASES[case]
    with raises(CodegenError, says):
        compile_for(st.Function("f", (A, M, V), body))


def test_a_name_that_c_cannot_have():
    with raises(CodegenError, "'a-b' cannot name a compiled function: use letters, digits and _"):
        compile_for(st.Function("a-b", (), st.NOTHING))


def test_a_parameter_that_is_no_number():
    with raises(CodegenError, "parameter p of f has type float32x4: a scalar is a number of one lane"):
        compile_for(st.Function("f", (ir.Var("p", dtype("float32x4")),), st.NOTHING))


def test_targets_are_checked():
    with raises(CodegenError, "'a b' is no target triple: one looks like 'x86_64-unknown-linux-gnu'"):
        Target("a b")
    with raises(CodegenError, "'avx2' is no feature of a target: each starts with + or -, as in '+avx2'"):
        Target("x86_64-linux-gnu", features=("avx2",))


def test_the_builder_lets_no_wrong_type_through():
    """LLVM would end the process."""
    b = Builder("define void @f()", Declarations())
    word, number = int_constant("i32", 1), float_constant("float", 1.0)
    wrong = [
        lambda: b.op("add", word, number), lambda: b.op("fadd", word, word), lambda: b.op("add", word, int_constant("i64", 1)),
        lambda: b.icmp("eq", number, number), lambda: b.fcmp("oeq", word, word), lambda: b.select(word, word, word),
        lambda: b.convert("zext", word, "i16"), lambda: b.convert("fpext", word, "double"), lambda: b.bitcast(word, "double"),
        lambda: b.splat(int_constant("<4 x i32>", 1), 4), lambda: b.extract(int_constant("<4 x i32>", 1), 4),
        lambda: b.insert(int_constant("<4 x i32>", 1), number, 0), lambda: b.load("i32", word, 4),
        lambda: b.store(word, word, 4), lambda: b.address(word, "i32", word), lambda: b.phi("i32").add(number, b.at),
        lambda: b.shuffle(word, word, [0]), lambda: b.branch(word, b.at, b.at), lambda: b.fneg(word),
        lambda: b.field(word, "{ i32 }", 0), lambda: b.raise_flag(word, word), lambda: b.address_as_int(word),
    ]
    for attempt in wrong:
        with pytest.raises(AssertionError):
            attempt()
    setup, phi = b.at.lines  # the phi's incoming value was refused
    assert isinstance(setup, Slot)
    assert isinstance(phi, Phi)


def test_text_that_llvm_refuses_is_an_error():
    with pytest.raises(CodegenError, match=r"^LLVM refuses the module that was made, a defect of the code generator: "):
        machine_code("define i32 @f() {\n  ret i64 0\n}\n", Target.host(), "object")
    lines = ["define i32 @f(i1 %c) {", "br i1 %c, label %a, label %b", "a:", "%v = add i32 1, 2", "br label %b", "b:"]
    lines += ["ret i32 %v", "}"]
    with pytest.raises(CodegenError, match=r"^LLVM refuses the module that was made, a defect of the code generator: "):
        machine_code("\n".join(lines), Target.host(), "object")
    assert Value("%a", "i32").type == "i32"
