"""The row of passes for each kind of target."""

from functools import partial

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.passes.as_images import as_images
from vtakit.compiler.graph.passes.base import GraphPass
from vtakit.compiler.graph.passes.batch_norm import fold_scales, simplify_inference
from vtakit.compiler.graph.passes.byte_rows import byte_rows
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
from vtakit.compiler.ir.dtypes import FLOAT32


def passes_for_cpu(
    evaluate: Evaluate, *, integer: bool = True, machine: Machine | None = None, winograd: bool = True,
    precision: str = "float32", narrowed: Pays | None = None, decisions: ModelDecisions | None = None,
) -> tuple[GraphPass, ...]:
    """The passes before fusion, in order.

    evaluate : runs a graph of constants
    integer  : whether quantized models become networks in integers; before what would take their int8 weights apart
    machine  : the processor, for blocks of channels and columns of a vector each; None leaves layouts as they are
    winograd : whether convolutions in blocks take Winograd's form where it is faster
    precision : in which constant matrices in panels are kept: "float32", "float16" or "bfloat16"
    narrowed  : which convolutions of floating-point numbers are to be in bfloat16; none if None
    decisions : given for nodes; those of the passes are added
    """
    all_ = ModelDecisions() if decisions is None else decisions
    for_machine = () if machine is None else _for_machine(machine, winograd, precision, all_)
    saved = (machine or Machine()).layout_macs
    return (
        GraphPass("remove_dead", remove_dead),
        *([GraphPass("integer_form", integer_form)] if integer else []),
        GraphPass("simplify_inference", simplify_inference),
        GraphPass("fold_scales", fold_scales),
        GraphPass("fold_input_scales", fold_input_scales),
        GraphPass("fold_constants", partial(fold_constants, evaluate=evaluate)),
        GraphPass("merge_common", merge_common),
        *([GraphPass("as_images", as_images),
           GraphPass("pack_bytes", partial(pack_bytes, decisions=all_, machine=machine)),
           GraphPass("byte_rows", partial(byte_rows, decisions=all_))] if machine and integer else []),
        *([GraphPass("half_precision", partial(
            half_precision, pays=narrowed, decisions=all_, saved_per_moved=saved))] if narrowed else []),
        *for_machine,
    )


def passes_for_gpu(
    evaluate: Evaluate, *, integer: bool = True, decisions: ModelDecisions | None = None,
) -> tuple[GraphPass, ...]:
    """The passes before fusion for a GPU, in order: those for any processor, since layouts stay as they are in the model."""
    return passes_for_cpu(evaluate, integer=integer, decisions=decisions)


def _for_machine(machine: Machine, winograd: bool, precision: str, decisions: ModelDecisions) -> tuple[GraphPass, ...]:
    """Return the passes that lay data out for a processor's vectors."""
    lanes = machine.lanes(FLOAT32)
    return (
        GraphPass("block_layouts", partial(
            block_layouts, lanes=lanes, saved_per_moved=machine.layout_macs, decisions=decisions)),
        GraphPass("pack_matrices", partial(pack_matrices, lanes=lanes, kept=precision, decisions=decisions)),
        *([GraphPass("winograd_forms", partial(winograd_forms, machine=machine, decisions=decisions))] if winograd else []),
        GraphPass("merge_constants", merge_constants),
    )
