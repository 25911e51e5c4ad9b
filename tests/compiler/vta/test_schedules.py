"""Schedules written by hand: blocked products, virtual threads, intrinsics, and several layers in one program."""

import numpy as np
import pytest
import vta_fuzz
from vta_support import build, execute, matmul, matmul_schedule, values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta import tokens
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.insns import TOKEN_QUEUE_DEPTH, AluOp
from vtakit.sim import checker
from vtakit.sim import order as sim_order

ORDERS = ("program", "eager", "lazy", *range(20))


def check_matmul(target: Target, threads: int) -> list[str]:
    """A product in every order; returns its instructions as text."""
    tensors = matmul(target, 8, 6, 8)
    data, weights, _, _, result = tensors
    program = build(matmul_schedule(target, tensors, threads), [data, weights, result], target)
    rng = np.random.default_rng(0)
    given = {tensor: values(rng, tensor) for tensor in (data, weights)}
    sums = wrap(np.einsum("ykbi,xkji->yxbj", given[data], given[weights]), target.config.acc_bits)
    want = wrap(np.maximum(sums >> 4, 0), target.config.out_bits)
    for order in ORDERS[: 23 if threads == 1 else 5]:
        assert np.array_equal(execute(program, given, result, order=order), want)
    return [disasm(word, program.config) for word in program.insns]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_blocked_matrix_product(threads, copies):
    """Statement 64: equal to NumPy in every interleaving, whatever the buffering."""
    text = check_matmul(vta(copies=copies), threads)
    gemms = [line for line in text if line.startswith("gemm")]
    assert len(gemms) == 8 * (3 + 1), "three chunks a tile, of which the first is in two parts"
    assert sum("overwrite" in line for line in gemms) == 8
    assert not any("reset" in line for line in gemms)


@pytest.mark.parametrize("config", ["b2x16", "b4x8", "blk32", "w4", "i4w4", "w2"])
def test_other_configurations(config):
    check_matmul(vta(config), 2)


def test_copies_let_loads_run_ahead():
    """With one copy a load waits for the product before; with two for the one before that; each copy has its own elements."""
    bases = []
    for copies in (1, 2, 3):
        text = check_matmul(vta(copies=copies), 1)
        loads = [line for line in text if line.startswith("load.inp")]
        bases.append(len({next((part for part in line.split() if part.startswith("sram_base")), "") for line in loads}))
        waits = [line for line in text if line.startswith(("load.inp", "load.wgt")) and "pop_next" in line]
        assert len(waits) == 24 - copies
    assert bases == [1, 2, 3]


def test_micro_ops_are_shared_and_stay():
    """24 products and 8 tiles use a few kernels, loaded once."""
    text = check_matmul(vta(), 1)
    loaded = [line for line in text if line.startswith("load.uop")]
    assert len(loaded) <= 4, loaded


def test_the_text_of_a_program():
    """One tile of one chunk: what a person reads."""
    target = vta()
    tensors = matmul(target, 4, 2, 2)
    data, weights, _, _, result = tensors
    program = build(matmul_schedule(target, tensors), [data, weights, result], target)
    assert "\n".join(disasm(word, program.config) for word in program.insns) == """\
load.inp y_size=1 x_size=8
load.wgt y_size=1 x_size=4 push_next
load.uop y_size=1 x_size=2
gemm uop_end=1 iter_out=4 iter_in=2 dst_out=2 dst_in=1 src_out=2 wgt_in=2 pop_prev overwrite
gemm uop_bgn=1 uop_end=2 iter_out=4 iter_in=2 dst_out=2 dst_in=1 src_out=2 wgt_in=2
alu.shr uop_end=1 iter_out=1 iter_in=8 dst_in=1 imm=4 use_imm
alu.max uop_end=1 iter_out=1 iter_in=8 dst_in=1 push_next use_imm
store.out y_size=1 x_size=8 pop_prev
finish"""


