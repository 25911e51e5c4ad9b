"""Transpositions in registers: the shuffles, the intrinsic on each level of x86 and on aarch64, its meaning, schedules."""

import re

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS
from codegen_machines import AARCH64, in_c
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels.transpose_kernels import KINDS, MEANING, transpose_32
from vtakit.compiler.codegen.llvm.kernels.transposes import transposed
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find
from vtakit.compiler.passes import lower_late

SIZES = [(16, 16), (16, 49), (33, 16), (40, 37), (1, 5), (3, 2), (5, 100), (17, 8), (8, 4)]


@pytest.mark.parametrize("side", [4, 8, 16, 32])
def test_shuffles_turn_lines_into_columns(side):
    lines = [[(i, j) for j in range(side)] for i in range(side)]
    count = 0

    def shuffle(a, b, lanes):
        nonlocal count
        count += 1
        return [[*a, *b][lane] for lane in lanes]
    assert transposed(lines, shuffle) == [[(i, j) for i in range(side)] for j in range(side)]
    assert count == side * (side.bit_length() - 1)


def tensorized(rows, columns, kind="float32"):
    A = te.placeholder((rows, columns), kind, name="A")
    B = te.compute((columns, rows), lambda j, i: A[i, j], name="B")
    s = te.create_schedule(B.op)
    s[B].tensorize(B.op.axis[0], transpose_32(kind, [rows], [columns], lda=columns, ldb=rows))
    return [A, B], s


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_matrix(sizes, kind, level):
    """And nothing is written behind the last column of the result."""
    a = np.random.default_rng(1).integers(0, 1 << 30, sizes).astype(kind)
    memory = np.full(a.size + 64, 77, kind)
    got = memory[:a.size].reshape(sizes[::-1])
    args, s = tensorized(*sizes, kind)
    vtakit.build(s, args, LEVELS[level])(a, got)
    np.testing.assert_array_equal(got, a.T)
    assert (memory[a.size:] == 77).all()


@pytest.mark.parametrize("sizes", [(3, 2), (5, 17)])
def test_the_meaning(sizes):
    a = np.random.default_rng(1).standard_normal(sizes, np.float32)
    got = np.full(sizes[::-1], 77, np.float32)
    args, s = tensorized(*sizes)
    interpret(lower(s, args), [a, got], packed=MEANING)
    np.testing.assert_array_equal(got, a.T)


@pytest.mark.parametrize(("level", "register"), [("plain", "xmm"), ("avx2", "ymm"), ("avx512", "zmm")])
def test_elements_move_in_registers(level, register):
    args, s = tensorized(48, 48)
    text = vtakit.build(s, args, LEVELS[level]).compiled.assembly
    assert re.search(rf"unpcklp[sd]\t.*%{register}|punpckl\w+\t.*%{register}", text)
    assert "gather" not in text


@pytest.mark.parametrize("sizes", [(9, 6), (3, 20)])
def test_a_matrix_on_aarch64(sizes, tmp_path):
    a = np.random.default_rng(1).standard_normal(sizes, np.float32)
    got = np.full(sizes[::-1], 77, np.float32)
    args, s = tensorized(*sizes)
    target = Target("aarch64-linux-gnu", threads=False)
    in_c(target, AARCH64, tmp_path)(lower_late(lower(s, args, "turn")), [a, got])
    np.testing.assert_array_equal(got, a.T)


def of_operator(name, shape, words, level=None):
    """(arguments, schedule, array for the result) of an operator by its default schedule."""
    x = te.placeholder(shape, name="x")
    y = find(name).define(x, **words)
    return [x, y], schedule([y], LEVELS.get(level)), np.full([size.value for size in y.shape], 77, np.float32)


OPERATORS = [
    ("block_channels", (2, 32, 5, 7), {"block": 16}, lambda a: a.reshape(2, 2, 16, 5, 7).transpose(0, 1, 3, 4, 2)),
    ("block_channels", (1, 16, 300, 1), {"block": 8}, lambda a: a.reshape(1, 2, 8, 300, 1).transpose(0, 1, 3, 4, 2)),
    ("block_channels", (2, 16, 9), {"block": 16}, lambda a: a.reshape(2, 1, 16, 9).transpose(0, 1, 3, 2)),
    ("block_channels", (1, 48, 40, 40), {"block": 16}, lambda a: a.reshape(1, 3, 16, 40, 40).transpose(0, 1, 3, 4, 2)),
    ("unblock_channels", (2, 2, 5, 7, 16), {"channels": 32}, lambda a: a.transpose(0, 1, 4, 2, 3).reshape(2, 32, 5, 7)),
    ("unblock_channels", (1, 2, 5, 7, 16), {"channels": 20}, lambda a: a.transpose(0, 1, 4, 2, 3).reshape(1, 32, 5, 7)[:, :20]),
    ("unblock_channels", (1, 1, 64, 64, 16), {"channels": 16}, lambda a: a.transpose(0, 1, 4, 2, 3).reshape(1, 16, 64, 64)),
    *(("transpose", shape, {"perm": perm}, lambda a, perm=perm: a.transpose(perm)) for shape, perm in (
        ((129, 130), (1, 0)), ((2, 3, 4), (0, 2, 1)), ((20, 3, 30), (2, 1, 0)), ((2, 5, 6, 7), (0, 2, 3, 1)),
        ((2, 5, 6, 7), (0, 3, 1, 2)), ((3, 4, 5, 6), (3, 0, 2, 1)), ((3, 4, 5, 6), (2, 3, 0, 1)), ((127, 300), (1, 0)))),
]


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize(("name", "shape", "words", "wanted"), OPERATORS)
def test_schedules_use_it(name, shape, words, wanted, level):
    a = np.random.default_rng(1).standard_normal(shape, np.float32)
    args, s, got = of_operator(name, shape, words, level)
    function = lower(s, args)
    assert "transpose_32" in str(function)
    np.testing.assert_array_equal(got.shape, wanted(a).shape)
    if level in HERE:
        vtakit.build(s, args, LEVELS[level])(a, got)
        np.testing.assert_array_equal(got, wanted(a))


@pytest.mark.parametrize(("name", "shape", "words"), [
    ("block_channels", (1, 20, 5, 5), {"block": 16}), ("unblock_channels", (1, 2, 5, 5, 16), {"channels": 18}),
    ("transpose", (1, 5, 1), {"perm": (2, 1, 0)}), ("transpose", (2, 3, 4), {"perm": (1, 0, 2)}),
])
def test_schedules_without_whole_blocks_or_lines(name, shape, words):
    args, s, _ = of_operator(name, shape, words)
    assert "transpose_32" not in str(lower(s, args))


def test_what_it_does_not_take():
    with raises(CodegenError, "transpose_32 of float64: it takes float32, int32, uint32"):
        transpose_32("float64", [4], [4], lda=4, ldb=4)
    with raises(CodegenError, "transpose_32 of [4] by [0]: give at least 1"):
        transpose_32("float32", [4], [0], lda=4, ldb=4)
