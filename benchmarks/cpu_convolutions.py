"""The convolutions of ResNet-18 and MobileNet by their default schedules on one thread, beside the peak and other runtimes.

    python benchmarks/cpu_convolutions.py [--repeat N] [--only TEXT] [--json FILE] [--cpu NAME] [--direct] [--peers NAME ...]

The layers are C1 to C12 and D1 to D9 of Chen et al., "TVM" (OSDI 2018), table 2, each with bias and relu. Ours have channels in
blocks, as inside a network; "alone" is the model of that one layer, data and result as images, as vtakit.compile makes it: what
others run too. The peak is what a loop of independent
multiply-adds by this compiler reaches. All take turns in one process, and the figures are medians of processor time, so that a
change of the machine's speed meets all alike; the share of the peak, and the ratios, are medians of a turn's own.
Operands are bound once, of ours as of the others', since inside a network nothing is between two layers; a turn begins with a run
that is not counted, so that each finds its own operands in the caches.

The form is the one that a network takes: direct, or Winograd's with tiles of 2 or 4 pixels a side. Its share of the peak counts
the operations of the direct form, so it may be above 1. The error is the greatest difference from float64 by the greatest result.

--direct leaves Winograd's form out.
--cpu   makes code for another processor whose instructions this one has: x86-64-v3 is one with AVX2. Others use what there is.
--peers onnxruntime and openvino by default; those that are not installed are left out, as all are by `--peers` alone.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # read when the first parallel loop runs

import cpu_matmul
import cpu_peers
import numpy as np
import onnx

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.conv.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.conv.winograd import winograd_weight
from vtakit.compiler.nn.conv.winograd_forms import Conv3x3, best_tile
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find
from vtakit.runtime.cpu.engine import Native
from vtakit.runtime.cpu.function import build
from vtakit.runtime.cpu.part import CpuPart

Run = Callable[[], Any]
FORMS = {0: "direct", 2: "F(2, 3)", 4: "F(4, 3)"}


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

    def tile(self, target: Target) -> int:
        """Of Winograd's form, if that is the fastest; 0 for the direct form."""
        if self.depthwise or self.kernel != 3 or self.stride != 1:
            return 0
        return best_tile(Conv3x3(1, self.channels, self.filters, self.out, self.out), machine_of(target))

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
    found = find(name).define(*tensors, **attributes)
    assert isinstance(found, te.Tensor)
    return found


def aligned(shape: Sequence[int]) -> np.ndarray:
    """Zeros that begin at a line of the cache, as a network's arena does."""
    size = 4 * prod(shape)
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size].view(np.float32).reshape(shape)


def in_blocks(layer: Layer, arrays: Sequence[np.ndarray], target: Target, *, tile: int = 0) -> Run:
    """A run of ours on data in blocks, by Winograd's form if it has a tile."""
    x, w, b = arrays
    lanes = machine_of(target).lanes(FLOAT32)
    plain = layer.channels < lanes
    weight = blocked_vectors(w[:, 0], lanes, 0) if layer.depthwise else blocked_weight(w, lanes, 1 if plain else lanes)
    weight = winograd_weight(weight, tile) if tile else weight
    given = [x if plain else blocked_vectors(x, lanes, 1), weight, blocked_vectors(b.reshape(1, -1, 1, 1), lanes, 1)]
    tensors = [te.placeholder(a.shape, name=f"in{at}") for at, a in enumerate(given)]
    name = "conv_winograd" if tile else "depthwise_blocked" if layer.depthwise else "conv_blocked"
    words = {} if tile else {"strides": (layer.stride,) * 2}
    out = apply("relu", apply("add", apply(name, *tensors[:2], pads=layer.pads, **words), tensors[2]))
    held = [aligned(a.shape) for a in given]
    for place, a in zip(held, given, strict=True):
        place[...] = a
    function = vtakit.build(schedule([out], target), [*tensors, out], target)
    return function.bound(*held, aligned([int_value(extent) or 0 for extent in out.shape]))


def alone(model: onnx.ModelProto, x: np.ndarray, out: np.ndarray, target: Target) -> Run:
    """A run of ours on one thread, of the model as vtakit.compile makes it, from an array to another."""
    image = vtakit.compile(model, target=target, cache=False).image
    (part,) = image.parts_of(CpuPart)
    return partial(Native(part, image, 1).run, [x.ctypes.data, out.ctypes.data])


