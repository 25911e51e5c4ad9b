"""Statements that stand for several: stores of one of two values, and resets with the product after them."""

import numpy as np
import pytest
from vta_support import build, execute, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.leaves import leaves
from vtakit.compiler.codegen.vta.target import GEMM, RESET, vta
from vtakit.compiler.intrin.tensor_intrin import hardware_intrin
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, IntImm, Load, Var
from vtakit.compiler.ir.stmt import Evaluate, Seq
from vtakit.compiler.te.compose import decl_buffer

TARGET = vta()


@pytest.mark.parametrize("condition", [
    lambda y, x: y < 3, lambda y, x: x >= 2, lambda y, x: te.all(y >= 1, x < 4), lambda y, x: y + x < 4,
    lambda y, x: te.all(y >= 1, y < 4, x >= 1, x < 5),
])
@pytest.mark.parametrize(("names", "values"), [
    ("ab", lambda a, b: (a + 1, b * 2)), ("a", lambda a, _: (a, te.const(7, "int32"))),
    ("b", lambda _, b: (te.const(-3, "int32"), b)),
])
def test_one_of_two_values(condition, names, values):
    """Each element is one of the two, whichever parts of the tile the condition cuts off."""
    a, b = (te.placeholder((5, 6, 1, 16), "int32", name=name) for name in "ab")
    c = te.compute(a.shape, lambda y, x, *at: te.if_then_else(condition(y, x), *values(a(y, x, *at), b(y, x, *at))), name="c")
    out = te.compute(a.shape, lambda *at: c(*at).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[c].set_scope("acc")
    rng, used = np.random.default_rng(5), [t for t in (a, b) if t.name in names]
    for tensor in used:
        s.cache_read(tensor, "acc", [c])
    given = {tensor: rng.integers(-50, 50, (5, 6, 1, 16)) for tensor in (a, b)}
    got = execute(build(s, [*used, out], TARGET), {tensor: given[tensor] for tensor in used}, out)
    y, x = np.indices((5, 6))
    holds = np.array([[bool(_number(condition(IntImm(int(i)), IntImm(int(j))))) for i, j in zip(*row, strict=True)]
                      for row in zip(y, x, strict=True)])
    kept = [value.value if isinstance(value, IntImm) else value for value in values(given[a], given[b])]
    assert np.array_equal(got, wrap(np.where(holds[..., None, None], *kept), 8))


def _number(e: Expr) -> bool:
    """A comparison of constants."""
    if isinstance(e, ir.And):
        return _number(e.a) and _number(e.b)
    return bool(e)


def reset_and_product(step: int, inner: int) -> tuple[Seq, list[tuple[Var, Expr]]]:
    """Loops i of 4 and j of 3, whose accumulator is ``i * step + j * inner``."""
    acc, inp = (decl_buffer((4096,), kind, name, scope=name) for kind, name in (("int32", "acc"), ("int8", "inp")))
    i, j = Var("i"), Var("j")

    def address(buffer: Buffer, mask: str) -> Expr:
        first = Load(buffer, (i * step + j * inner,))
        return buffer.access_ptr(mask).replace(args=(first, *buffer.access_ptr(mask).args[1:]))
    reset = Evaluate(hardware_intrin(RESET, address(acc, "w")))
    return Seq((reset, Evaluate(hardware_intrin(GEMM, address(acc, "rw"), address(inp, "r"), address(inp, "r"))))), [
        (i, IntImm(4)), (j, IntImm(3))]


@pytest.mark.parametrize(("step", "inner", "apart"), [
    (48, 16, True), (16, 64, True), (16, 32, False), (48, 0, False), (0, 16, False), (64, 16, True),
])
def test_resets_come_first_only_where_no_accumulator_is_written_twice(step, inner, apart):
    """A second reset of an accumulator would undo the product before it."""
    both, loops = reset_and_product(step, inner)
    found = leaves(both, loops)
    assert [leaf for _, leaf in found] == (list(both.stmts) if apart else [])
    places = [i * step + j * inner for i in range(4) for j in range(3)]
    assert apart is (len(set(places)) == len(places))
