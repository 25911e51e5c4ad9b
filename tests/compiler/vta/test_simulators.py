"""Statement 64: programs of schedules written by hand, equal to NumPy on each simulator; and waits that nothing ends."""

from dataclasses import replace

import numpy as np
import pytest
from vta_support import build, execute, matmul, matmul_schedule, values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.target import vta
from vtakit.hw.isa.asm import asm, disasm
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.program import Program
from vtakit.sim.api import run
from vtakit.sim.checker import check_program
from vtakit.sim.faults import ProgramFault

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

TARGET = vta("tiny", copies=1)  # virtual threads do what copies would
SIMULATORS = {"plain": {"path": "plain"}, "compiled": {"path": "compiled"}, "rtl": {"device": "rtl"}}


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    return SIMULATORS[request.param]


def in_acc(stages, out, reads):
    """A schedule with stages computed in the accumulator for each row of a result, and tensors that are read there."""
    s = te.create_schedule(out.op)
    for stage in stages:
        s[stage].set_scope("acc")
        s[stage].compute_at(s[out], out.op.axis[0])
    for tensor in reads:
        s[s.cache_read(tensor, "acc", [stages[-1]])].compute_at(s[out], out.op.axis[0])
    return s


def test_gemm(simulator):
    """Statement 64: a blocked product."""
    tensors = data, weights, _, _, result = matmul(TARGET, 8, 4, 6)
    program = build(matmul_schedule(TARGET, tensors), [data, weights, result], TARGET)
    given = {tensor: values(np.random.default_rng(0), tensor) for tensor in (data, weights)}
    want = wrap(np.maximum(np.einsum("ykbi,xkji->yxbj", given[data], given[weights]) >> 4, 0), 8)
    assert np.array_equal(execute(program, given, result, **simulator), want)


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize(("of_tensors", "of_arrays", "name"), [
    (lambda a, b: a + b, np.add, "add"), (te.max, np.maximum, "max"), (lambda a, b: a >> b, np.right_shift, "shr"),
])
def test_alu(simulator, of_tensors, of_arrays, name, immediate):
    """Statement 64: add, max and shift, of two accumulators and with a number."""
    a, b = (te.placeholder((5, 1, 4), "int32", name=letter) for letter in "ab")
    c = te.compute(a.shape, lambda *at: of_tensors(a(*at), te.const(3, "int32") if immediate else b(*at)), name="c")
    out = te.compute(a.shape, lambda *at: c(*at).astype("int8"), name="out")
    args = [a] if immediate else [a, b]
    program = build(in_acc([c], out, args), [*args, out], TARGET)
    alu = [line for line in map(disasm_tiny, program.insns) if line.startswith("alu")]
    assert alu
    assert all(line.startswith(f"alu.{name} ") and ("use_imm" in line) is immediate for line in alu)
    rng = np.random.default_rng(1)
    given = {tensor: values(rng, tensor, *((0, 31) if tensor is b and name == "shr" else ())) for tensor in args}
    want = wrap(of_arrays(given[a], 3 if immediate else given[b]), 8)
    assert np.array_equal(execute(program, given, out, **simulator), want)


def disasm_tiny(word):
    return disasm(word, TARGET.config)


