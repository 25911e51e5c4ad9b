"""Products of rows of bytes with matrices in panels, against NumPy, by the machine code of each level and by the interpreter."""

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS
from nn_support import run
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.kernels import dot_kernels, tile_kernels
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.nn.product.byte_panels import MOST_ROWS, byte_panels, even
from vtakit.compiler.schedule.decisions import Decisions

PRODUCTS = [  # rows, K, N
    ((1,), 1, 1), ((1,), 300, 64), ((2,), 65, 17), ((13,), 37, 53), ((64,), 64, 64), ((35,), 130, 100), ((1, 15, 1), 20, 40),
    ((77,), 9, 250), ((197,), 192, 33), ((1, 33), 72, 31), ((1,), 4, 300),
]
MEANING = {**dot_kernels.MEANING, **tile_kernels.MEANING}


def operands(lead, depth, columns, kind, seed=0):
    """(rows, weights, wanted sums), the extremes among them."""
    rng = np.random.default_rng(seed)
    low = -128 if kind == "int8" else 0
    x = rng.integers(low, low + 256, (*lead, depth)).astype(kind)
    w = rng.integers(-128, 128, (depth, columns)).astype(np.int8)
    x.flat[0], w.flat[0] = low + 255, -128
    return x, w, (x.astype(np.int64) - low) @ w.astype(np.int64)


def made_of(x, w, target=None, decisions=None):
    """(the arguments, a schedule, arrays for them)."""
    panels = byte_panels(w)
    args = [te.placeholder(x.shape, str(x.dtype)), te.placeholder(panels.shape, "int8")]
    out = find("dense_bytes").define(*args, columns=w.shape[1])
    return [*args, out], schedule([out], target, decisions), [x, panels, np.full((*x.shape[:-1], w.shape[1]), 77, np.int32)]


@pytest.mark.parametrize(("level", "lead", "depth", "columns"), [
    (level, *shape) for level in HERE for shape in (PRODUCTS if level in ("amx", "avx512-vnni") else PRODUCTS[1::4])])
def test_a_product(level, lead, depth, columns):
    for kind in ("uint8", "int8"):
        x, w, want = operands(lead, depth, columns, kind)
        args, s, arrays = made_of(x, w, LEVELS[level])
        vtakit.build(s, args, LEVELS[level])(*arrays)
        np.testing.assert_array_equal(arrays[-1], want)


@pytest.mark.parametrize("seed", range(6))
def test_random_shapes_and_decisions(seed):
    rng = np.random.default_rng(seed)
    level = HERE[rng.integers(len(HERE))]
    rows, depth, columns = (int(rng.integers(1, most)) for most in (70, 150, 90))
    x, w, want = operands((rows,), depth, columns, ("uint8", "int8")[seed % 2], seed)
    for _ in range(4):
        decided = Decisions(pick=lambda name, candidates, default: candidates[rng.integers(len(candidates))])
        args, s, arrays = made_of(x, w, LEVELS[level], decided)
        vtakit.build(s, args, LEVELS[level])(*arrays)
        np.testing.assert_array_equal(arrays[-1], want, err_msg=f"{level} {decided.made}")


@pytest.mark.parametrize("level", ["avx512-vnni", "amx"])
def test_the_meaning_of_a_product(level):
    x, w, want = operands((18,), 40, 21, "int8")
    args, s, arrays = made_of(x, w, LEVELS[level])
    interpret(lower(s, args), arrays, packed=MEANING)
    np.testing.assert_array_equal(arrays[-1], want)


@pytest.mark.parametrize(("level", "instruction"), [("avx2", "vpmaddwd"), ("avx512-vnni", "vpdpbusd"), ("amx", "tdpbusd")])
def test_the_instructions(level, instruction):
    x, w, _ = operands((64,), 128, 64, "uint8")
    args, s, _ = made_of(x, w, LEVELS[level])
    assert instruction in vtakit.build(s, args, LEVELS[level]).compiled.assembly


def test_a_matrix_without_columns_beside_its_own():
    """Equal parts leave less over than whole ones would."""
    assert [even(197, MOST_ROWS), even(33, MOST_ROWS), even(32, MOST_ROWS), even(5, MOST_ROWS)] == [29, 17, 32, 5]
    assert byte_panels(np.ones((72, 40), np.int8)).shape == (2, 18, 32, 4)
    assert byte_panels(np.ones((65, 17), np.int8)).shape == (2, 18, 16, 4)


def test_what_does_not_fit():
    x, panels = np.zeros((2, 8), np.uint8), byte_panels(np.zeros((8, 20), np.int8))
    with raises(OperatorError, "dense_bytes of float32 by int8: give uint8 or int8 rows, and int8 weights"):
        run("dense_bytes", x.astype(np.float32), panels, columns=20)
    for data, columns in ((np.zeros((2, 9), np.uint8), 20), (x, 33), (np.zeros((2, 2, 8), np.uint8), 20)):
        message = f"dense_bytes: data {data.shape} and weights {panels.shape} do not make {columns} columns: … "
        with raises(OperatorError, message):
            run("dense_bytes", data, panels, columns=columns)
