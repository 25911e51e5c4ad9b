"""Losses of classifiers. Source: ONNX NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss."""

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import binary, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made, same_dtype
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.moves.indexing import within
from vtakit.compiler.nn.reduction.normalize import log_softmax
from vtakit.compiler.nn.reduction.reduction import reduce_sum
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.tensor import Tensor

REDUCTIONS = ("none", "sum", "mean")


@operator("nll_loss", kind=Kind.OPAQUE)
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean", ignore_index: int | None = None,
) -> Tensor:
    """Minus the logarithm of probability that x gives to each target class.

    x [N, C, D...]   target [N, D...], integers   weight [C]   result [N, D...], or one number
    reduction : "none", "sum", or "mean", over the weights     ignore_index : a class that counts nothing
    Raises OperatorError for shapes, types or words that do not fit.
    """
    check_float(x, "nll_loss")
    shape = (*dims(x)[:1], *dims(x)[2:])
    if x.ndim < 2 or dims(target) != shape or not target.dtype.is_int or not dims(x)[1]:
        raise OperatorError(f"nll_loss: targets {target.dtype}{dims(target)} of scores {dims(x)}: give integers of shape {shape}")
    if reduction not in REDUCTIONS:
        raise OperatorError(f"nll_loss: reduction={reduction!r}: give one of {', '.join(REDUCTIONS)}")
    if weight is not None:
        same_dtype("nll_loss", x, weight)
        if dims(weight) != dims(x)[1:2]:
            raise OperatorError(f"nll_loss: weights {dims(weight)} are not one for each of {dims(x)[1]} classes")

    def share(*at: Expr) -> Expr:
        one = const(1, x.dtype)
        found = one if weight is None else weight(within(target(*at), dims(x)[1]))
        if ignore_index is None:
            return found
        return select(binary(ir.EQ, target(*at), const(ignore_index, target.dtype)), const(0, x.dtype), found)
    weights = made(shape, share, "weights")
    losses = made(shape, lambda n, *at: -x(n, within(target(n, *at), dims(x)[1]), *at) * weights(n, *at), "losses")
    if reduction == "none":
        return losses
    total = reduce_sum(losses, keepdims=False)
    if reduction == "sum":
        return total
    whole = reduce_sum(weights, keepdims=False)
    return made((), lambda: total() / whole(), "nll_loss")


@operator("softmax_cross_entropy_loss", kind=Kind.OPAQUE)
def softmax_cross_entropy_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean", ignore_index: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`nll_loss` of the log_softmax of scores [N, C, D...]; and that log_softmax."""
    if x.ndim < 2:
        raise OperatorError(f"softmax_cross_entropy_loss takes scores [N, C, D...], got shape {dims(x)}")
    logs = log_softmax(x, axis=1)
    return nll_loss(logs, target, weight, reduction=reduction, ignore_index=ignore_index), logs
