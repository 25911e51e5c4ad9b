"""Operators that move elements, and those whose indices are data, against NumPy and onnxruntime."""

import numpy as np
import pytest
from nn_support import check, floats, integers, onnx_run, placeholders, run, run_group

from vtakit.compiler.nn.operators import find

X = floats(3, 5, 7)


def test_reshape_and_transpose():
    for shape in ((105,), (7, 15), (3, 1, 5, 1, 7), (5, 3, 7)):
        check(run("reshape", X, shape=shape), X.reshape(shape))
    check(run("reshape", floats(1, 1), shape=()), floats(1, 1).reshape(()))
    for perm in ((0, 2, 1), (2, 0, 1), None):
        check(run("transpose", X, perm=perm), X.transpose(perm))
    image = floats(1, 24, 40, 3)
    check(run("transpose", image, perm=(0, 3, 1, 2)), image.transpose(0, 3, 1, 2))


def test_expand_tile_and_concat():
    check(run("expand", floats(3, 1), shape=(2, 1, 6)), np.broadcast_to(floats(3, 1), (2, 3, 6)))
    check(run("tile", X, repeats=(1, 3, 2)), np.tile(X, (1, 3, 2)))
    parts = X, floats(3, 2, 7), floats(3, 0, 7), floats(3, 1, 7)
    check(run("concat", *parts, axis=1), np.concatenate(parts, 1))
    check(run("concat", X, X, axis=-1), np.concatenate([X, X], -1))
    check(run("concat", floats(0, 3), floats(0, 3), axis=0), floats(0, 3))


def test_split():
    check(run("split", X, axis=2, sizes=(2, 0, 4, 1)), tuple(np.split(X, [2, 2, 6], 2)))


@pytest.mark.parametrize(("starts", "ends", "axes", "steps", "want"), [
    ((1,), (3,), (1,), None, X[:, 1:3]),
    ((0, -2), (100, 100), (0, 2), (2, 1), X[::2, :, -2:]),
    ((-1, 5), (-100, 0), (1, 2), (-1, -2), X[:, ::-1, 5:0:-2]),
    ((2,), (1,), (0,), None, X[2:1]),
    ((1, 1, 1), (2, 4, 6), None, None, X[1:2, 1:4, 1:6]),
])
def test_slice(starts, ends, axes, steps, want):
    check(run("slice", X, starts=starts, ends=ends, axes=axes, steps=steps), want)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode):
    check(run("pad", X, pads=(0, 1, 2, 2, 0, 3), mode=mode), np.pad(X, ((0, 2), (1, 0), (2, 3)), mode))


def test_pads_of_a_value_and_negative_ones():
    value = np.array(1.5, np.float32)
    check(run("pad", X, value, pads=(0, 1, 2, 2, 0, 3)), np.pad(X, ((0, 2), (1, 0), (2, 3)), constant_values=1.5))
    check(run("pad", X, pads=(0, -1, 1, 0, 0, -2)), np.pad(X[:, 1:, :-2], ((0, 0), (0, 0), (1, 0))))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode):
    x = floats(2, 12, 3, 5)
    deep = onnx_run("DepthToSpace", x, blocksize=2, mode=mode)
    check(run("depth_to_space", x, blocksize=2, mode=mode), deep)
    check(run("space_to_depth", deep, blocksize=2, mode=mode), x)


def test_triangles_and_reversed_sequences():
    for k, upper in ((0, True), (1, True), (-2, False)):
        check(run("trilu", X, k=k, upper=upper), (np.triu if upper else np.tril)(X, k))
    lengths = np.array([1, 5, 3, 7, 2], np.int64)
    x = floats(7, 5, 2)
    check(run("reverse_sequence", x, lengths), onnx_run("ReverseSequence", x, lengths, opset=17))


def test_gather():
    indices = np.array([[0, -1], [2, -7]])
    check(run("gather", X, indices, axis=2), X.take(indices, 2))
    check(run("gather", X, np.array(1), axis=0), X[1])
    elements = integers(-5, 5, (3, 2, 7), "int64")
    check(run("gather_elements", X, elements, axis=1), onnx_run("GatherElements", X, elements, axis=1))
    pairs = np.array([[[0, 1], [2, -1]], [[1, 4], [0, 0]]])
    check(run("gather_nd", X, pairs), onnx_run("GatherND", X, pairs))
    rows = np.array([[1], [4], [0]])
    check(run("gather_nd", X, rows, batch_dims=1), onnx_run("GatherND", X, rows, batch_dims=1))


def test_an_index_outside_is_taken_inside():
    """Memory that is not the tensor's is not read, whatever the data say."""
    check(run("gather", X[0, 0], np.array([100, -100, 3])), X[0, 0][[6, 0, 3]])


def test_one_hot():
    values = np.array([2, 5], np.float32)
    indices = np.array([[1, -1], [0, 9]])
    for axis in (-1, 0, 1):
        check(run("one_hot", indices, values, depth=4, axis=axis), onnx_run("OneHot", indices, np.array(4), values, axis=axis))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(reduction):
    x, updates = floats(4, 5), floats(2, 5, seed=1)
    indices = np.array([[0, 1, 2, 3, -1], [1, 2, 0, 0, 0]])
    check(run("scatter_elements", x, indices, updates, reduction=reduction),
          onnx_run("ScatterElements", x, indices, updates, reduction=reduction))
    rows = np.array([[3], [0]])
    check(run("scatter_nd", x, rows, updates, reduction=reduction), onnx_run("ScatterND", x, rows, updates, reduction=reduction))


@pytest.mark.parametrize("largest", [True, False])
def test_top_k_takes_the_first_of_equal_ones(largest):
    x = integers(0, 4, (3, 9, 2), "int32").astype(np.float32)
    k = np.array([5])
    check(run("top_k", x, k=5, axis=1, largest=largest), onnx_run("TopK", x, k, outputs=2, axis=1, largest=int(largest)))


def test_many_tensors_after_one_another():
    """More than an expression chooses among, one of them twice, one empty, rows longer than a vector."""
    for axis, shapes in ((1, [(2, n % 3, 70) for n in range(12)]), (2, [(2, 3, n) for n in (1, 64, 65, 5, 130, 2)])):
        arrays = [floats(*shape, seed=at) for at, shape in enumerate(shapes)]
        given = placeholders(tuple(arrays))
        order = [*range(len(shapes)), 1]
        made = find("concat").define(*[given[at] for at in order], axis=axis)
        (got,) = run_group(arrays, given, [made])
        np.testing.assert_array_equal(got, np.concatenate([arrays[at] for at in order], axis))


def test_three_hundred_tensors_after_one_another():
    arrays = [floats(1, 3, seed=at) for at in range(300)]
    np.testing.assert_array_equal(run("concat", *arrays, axis=0), np.concatenate(arrays))
