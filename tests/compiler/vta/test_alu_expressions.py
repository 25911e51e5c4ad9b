"""Expressions over accumulators in schedules of one's own: any that the ALU can make, in how many passes."""

import numpy as np
import pytest
from vta_support import build, execute, values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.target import vta
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.insns import Opcode

TARGET = vta("tiny")
SHAPE = (8, 1, 4)


def greater(x, y):
    return np.maximum(x, y) if isinstance(x, np.ndarray) else te.max(x, y)


@pytest.mark.parametrize(("value", "passes"), [
    (lambda a, b: a - b, 2),
    (lambda a, b: b - a, 2),
    (lambda a, b: a + a, 1),
    (lambda a, b: a * a, 1),
    (lambda a, b: a - a, 1),
    (lambda a, b: greater(a, a), 0),
    (lambda a, b: greater(a, a >> 3), 4),
    (lambda a, b: greater(a * 2, a), 4),
    (lambda a, b: a * 3 - b, 4),
    (lambda a, b: a - (a >> 2), 5),
    (lambda a, b: a * b + b, 2),
    (lambda a, b: 5 - a, 2),
])
def test_expressions(value, passes):
    a, b = (te.placeholder(SHAPE, "int32", name=name) for name in "ab")
    c = te.compute(a.shape, lambda *i: value(a(*i), b(*i)), name="c")
    out = te.compute(a.shape, lambda *i: c(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[c].set_scope("acc")
    read = list(c.op.input_tensors)
    for tensor in read:
        s.cache_read(tensor, "acc", [c])
    program = build(s, [*read, out], TARGET)
    rng = np.random.default_rng(0)
    given = {tensor: values(rng, tensor, -1000, 1000) for tensor in (a, b)}
    want = wrap(value(given[a], given[b]), 8)
    assert np.array_equal(execute(program, {tensor: given[tensor] for tensor in read}, out), want)
    insns = [decode(program.config, word) for word in program.insns]
    assert sum(insn.op in (Opcode.GEMM, Opcode.ALU) for insn in insns) == passes
