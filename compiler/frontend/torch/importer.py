"""PyTorch programs, as torch.export makes them, as graphs.

Composite operators are decomposed by PyTorch itself down to those that have a converter here, so that an operator that
`vtakit.compiler.nn` has, such as an LSTM, stays whole. Everything unsupported is told at once.
"""

from typing import TYPE_CHECKING, Any

from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.torch.operators import CONVERTERS
from vtakit.compiler.frontend.torch.quiet import quiet
from vtakit.compiler.frontend.torch.reader import Known, Reader, array_of, element_type, fixed_shape
from vtakit.compiler.graph.ir import Graph

if TYPE_CHECKING:
    import torch


def import_program(program: "torch.export.ExportedProgram", *, name: str = "program") -> Graph:
    """Read an exported program. Its inputs have the names of the module's arguments; one output is called "output", of several
    each has its number.

    name : of the graph, a word

    Raises UnsupportedError with all that is unsupported, ModelError for a program that has no fixed meaning: one that changes its
    buffers, or leaves shapes open.
    """
    program = _decomposed(program, name)  # before that, changes are hidden in operators
    changed = program.graph_signature.buffers_to_mutate
    if changed:
        first = next(iter(changed.values()))
        raise ModelError(f"program {name!r} changes {len(changed)} of its buffers, such as {first!r}, as modules in training do: "
                         f"call module.eval() before torch.export.export")
    return _Importer(program, name).graph()


def _decomposed(program: "torch.export.ExportedProgram", name: str) -> "torch.export.ExportedProgram":
    """With every operator decomposed that has no converter and can be."""
    import torch

    table = torch.export.default_decompositions()
    for op in list(table):
        if str(op) in CONVERTERS:
            table.pop(op)
    with quiet():
        try:
            return program.run_decompositions(table)
        except Exception as error:  # PyTorch raises many kinds for a program whose operators do not fit their operands
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(f"PyTorch refuses the program {name!r}: {why}") from None


class _Importer(Reader):
    def __init__(self, program: "torch.export.ExportedProgram", name: str) -> None:
        super().__init__(name)
        self.program = program

    def graph(self) -> Graph:
        given = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs if hasattr(spec.arg, "name")}
        outputs: list[Any] = []
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.known[node] = self._placeholder(node, given[node.name])
            elif node.op == "output":
                outputs = list(node.args[0])
            else:
                self.read(node)
        if self.unsupported:
            raise UnsupportedError(self.name, self.unsupported)
        names = ["output"] if len(outputs) == 1 else [f"output{at}" for at in range(len(outputs))]
        return self.build.finish([
            (word, self.output(word, each)) for word, each in zip(names, outputs, strict=True) if each is not None
        ])

    def _placeholder(self, node: Any, spec: Any) -> Known:
        where = f"program {self.name!r}"
        if spec.target is not None:  # a parameter, a buffer or a constant
            held = self.program.state_dict.get(spec.target)
            tensor = self.program.constants.get(spec.target) if held is None else held
            if tensor is None:
                raise ModelError(f"{where} reads {spec.target!r}, which it does not have")
            kind = element_type(tensor.dtype, where)
            return self.build.constant(array_of(tensor, f"{spec.target!r} of {where}"), kind, spec.target)
        value = node.meta.get("val")
        if not hasattr(value, "shape"):  # a number that the program was exported for
            return None if value is None else float(value)
        shape = fixed_shape(value.shape, f"input {node.name!r} of {where}")
        return self.build.input(node.name, shape, element_type(value.dtype, f"input {node.name!r} of {where}"))
