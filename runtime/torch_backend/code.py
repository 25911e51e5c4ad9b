"""Compiled code that runs on tensors, without copies."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from vtakit.base.collector import seldom_collected
from vtakit.base.reading import memory_bytes
from vtakit.compiler.frontend.torch.traced import Result, Traced
from vtakit.runtime.cpu.engine import CpuEngine
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.module import Module
from vtakit.runtime.torch_backend.settings import Settings

Run = Callable[[Sequence[Any]], list[Any]]


def module_of(traced: Traced, settings: Settings) -> Module:
    """Compile a traced graph. Raises VtakitError for what has no code."""
    target = settings.target
    with seldom_collected():
        image = target.compile(traced.graph, settings.compilation, evaluator(target), most_bytes=memory_bytes())
    return Module(image, threads=settings.threads)


def runner(traced: Traced, settings: Settings) -> Run:
    """Return a function that runs a traced graph on its arguments. Raises VtakitError for what has no code."""
    results = [each for each in traced.outputs if isinstance(each, Result)]
    if not results:
        return lambda args: list(traced.outputs)
    module = module_of(traced, settings)
    positions = traced.inputs
    (part,) = module.image.parts
    engine = module.engine(part.kind)
    assert isinstance(engine, CpuEngine), "settings allow processors only"
    assert isinstance(part, CpuPart)
    stored = [(each.stored, each.dtype) for each in results]
    plain = len(results) == len(traced.outputs) and all(each.order is None and each.strides is None for each in results)
    run_at, empty = engine.native(part).run, torch.empty

    def run(args: Sequence[Any]) -> list[Any]:
        inputs = [args[at] if args[at].is_contiguous() else args[at].contiguous() for at in positions]
        made = [empty(shape, dtype=dtype) for shape, dtype in stored]
        run_at([*[each.data_ptr() for each in inputs], *[each.data_ptr() for each in made]])
        return made if plain else _placed(made, traced.outputs)
    return run


def _placed(made: list[torch.Tensor], outputs: Sequence[Any]) -> list[Any]:
    """Return all outputs: tensors with the strides that PyTorch gives them, numbers as they are."""
    found: list[Any] = []
    rest = iter(made)
    for each in outputs:
        if not isinstance(each, Result):
            found.append(each)
            continue
        tensor = next(rest)
        if each.order is not None:
            tensor = tensor.permute(each.order)
        elif each.strides is not None:
            tensor = torch.empty_strided(each.shape, each.strides, dtype=each.dtype).copy_(tensor)
        found.append(tensor)
    return found
