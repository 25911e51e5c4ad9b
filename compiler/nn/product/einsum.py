"""Sums of products over named axes."""

from functools import reduce
from typing import Any

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.nn.common import broadcast_shape, dims, made, same_dtype
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


@operator("einsum", kind=Kind.REDUCTION)
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    """NumPy's einsum: each letter names an axis, and letters that the result lacks are summed over. Source: ONNX Einsum.

    ``...`` stands for the axes in front that have no letter, which are broadcast. Without ``->`` the result has the letters
    that stand once, in alphabetical order. Raises OperatorError for an equation that does not fit the tensors.
    """
    same_dtype("einsum", *tensors)
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise OperatorError(f"einsum {equation!r:.80} has {len(terms)} operands, but {len(tensors)} tensors are given")
    rest = max([x.ndim - len(term.replace("...", "")) for x, term in zip(tensors, terms, strict=True)], default=0)
    names = [_axes(term, x, equation) for term, x in zip(terms, tensors, strict=True)]
    sizes: dict[str, int] = {}
    for term, x in zip(names, tensors, strict=True):
        for name, extent in zip(term, dims(x), strict=True):
            old = sizes.setdefault(name, extent)
            if old != extent and 1 in (old, extent) and name.startswith("."):
                sizes[name] = broadcast_shape("einsum", (old,), (extent,))[0]
            elif old != extent:
                raise OperatorError(f"einsum {equation!r:.80}: axis {name!r} is {old} in one operand and {extent} in another")
    lead = [f".{at}" for at in range(rest, 0, -1)] if "..." in left else []
    if arrow:
        before, dots, after = right.partition("...")
        result = [*before, *(lead if dots else []), *after]
    else:
        result = [*lead, *sorted({c for c in left if c.isalpha() and left.count(c) == 1})]
    if len({*result}) != len(result) or not {*result} <= {*sizes}:
        raise OperatorError(f"einsum {equation!r:.80}: the result's axes stand once each, and in an operand")
    over = {name: reduce_axis((0, extent), name.replace(".", "d")) for name, extent in sizes.items() if name not in result}

    def value(*at: Expr) -> Any:
        where: dict[str, Expr | IterVar] = {**over, **dict(zip(result, at, strict=True))}
        factors: list[Expr] = [x(*[0 if extent == 1 else where[name] for name, extent in zip(term, dims(x), strict=True)])
                   for term, x in zip(names, tensors, strict=True)]
        product = reduce(lambda a, b: a * b, factors)
        return sum_of(product, axis=[*over.values()]) if over else product
    return made([sizes[name] for name in result], value, "einsum")


def _axes(term: str, x: Tensor, equation: str) -> list[str]:
    """A name for each dimension of an operand; those of ``...`` are numbered from the last."""
    before, dots, after = term.partition("...")
    letters = before + after
    count = x.ndim - len(letters)
    if (not letters.isalpha() and letters) or count < 0 or (count and not dots):
        raise OperatorError(f"einsum {equation!r:.80}: {term!r} does not name the {x.ndim} dimensions of {dims(x)}")
    return [*before, *[f".{at}" for at in range(count, 0, -1)], *after]
