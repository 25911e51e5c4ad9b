"""PyTorch's quantization of exported programs (PT2E), and how near their networks in integers come to what PyTorch computes."""

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vtakit.compiler.frontend.torch.importer import import_program
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.reference import MEANING, evaluated

import_module("torch.ao.quantization.fx._decomposed")  # registers the operators
Q = torch.ops.quantized_decomposed
X86, XNNPACK = "x86", "XNNPACK"


def _quantizer(rules: str) -> Any:
    """The quantizer for PyTorch's compiler on x86, or ExecuTorch's for XNNPACK, of which torchao has a copy."""
    if rules == X86:
        found = import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
        return found.X86InductorQuantizer().set_global(found.get_default_x86_inductor_quantization_config())
    found = import_module("torchao.testing.pt2e._xnnpack_quantizer")
    return found.XNNPACKQuantizer().set_global(found.get_symmetric_quantization_config(is_per_channel=True))


def by_pt2e(made: torch.nn.Module, images: torch.Tensor, rules: str) -> torch.export.ExportedProgram:
    """A network of one image in 8 bits, calibrated on some, as torchao's quantizer makes it.

    rules : X86 or XNNPACK
    """
    pt2e = import_module("torchao.quantization.pt2e.quantize_pt2e")
    prepared = pt2e.prepare_pt2e(torch.export.export(made, (images[:1],)).module(), _quantizer(rules))
    with torch.no_grad():
        for image in images:
            prepared(image[None])
    program: torch.export.ExportedProgram = torch.export.export(pt2e.convert_pt2e(prepared), (images[:1],))
    return program


def layer_by_layer(program: torch.export.ExportedProgram, x: torch.Tensor) -> npt.NDArray[np.int64]:
    """By how many quanta each value that a program quantizes differs from PyTorch's, each layer from PyTorch's own operands."""
    theirs: dict[str, npt.NDArray[np.int8]] = {}

    class Kept(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            made = super().run_node(n)
            if n.target is Q.quantize_per_tensor.default:
                whole = made.numpy()
                theirs[n.name] = (whole.astype(int) - 128).astype(np.int8) if whole.dtype == np.uint8 else whole
            return made
    with torch.no_grad():
        Kept(program.module()).run(x)
    graph = integer_form(import_program(program))
    known: dict[Any, Any] = {**graph.constants, graph.inputs[0]: x.numpy()}
    off = []
    for node in graph.nodes:
        if any(value not in known for value in node.reads) or node.op not in MEANING:
            continue  # what is not quantized, to the end of the network
        known[node.outputs[0]] = got = evaluated(node, [known[value] for value in node.reads])
        want = theirs.get(node.outputs[0].name)
        if want is not None and want.shape == got.shape and got.dtype == np.int8:
            off.append(np.abs(got.astype(np.int64) - want).reshape(-1))
            known[node.outputs[0]] = want
    assert len(off) > 0.6 * len(theirs)  # others are one with the value before them, which has the same scale
    return np.concatenate(off)
