"""vtakit as an ONNX backend: `onnx.backend.base.Backend`, and what `onnx.backend.test.BackendTest` takes.

::

    import vtakit.runtime.onnx_backend as backend
    backend.run_model(model, inputs)
    globals().update(onnx.backend.test.BackendTest(backend, __name__).test_cases)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from vtakit.compiler.frontend.errors import ElementTypeError, ModelError, OperatorSetError, UnsupportedError
from vtakit.runtime.model import compile

_REFUSED = (UnsupportedError, ElementTypeError, OperatorSetError)  # any other error is a failure


class RefusedError(ModelError, BackendIsNotSupposedToImplementIt):
    """A model that vtakit does not support; ONNX's tests count it as skipped."""


class CompiledModel(BackendRep):
    """A compiled model; no size and no value is given before it runs.

    Raises RefusedError for what vtakit does not support; other errors are those of `vtakit.compile`.
    """

    def __init__(self, model: onnx.ModelProto, options: dict[str, Any]) -> None:
        initial = {each.name for each in model.graph.initializer}
        self.names = [each.name for each in model.graph.input if each.name not in initial]
        self.outputs = [each.name for each in model.graph.output]
        try:
            self.module = compile(model, name="net", **options)
        except _REFUSED as error:
            raise RefusedError(str(error)) from error

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Run on arrays in the order of the inputs, or by name. Errors as of the class, and of `Module.run`."""
        given = inputs if isinstance(inputs, dict) else dict(zip(self.names, inputs, strict=False))
        arrays = {name: _array(each) for name, each in given.items()}
        try:
            made = self.module.run(arrays)
        except _REFUSED as error:
            raise RefusedError(str(error)) from error
        return tuple([made[name] for name in self.outputs])


class VtakitBackend(Backend):
    """The interface by which ONNX knows a runtime."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> CompiledModel:
        """Check a model. Options are those of `vtakit.compile`. Raises RefusedError for another device than a CPU."""
        if not cls.supports_device(device):
            raise RefusedError(f"device {device!r}: models run on the CPU")
        super().prepare(model, device)
        return CompiledModel(model, options)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None, **options: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays, in the order of its inputs that are given."""
        arrays = [_array(each) for each in inputs]
        names = [name for name in node.input if name]
        given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in zip(names, arrays, strict=True)]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        if outputs_info is not None:
            outputs = [helper.make_tensor_value_info(each.name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
                       for each, (kind, shape) in zip(outputs, outputs_info, strict=True)]
        versions = {node.domain or "": options.pop("opset_version", onnx.defs.onnx_opset_version())}
        model = helper.make_model(
            helper.make_graph([node], "node", given, outputs),
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in versions.items()])
        if outputs_info is None:
            model = onnx.shape_inference.infer_shapes(model)
        return cls.prepare(model, device, **options).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether it is the CPU."""
        return bool(Device(device).type == DeviceType.CPU)


def _array(given: Any) -> Any:
    """Return a tensor as an array; ONNX's tests also have NumPy's scalars, ONNX's own tensors, and lists of these."""
    if isinstance(given, list):
        return [*map(_array, given)]
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return np.asarray(given) if isinstance(given, np.generic | float | int) else given


is_compatible, prepare = VtakitBackend.is_compatible, VtakitBackend.prepare
run_model, run_node, supports_device = VtakitBackend.run_model, VtakitBackend.run_node, VtakitBackend.supports_device
