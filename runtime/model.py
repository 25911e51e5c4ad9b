"""From a model or a file to a module: what `vtakit.compile` and `vtakit.load` are."""

import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Array, Graph
from vtakit.compiler.graph.passes.base import Seen, run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.graph.printer import graph_text
from vtakit.hw.isa.file import read_bytes
from vtakit.runtime import keeping
from vtakit.runtime.cpu.function import for_here
from vtakit.runtime.image import image_of
from vtakit.runtime.module import Module
from vtakit.runtime.package import parse

if TYPE_CHECKING:
    import onnx

_INTERPRETED_ELEMENTS = 4096  # of all nodes' results: a graph of constants up to this is not worth machine code


def compile(
    model: "str | Path | onnx.ModelProto", target: Literal["llvm"] | Target = "llvm", *,
    shapes: Mapping[str, Sequence[int]] | None = None, batch: int = 1, fixed: Mapping[str, Any] | None = None,
    name: str | None = None, after: Seen | None = None, progress: Callable[[int, int], None] | None = None, cache: bool = True,
) -> Module:
    """Compile a model into one native function, or find what an earlier call has made of the same.

    model    : an ONNX model, or the path of one
    target   : "llvm" for this machine, or a `vtakit.compiler.codegen.llvm.target.Target` whose code this machine can run
    shapes   : of inputs whose shape the model leaves open: name -> shape
    batch    : the size of a symbolic first dimension
    fixed    : inputs that become constants, as those must that decide shapes: name -> array
    name     : of the functions in C; that of the file or of the model's graph by default
    after    : sees each pass over the graph with the graph before and after it
    progress : is called after each kernel with how many are done, and of how many
    cache    : whether the module may be one that was kept, and is kept (`vtakit.runtime.keeping`); not if `after` is given

    Raises UnsupportedError with all that is unsupported in the model, ModelError for a model that cannot be read or breaks a
    rule, GraphError for one whose run takes more memory than the machine has, CodegenError for a target.
    """
    if not isinstance(target, Target) and target != "llvm":
        raise CodegenError(f"{target!r} is no target of models: use 'llvm', or a Target of vtakit.compiler.codegen.llvm.target")
    chosen = for_here(target if isinstance(target, Target) else None, "compile", parallel=True)
    place = keeping.place_of(model, chosen, shapes, batch, fixed, name) if cache and after is None else None
    known = None if place is None else keeping.found(place)
    if known is not None:
        return Module(known)
    begin = time.perf_counter()
    evaluate = partial(_evaluate, target=chosen)
    graph = import_model(model, shapes=shapes, batch=batch, fixed=fixed, evaluate=evaluate, name=name)
    graph = run_passes(graph, passes_for_cpu(evaluate), after)
    image = image_of(compile_graph(graph, chosen, progress=progress, most_bytes=memory_bytes()), graph_text(graph))
    if place is not None:
        keeping.keep(place, image, time.perf_counter() - begin)
    return Module(image)


def load(path: str | Path) -> Module:
    """Read a module that `Module.save` wrote.

    Raises PackageError for a file that is damaged or of another version of vtakit, CodegenError for code that this machine cannot
    run.
    """
    where = f"module file {str(path)!r}"
    image = parse(read_bytes(path, "module file"), where)
    try:
        for_here(image.target, image.name, parallel=False)
    except CodegenError as error:
        raise CodegenError(f"{where} is compiled for another machine: {error}") from None
    return Module(image)


def memory_bytes() -> int:
    """The memory of this machine, or what the process may take of it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return whole if allowed == resource.RLIM_INFINITY else min(whole, allowed)


def _evaluate(graph: Graph, target: Target) -> list[Array]:
    """What a graph without inputs computes: by machine code, or by the interpreter where making that takes longer."""
    if sum(value.type.size for node in graph.nodes for value in node.outputs) <= _INTERPRETED_ELEMENTS:
        return list(evaluate_graph(graph))
    made = Module(image_of(compile_graph(graph, target, most_bytes=memory_bytes()), "")).run()
    return [made[name] for name, _ in graph.outputs]
