"""The row of passes for each kind of target."""

from functools import partial

from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.passes.base import GraphPass
from vtakit.compiler.graph.passes.batch_norm import fold_scales, simplify_inference
from vtakit.compiler.graph.passes.cse import merge_common, merge_constants
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.passes.fold import Evaluate, fold_constants
from vtakit.compiler.graph.passes.half import Pays, half_precision
from vtakit.compiler.graph.passes.layout import block_layouts
from vtakit.compiler.graph.passes.packed_bytes import pack_bytes
from vtakit.compiler.graph.passes.panels import pack_matrices
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.passes.scales import fold_input_scales
from vtakit.compiler.graph.passes.winograd import winograd_forms
from vtakit.compiler.nn.cpu.machine import Machine


def passes_for_cpu(
    evaluate: Evaluate, *, integer: bool = True, lanes: int | None = None, winograd: Machine | None = None,
    precision: str = "float32", narrowed: Pays | None = None, decisions: ModelDecisions | None = None,
) -> tuple[GraphPass, ...]:
    """The passes before fusion, in order.

    evaluate : runs a graph of constants
    integer  : whether quantized models become networks in integers; before what would take their int8 weights apart
    lanes    : float32 numbers of a vector, to lay channels and columns out in blocks of so many; None leaves layouts as they are
    winograd : the processor for which convolutions in blocks take Winograd's form where it is faster; None leaves them direct
    precision : in which constant matrices in panels are kept: "float32", "float16" or "bfloat16"
    narrowed  : which convolutions of floating-point numbers are to be in bfloat16; none if None
    decisions : given for nodes; those of the passes are added
    """
    all_ = ModelDecisions() if decisions is None else decisions
    return (
        GraphPass("remove_dead", remove_dead),
        *([GraphPass("integer_form", integer_form)] if integer else []),
        GraphPass("simplify_inference", simplify_inference),
        GraphPass("fold_scales", fold_scales),
        GraphPass("fold_input_scales", fold_input_scales),
        GraphPass("fold_constants", partial(fold_constants, evaluate=evaluate)),
        GraphPass("merge_common", merge_common),
        *([GraphPass("pack_bytes", partial(pack_bytes, decisions=all_))] if lanes and integer else []),
        *([GraphPass("half_precision", partial(half_precision, pays=narrowed, decisions=all_))] if narrowed else []),
        *([GraphPass("block_layouts", partial(block_layouts, lanes=lanes, decisions=all_))] if lanes else []),
        *([GraphPass("pack_matrices", partial(pack_matrices, lanes=lanes, kept=precision, decisions=all_))] if lanes else []),
        *([GraphPass("winograd_forms", partial(winograd_forms, machine=winograd, decisions=all_))] if lanes and winograd else []),
        *([GraphPass("merge_constants", merge_constants)] if lanes else []),
    )
