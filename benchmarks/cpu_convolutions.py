"""The convolutions of ResNet-18 and MobileNet by their default schedules on one thread, beside the core's peak and onnxruntime.

    python benchmarks/cpu_convolutions.py [--repeat N] [--only TEXT] [--json FILE] [--alone]

The layers are C1 to C12 and D1 to D9 of Chen et al., "TVM" (OSDI 2018), table 2, each with bias and relu. Ours have channels in
blocks, as inside a network; "moved" is one with the change of layout of its data and result. The peak is what a loop of
independent multiply-adds by this compiler reaches. All take turns in one process, and the figures are medians of processor time,
so that a change of the machine's speed meets all alike; the share of the peak is the median of shares of a turn's own peak.

--alone leaves onnxruntime out, which then need not be installed.
"""

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # read when the first parallel loop runs

import cpu_matmul
import numpy as np

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find

Run = Callable[[], Any]
SUMS = 24  # of the loop that measures the peak: more than two multiply-adds a cycle can be under way at once


class Layer(NamedTuple):
    """A convolution of a square image with as many pixels of padding as keep its size."""

    name: str
    size: int
    channels: int
    filters: int
    kernel: int
    stride: int
    depthwise: bool = False

    @property
    def pads(self) -> tuple[int, ...]:
        """In front of both dimensions, then behind."""
        return (self.kernel // 2,) * 4

    @property
    def out(self) -> int:
        """Pixels of a side of the result."""
        return (self.size - 1) // self.stride + 1

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the data, the weights and the bias."""
        depth = 1 if self.depthwise else self.channels
        data, weights = (1, self.channels, self.size, self.size), (self.filters, depth, self.kernel, self.kernel)
        return data, weights, (self.filters,)

    @property
    def flops(self) -> int:
        """Twice its multiply-adds."""
        return 2 * self.out**2 * prod(self.shapes[1])


LAYERS = (
    Layer("C1", 224, 3, 64, 7, 2), Layer("C2", 56, 64, 64, 3, 1), Layer("C3", 56, 64, 64, 1, 1), Layer("C4", 56, 64, 128, 3, 2),
    Layer("C5", 56, 64, 128, 1, 2), Layer("C6", 28, 128, 128, 3, 1), Layer("C7", 28, 128, 256, 3, 2),
    Layer("C8", 28, 128, 256, 1, 2), Layer("C9", 14, 256, 256, 3, 1), Layer("C10", 14, 256, 512, 3, 2),
    Layer("C11", 14, 256, 512, 1, 2), Layer("C12", 7, 512, 512, 3, 1),
    *(Layer(f"D{at}", size, channels, channels, 3, stride, True) for at, (size, channels, stride) in enumerate((
        (112, 32, 1), (112, 64, 2), (56, 128, 1), (56, 128, 2), (28, 256, 1), (28, 256, 2), (14, 512, 1), (14, 512, 2),
        (7, 1024, 1)), 1)),
)


def apply(name: str, *tensors: te.Tensor, **attributes: Any) -> te.Tensor:
    """One operator of one result."""
    found: te.Tensor = find(name).define(*tensors, **attributes)
    return found


def aligned(shape: Sequence[int]) -> np.ndarray:
    """Zeros that begin at a line of the cache, as a network's arena does."""
    size = 4 * prod(shape)
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size].view(np.float32).reshape(shape)


def prepared(layer: Layer, arrays: Sequence[np.ndarray], lanes: int, *, moved: bool) -> tuple[Run, np.ndarray]:
    """A run of ours, and where it writes; `moved` for data and result that are not in blocks."""
    x, w, b = arrays
    plain = layer.channels < lanes
    weight = blocked_vectors(w[:, 0], lanes, 0) if layer.depthwise else blocked_weight(w, lanes, 1 if plain else lanes)
    data = x if moved or plain else blocked_vectors(x, lanes, 1)
    given = [data, weight, blocked_vectors(b.reshape(1, -1, 1, 1), lanes, 1)]
    tensors = [te.placeholder(a.shape, name=f"in{at}") for at, a in enumerate(given)]
    steps: list[tuple[list[te.Tensor], te.Tensor]] = []
    source = tensors[0]
    if moved and not plain:
        steps.append(([source], apply("block_channels", source, block=lanes)))
        source = te.placeholder(steps[-1][1].shape, name="blocked")
    out = apply("depthwise_blocked" if layer.depthwise else "conv_blocked", source, tensors[1], pads=layer.pads,
                strides=(layer.stride,) * 2)
    out = apply("relu", apply("add", out, tensors[2]))
    steps.append(([source, *tensors[1:]], out))
    if moved:
        source = te.placeholder(out.shape, name="result")
        steps.append(([source], apply("unblock_channels", source, channels=layer.filters)))
    held: list[np.ndarray] = []
    for a in given:
        held.append(aligned(a.shape))
        held[-1][...] = a
    runs: list[tuple[Any, list[np.ndarray]]] = []
    last = held[0]
    for inputs, made in steps:
        result = aligned([extent.value for extent in made.shape])
        runs.append((vtakit.build(schedule([made]), [*inputs, made]), [last, *held[1:] * (len(inputs) > 1), result]))
        last = result

    def run() -> None:
        for function, operands in runs:
            function(*operands)
    return run, last


