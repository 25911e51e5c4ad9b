"""Layers of networks by their default schedules on one thread, beside onnxruntime.

    python benchmarks/cpu_operators.py [--repeat N] [--only TEXT] [--json FILE]

Each row has the least processor time of repeated runs of both, taken in turns, what the compiler took for the layer, and the
greatest difference of the two results. onnxruntime has one thread and weights that are constants, which it lays out beforehand.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # read when the first parallel loop runs

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import vtakit
from vtakit import te
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find


class Layer(NamedTuple):
    """A layer: the shapes of its operands, the first of which are data and the others weights; ours, and ONNX's nodes; a type."""

    name: str
    shapes: Sequence[tuple[int, ...]]
    make: Callable[..., te.Tensor]
    nodes: Sequence[onnx.NodeProto]
    flops: int
    data: int = 1
    kind: str = "float32"


def apply(name: str, *tensors: te.Tensor, **attributes: Any) -> te.Tensor:
    """One operator; of several results the first."""
    found = find(name).define(*tensors, **attributes)
    return found[0] if isinstance(found, tuple) else found


def conv(
    channels: int, size: int, filters: int, kernel: int, stride: int = 1, groups: int = 1, dtype: str = "float32",
) -> Layer:
    """A convolution of a square image with bias and relu."""
    pads, strides = (kernel // 2,) * 4, (stride, stride)
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    shapes = (1, channels, size, size), (filters, channels // groups, kernel, kernel), (filters,)
    kind = "depthwise" if groups == channels else "conv" if groups == 1 else f"conv of {groups} groups"
    name = f"{kind} {kernel}x{kernel}/{stride} {channels}x{size}x{size} to {filters}"
    return Layer(
        name if dtype == "float32" else f"{name}, {dtype}", shapes,
        lambda x, w, b: apply("relu", apply("add", apply("conv", x, w, pads=pads, strides=strides, groups=groups), apply(
            "reshape", b, shape=(filters, 1, 1)))),
        [helper.make_node("Conv", ["in0", "in1", "in2"], ["sum"], pads=pads, strides=strides, group=groups),
         helper.make_node("Relu", ["sum"], ["out"])],
        2 * filters * out * out * channels // groups * kernel * kernel, kind=dtype)


def simple(name: str, op: str, *shapes: tuple[int, ...], flops: int = 0, data: int = 1, **attributes: Any) -> Layer:
    """A layer of one operator, whose attributes are named alike."""
    onnx_names = {"groups": "group", "trans_b": "transB", "hidden": "hidden_size"}
    words = {onnx_names.get(key, key): value for key, value in attributes.items()}
    ours = {key: value for key, value in attributes.items() if key != "hidden"}
    node = helper.make_node(op, [f"in{at}" for at in range(len(shapes))], ["out"], **words)
    return Layer(f"{op} {' '.join('x'.join(map(str, shape)) for shape in shapes)}", shapes,
                 lambda *t: apply(name, *t, **ours), [node], flops, data)


LAYERS = [
    conv(3, 224, 64, 7, 2), conv(64, 56, 64, 1), conv(64, 56, 64, 3), conv(64, 56, 256, 1), conv(256, 56, 64, 1),
    conv(128, 56, 128, 3, 2), conv(256, 56, 512, 1, 2), conv(128, 28, 128, 3), conv(128, 28, 512, 1), conv(512, 28, 128, 1),
    conv(256, 14, 256, 3), conv(256, 14, 1024, 1), conv(1024, 14, 256, 1), conv(512, 7, 512, 3), conv(512, 7, 2048, 1),
    conv(2048, 7, 512, 1),
    conv(32, 112, 32, 3, 1, 32), conv(96, 112, 96, 3, 2, 96), conv(144, 56, 144, 3, 1, 144), conv(960, 7, 960, 3, 1, 960),
    conv(37, 31, 53, 3), conv(64, 28, 64, 3, 1, 4),
    conv(128, 28, 128, 3, dtype="float16"), conv(256, 14, 1024, 1, dtype="float16"),
    simple("conv_transpose", "ConvTranspose", (1, 256, 16, 16), (256, 128, 4, 4), strides=(2, 2), pads=(1,) * 4,
           flops=2 * 256 * 128 * 16 * 256),
    simple("gemm", "Gemm", (1, 2048), (1000, 2048), (1000,), trans_b=True, flops=2 * 2048 * 1000),
    simple("gemm", "Gemm", (64, 2048), (1000, 2048), (1000,), trans_b=True, flops=2 * 64 * 2048 * 1000),
    simple("matmul", "MatMul", (512, 512), (512, 512), flops=2 * 512**3, data=2),
    simple("matmul", "MatMul", (12, 128, 64), (12, 64, 128), flops=2 * 12 * 128 * 64 * 128, data=2),
    simple("lstm", "LSTM", (20, 1, 256), (1, 1024, 256), (1, 1024, 256), hidden=256, flops=2 * 20 * 1024 * 512),
    simple("max_pool", "MaxPool", (1, 64, 112, 112), kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4),
    simple("global_average_pool", "GlobalAveragePool", (1, 2048, 7, 7)),
    simple("average_pool", "AveragePool", (1, 64, 112, 112), kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4),
    simple("softmax", "Softmax", (128, 1000)),
    simple("argmax", "ArgMax", (128, 1000), axis=1),
    simple("reduce_mean", "ReduceMean", (64, 56, 56), axes=(1, 2)),
    simple("layer_norm", "LayerNormalization", (128, 768), (768,), (768,)),
    simple("add", "Add", (1, 256, 56, 56), (1, 256, 56, 56), data=2),
    simple("transpose", "Transpose", (1, 56, 56, 256), perm=(0, 3, 1, 2)),
]


def seconds(run: Callable[[], object]) -> float:
    """The processor's time for one run."""
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


def session(layer: Layer, arrays: Sequence[np.ndarray]) -> onnxruntime.InferenceSession:
    """onnxruntime's, with the weights as constants."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(layer.kind))
    inputs = [helper.make_tensor_value_info(f"in{at}", kind, a.shape) for at, a in enumerate(arrays[:layer.data])]
    constants = [onnx.numpy_helper.from_array(a, f"in{at}") for at, a in enumerate(arrays) if at >= layer.data]
    graph = helper.make_graph(layer.nodes, "layer", inputs, [onnx.ValueInfoProto(name="out")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def measure(layer: Layer, repeat: int) -> dict[str, float]:
    """Times in milliseconds, and the difference of the results."""
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(shape, np.float32) / 4).astype(layer.kind) for shape in layer.shapes]
    tensors = [te.placeholder(shape, layer.kind, name=f"in{at}") for at, shape in enumerate(layer.shapes)]
    begin = time.thread_time()
    out = layer.make(*tensors)
    function = vtakit.build(schedule([out]), [*tensors, out])
    compiled = time.thread_time() - begin
    result = np.empty([int_value(extent) or 0 for extent in out.shape], str(out.dtype))
    theirs = session(layer, arrays)
    feed = {f"in{at}": a for at, a in enumerate(arrays[:layer.data])}
    want = theirs.run(None, feed)[0]
    function(*arrays, result)
    ours = [(seconds(lambda: function(*arrays, result)), seconds(lambda: theirs.run(None, feed))) for _ in range(repeat)]
    best = [1000 * min(column) for column in zip(*ours, strict=True)]
    difference = float(np.abs(result.astype(float) - want).max())
    return {"ours_ms": best[0], "onnxruntime_ms": best[1], "compile_ms": 1000 * compiled, "difference": difference}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="runs of each layer (default 15)")
    parser.add_argument("--only", default="", metavar="TEXT", help="layers whose names have this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    given = parser.parse_args()
    chosen = [layer for layer in LAYERS if given.only in layer.name]
    width = max((len(layer.name) for layer in chosen), default=0)
    print(f"{'':{width}}{'ours ms':>10}{'GFLOP/s':>9}{'theirs ms':>11}{'ratio':>7}{'compile ms':>12}{'difference':>12}")
    found = {}
    for layer in chosen:
        row = found[layer.name] = measure(layer, given.repeat)
        rate = f"{layer.flops / row['ours_ms'] / 1e6:9.1f}" if layer.flops else " " * 9
        print(f"{layer.name:{width}}{row['ours_ms']:10.3f}{rate}{row['onnxruntime_ms']:11.3f}"
              f"{row['ours_ms'] / row['onnxruntime_ms']:7.2f}{row['compile_ms']:12.0f}{row['difference']:12.1e}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
