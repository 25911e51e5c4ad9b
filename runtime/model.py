"""From a model or a file to a module: what `vtakit.compile` and `vtakit.load` are."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target as VtaTarget
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.importer import import_model, word
from vtakit.compiler.frontend.torch.importer import import_program
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Array, Graph
from vtakit.compiler.graph.passes.base import Seen, run_passes
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.graph.printer import graph_text
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.compiler.graph.vta.region import Launch
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.hw.isa.config import load_config
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.reading import memory_bytes, opened
from vtakit.runtime import keeping
from vtakit.runtime.cpu.function import for_here, misfit
from vtakit.runtime.image import Image, image_of, image_of_parts
from vtakit.runtime.module import InputError, Module, check_threads
from vtakit.runtime.package import PackageError, parse, parse_source
from vtakit.runtime.parts import check_opening
from vtakit.runtime.placement import check_placed
from vtakit.runtime.precision import check_precision, narrowed, said_of
from vtakit.runtime.signing import Trusted, verify
from vtakit.runtime.source import Source, source_of
from vtakit.runtime.torch_program import named_program
from vtakit.runtime.vta.driver import Driver
from vtakit.runtime.vta.loaded import TIMEOUT_S
from vtakit.sim.api import ConfigLike
from vtakit.sim.checker import check_program

if TYPE_CHECKING:
    import onnx
    import torch

_INTERPRETED_ELEMENTS = 4096  # of all nodes' results: a graph of constants up to this is not worth machine code


def compile(
    model: "str | Path | onnx.ModelProto | torch.export.ExportedProgram",
    target: Literal["llvm", "vta"] | Target | VtaTarget = "llvm", *,
    shapes: Mapping[str, Sequence[int]] | None = None, batch: int = 1, fixed: Mapping[str, Any] | None = None,
    name: str | None = None, integer: bool = True, winograd: bool = True, precision: str = "float32", after: Seen | None = None,
    progress: Callable[[int, int], None] | None = None, cache: bool = True,
    config: ConfigLike | None = None, host: Target | None = None, device: str | Driver | None = None,
    timeout_s: float = TIMEOUT_S, threads: int | None = None, **options: Any,
) -> Module:
    """Compile a model, or find what an earlier call has made of the same.

    For a CPU it becomes one native function; for the accelerator programs, with machine code for the rest.

    model    : an ONNX model, or the path of one; or what torch.export.export makes of a PyTorch module, or the path of a .pt2
               file with such
    target   : "llvm" for this machine, or a `vtakit.compiler.codegen.llvm.target.Target`: where this machine cannot run its code,
               the module is there to be saved and exported; "vta" for the accelerator, or what
               `vtakit.compiler.codegen.vta.target.vta` makes
    shapes   : of inputs whose shape the model leaves open: name -> shape
    batch    : the size of a symbolic first dimension
    fixed    : inputs that become constants, as those must that decide shapes: name -> array
    name     : of the functions in C; that of the file or of the model's graph by default
    integer  : whether quantised models are computed in integers where they allow it, the same bytes on every target; else in
               floating point, as they are written
    winograd : whether 3 x 3 convolutions of float32 are computed by Winograd's way on a CPU where that is faster, with a relative
               error below 2e-5 (docs/winograd.md); else each is a sum of products
    precision : "float32"; or, on a CPU, "float16" or "bfloat16" for constant matrices, which are kept in 16 bits, and in bfloat16
               for convolutions that are faster so; sums are in float32 (docs/half_precision.md says how far results are off)
    after    : sees each pass over the graph with the graph before and after it
    progress : is called with how much is done, and of how much: kernels, or for the accelerator nodes
    cache    : whether the module may be one that was kept, and is kept (`vtakit.runtime.keeping`); not if `after` is given
    config   : of the accelerator: a VTAConfig, a name, a mapping of LOG_… keys, or the path of a JSON file; "default" if None
    host     : with target "vta", the processor beside the accelerator, for the parts that it runs; this machine if None
    threads  : of this processor that a run uses; as OpenMP has it if None: see `Module`
    device, timeout_s, options : what the accelerator's parts run on: see `Module`

    A model of which nothing runs on the accelerator gives a PlacementWarning and runs on the CPU; with a `device`, a VtaError.
    `Module.placement` says what runs where, and why.

    Raises UnsupportedError with all that is unsupported in the model, ModelError for a model that cannot be read or breaks a
    rule, GraphError for one whose run takes more memory than the machine has, CodegenError for a target, VtaError for a
    configuration of other numbers than networks in integers have, InputError for a number of threads, a
    name or a flag that is none.
    """
    check_threads(threads)
    _check_words(name, integer=integer, winograd=winograd, cache=cache)
    if not isinstance(target, Target | VtaTarget) and target not in ("llvm", "vta"):
        raise CodegenError(f"{target!r} is no target of models: use 'llvm' or 'vta', or a Target of "
                           "vtakit.compiler.codegen.llvm.target")
    accelerator = _accelerator(target, config)
    if accelerator is None and (options or device not in (None, "cpu")):
        option = min(options, default="device")
        raise CodegenError(f"{option} is no argument of a compilation for a CPU; it is one of those for target 'vta'")
    if accelerator is not None:
        check_opening(device or "fsim", timeout_s, options)
    check_precision(precision, on_accelerator=accelerator is not None)
    if host is not None and accelerator is None:
        raise CodegenError("host is the processor beside the accelerator, and is given with target 'vta' only; otherwise target "
                           "is the processor")
    wanted = target if isinstance(target, Target) else host
    elsewhere = wanted is not None and bool(misfit(wanted))
    here = for_here(None if elsewhere else wanted, "compile", parallel=True)
    chosen = wanted if wanted is not None and elsewhere else here
    exported = named_program(model)
    if exported is not None and (shapes or fixed or batch != 1):
        raise ModelError("a PyTorch program has the shapes of its export: shapes, batch and fixed go with ONNX models")
    kept = cache and after is None and exported is None
    asked = shapes, batch, fixed, name, integer, winograd, precision
    place = keeping.place_of(model, chosen, accelerator, *asked) if kept else None
    known = None if place is None else keeping.found(place)
    if known is not None:
        if accelerator is not None:
            check_placed(known, device)
        return Module(known, device, timeout_s, threads=threads, **options)
    begin = time.perf_counter()
    evaluate = partial(_evaluate, target=here)
    if exported is None:
        graph = import_model(model, shapes=shapes, batch=batch, fixed=fixed, evaluate=evaluate, name=name)
    else:
        graph = import_program(exported[0], name=exported[1] if name is None else name)
    source = source_of(graph, integer=integer, winograd=winograd, precision=precision, accelerator=accelerator)
    image = _built(graph, chosen, accelerator, evaluate, integer=integer, winograd=winograd, precision=precision, after=after,
                   progress=progress, most_bytes=None if elsewhere and accelerator is None else memory_bytes())
    image = replace(image, source=source)
    if place is not None:
        same = partial(keeping.place_of, model, chosen, accelerator, *asked)
        keeping.keep(place, image, time.perf_counter() - begin, same)
    if accelerator is not None:
        check_placed(image, device)
    return Module(image, device, timeout_s, threads=threads, **options)


def _built(
    graph: Graph, chosen: Target, accelerator: VtaTarget | None, evaluate: Evaluate, *, integer: bool, winograd: bool,
    precision: str, after: Seen | None = None, progress: Callable[[int, int], None] | None = None, most_bytes: int | None = None,
) -> Image:
    """Return the code of an imported graph; see `compile`."""
    lanes = chosen.vector_bytes // FLOAT32.bytes if accelerator is None else None
    machine = Machine.of(chosen) if winograd else None
    passes = passes_for_cpu(evaluate, integer=integer, lanes=lanes, winograd=machine, precision=precision,
                            narrowed=narrowed(precision, chosen, winograd=winograd))
    graph = run_passes(graph, passes, after)
    if accelerator is None:
        network = compile_graph(graph, chosen, progress=progress, most_bytes=most_bytes)
        return image_of(network, graph_text(graph), said=said_of(precision, chosen, graph))
    parts = compile_parts(graph, chosen, accelerator, check=_checked, progress=progress, most_bytes=most_bytes)
    return image_of_parts(parts, chosen)


def _check_words(name: object, **flags: object) -> None:
    """Raise InputError for a name that is no string, and for what is neither true nor false."""
    if not isinstance(name, str | None):
        raise InputError(f"name={name!r}: give a string, or None for that of the file")
    for flag, given in flags.items():
        if not isinstance(given, bool):
            raise InputError(f"{flag}={given!r}: give True or False")


def _accelerator(target: str | Target | VtaTarget, config: ConfigLike | None) -> VtaTarget | None:
    """The accelerator that a target means; None for a CPU."""
    if target == "vta":
        return vta("default" if config is None else load_config(config))
    if config is not None:
        raise CodegenError("config is that of the accelerator, and is given with target 'vta' only")
    return target if isinstance(target, VtaTarget) else None


def _checked(launch: Launch) -> None:
    """Raise VtaError for a program that is not proven free of races and deadlock."""
    if faults := check_program(launch.program):
        raise VtaError(f"the static checker finds a fault in its program: {faults[0]}")


def load(
    path: str | Path, device: str | Driver | None = None, timeout_s: float = TIMEOUT_S, *, threads: int | None = None,
    trusted: "Trusted | None" = None, recompile: bool = False, progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Module:
    """Read a module that `Module.save` wrote.

    A module file holds machine code, which runs with the rights of this process. Load a file of somebody else's with `trusted`
    or `recompile` (docs/files.md).

    threads   : of this processor that a run uses; as OpenMP has it if None: see `Module`
    trusted   : public keys (paths of PEM files, or their text), one of which must have signed the file
    recompile : whether to build the code anew, for this machine, from the graph in the file; nothing executable is taken from it
    progress  : is called with how much is done, and of how much, while that is built
    device, timeout_s, options : what the accelerator's parts run on: see `Module`

    Raises PackageError for a file that is damaged, of another version of vtakit, or without a graph to build from, SignatureError
    for one that no trusted key has signed, CodegenError for code that this machine cannot run.
    """
    image = read_image(path, trusted=trusted, recompile=recompile, progress=progress)
    if why := misfit(image.target):
        raise CodegenError(f"module file {str(path)!r} is compiled for another machine: {why}: compile the model on this one, or "
                           "for it, or load it with recompile=True (--recompile)")
    return Module(image, device, timeout_s, threads=threads, **options)


def read_image(
    path: str | Path, *, trusted: "Trusted | None" = None, recompile: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Image:
    """Read a module file, for any machine, as `load` does; its code is not loaded."""
    where = f"module file {str(path)!r}"
    _check_words(None, recompile=recompile)
    with opened(path, "module file") as (stream, size):
        data = stream.read(size)
        if trusted is not None:
            verify(data, where, trusted)
        found = parse_source(data, where, stream.fileno()) if recompile else parse(data, where, stream.fileno())
    return found if isinstance(found, Image) else _again(found, where, progress)


def _again(found: tuple[str, Source], where: str, progress: Callable[[int, int], None] | None) -> Image:
    """Return the code of a module file's graph, built for this machine."""
    name, source = found
    here = for_here(None, "load", parallel=True)
    try:
        graph = replace(source.graph, name=word(name))
    except VtakitError as error:
        raise PackageError(f"{where} is inconsistent: {error}") from None
    image = _built(graph, here, source.accelerator, partial(_evaluate, target=here), integer=source.integer,
                   winograd=source.winograd, precision=source.precision, progress=progress, most_bytes=memory_bytes())
    return replace(image, source=source)


def _evaluate(graph: Graph, target: Target) -> list[Array]:
    """What a graph without inputs computes: by machine code, or by the interpreter where making that takes longer."""
    if sum(value.type.size for node in graph.nodes for value in node.outputs) <= _INTERPRETED_ELEMENTS:
        return list(evaluate_graph(graph))
    made = Module(image_of(compile_graph(graph, target, most_bytes=memory_bytes()), "")).run()
    return [made[name] for name, _ in graph.outputs]