def exact(layer: Layer, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The result in float64."""
    x, w, b = [a.astype(np.float64) for a in arrays]
    wide = np.pad(x[0], ((0, 0), *((layer.kernel // 2,) * 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (1, 2))[:, ::layer.stride, ::layer.stride]
    term = "kyxab,kab->kyx" if layer.depthwise else "cyxab,kcab->kyx"
    total: np.ndarray = np.einsum(term, windows, w[:, 0] if layer.depthwise else w, optimize=True)
    return np.maximum(total + b.reshape(-1, 1, 1), 0)[np.newaxis]


def model_of(layer: Layer, arrays: Sequence[np.ndarray]) -> onnx.ModelProto:
    """The layer as an ONNX model with constant weights."""
    groups = layer.channels if layer.depthwise else 1
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w", "b"], ["sum"], pads=layer.pads, strides=[layer.stride] * 2, group=groups),
        onnx.helper.make_node("Relu", ["sum"], ["y"]),
    ]
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, arrays[0].shape)]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, layer.filters, layer.out, layer.out))]
    constants = [onnx.numpy_helper.from_array(a, name) for a, name in zip(arrays[1:], "wb", strict=True)]
    graph = onnx.helper.make_graph(nodes, layer.name, inputs, outputs, constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


def peak_run(target: Target) -> tuple[Run, int]:
    """A run of the loop that measures the peak, and its operations."""
    lanes = machine_of(target).lanes(FLOAT32)
    sums = 3 * target.vector_registers // 4  # more than two multiply-adds a cycle can be under way at once
    function = build(cpu_matmul.peak(lanes, sums), target)
    run = function.bound(np.zeros(sums * lanes, np.float32), np.zeros(2 * lanes, np.float32))
    return run, 2 * sums * lanes * cpu_matmul.STEPS


def seconds(run: Run, times: int = 1) -> float:
    """The processor's time for one run of several, after one that is not counted."""
    run()
    begin = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - begin) / times


def measure(
    layer: Layer, target: Target, repeat: int, peers: Sequence[cpu_peers.Peer], *, direct: bool = False,
) -> dict[str, float]:
    """Medians in milliseconds, of ratios, the share of the peak, the difference from others' results, and the error."""
    tile = 0 if direct else layer.tile(target)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) / 4 for shape in layer.shapes]
    begin = time.thread_time()
    ours = in_blocks(layer, arrays, target, tile=tile)
    compiled = time.thread_time() - begin
    peak, operations = peak_run(target)
    want = exact(layer, arrays)
    x, result, out = aligned(arrays[0].shape), aligned(want.shape), aligned(want.shape)
    x[...] = arrays[0]
    model, names = model_of(layer, arrays), [peer.package for peer in peers]
    runs = {"peak": peak, "ours": ours, "alone": alone(model, x, result, target)}
    runs |= {peer.package: peer.bound(model, x, out) for peer in peers}
    runs["alone"]()
    error = float(np.abs(result - want).max() / np.abs(want).max())
    difference = 0.0
    for name in names:
        runs[name]()
        difference = max(difference, float(np.abs(result - out).max()))
    times = {name: 1 if name == "peak" else max(1, int(4e-3 / min(seconds(run), seconds(run)))) for name, run in runs.items()}
    turns = [{name: seconds(run, times[name]) for name, run in runs.items()} for _ in range(repeat)]
    found = {f"{name}_ms": 1000 * statistics.median(turn[name] for turn in turns) for name in runs if name != "peak"}
    rates = [(layer.flops / turn["ours"], operations / turn["peak"]) for turn in turns]
    found["gflops"] = statistics.median(rate for rate, _ in rates) / 1e9
    found["share_of_peak"] = statistics.median(rate / most for rate, most in rates)
    for name in names:
        found[f"{name}_by_ours"] = statistics.median(turn[name] / turn["ours"] for turn in turns)
    if peers:
        for what in ("ours", "alone"):
            found[f"fastest_by_{what}"] = statistics.median(min(turn[name] for name in names) / turn[what] for turn in turns)
    return found | {"compile_ms": 1000 * compiled, "difference": difference, "error": error, "tile": tile}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns of each layer (default 15)")
    parser.add_argument("--only", default=[""], nargs="+", metavar="TEXT", help="layers whose names begin with one of these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument("--cpu", default="", metavar="NAME", help="of PROCESSORS in compiler/codegen/llvm/target.py; this one")
    parser.add_argument("--direct", action="store_true", help="without Winograd's form")
    known = [peer.package for peer in cpu_peers.PEERS]
    parser.add_argument("--peers", nargs="*", choices=known, default=known, help="other runtimes (default all)")
    given = parser.parse_args()
    target = Target.host(cpu=given.cpu, features=()) if given.cpu else Target.host()
    peers = [peer for peer in cpu_peers.PEERS if peer.package in given.peers and peer.is_there]
    theirs = "".join(f"{peer.name + ' ms':>15}" for peer in peers)
    print(f"{'':5}{'ours ms':>9}{'GFLOP/s':>9}{'of peak':>8}{'alone ms':>10}" + theirs
          + f"{'theirs by ours':>16}{'by alone':>10}{'compile ms':>12}{'difference':>12}{'error':>9}  form")
    found, ratios = {}, []
    for layer in LAYERS:
        if not layer.name.startswith(tuple(given.only)):
            continue
        row = found[layer.name] = measure(layer, target, given.repeat, peers, direct=given.direct)
        ratios.append(row.get("fastest_by_ours", float("nan")))
        theirs = "".join(f"{row[f'{peer.package}_ms']:15.3f}" for peer in peers)
        shares = f"{ratios[-1]:16.2f}{row.get('fastest_by_alone', float('nan')):10.2f}"
        print(f"{layer.name:5}{row['ours_ms']:9.3f}{row['gflops']:9.1f}{row['share_of_peak']:8.0%}{row['alone_ms']:10.3f}{theirs}{shares}"
              f"{row['compile_ms']:12.0f}{row['difference']:12.1e}{row['error']:9.1e}  "
              + FORMS[int(row["tile"])], flush=True)
    if ratios and peers:
        print(f"geometric mean of the fastest other's time by ours: {statistics.geometric_mean(ratios):.2f}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
