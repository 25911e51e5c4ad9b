"""Products and recurrent layers with matrices in panels, against NumPy and onnxruntime on the matrices as they were."""

import ml_dtypes
import numpy as np
import pytest
from nn_support import check, floats, onnx_run, placeholders, run, run_group
from support import raises

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.stmt import For, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.nn.product.panels import panels_of
from vtakit.compiler.nn.product.panels_cpu import panel_tile, row_tiles
from vtakit.compiler.nn.recurrent.recurrent_panels import gates_in_blocks, peepholes_in_blocks, recurrent_panels
from vtakit.runtime.cpu import openmp

WIDE, NARROW = Machine(), Machine(vector_bytes=32, vector_registers=16)
PRODUCTS = [  # rows, K, N, panel
    ((1,), 1, 1, 4), ((1,), 300, 64, 16), ((2,), 65, 17, 16), ((13,), 37, 53, 16), ((64,), 64, 64, 16), ((35,), 130, 100, 16),
    ((3, 1, 5), 20, 40, 8), ((77,), 9, 250, 16), ((100, 2), 5, 16, 16), ((2, 1000), 3, 7, 4),
]


@pytest.mark.parametrize(("rows", "depth", "columns", "panel"), PRODUCTS)
def test_a_product_with_panels(rows, depth, columns, panel):
    x, w = floats(*rows, depth), floats(depth, columns, seed=1)
    check(run("dense_panels", x, panels_of(w, panel), columns=columns), x @ w, atol=1e-4)


@pytest.mark.parametrize(("batch", "rows", "depth", "columns", "panel"), [
    ((3,), 1, 7, 17, 16), ((12,), 13, 65, 128, 16), ((2, 3), 5, 64, 250, 16), ((1,), 7, 9, 16, 8), ((2, 1), 35, 1, 3, 4),
])
def test_a_matrix_in_panels_for_each_matrix_of_rows(batch, rows, depth, columns, panel):
    x, w = floats(*batch, rows, depth), floats(*batch, depth, columns, seed=1)
    check(run("dense_panels", x, panels_of(w, panel), columns=columns), x @ w, atol=1e-4)


def rounded(w: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """To 16 bits, as they are kept and in float32; bfloat16 by integers: half of the lower 16 bits, ties to even."""
    if kind == "float16":
        return w.astype(np.float16), w.astype(np.float16).astype(np.float32)
    word = w.view(np.uint32)
    upper = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    return upper.astype(np.uint16).view(ml_dtypes.bfloat16), (upper << 16).view(np.float32)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "depth", "columns", "panel"), [((1,), 70, 33, 16), ((3, 5), 19, 40, 8)])
def test_panels_of_16_bits(rows, depth, columns, panel, kind):
    x = floats(*rows, depth)
    kept, exact = rounded(floats(depth, columns, seed=1), kind)
    check(run("dense_panels", x, panels_of(kept, panel), columns=columns), x @ exact, atol=1e-5)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_an_lstm_with_weights_of_16_bits(kind):
    """Its steps are those of float32 with the rounded weights."""
    inputs = floats(3, 2, 2 * 64)
    kept, exact = (recurrent_panels(w, 16) for w in rounded(floats(1, 80, 20, seed=1), kind))
    for one, other in zip(run("lstm_panels", inputs, kept), run("lstm_panels", inputs, exact), strict=True):
        check(one, other, atol=1e-6)


def test_what_follows_a_product_with_panels():
    x, w, b = floats(2, 9, 100), floats(100, 40, seed=1), floats(40, seed=2)
    inputs = [x, panels_of(w, 16), b]
    tensors = placeholders(tuple(inputs))
    product = find("dense_panels").define(*tensors[:2], columns=40)
    out = find("relu").define(find("add").define(product, tensors[2]))
    for how in ("default", "plain", "interpreter"):
        check(run_group(inputs, tensors, [out], how)[0], np.maximum(x @ w + b, 0), atol=1e-4)


def test_panels_hold_the_columns_in_order():
    found = panels_of(np.arange(15, dtype=np.float32).reshape(3, 5), 4)
    np.testing.assert_array_equal(found, [[[0, 1, 2, 3], [5, 6, 7, 8], [10, 11, 12, 13]],
                                          [[4, 0, 0, 0], [9, 0, 0, 0], [14, 0, 0, 0]]])


def test_operands_that_do_not_fit_a_product():
    define = find("dense_panels").define
    message = ("dense_panels: data (2, 8) and weights (3, 9, 16) do not make 40 columns: data has rows of K, and weights are "
               "panels [ceil(N / v), K, v], or such for each matrix of the data")
    with raises(OperatorError, message):
        define(*placeholders((floats(2, 8), floats(3, 9, 16))), columns=40)
    with raises(OperatorError, message.replace("(3, 9, 16)", "(3, 8, 16)").replace("40", "32")):
        define(*placeholders((floats(2, 8), floats(3, 8, 16))), columns=32)
    with raises(OperatorError, "dense_panels: data of float16 and weights of bfloat16: weights are of the data's type or, for "
                "float32, float16 or bfloat16"):
        define(*placeholders((floats(2, 8).astype(np.float16), floats(3, 8, 16).astype(ml_dtypes.bfloat16))), columns=48)
    with raises(OperatorError, message.replace("(2, 8)", "(9,)")):
        define(*placeholders((floats(9), floats(3, 9, 16))), columns=40)
    with raises(OperatorError, message.replace("(2, 8)", "(3, 2, 9)").replace("(3, 9, 16)", "(2, 3, 9, 16)")):
        define(*placeholders((floats(3, 2, 9), floats(2, 3, 9, 16))), columns=40)


