"""Images of whole models: compiled, kept, and read from module files."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.collector import seldom_collected
from vtakit.base.errors import VtakitError
from vtakit.base.reading import memory_bytes, opened
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.importer import import_model, word
from vtakit.compiler.frontend.own import OWN
from vtakit.compiler.frontend.tflite.importer import import_tflite
from vtakit.compiler.frontend.tflite.reader import SUFFIX as TFLITE_SUFFIX
from vtakit.compiler.frontend.torch.importer import import_program
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.base import Seen
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.runtime import kept_models
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.inputs import check_words
from vtakit.runtime.module_file import OPEN_MAGIC, PackageError, parse, parse_source
from vtakit.runtime.signing import Trusted, verify
from vtakit.runtime.source import Options, Source, source_of
from vtakit.runtime.stages.dims import Dim
from vtakit.runtime.stages.file import parse as parse_open
from vtakit.runtime.stages.source import OpenSource
from vtakit.runtime.target import Image, Target
from vtakit.runtime.torch_program import named_program
from vtakit.runtime.tune.network import Network, covered

if TYPE_CHECKING:
    import torch

    from vtakit.runtime.tune.records import Records


def whole_image(
    model: Any, target: Target, asked: Options, given: tuple[Any, Any, Any, Any],
    exported: "tuple[torch.export.ExportedProgram, str] | None", *, tuned: "tuple[Records, str] | None", after: Seen | None,
    progress: Callable[[int, int], None] | None, threads: int | None, cache: bool,
) -> Image:
    """Return a model as one image.

    given : shapes, batch, fixed and name

    Raises LaterError for a model that needs to know what a run has.
    """
    imported, said = partial(graph_of, model, *given, evaluator(target), exported), ""
    if tuned is not None:
        found = covered(Network.of(imported(), target, asked, evaluator(target), threads), *tuned)
        asked, said = replace(asked, decisions={**found.decisions, **asked.decisions}), found.said
    kept = cache and after is None and exported is None and not OWN  # whose definitions are not part of a place
    place_of = partial(kept_models.place_of, model, target.key, *given, asked)
    place = place_of() if kept else None
    image = None if place is None else kept_models.found(place)
    if image is None:
        begin = time.perf_counter()
        with seldom_collected():
            graph = imported()
            source = source_of(graph, asked)
            limit = None if target.misfit else memory_bytes()
            image = target.compile(graph, asked, evaluator(target), after=after, progress=progress, most_bytes=limit)
        image = replace(image, source=source)
        if place is not None:
            kept_models.keep(place, image, time.perf_counter() - begin, place_of)
    return replace(image, said=f"{image.said}; {said}" if image.said else said) if said else image


def graph_of(
    model: Any, shapes: Mapping[str, Sequence[int]] | None, batch: int | None, fixed: Mapping[str, Any] | None, name: str | None,
    evaluate: Evaluate, exported: "tuple[torch.export.ExportedProgram, str] | None",
) -> Graph:
    """Return a model as it is imported; `exported` as `program_of` returns it."""
    if is_tflite(model):
        if fixed:
            raise ModelError("fixed goes with ONNX models: what decides shapes in a TensorFlow Lite model is in the file")
        return import_tflite(model, shapes=shapes, batch=1 if batch is None else batch, evaluate=evaluate, name=name)
    if exported is None:
        return import_model(model, shapes=shapes, batch=1 if batch is None else batch, fixed=fixed, evaluate=evaluate, name=name)
    return import_program(exported[0], name=exported[1] if name is None else name)


def is_tflite(model: Any) -> bool:
    """Return whether a model is the path of a TensorFlow Lite file."""
    return isinstance(model, str | Path) and Path(model).suffix == TFLITE_SUFFIX


def program_of(
    model: Any, shapes: Mapping[str, Sequence[int | Dim]] | None, batch: int | Dim | None, fixed: Mapping[str, Any] | None,
) -> "tuple[torch.export.ExportedProgram, str] | None":
    """Return a program of PyTorch with its name; None for an ONNX model. Raises ModelError for shapes beside the former."""
    found = named_program(model)
    if found is not None and (shapes or fixed or batch not in (None, 1)):
        raise ModelError("a PyTorch program has the shapes of its export: shapes, batch and fixed go with ONNX models")
    return found


def read_open(path: str | Path, *, trusted: "Trusted | None", recompile: bool) -> OpenSource | None:
    """Return the model of a module file with open sizes; None of another file."""
    check_words(None, recompile=recompile)
    where = f"module file {str(path)!r}"
    with opened(path, "module file") as (stream, size):
        if stream.read(len(OPEN_MAGIC)) != OPEN_MAGIC:
            return None
        stream.seek(0)
        data = stream.read(size)
    if trusted is not None:
        verify(data, where, trusted)
    source = parse_open(data, where, recompile=recompile)
    if (why := source.target.misfit) and source.stored:
        raise CodegenError(f"{where} is compiled for another machine: {why}: compile the model on this one, or for it, or load "
                           "it with recompile=True (--recompile)")
    return source


def read_image(
    path: str | Path, *, trusted: "Trusted | None" = None, recompile: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Image:
    """Read a module file, for any machine, as `load` does; its code is not loaded."""
    where = f"module file {str(path)!r}"
    check_words(None, recompile=recompile)
    with opened(path, "module file") as (stream, size):
        data = stream.read(size)
        if trusted is not None:
            verify(data, where, trusted)
        if not recompile:
            return parse(data, where, stream.fileno())
        name, target, source = parse_source(data, where, stream.fileno())
    return _again(name, target, source, where, progress)


def _again(
    name: str, target: Target, source: Source, where: str, progress: Callable[[int, int], None] | None,
) -> Image:
    """Return the code of a module file's graph, built for this machine."""
    here = target.for_this_machine().ready("load")
    try:
        here.check_options(source.options)
        graph = replace(source.graph, name=word(name))
    except VtakitError as error:
        raise PackageError(f"{where} is inconsistent: {error}") from None
    image = here.compile(graph, source.options, evaluator(here), progress=progress, most_bytes=memory_bytes())
    return replace(image, source=source)
