"""The row of passes for each kind of target."""

from functools import partial

from vtakit.compiler.graph.passes.base import GraphPass
from vtakit.compiler.graph.passes.batch_norm import fold_scales, simplify_inference
from vtakit.compiler.graph.passes.cse import merge_common
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.passes.fold import Evaluate, fold_constants


def passes_for_cpu(evaluate: Evaluate) -> tuple[GraphPass, ...]:
    """The passes before fusion, in order.

    evaluate : runs a graph of constants
    """
    return (
        GraphPass("remove_dead", remove_dead),
        GraphPass("simplify_inference", simplify_inference),
        GraphPass("fold_scales", fold_scales),
        GraphPass("fold_constants", partial(fold_constants, evaluate=evaluate)),
        GraphPass("merge_common", merge_common),
    )
