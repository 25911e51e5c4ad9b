"""PyTorch programs as ONNX models, which the quantizer reads."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import needs
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.torch.importer import import_program
from vtakit.compiler.frontend.torch.quiet import quiet

if TYPE_CHECKING:
    import onnx
    import torch


def onnx_of(program: "torch.export.ExportedProgram", name: str) -> "onnx.ModelProto":
    """Return a program as an ONNX model of this name, written by PyTorch's own exporter; ports have the names of vtakit.compile.

    Raises ModelError for a program that PyTorch cannot write as ONNX, and the errors of vtakit.compile for one that it rejects.
    """
    with needs("quantizing a PyTorch program", "torch"):
        import_module("onnxscript")
        torch: Any = import_module("torch")
    graph = import_program(program, name=name)
    try:
        with quiet():
            made = torch.onnx.export(
                program, dynamo=True, verbose=False, input_names=[value.name for value in graph.inputs],
                output_names=[port for port, _ in graph.outputs])
    except torch.onnx.OnnxExporterError as error:
        why = str(error).strip().partition("\n")[0]
        raise ModelError(f"PyTorch cannot write the program {name!r} as ONNX, which the quantizer reads: {why}") from None
    proto: onnx.ModelProto = made.model_proto
    proto.graph.name = name
    return proto