def onnxruntime_run(layer: Layer, arrays: Sequence[np.ndarray]) -> Run:
    """A run of onnxruntime's, on one thread, with constant weights."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    groups = layer.channels if layer.depthwise else 1
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w", "b"], ["sum"], pads=layer.pads, strides=[layer.stride] * 2, group=groups),
        onnx.helper.make_node("Relu", ["sum"], ["y"]),
    ]
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, arrays[0].shape)]
    constants = [onnx.numpy_helper.from_array(a, name) for a, name in zip(arrays[1:], "wb", strict=True)]
    graph = onnx.helper.make_graph(nodes, layer.name, inputs, [onnx.ValueInfoProto(name="y")], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": arrays[0]})[0]


def peak_run(lanes: int) -> tuple[Run, int]:
    """A run of the loop that measures the peak, and its operations."""
    function = cpu_matmul.build(cpu_matmul.peak(lanes, SUMS))
    sums, given = np.zeros(SUMS * lanes, np.float32), np.zeros(2 * lanes, np.float32)
    return lambda: function(sums, given), 2 * SUMS * lanes * cpu_matmul.STEPS


def seconds(run: Run, times: int = 1) -> float:
    """The processor's time for one run of several."""
    begin = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - begin) / times


def measure(layer: Layer, lanes: int, repeat: int, *, alone: bool) -> dict[str, float]:
    """Medians in milliseconds, the share of the peak, and the difference of the results."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) / 4 for shape in layer.shapes]
    begin = time.thread_time()
    ours, _ = prepared(layer, arrays, lanes, moved=False)
    compiled = time.thread_time() - begin
    moved, result = prepared(layer, arrays, lanes, moved=True)
    peak, operations = peak_run(lanes)
    runs = {"peak": peak, "ours": ours, "moved": moved} | ({} if alone else {"onnxruntime": onnxruntime_run(layer, arrays)})
    moved()
    difference = 0.0 if alone else float(np.abs(result - runs["onnxruntime"]()).max())
    times = {name: 1 if name == "peak" else max(1, int(2e-3 / min(seconds(run), seconds(run)))) for name, run in runs.items()}
    turns = [{name: seconds(run, times[name]) for name, run in runs.items()} for _ in range(repeat)]
    found = {f"{name}_ms": 1000 * statistics.median(turn[name] for turn in turns) for name in runs if name != "peak"}
    rates = [(layer.flops / turn["ours"], operations / turn["peak"]) for turn in turns]
    found["gflops"] = statistics.median(rate for rate, _ in rates) / 1e9
    found["share_of_peak"] = statistics.median(rate / most for rate, most in rates)
    return found | {"compile_ms": 1000 * compiled, "difference": difference}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns of each layer (default 15)")
    parser.add_argument("--only", default="", metavar="TEXT", help="layers whose names begin with this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument("--alone", action="store_true", help="without onnxruntime")
    given = parser.parse_args()
    lanes = Machine.of(Target.host()).lanes(FLOAT32)
    print(f"{'':5}{'ours ms':>10}{'GFLOP/s':>9}{'of peak':>9}{'moved ms':>10}{'theirs ms':>11}{'ratio':>7}{'moved':>7}"
          f"{'compile ms':>12}{'difference':>12}")
    found, ratios = {}, []
    for layer in LAYERS:
        if not layer.name.startswith(given.only):
            continue
        row = found[layer.name] = measure(layer, lanes, given.repeat, alone=given.alone)
        theirs = row.get("onnxruntime_ms", float("nan"))
        ratios.append(theirs / row["ours_ms"])
        print(f"{layer.name:5}{row['ours_ms']:10.3f}{row['gflops']:9.1f}{row['share_of_peak']:9.0%}{row['moved_ms']:10.3f}"
              f"{theirs:11.3f}{theirs / row['ours_ms']:7.2f}{theirs / row['moved_ms']:7.2f}{row['compile_ms']:12.0f}"
              f"{row['difference']:12.1e}", flush=True)
    if ratios and not given.alone:
        print(f"geometric mean of onnxruntime's time by ours: {statistics.geometric_mean(ratios):.2f}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