LAYERS = [  # steps, batch, inputs, units, lanes, attributes, first states
    (5, 1, 7, 20, 16, {}, False),
    (3, 2, 20, 32, 16, {"direction": "reverse"}, True),
    (4, 9, 6, 5, 4, {"direction": "bidirectional"}, True),
    (1, 1, 8, 16, 16, {"clip": 0.5}, False),
    (6, 7, 3, 33, 8, {"activations": ["Sigmoid", "Relu", "Softsign"]}, True),
    (2, 3, 4, 4, 4, {"input_forget": True}, True),
]


@pytest.mark.parametrize(("steps", "batch", "size", "units", "lanes", "words", "first"), LAYERS)
def test_an_lstm_with_panels(steps, batch, size, units, lanes, words, first):
    count = 2 if words.get("direction") == "bidirectional" else 1
    x, w = floats(steps, batch, size), floats(count, 4 * units, size, seed=1) / 4
    r, b = floats(count, 4 * units, units, seed=2) / 4, floats(count, 8 * units, seed=3)
    states = [floats(count, batch, units, seed=4), floats(count, batch, units, seed=5)] if first else []
    given = [None, *states] if first else []
    onnx_words = {"input_forget": 1} if words.get("input_forget") else words
    want = onnx_run("LSTM", x, w, r, b, *given, outputs=3, hidden_size=units, **onnx_words)
    flat = gates_in_blocks(w, lanes).reshape(-1, size)
    inputs = x @ flat.T + gates_in_blocks(b[:, :4 * units] + b[:, 4 * units:], lanes).reshape(-1)
    got = run("lstm_panels", inputs.astype(np.float32), recurrent_panels(r, lanes), *states, **words)
    for one, other in zip(got, want, strict=True):
        check(one, other, atol=1e-5)


@pytest.mark.parametrize(("units", "wanted"), [(256, 1), (240, 0)])
def test_threads_share_out_the_panels_of_a_long_step(units, wanted):
    inputs, weight = floats(3, 1, 4 * units), floats(1, units // 16, units, 64, seed=1) / 16
    given = placeholders((inputs, weight))
    outputs = find("lstm_panels").define(*given)
    made = lower(schedule(outputs), [*given, *outputs])
    assert sum(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(made.body)) == wanted
    found = []
    for threads in (1, 2, 3):
        with openmp.Limit(threads):
            found.append(run("lstm_panels", inputs, weight))
    assert all(np.array_equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    check(found[0], run("lstm_panels", inputs, weight, how="plain"))


@pytest.mark.parametrize(("direction", "units", "words"), [
    ("forward", 17, {}), ("bidirectional", 16, {"clip": 0.5}), ("reverse", 3, {"input_forget": 1}),
])
def test_an_lstm_with_peepholes_in_panels(direction, units, words):
    count, lanes = 2 if direction == "bidirectional" else 1, 8
    x, w, r = floats(4, 3, 5), floats(count, 4 * units, 5, seed=1) / 4, floats(count, 4 * units, units, seed=2) / 4
    p, states = floats(count, 3 * units, seed=3), [floats(count, 3, units, seed=seed) for seed in (4, 5)]
    want = onnx_run("LSTM", x, w, r, None, None, *states, p, outputs=3, hidden_size=units, direction=direction, **words)
    inputs = x @ gates_in_blocks(w, lanes).reshape(-1, 5).T
    weights = recurrent_panels(r, lanes), *states, peepholes_in_blocks(p, lanes)
    got = run("lstm_panels", inputs, *weights, direction=direction, **words)
    for one, other in zip(got, want, strict=True):
        check(one, other, atol=1e-5)


def test_operands_that_do_not_fit_an_lstm():
    define = find("lstm_panels").define
    inputs, weight = floats(3, 1, 128), floats(1, 2, 20, 64)
    with raises(OperatorError, "lstm_panels (reverse): inputs (3, 1, 64) and weights (1, 2, 20, 64) do not fit: give [T, B, D * "
                "ceil(H / v) * 4 * v] and [D, ceil(H / v), H, 4 * v]"):
        define(*placeholders((floats(3, 1, 64), weight)), direction="reverse")
    with raises(OperatorError, "lstm_panels (bidirectional): inputs (3, 1, 128) and weights (1, 2, 20, 64) do not fit: give [T, "
                "B, D * ceil(H / v) * 4 * v] and [D, ceil(H / v), H, 4 * v]"):
        define(*placeholders((inputs, weight)), direction="bidirectional")
    with raises(OperatorError, "lstm_panels: a first state of (1, 2, 20): give (1, 1, 20)"):
        define(*placeholders((inputs, weight, floats(1, 2, 20))))
    with raises(OperatorError, "lstm_panels: peepholes of (1, 60): give (1, 3, 2, 16)"):
        define(*placeholders((inputs, weight)), p=placeholders((floats(1, 60),))[0])


def test_tiles_of_a_product():
    """Taller ones read panels less often."""
    assert panel_tile(1, 32, WIDE)[1:] == (1, 6)
    assert panel_tile(512, 32, WIDE)[1:] == (14, 2)
    assert panel_tile(512, 32, NARROW)[1:] == (6, 2)
    assert panel_tile(35, 164, WIDE)[1:] == (12, 2)
    assert panel_tile(13, 1, WIDE)[1:] == (13, 1)
    assert panel_tile(35, 164, WIDE, whole=True)[1:] == (7, 3)


def test_rows_of_several_axes():
    """Tiles leave nothing over along axes that are counted through as one, since that would have no loops of its own."""
    assert [row_tiles(lead, 625, WIDE)[0] for lead in ([35], [1, 35], [8, 128], [64, 2], [100, 1])] == [1, 1, 1, 2, 2]
    assert row_tiles([1, 35], 625, WIDE)[1] == panel_tile(35, 625, WIDE)
