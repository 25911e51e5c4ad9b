"""Graphs of constants, evaluated at compile time."""

from functools import partial

from vtakit.base.reading import memory_bytes
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Array, Graph
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.module import Module
from vtakit.runtime.target import Target

_INTERPRETED_ELEMENTS = 4096  # of all nodes' results: a graph of constants up to this is not worth machine code


def evaluator(target: Target) -> Evaluate:
    """Return what evaluates a graph of constants: machine code of a target's processor if this machine runs it."""
    found = target.processor
    chosen = found if isinstance(found, Cpu) and not found.misfit else Cpu.host()
    return partial(_evaluate, target=chosen.ready("compile"))


def _evaluate(graph: Graph, target: Cpu) -> list[Array]:
    """Run a graph without inputs: by machine code, or by the interpreter where making that takes longer."""
    if sum(value.type.size for node in graph.nodes for value in node.outputs) <= _INTERPRETED_ELEMENTS:
        return list(evaluate_graph(graph))
    image = image_of(compile_graph(graph, CpuKernels(target), most_bytes=memory_bytes()), target, "")
    made = Module(image).run()
    return [made[name] for name, _ in graph.outputs]
