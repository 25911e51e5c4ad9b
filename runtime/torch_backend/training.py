"""Graphs of training, which PyTorch runs itself."""

from collections.abc import Sequence
from typing import Any

import torch

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu")


def why_training(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    """Return why a graph is one of training, and what to do; "" if it is not."""
    if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs):
        return "gradients are enabled; call it under torch.no_grad() or torch.inference_mode()"
    if any(_trains(node) for node in module.graph.nodes):
        return "a module is in training mode; call its eval()"
    return ""


def _trains(node: Any) -> bool:
    """Return whether a call of torch.nn.functional drops elements, or changes running statistics."""
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    if name in _DROPOUTS:
        at = 3 if name == "rrelu" else 2
        return bool(node.kwargs.get("training", node.args[at] if len(node.args) > at else name == "dropout"))
    if name == "batch_norm":
        means = node.kwargs.get("running_mean", node.args[1] if len(node.args) > 1 else None)
        return means is not None and bool(node.kwargs.get("training", node.args[5] if len(node.args) > 5 else False))
    return name == "scaled_dot_product_attention" and bool(
        node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0))
