"""Parts of an ONNX model as graphs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vtakit.compiler.frontend.onnx.importer import Importer
from vtakit.compiler.frontend.onnx.subgraphs import reads_of
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Array, Graph, TensorType, Value
from vtakit.compiler.graph.passes.fold import Evaluate

if TYPE_CHECKING:
    import onnx

    from vtakit.compiler.frontend.onnx.order import Part


def import_part(
    proto: "onnx.ModelProto", part: "Part", types: Mapping[str, TensorType], fixed: Mapping[str, Array], *, called: str,
    name: str, evaluate: Evaluate,
) -> Graph:
    """Return the graph of a part for inputs of these types.

    proto  : the model, for its functions and operator sets
    types  : of the inputs, those in `fixed` left out
    fixed  : inputs that become constants
    called : the model's name in messages
    name   : of the graph

    Raises what `import_model` raises; a LaterError tells the number of the part's node that needs what the graph does not say.
    """
    importer = Importer(proto, called, "", evaluate)
    importer.build = Builder(name)
    known: dict[str, Value | None] = {}
    read = dict.fromkeys(word for node in part.nodes for word in reads_of(node))
    importer.initializers([part.scope.constants[key] for key in read if key in part.scope.constants], known)
    for key in part.inputs:
        if key in fixed:
            known[key] = importer.build.constant(fixed[key], name=key)
        else:
            known[key] = importer.build.input(key, types[key].shape, types[key].dtype)
    importer.nodes(part.nodes, known, "", importer.versions, 0)
    importer.check()
    outputs = [(key, importer.value(known, key)) for key in part.outputs]
    return importer.build.finish([(key, value) for key, value in outputs if value is not None])
