"""The default schedule of groups of operators: what is fused, what stays apart, and that nothing changes the result."""

import numpy as np
import pytest
from nn_support import check, floats, placeholders, rng, run_group

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.cpu.tiles import pieces, product_tile
from vtakit.compiler.nn.operators import find
from vtakit.compiler.passes import lower_late


def apply(name, *tensors, **attributes):
    return find(name).define(*tensors, **attributes)


def convolution(pads=(1, 1, 1, 1), groups=1, kernel=3, channels=8, size=13, images=1):
    """Data, weights, a bias and the sum of the convolution and the bias, as arrays, tensors, and that sum."""
    arrays = [floats(images, channels, size, size), floats(channels, channels // groups, kernel, kernel, seed=1) / 4,
              floats(channels, 1, 1, seed=2)]
    x, w, b = tensors = placeholders(tuple(arrays))
    return arrays, tensors, apply("add", apply("conv", x, w, pads=pads, groups=groups), b)


def top_loops(outputs, tensors):
    """The loops that nothing is around, in order, and the buffers that are allocated around them."""
    body = vtakit.lower(schedule(outputs), [*tensors, *outputs]).body
    loops, buffers = [], []
    while isinstance(body, st.Allocate | st.Seq):
        if isinstance(body, st.Allocate):
            buffers.append(body.buffer.name)
            body = body.body
            continue
        loops += [s for s in body.stmts[:-1] if isinstance(s, st.For)]
        body = body.stmts[-1]
    return [*loops, body], buffers


def compare(arrays, tensors, outputs, **tolerance):
    check(tuple(run_group(arrays, tensors, outputs)), tuple(run_group(arrays, tensors, outputs, "plain")), **tolerance)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_what_follows_a_convolution_is_done_to_each_tile(target):
    _, tensors, total = convolution()
    more = placeholders((floats(1, 8, 13, 13),))
    out = apply("relu", apply("add", apply("mul", total, apply("sigmoid", total)), more[0]))
    loops = vtakit.lower(schedule([out], Target("x86_64-unknown-linux-gnu", target)), [*tensors, *more, out])
    written = {s.buffer.name for s in statements(loops.body) if isinstance(s, st.Allocate)}
    assert written == {"padded", "columns", "sums"}
    tile = next(s.buffer for s in statements(loops.body) if isinstance(s, st.Allocate) and s.buffer.name == "sums")
    assert tile.scope == "local"
    height, width = product_tile(machine_of(Target("x86_64-unknown-linux-gnu", target)), 8, 169, out.dtype)
    assert [e.value for e in tile.shape] == [1, height, width]


def test_what_reads_a_convolution_in_another_way_is_computed_after_it():
    arrays, tensors, total = convolution()
    moved = apply("transpose", apply("relu", total), perm=(0, 2, 3, 1))
    compare(arrays, tensors, [moved], atol=1e-4)
    compare(arrays, tensors, [total, apply("relu", total)], atol=1e-4)
    compare(arrays, tensors, [apply("reduce_sum", total, axes=(2, 3))], atol=1e-3)
    compare(arrays, tensors, [apply("conv", apply("relu", total), tensors[1])], atol=1e-3)


def test_what_is_before_a_convolution_is_read_through():
    arrays, tensors, _ = convolution()
    half = apply("mul", apply("cast", apply("cast", tensors[0], to="int8"), to="float32"), tensors[2])
    out = apply("relu", apply("conv", half, tensors[1], pads=(1, 1, 1, 1)))
    compare(arrays, tensors, [out], atol=1e-4)
    assert top_loops([out], tensors)[1] == ["padded", "columns"]


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (2, 16), (3, 17), (5, 64), (2, 100), (33, 33)])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_any_size_with_what_follows(shape, groups):
    size = shape
    arrays = [floats(2, 6, *size), floats(10, 6 // groups, 1, 1, seed=1), floats(10, 1, 1, seed=2)]
    x, w, b = tensors = placeholders(tuple(arrays))
    compare(arrays, tensors, [apply("relu", apply("add", apply("conv", x, w, groups=groups), b))], atol=1e-4)


def test_two_products_in_one_group():
    arrays = [floats(20, 30), floats(30, 40, seed=1), floats(40, 25, seed=2)]
    tensors = placeholders(tuple(arrays))
    first = apply("relu", apply("matmul", *tensors[:2]))
    compare(arrays, tensors, [apply("tanh", apply("matmul", first, tensors[2]))], atol=1e-4)


def test_what_is_dear_and_read_often_is_computed_once():
    arrays = [floats(40, 50)]
    tensors = placeholders(tuple(arrays))
    dear = apply("exp", tensors[0])
    loops, buffers = top_loops([apply("reduce_sum", dear, axes=(1,)), apply("mul", dear, dear)], tensors)
    assert buffers == ["exp"]
    assert len(loops) == 3
    assert top_loops([apply("add", dear, tensors[0])], tensors)[1] == []


def test_a_chain_of_doublings_stays_small():
    x = te.placeholder((8,), name="x")
    e = x
    for _ in range(30):
        e = apply("add", e, e)
    check(run_group([np.ones(8, np.float32)], [x], [e])[0], np.full(8, 2.0**30, np.float32))


UNARY = "relu", "tanh", "neg", "abs", "sigmoid"


def random_group(seed):
    """A few operators of random kinds, each reading what is there already; one or two outputs."""
    r = rng(seed)
    shape = tuple(int(n) for n in r.integers(1, 20, 4))
    depth = shape[1]
    arrays = [floats(*shape, seed=seed), floats(depth, 1, 1, seed=seed + 1), floats(depth, depth, 3, 3, seed=seed + 2) / 4]
    tensors = placeholders(tuple(arrays))
    there = [tensors[0], apply("add", tensors[0], tensors[1])]
    for _ in range(int(r.integers(2, 7))):
        x, y = (there[int(at)] for at in r.integers(0, len(there), 2))
        kind = int(r.integers(0, 9))
        if kind < 3:
            made = apply(UNARY[int(r.integers(len(UNARY)))], x)
        elif kind < 5:
            made = apply("add" if kind == 3 else "mul", x, y)
        elif kind == 5:
            made = apply("conv", x, tensors[2], pads=(1, 1, 1, 1))
        elif kind == 6:
            made = apply("sub", x, apply("reduce_mean", x, axes=(int(r.integers(1, 4)),)))
        elif kind == 7:
            made = apply("softmax", x, axis=int(r.integers(1, 4)))
        else:
            made = apply("max_pool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
        there.append(made)
    return arrays, tensors, there[-1:] if seed % 2 else [there[-1], there[2]]


@pytest.mark.parametrize("seed", range(24))
def test_random_groups(seed):
    arrays, tensors, outputs = random_group(seed)
    outputs = list(dict.fromkeys(outputs))
    compare(arrays, tensors, outputs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "attributes"), [
    ("conv", {"pads": (1, 1, 1, 1)}), ("conv", {"pads": (1, 1, 1, 1), "strides": (2, 1)}), ("conv", {"groups": 2}),
    ("conv_transpose", {"strides": (2, 2)}),
])
def test_by_the_interpreter(name, attributes):
    """The slow definition of the loops gives what the machine does."""
    depth = 4 // attributes.get("groups", 1)
    arrays = [floats(1, 4, 5, 6), floats(4, depth, 3, 3, seed=1)]
    tensors = placeholders(tuple(arrays))
    out = apply(name, *tensors, **attributes)
    check(run_group(arrays, tensors, [out], "interpreter")[0], run_group(arrays, tensors, [out])[0])


@pytest.mark.parametrize(("rows", "columns"), [(64, 3136), (256, 196), (512, 49), (1, 1000), (3, 7), (53, 899), (7, 1)])
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_tiles_fit_the_registers(rows, columns, cpu):
    machine = machine_of(Target("x86_64-unknown-linux-gnu", cpu))
    kind = te.placeholder((1,)).dtype
    for alike in (False, True):
        height, width = product_tile(machine, rows, columns, kind, alike=alike)
        vectors = pieces(width, machine.lanes(kind))
        assert height <= rows
        assert height * vectors + vectors + 1 <= machine.vector_registers


def test_a_bias_within_a_chain_keeps_its_own_loop():
    """Loops over pixels run along rows: no quotient of a place stands within them, as it would in one loop over all."""
    tensors = placeholders((floats(1, 6, 20, 30), floats(6, 1, 1)))
    out = apply("relu", apply("neg", apply("add", *tensors)))
    assert "//" not in str(lower_late(vtakit.lower(schedule([out]), [*tensors, out])))
