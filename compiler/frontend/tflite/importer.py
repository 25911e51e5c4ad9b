"""TensorFlow Lite models as graphs.

Quantized operators become what they mean: real numbers of their operands, the operator, and numbers quantized again, of which
`vtakit.compiler.graph.passes.quantized.form` makes integers. Everything unsupported is told at once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.base.limits import check_shape
from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.onnx.importer import word
from vtakit.compiler.frontend.onnx.reader import as_shapes, is_size
from vtakit.compiler.frontend.tflite.model import Model, Operator
from vtakit.compiler.frontend.tflite.nodes import TfliteNode, called
from vtakit.compiler.frontend.tflite.operators import CONVERTERS
from vtakit.compiler.frontend.tflite.reader import read_model
from vtakit.compiler.frontend.tflite.tensors import Tensors, Unsupported, plain
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.fold import Evaluate

_NONSENSE = (TypeError, ValueError, IndexError, KeyError, ArithmeticError, AttributeError)


def import_tflite(
    path: str | Path, *, shapes: Mapping[str, Sequence[int]] | None = None, batch: int = 1, evaluate: Evaluate = evaluate_graph,
    name: str | None = None,
) -> Graph:
    """Read a .tflite file.

    Inputs and outputs have the names of the model's signature, else those of its tensors, and the layout of the model:
    images have their channels last.

    shapes   : of inputs whose shape the model leaves open
    batch    : the size of an open first dimension
    evaluate : computes constants (see `vtakit.compiler.graph.passes.fold`)
    name     : of the graph, a word; that of the file by default

    Raises UnsupportedError with all that is unsupported, ModelError for a model that cannot be read or breaks a rule.
    """
    model = read_model(path)
    if not is_size(batch) or batch < 1:
        raise ModelError(f"batch={batch!r}: a batch is a whole number, at least 1")
    build = Builder(word(model.name) if name is None else name)
    return _Importer(model, Tensors(model.tensors, build, evaluate)).graph(shapes, int(batch))


class _Importer:
    def __init__(self, model: Model, tensors: Tensors) -> None:
        self.model, self.tensors, self.build = model, tensors, tensors.build
        self.unsupported: dict[str, list[str]] = {}
        self.others: list[VtakitError] = []
        self.missing: set[int] = set()  # tensors that are not there because of an error
        self.exact = True  # whether all sizes are those that the file has

    def graph(self, shapes: Mapping[str, Sequence[int]] | None, batch: int) -> Graph:
        given = as_shapes(shapes, [name for name, _ in self.model.inputs])
        for name, at in self.model.inputs:
            self._input(name, at, given.get(name), batch)
        for operator in self.model.operators:
            self._operator(operator)
        outputs = []
        for name, at in self.model.outputs:
            if at not in self.missing:
                self._check_there(at, f"the output {name!r}")
                outputs.append((name, self.tensors.raw(at, plain(len(self.tensors.shape(at))))))
        if self.unsupported:
            raise UnsupportedError(self.model.name, self.unsupported, self.others)
        if self.others:
            raise self.others[0]
        return self.build.finish(outputs)

    def _input(self, name: str, at: int, given: tuple[int, ...] | None, batch: int) -> None:
        tensor, what = self.model.tensors[at], f"input {name!r} of the model {self.model.name!r}"
        if tensor.kind is None:
            raise ModelError(f"{what} has element type {tensor.type_name}, which vtakit does not have")
        shown = ", ".join("?" if axis in tensor.open else str(size) for axis, size in enumerate(tensor.shape))
        sizes: tuple[int, ...] = tensor.shape
        if given is not None:
            fits = len(given) == len(sizes) and all(
                axis in tensor.open or size == own for axis, (size, own) in enumerate(zip(given, sizes, strict=True)))
            if not fits or min(given, default=0) < 0:
                raise ModelError(f"{what} has the shape [{shown}], which {list(given)} does not fit")
            sizes = given
        elif 0 in tensor.open:
            sizes = (batch, *sizes[1:])
        if given is None and any(tensor.open[1:] if 0 in tensor.open else tensor.open):
            raise ModelError(f"{what} has the open shape [{shown}]: give it with shapes={{{name!r}: (…)}}")
        check_shape(sizes, what)
        self.exact = self.exact and sizes == tensor.shape
        self.tensors.put(at, plain(len(sizes)), self.build.input(name, sizes, tensor.kind))

    def _operator(self, operator: Operator) -> None:
        missing = not self.missing.isdisjoint(operator.inputs)
        convert = CONVERTERS.get(operator.op)
        name = called(self.model.tensors[operator.outputs[0]]) if operator.outputs else operator.op
        if convert is None:
            self.unsupported.setdefault(operator.op, []).append(name)
        if convert is None or missing:
            self.missing |= set(operator.outputs)
            return
        try:
            for at in operator.inputs:
                if at >= 0:
                    self._check_there(at, f"node {name!r} ({operator.op})")
            convert(TfliteNode(operator, self.tensors))
            self._check_made(operator, name)
            return
        except Unsupported as error:
            self.unsupported.setdefault(str(error), []).append(name)
        except GraphError as error:
            self.others.append(ModelError(f"node {name!r} ({operator.op}): {str(error).removeprefix(f'{name}: ')}"))
        except VtakitError as error:
            self.others.append(error)
        except _NONSENSE as error:  # what a converter meets in operands and options that the schema lets pass
            why = " ".join(str(error).split())[:200] or type(error).__name__
            self.others.append(ModelError(f"node {name!r} ({operator.op}) has operands or options that do not fit: {why}"))
        self.missing |= set(operator.outputs)

    def _check_there(self, at: int, what: str) -> None:
        tensor = self.model.tensors[at]
        if not self.tensors.has(at):
            of = f" of {tensor.type_name}" if tensor.kind is None else ""
            raise ModelError(f"{what} reads tensor {tensor.name!r}{of}, which nothing before makes")

    def _check_made(self, operator: Operator, name: str) -> None:
        """Raise ModelError for a result that is not made, or of another shape than the file says where no size is open."""
        for at in operator.outputs:
            if not self.tensors.has(at):
                raise ModelError(f"node {name!r} ({operator.op}) does not make its output {self.model.tensors[at].name!r}")
            made, said = self.tensors.shape(at), self.model.tensors[at]
            if self.exact and made != said.shape and said.shape and not said.open:  # some converters leave shapes out
                raise ModelError(f"node {name!r} ({operator.op}) makes {said.type_name}{list(made)}; the model says "
                                 f"{list(said.shape)}")
