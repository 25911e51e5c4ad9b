"""Shared parts of the tests of GPU schedules: operators and networks by the interpreter or an OpenCL device, in low form."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from nn_support import empty, placeholders

from vtakit import te
from vtakit.compiler.codegen.clike.kernel import source
from vtakit.compiler.codegen.clike.opencl import OpenCL
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.graph.compile import Network, compile_graph
from vtakit.compiler.graph.gpu import GpuKernels, GpuNetwork
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.cpu.flow import Flow
from vtakit.compiler.nn.gpu.machine import MACHINES
from vtakit.compiler.nn.operators import find
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.runtime.opencl import function as opencl

Array = np.ndarray
Runner = Callable[[Function, Sequence[Array]], None]
PORTABLE = GpuKernels(MACHINES["portable"], shuffles=False)  # what OpenCL devices run
A100 = GpuKernels()


_BUILT: dict[int, tuple[Function, opencl.Function]] = {}  # by the identity of the body, which is kept


def by_opencl(function: Function, arrays: Sequence[Array]) -> None:
    """Run a function in low form on an OpenCL device."""
    if id(function.body) not in _BUILT:
        program = split(function)
        _BUILT[id(function.body)] = function, opencl.Function(program, source(program, OpenCL(contract=False)))
    _BUILT[id(function.body)][1](*arrays)


def lowered(
    outputs: Sequence[te.Tensor], tensors: Sequence[te.Tensor], kernels: GpuKernels = A100,
    decisions: Mapping[str, Any] | Decisions | None = None,
) -> tuple[Function, list[int]]:
    """Return the low form of what outputs need, verified on the way, and which of the tensors it reads."""
    s = kernels.schedule(outputs, decisions)
    there = Flow.of(s.outputs).ops
    reads = [at for at, tensor in enumerate(tensors) if tensor.op in there]
    function = lower(s, [*[tensors[at] for at in reads], *outputs], limits=kernels.limits)
    return kernels.late(function), reads


def run_group(
    arrays: Sequence[Array], tensors: Sequence[te.Tensor], outputs: Sequence[te.Tensor], runner: Runner = interpret,
    kernels: GpuKernels = A100, decisions: Mapping[str, Any] | Decisions | None = None,
) -> list[Array]:
    """Return the outputs of a group of operators by its schedule for a GPU."""
    low, reads = lowered(outputs, tensors, kernels, decisions)
    results = [empty(tensor) for tensor in outputs]
    runner(low, [*[arrays[at] for at in reads], *results])
    return results


def run_gpu(name: str, *arrays: Array | None, runner: Runner = interpret, kernels: GpuKernels = A100,
            decisions: Mapping[str, Any] | Decisions | None = None, **attributes: Any) -> Any:
    """Return the result of an operator, or the tuple of its results, by its schedule for a GPU."""
    tensors = placeholders(arrays)
    made = find(name).define(*tensors, **attributes)
    outputs = [*made] if isinstance(made, tuple) else [made]
    given = [a for a in arrays if a is not None]
    found = run_group(given, [t for t in tensors if t is not None], outputs, runner, kernels, decisions)
    return tuple(found) if isinstance(made, tuple) else found[0]


def network_of(graph: Graph, kernels: GpuKernels = A100) -> Network:
    """Compile a graph."""
    return compile_graph(graph, kernels)


def run_network(network: Network, inputs: Mapping[str, Array], runner: Runner = interpret) -> dict[str, Array]:
    """Run a network step by step."""
    code = network.code
    assert isinstance(code, GpuNetwork)
    results = {port.name: np.full(port.shape, 77, str(port.dtype)) for port in network.outputs}
    memory = {Region.PARAMS: np.zeros(network.params_bytes, np.uint8), Region.ARENA: np.zeros(network.arena_bytes, np.uint8)}
    for at, array in network.params:
        memory[Region.PARAMS][at:at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    given = [np.ascontiguousarray(inputs[port.name]) for port in network.inputs]
    ports = {Region.INPUT: given, Region.OUTPUT: [*results.values()]}

    def bytes_at(place: Place) -> Array:
        if place.region in memory:
            return memory[place.region][place.at:]
        return ports[place.region][place.at].reshape(-1).view(np.uint8)
    for step in code.steps:
        if step.kernel < 0:
            from_, to = map(bytes_at, step.args)
            to[:step.copied_bytes] = from_[:step.copied_bytes]
        else:
            function = code.kernels[step.kernel]
            runner(function, [_shaped(bytes_at(place), param) for place, param in zip(step.args, function.params, strict=True)])
    return results


def _shaped(data: Array, param: Any) -> Array:
    assert isinstance(param, Buffer)
    shape = tuple([int_value(extent) or 0 for extent in param.shape])
    kind = np.dtype(str(param.dtype))
    return data[:int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape)
