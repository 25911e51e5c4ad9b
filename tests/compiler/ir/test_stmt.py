"""Statements: text, marks, walks and changes."""

from vtakit.compiler.ir import stmt as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.compiler.ir.iters import IterKind, Range
from vtakit.compiler.ir.printer import function_text, stmt_text
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.ir.walk import expressions, map_stmt, replace_buffers, statements, substitute_stmt

n = Var("n", size=True)
A, B, C = (Buffer(name, (n, 16), dtype("float32"), scope) for name, scope in (("A", "global"), ("A", "shared"), ("C", "global")))
i, j, vi, vj = Var("i"), Var("j"), Var("vi"), Var("vj")


def block() -> ir.Block:
    zero, one, columns = wrap(0), wrap(1), wrap(16)
    rows = ir.BlockIter(vi, Range(zero, n), IterKind.DATA, i)
    terms = ir.BlockIter(vj, Range(zero, columns), IterKind.REDUCE, j)
    return ir.Block(
        "C", (rows, terms),
        (ir.Region(B, (Range(vi, one), Range(vj, one))),), (ir.Region(C, (Range(vi, one), Range(zero, columns))),), i < n - 1,
        ir.Store(C, (vi, wrap(0)), wrap(0.0)), ir.Store(C, (vi, wrap(0)), C[vi, 0] + B[vi, vj]), {"tensorize": "dot"},
    )


def program() -> ir.Function:
    copy = ir.For(i, n, ir.For(j, wrap(16), ir.Store(B, (i, j), A[i, j]), ir.LoopKind.VECTORIZED), ir.LoopKind.PARALLEL)
    use = ir.For(i, n, ir.For(j, wrap(16), block(), notes={"unroll": 4}), ir.LoopKind.THREAD, "threadIdx.x")
    rest = ir.If(i < 3, ir.Evaluate(effect("sync", "shared")), ir.NOTHING)
    tail = ir.Attr("queue", C, 2, ir.LetStmt(vi, n * 2, ir.While(vi < 3, ir.Evaluate(effect("tick")))))
    return ir.Function("main", (A, C, n), ir.Allocate(B, ir.seq(copy, ir.seq(use, rest), tail), {"double_buffer": True}))


TEXT = """\
def main(A: float32[n, 16], C: float32[n, 16], n: int32):
    A_1 = allocate(float32[n, 16], shared)  # double_buffer=True
    for i in parallel(n):
        for j in vectorized(16):
            A_1[i, j] = A[i, j]
    for i in bind[threadIdx.x](n):
        for j in range(16):  # unroll=4
            block C(vi = i, vj = j) where i < n - 1:  # tensorize=dot
                init:
                    C[vi, 0] = 0.0
                C[vi, 0] = C[vi, 0] + A_1[vi, vj]
    if i < 3:
        sync('shared')
    else:
        pass
    # C.queue = 2
    vi = n * 2
    while vi < 3:
        tick()"""


def test_a_function_as_text():
    assert str(program()) == TEXT


def test_a_mark_and_the_regions_of_blocks():
    s = ir.For(i, n, ir.For(j, wrap(16), block()))
    assert stmt_text(s, mark=s.body, blocks=True) == """\
      for i in range(n):
-->       for j in range(16):
              block C(vi = i, vj = j) where i < n - 1:  # tensorize=dot
                  # vi: data 0:n; vj: reduce 0:16
                  # reads A[vi, vj]
                  # writes C[vi, 0:16]
                  init:
                      C[vi, 0] = 0.0
                  C[vi, 0] = C[vi, 0] + A[vi, vj]"""
    assert "-->" in function_text(ir.Function("f", (A,), s), mark=s)


def test_walks_reach_everything():
    body = program().body
    kinds = [type(s).__name__ for s in statements(body)]
    assert kinds == ["Allocate", "Seq", "For", "For", "Store", "For", "For", "Block", "Store", "Store", "If", "Evaluate", "Seq",
                     "Attr", "LetStmt", "While", "Evaluate"]
    texts = {str(e) for e in expressions(body)}
    assert {"n", "A[i, j]", "i < n - 1", "C[vi, 0] + A[vi, vj]", "vi < 3", "n * 2", "16"} <= texts


def test_substitution_and_buffers():
    s = substitute_stmt(program().body, {n: wrap(8)})
    assert "n" not in {str(e) for e in expressions(s)}
    assert "block C(vi = i, vj = j) where i < 8 - 1" in str(s)  # nothing is folded: simplifying is another step
    new = Buffer("D", (n, 16), dtype("float32"))
    text = stmt_text(replace_buffers(program().body, {B: new}), blocks=True)
    assert "D = allocate(float32[n, 16])" in text
    assert "# reads D[vi, vj]" in text
    assert "C[vi, 0] + D[vi, vj]" in text
    assert "D[i, j] = A[i, j]" in text


def test_what_does_not_change_stays_the_same_object():
    body = program().body
    assert map_stmt(body) is body
    assert substitute_stmt(body, {Var("m"): wrap(1)}) is body
    changed = map_stmt(body, on_stmt=lambda s: s.replace(extent=IntImm(5)) if isinstance(s, ir.For) and s.var is j else s)
    assert changed is not body
    assert str(changed).count("(5)") == 2


def test_sequences_are_flat():
    a, b = ir.Evaluate(effect("a")), ir.Evaluate(effect("b"))
    assert ir.seq(a) is a
    assert ir.seq(a, None, ir.seq(b, a)).stmts == (a, b, a)
    assert ir.seq(ir.NOTHING).stmts == ()