def test_a_padded_load(simulator):
    """Statement 64: zeros around, of another number on each side, by one instruction."""
    a = te.placeholder((2, 3, 1, 4), "int32", name="a")
    above, below, left, right = 1, 2, 3, 0

    def value(y, x, i, j):
        inside = te.all(y >= above, y < above + 2, x >= left, x < left + 3)
        return te.if_then_else(inside, a[y - above, x - left, i, j], te.const(0, "int32"))
    padded = te.compute((2 + above + below, 3 + left + right, 1, 4), value, name="padded")
    less = te.compute(padded.shape, lambda *at: padded(*at) - 7, name="less")
    out = te.compute(padded.shape, lambda *at: less(*at).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    for tensor in (padded, less):
        s[tensor].set_scope("acc")
    program = build(s, [a, out], TARGET)
    loads = [line for line in map(disasm_tiny, program.insns) if line.startswith("load.acc")]
    assert loads == ["load.acc y_size=2 x_size=3 x_stride=3 y_pad_0=1 y_pad_1=2 x_pad_0=3"]
    given = {a: values(np.random.default_rng(2), a)}
    want = wrap(np.pad(given[a], ((above, below), (left, right), (0, 0), (0, 0))) - 7, 8)
    assert np.array_equal(execute(program, given, out, **simulator), want)


def convolution(threads) -> tuple[list[te.Tensor], Program]:
    """A 3 x 3 convolution with zeros around, its rows dealt to virtual threads; its arguments and its program."""
    data = te.placeholder((1, 2, 8, 6, 1, 4), "int8", name="data")
    weights = te.placeholder((2, 2, 3, 3, 4, 4), "int8", name="weights")

    def pixel(n, c, y, x, b, k):
        inside = te.all(y >= 1, y <= 8, x >= 1, x <= 6)
        return te.if_then_else(inside, data[n, c, y - 1, x - 1, b, k], te.const(0, "int8"))
    window = te.compute((1, 2, 10, 8, 1, 4), pixel, name="window")
    c, dy, dx, k = (te.reduce_axis((0, extent), name=name) for name, extent in (("c", 2), ("dy", 3), ("dx", 3), ("k", 4)))
    taps = te.compute((1, 2, 8, 6, 1, 4), lambda n, o, y, x, b, j: te.sum(
        window[n, c, y + dy, x + dx, b, k].astype("int32") * weights[o, c, dy, dx, j, k].astype("int32"),
        axis=[c, dy, dx, k]), name="taps")
    low = te.compute(taps.shape, lambda *at: te.max(taps(*at) >> 7, 0), name="low")
    result = te.compute(taps.shape, lambda *at: low(*at).astype("int8"), name="result")
    s = te.create_schedule(result.op)
    n, o, y, x, b, j = result.op.axis
    thread, row = s[result].split(y, nparts=threads)
    s[result].bind(thread, te.thread_axis("vthread"))
    oo, oi = s[result].split(o, 1)
    s[result].reorder(thread, n, row, oo, oi, x, b, j)
    for tensor in (taps, low):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[result], oo)
    n, o, y, x, b, j = taps.op.axis
    s[taps].reorder(c, dy, n, o, y, x, dx, b, j, k)
    s[taps].tensorize(b, TARGET.gemm)
    s[window].set_scope("inp")
    s[window].compute_at(s[taps], dy)
    s[s.cache_read(weights, "wgt", [taps])].compute_at(s[taps], dy)
    return [data, weights, result], build(s, [data, weights, result], TARGET)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_convolution_with_virtual_threads(simulator, threads):
    """Statement 64: each thread has places of its own."""
    (data, weights, result), program = convolution(threads)
    loads = [decode(TARGET.config, word) for word in program.insns if disasm_tiny(word).startswith("load.inp")]
    assert len({load.fields["sram_base"] for load in loads if load.fields["x_size"] and load.fields["x_pad_0"]}) == threads
    given = {tensor: values(np.random.default_rng(3), tensor) for tensor in (data, weights)}
    padded = np.pad(given[data], ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0), (0, 0)))
    sums = sum(np.einsum("ncyxbk,ocjk->noyxbj", padded[:, :, y:y + 8, x:x + 6], given[weights][:, :, y, x])
               for y in range(3) for x in range(3))
    assert np.array_equal(execute(program, given, result, **simulator), wrap(np.maximum(sums >> 7, 0), 8))


def stopped(program: Program, simulator) -> ProgramFault:
    """The fault at which a simulator stops a program."""
    limit = {"max_cycles": 100_000} if "device" in simulator else {}
    with pytest.raises(ProgramFault) as caught:
        run(program, {buffer.name: bytes(buffer.size_bytes) for buffer in program.buffers if buffer.kind == "input"},
            **simulator, **limit)
    return caught.value


@pytest.mark.parametrize("flag", ["push_prev", "push_next"])
def test_a_token_that_is_missing(simulator, flag):
    """Statement 64: a stage that waits for ever is named, by the simulators and by the static checker."""
    _, program = convolution(2)
    names = [disasm_tiny(word) for word in program.insns]
    kind = "gemm" if flag == "push_prev" else "load.wgt"
    giver = next(at for at, name in enumerate(names) if name.startswith(kind) and flag in name)
    words = [*program.insns[:giver], asm(names[giver].replace(f" {flag}", ""), TARGET.config), *program.insns[giver + 1:]]
    broken = replace(program, insns=tuple(words))
    fault = stopped(broken, simulator)
    assert fault.fault is Fault.DEADLOCK
    assert {"push_prev": "pop_next", "push_next": "pop_prev"}[flag] in names[fault.index]
    assert Fault.DEADLOCK in {found.fault for found in check_program(broken)}


def test_a_circle_of_waits(simulator):
    """Statement 64: LOAD waits for compute, which waits for LOAD."""
    words = [asm(text, TARGET.config) for text in (
        "load.inp y_size=1 x_size=1 pop_next push_next", "load.uop y_size=1 x_size=1 pop_prev push_prev", "finish")]
    program = Program(config=TARGET.config, insns=tuple(words))
    fault = stopped(program, simulator)
    assert (fault.fault, fault.index) == (Fault.DEADLOCK, 0)
    assert str(check_program(program)[0]) == (
        "instruction 0 (load.inp y_size=1 x_size=1 pop_next push_next): it waits for ever for a token in the compute-to-load "
        "queue [DEADLOCK]")
