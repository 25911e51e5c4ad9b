"""Small ONNX models and graphs for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.ir import Array, Graph
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.compiler.graph.vta.region import Launch
from vtakit.hw.system import REFERENCE, SystemLike
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.module import Module
from vtakit.runtime.target import Image
from vtakit.runtime.vta.driver import Driver
from vtakit.runtime.vta.target import Vta, image_of_parts
from vtakit.sim.checker import check_program

Info = tuple[str, Any, Sequence[int | str]]


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Info], outputs: Sequence[Info], constants: Mapping[str, Any] | None = None,
    opset: int = 17, functions: Sequence[onnx.FunctionProto] = (), domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; inputs and outputs are (name, NumPy type, shape)."""
    ports = [
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
            for name, kind, shape in each
        ]
        for each in (inputs, outputs)
    ]
    known = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "net", *ports, known)
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(domain, 1) for domain in domains]]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def network(seed: int = 0) -> onnx.ModelProto:
    """Convolutions with batch normalization and a shortcut, pools and a classifier."""
    rng = np.random.default_rng(seed)

    def some(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="conv1", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["a", "s", "b", "m", "v"], ["an"], name="norm1"),
        node("Relu", ["an"], ["ar"], name="relu1"),
        node("MaxPool", ["ar"], ["p"], name="pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["p", "w2", "b2"], ["c"], name="conv2", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["cn"], name="norm2"),
        node("Add", ["cn", "p"], ["d"], name="add"),
        node("Relu", ["d"], ["dr"], name="relu2"),
        node("GlobalAveragePool", ["dr"], ["g"], name="mean"),
        node("Flatten", ["g"], ["f"], name="flatten"),
        node("Gemm", ["f", "w3", "b3"], ["l"], name="dense", transB=1),
        node("Softmax", ["l"], ["y"], name="softmax"),
    ]
    constants = {
        "w1": some(8, 3, 3, 3), "w2": some(8, 8, 3, 3), "b2": some(8), "s": some(8), "b": some(8), "m": some(8),
        "v": rng.random(8).astype(np.float32) + 0.5, "w3": some(5, 8), "b3": some(5),
    }
    return model(nodes, [("x", "f4", ["N", 3, 16, 16])], [("y", "f4", ["N", 5])], constants)


def module_of(graph: Graph) -> Module:
    """A graph compiled for this machine, as it is."""
    target = Cpu.host().ready(graph.name)
    return Module(image_of(compile_graph(graph, CpuKernels(target)), target, str(graph)))


def vta_image(graph: Graph, config: str = "default", system: SystemLike = REFERENCE) -> Image:
    """A graph compiled for the accelerator and this machine; every program is proven by the static checker."""
    target = Vta.make(config=config, system=system).ready(graph.name)

    def check(launch: Launch) -> None:
        assert check_program(launch.program) == []
    return image_of_parts(compile_parts(graph, CpuKernels(target.processor), target, check=check), target)


def vta_module(graph: Graph, config: str = "default", device: str | Driver = "fsim", **options: Any) -> Module:
    """The same, to be run on a device."""
    return Module(vta_image(graph, config), device, **options)


def run_graph(graph: Graph, *inputs: Array) -> tuple[Array, ...]:
    """The graph's outputs by machine code."""
    made = module_of(graph).run({value.name: array for value, array in zip(graph.inputs, inputs, strict=True)})
    return tuple(made[name] for name, _ in graph.outputs)