@pytest.mark.parametrize("op", list(AluOp))
@pytest.mark.parametrize("immediate", [False, True])
def test_alu_intrinsics(op, immediate):
    target = vta()
    shape = (5, *target.element("acc"))
    a, b = (te.placeholder(shape, "int32", name=name) for name in "ab")
    number = 3
    fold = {AluOp.MIN: te.min, AluOp.MAX: te.max, AluOp.ADD: lambda x, y: x + y, AluOp.SHR: lambda x, y: x >> y,
            AluOp.MUL: lambda x, y: x * y}[op]
    c = te.compute(shape, lambda i, r, j: fold(a[i, r, j], te.const(number, "int32") if immediate else b[i, r, j]), name="c")
    out = te.compute(shape, lambda *i: c(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[c].set_scope("acc")
    s[c].compute_at(s[out], out.op.axis[0])
    s[c].tensorize(c.op.axis[1], target.alu(op, immediate=immediate))
    for tensor in (a, b)[: 1 if immediate else 2]:
        s[s.cache_read(tensor, "acc", [c])].compute_at(s[out], out.op.axis[0])
    args = [a, out] if immediate else [a, b, out]
    program = build(s, args, target)
    rng = np.random.default_rng(1)
    given = {t: values(rng, t, 0, 9) if t is b and op is AluOp.SHR else values(rng, t) for t in args[:-1]}
    x, y = given[a], number if immediate else given[b]
    want = {AluOp.MIN: np.minimum, AluOp.MAX: np.maximum, AluOp.ADD: np.add, AluOp.SHR: np.right_shift,
            AluOp.MUL: np.multiply}[op](x, y)
    assert np.array_equal(execute(program, given, out), wrap(want, 8))


def products_of_loads(target, rows):
    """A product whose every row is a LOAD of its own, all of them first, and a GEMM of its own; with its tensors."""
    batch, block = target.element("inp")
    data = te.placeholder((rows, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((block, block), target.dtype("wgt"), name="weights")
    k, acc = te.reduce_axis((0, block), name="k"), target.dtype("acc")
    sums = te.compute((rows, batch, block), lambda y, b, j: te.sum(
        weights[j, k].astype(acc) * data[y, b, k].astype(acc), axis=k), name="sums")
    out = te.compute(sums.shape, lambda *at: sums(*at).astype(target.dtype("out")), name="out")
    s = te.create_schedule(out.op)
    s[sums].set_scope("acc")
    s[sums].unroll(sums.op.axis[0])
    s[sums].tensorize(sums.op.axis[1], target.gemm)
    s.cache_read(weights, "wgt", [sums])
    loaded = s.cache_read(data, "inp", [sums])
    s[loaded].unroll(loaded.op.axis[0])
    return data, weights, out, s


def test_a_token_queue_does_not_overflow():
    """Of 1500 LOADs that all run before the first product, so many give it a token as its queue holds."""
    target = vta()
    data, weights, out, s = products_of_loads(target, 1500)
    program = build(s, [data, weights, out], target)
    loads = [line for line in (disasm(word, program.config) for word in program.insns) if line.startswith("load.inp")]
    assert sum("push_next" in line for line in loads) == TOKEN_QUEUE_DEPTH
    given = {tensor: values(np.random.default_rng(0), tensor) for tensor in (data, weights)}
    want = wrap(np.einsum("ybk,jk->ybj", given[data], given[weights]), 8)
    for order in ("program", "eager", "lazy", 0):
        assert np.array_equal(execute(program, given, out, order=order), want)


@pytest.mark.parametrize("depth", [2, 3, 8])
def test_small_token_queues(monkeypatch, depth):
    """With queues of few tokens, rows that are loaded at once, chunks and layers still wait for no token in vain."""
    for module in (tokens, checker, sim_order):
        monkeypatch.setattr(module, "TOKEN_QUEUE_DEPTH", depth)
    monkeypatch.setattr(tokens, "CROWDED", depth // 2)
    target = vta("tiny", copies=3)
    data, weights, out, s = products_of_loads(target, 20)
    program = build(s, [data, weights, out], target)
    given = {tensor: values(np.random.default_rng(0), tensor) for tensor in (data, weights)}
    want = wrap(np.einsum("ybk,jk->ybj", given[data], given[weights]), 8)
    for order in ORDERS:
        assert np.array_equal(execute(program, given, out, order=order), want)
    for operator in ("conv", "concat", "network"):
        for seed in (8, 10):  # tiny configurations
            vta_fuzz.check(operator, seed, orders=3)


def part_of(program, index):
    """The name of the part that an instruction is of."""
    return next(part.name for part in program.parts if index < part.end)


def test_loops_that_compute_two_layers_are_one_part():
    """Each turn of a loop stores a part of one result, reads it back, and stores a part of the next."""
    target = vta()
    a = te.placeholder((6, 1, 16), "int32", name="a")
    low = te.compute(a.shape, lambda *at: a(*at).astype("int8"), name="low")
    wide = te.compute(a.shape, lambda *at: low(*at).astype("int32"), name="wide")
    twice = te.compute(a.shape, lambda *at: wide(*at) * 2, name="twice")
    high = te.compute(a.shape, lambda *at: twice(*at).astype("int8"), name="high")
    last = te.compute(a.shape, lambda *at: high(*at).astype("int32"), name="last")
    end = te.compute(a.shape, lambda *at: last(*at).astype("int8"), name="end")
    s = te.create_schedule(end.op)
    for tensor in (wide, twice, last):
        s[tensor].set_scope("acc")
    s[s.cache_read(a, "acc", [low])].compute_at(s[low], low.op.axis[0])
    for tensor in (low, wide, twice):
        s[tensor].compute_at(s[high], high.op.axis[0])
    program = build(s, [a, end], target)
    assert [part.name for part in program.parts] == ["low+high", "end"]
    assert {part_of(program, r.insn) for r in program.relocations if r.symbol in ("a", "low")} == {"low+high"}
    given = {a: values(np.random.default_rng(0), a)}
    assert np.array_equal(execute(program, given, end), wrap(2 * wrap(given[a], 8), 8))


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize(("config", "blocks", "size"), [("tiny", 1, 4), ("tiny", 2, 6), ("default", 1, 8), ("default", 4, 14)])
def test_a_load_takes_one_token_of_a_queue(config, blocks, size, copies):
    """It waits for its place and, through the compute stage, for the layer before: for the later of the two. `build` checks."""
    target = vta(config, copies=copies)
    _, block = target.element("inp")
    data = te.placeholder((1, blocks, size, size, 1, block), "int8", name="data")
    kernels = [te.placeholder((blocks, blocks, k, k, block, block), "int8", name=f"weights{k}") for k in (1, 3)]
    first = Conv2d(target=target, data=data, weights=kernels[0], epilogue=Epilogue(shift=6), name="first")
    second = Conv2d(target=target, data=first.result, weights=kernels[1], pad=(1,) * 4, epilogue=Epilogue(shift=6), name="second")
    s = te.create_schedule(second.result.op)
    first.schedule(s)
    second.schedule(s)
    program = build(s, [data, *kernels, second.result], target)
    given = {tensor: values(np.random.default_rng(3), tensor) for tensor in (data, *kernels)}
    padded = np.pad(
        wrap(np.einsum("ncyxbk,ocjk->noyxbj", given[data], given[kernels[0]][:, :, 0, 0], dtype=np.int64) >> 6, 8),
        ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0), (0, 0)),
    )
    windows = [(padded[:, :, i:i + size, j:j + size], given[kernels[1]][:, :, i, j]) for i in range(3) for j in range(3)]
    sums = sum(np.einsum("ncyxbk,ocjk->noyxbj", *pair, dtype=np.int64) for pair in windows)
    for order in ORDERS:
        assert np.array_equal(execute(program, given, second.result, order=order), wrap(sums >> 6, 8))


def test_layers_in_one_program():
    """A convolution, a residual and a pooling, one after another in DRAM that only the device sees."""
    target = vta()
    data = te.placeholder((1, 2, 10, 10, 1, 16), "int8", name="data")
    kernels = [te.placeholder((2, 2, 3, 3, 16, 16), "int8", name=f"weights{i}") for i in range(2)]
    first = Conv2d(target=target, data=data, weights=kernels[0], pad=(1,) * 4, epilogue=Epilogue(shift=9, low=0), name="first")
    second = Conv2d(target=target, data=first.result, weights=kernels[1], pad=(1,) * 4,
                    epilogue=Epilogue(shift=9, add=data, low=0), name="second")
    pool = Pool2d(target=target, data=second.result, kernel=(2, 2), stride=(2, 2), name="pooled")
    s = te.create_schedule(pool.result.op)
    for layer in (first, second, pool):
        layer.schedule(s)
    inputs = [data, *kernels]
    program = build(s, [*inputs, pool.result], target)
    assert {buffer.name: buffer.kind.value for buffer in program.buffers} == {
        "data": "input", "weights0": "input", "weights1": "input", "pooled": "output", "scratch__": "scratch"}
    assert {r.value for r in program.relocations if r.symbol == "scratch__"} == {"first", "second"}
    assert [part.name for part in program.parts] == ["first", "second", "pooled"]
    text = [disasm(word, target.config) for word in program.insns]
    stores = {r.insn: r.value or r.symbol for r in program.relocations if text[r.insn].startswith("store")}
    assert {at: part_of(program, at) for at in stores} == stores
    assert {part_of(program, at) for at, line in enumerate(text) if line.startswith("gemm") and "reset" not in line} == {
        "first", "second"}
    rng = np.random.default_rng(2)
    given = {tensor: values(rng, tensor) for tensor in inputs}

    def conv(x, w, add=0):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0), (0, 0)))
        sums = sum(np.einsum("ncyxbk,ocjk->noyxbj", padded[:, :, i:i + 10, j:j + 10], w[:, :, i, j])
                   for i in range(3) for j in range(3))
        return wrap(np.maximum((sums >> 9) + add, 0), 8)
    x = conv(conv(given[data], given[kernels[0]]), given[kernels[1]], given[data])
    want = x.reshape(1, 2, 5, 2, 5, 2, 1, 16).max(axis=(3, 5))
    for order in ORDERS:
        assert np.array_equal(execute(program, given, pool.result, order=order), want)


def test_values_that_a_later_turn_reads_are_not_overwritten():
    """Row y of the result is made of row y and of all rows of what it is made of, which must stay until the last row is done."""
    target = vta()
    a = te.placeholder((4, 1, 16), "int32", name="a")
    k = te.reduce_axis((0, 4), name="k")
    moved = te.compute(a.shape, lambda y, i, j: a[y, i, j] * 3, name="moved")
    total = te.compute(a.shape, lambda y, i, j: te.sum(moved[k, i, j], axis=k), name="total")
    both = te.compute(a.shape, lambda y, i, j: moved[y, i, j] + total[y, i, j], name="both")
    out = te.compute(a.shape, lambda *at: both(*at).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    for tensor in (moved, total, both):
        s[tensor].set_scope("acc")
    s[s.cache_read(a, "acc", [moved])].compute_root()
    s[total].reorder(k, *total.op.axis)
    s[total].compute_at(s[both], both.op.axis[0])
    program = build(s, [a, out], target)
    given = {a: values(np.random.default_rng(5), a, -50, 50)}
    want = wrap(3 * given[a] + 3 * given[a].sum(axis=0), 8)
    assert np.array_equal(execute(program, given, out), want)
