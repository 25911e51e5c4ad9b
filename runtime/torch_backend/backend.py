"""The backend that `torch.compile` calls with a graph."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._export.utils import (
    _collect_all_valid_cia_ops_for_aten_namespace,
    _is_preservable_cia_op,
    _special_op_to_preserve_cia,
)
from torch.export.exported_program import _override_composite_implicit_decomp

from vtakit.compiler.frontend.torch.operators import CONVERTERS
from vtakit.runtime.module import InputError
from vtakit.runtime.torch_backend.notices import forget, say
from vtakit.runtime.torch_backend.settings import settings
from vtakit.runtime.torch_backend.sizes import Specialized
from vtakit.runtime.torch_backend.training import why_training


def torch_backend(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph for `torch.compile(model, backend="vtakit")`. Training, and what has no code, is left to PyTorch.

    options : target, threads, precision, winograd, integer, weights, specializations: see `settings.Settings`

    Raises VtakitError for a wrong option.
    """
    if mode is not None:
        raise InputError(f"mode={mode!r} is one of PyTorch's own backend: give options={{'threads': …}} and others")
    chosen = settings(options)
    eager: Callable[..., Any] = module.forward
    if why := why_training(module, inputs) or _outside(inputs):
        say(f"a graph runs in PyTorch: {why}")
        return eager

    def compiler(traced: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        context = torch._guards.TracingContext.try_get()
        known = None if context is None else context.fw_metadata
        return Specialized(traced, chosen, () if known is None else known.mutated_inp_runtime_indices)

    kept, table = _decompositions()
    with _override_composite_implicit_decomp(dict.fromkeys(kept, _special_op_to_preserve_cia)):
        trace = aot_autograd(fw_compiler=compiler, inference_compiler=compiler, decompositions=dict(table))
        found: Callable[..., Any] = trace(module, inputs)
    return found


torch_backend.reset = forget  # type: ignore[attr-defined]  # which torch.compiler.reset calls


def _outside(inputs: Sequence[Any]) -> str:
    """Return why tensors are none that code of this processor reads; "" if all are."""
    for each in inputs:
        if isinstance(each, torch.Tensor):
            if each.device.type != "cpu":
                return f"a tensor is on the device {str(each.device)!r}, and code is made for the processor"
            if each.layout is not torch.strided or each.is_quantized:
                return f"a tensor has the layout {each.layout}, and code reads strided ones"
            if each.is_neg() or each.is_conj():
                return "a tensor is a negated or conjugate view"
    return ""


def _decompositions() -> tuple[tuple[Any, ...], dict[Any, Any]]:
    """Return the composite operators that stay whole, because they have a converter, and how others are decomposed."""
    return _decompositions_of(len(CONVERTERS))


@cache
def _decompositions_of(_: int) -> tuple[tuple[Any, ...], dict[Any, Any]]:
    kept = tuple([op for op in _collect_all_valid_cia_ops_for_aten_namespace() if str(op) in CONVERTERS])
    table = {op: how for op, how in torch.export.default_decompositions().items()
             if str(op) not in CONVERTERS and not _is_preservable_cia_op(op)}
    return kept, table
