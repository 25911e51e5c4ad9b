"""Cost of a run of a module with open sizes beside one that is compiled for its sizes alone, and of a trip of a loop.

    python benchmarks/open_sizes.py [--repeat N]

prints medians of runs in turn, in microseconds of processor time: a small network, where overhead alone counts; and a loop of
200 trips, with onnxruntime beside it.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import vtakit

TRIPS = 200


def network() -> onnx.ModelProto:
    """Return a product of matrices of open sizes, with a relu."""
    weights = numpy_helper.from_array(np.full((16, 8), 0.5, np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "n", size]) for name, size in (("x", 16), ("y", 8))]
    return _model(helper.make_graph(nodes, "net", ports[:1], ports[1:], [weights]))


def loop() -> onnx.ModelProto:
    """Return a loop that applies tanh to eight numbers as often as an input says."""
    def info(name: str, kind: int, shape: Sequence[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)
    nodes = [helper.make_node("Tanh", ["v"], ["w"]), helper.make_node("Identity", ["c"], ["c2"])]
    body = helper.make_graph(
        nodes, "body", [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [8])],
        [info("c2", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [8])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], "loop",
        [info("x", TensorProto.FLOAT, [8]), info("n", TensorProto.INT64, [])], [info("y", TensorProto.FLOAT, [8])])
    return _model(graph)


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def medians(runs: Sequence[Callable[[], object]], repeat: int, count: int) -> list[float]:
    """Return the median time of a run of each, in microseconds; they take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeat):
        for run, found in zip(runs, times, strict=True):
            begin = time.thread_time()
            for _ in range(count):
                run()
            found.append((time.thread_time() - begin) / count * 1e6)
    return [statistics.median(found) for found in times]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=31, metavar="N")
    args = parser.parse_args()
    x = {"x": np.ones((1, 3, 16), np.float32)}
    opened, fixed = vtakit.compile(network()), vtakit.compile(network(), shapes={"x": (1, 3, 16)})
    a, b = medians([lambda: opened.run(x), lambda: fixed.run(x)], args.repeat, 200)
    print(f"a run: {a:.1f} µs with open sizes, {b:.1f} µs compiled for its sizes alone")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    inputs = {"x": np.ones(8, np.float32), "n": np.array(TRIPS)}
    module, session = vtakit.compile(loop()), onnxruntime.InferenceSession(loop().SerializeToString(), options)
    a, b = medians([lambda: module.run(inputs), lambda: session.run(None, inputs)], args.repeat, 2)
    print(f"a trip of a loop: {a / TRIPS:.1f} µs, onnxruntime {b / TRIPS:.1f} µs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
