"""The row of passes for each kind of target."""

from functools import partial

from vtakit.compiler.graph.passes.base import GraphPass
from vtakit.compiler.graph.passes.batch_norm import fold_scales, simplify_inference
from vtakit.compiler.graph.passes.cse import merge_common
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.passes.fold import Evaluate, fold_constants
from vtakit.compiler.graph.passes.quantised.form import integer_form


def passes_for_cpu(evaluate: Evaluate, *, integer: bool = True) -> tuple[GraphPass, ...]:
    """The passes before fusion, in order.

    evaluate : runs a graph of constants
    integer  : whether quantised models become networks in integers; before what would take their int8 weights apart
    """
    return (
        GraphPass("remove_dead", remove_dead),
        *([GraphPass("integer_form", integer_form)] if integer else []),
        GraphPass("simplify_inference", simplify_inference),
        GraphPass("fold_scales", fold_scales),
        GraphPass("fold_constants", partial(fold_constants, evaluate=evaluate)),
        GraphPass("merge_common", merge_common),
    )
