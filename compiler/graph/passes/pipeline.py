"""The row of passes for each kind of target."""

from functools import partial

from vtakit.compiler.graph.passes.base import GraphPass
from vtakit.compiler.graph.passes.cse import merge_common
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.passes.fold import Evaluate, fold_constants


def passes_for_cpu(evaluate: Evaluate) -> tuple[GraphPass, ...]:
    """The passes before fusion, in order.

    evaluate : runs a graph of constants
    """
    return (
        GraphPass("fold_constants", partial(fold_constants, evaluate=evaluate)),
        GraphPass("merge_common", merge_common),
        GraphPass("remove_dead", remove_dead),
    )
