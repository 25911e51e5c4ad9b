"""`vtakit.InferenceSession`: models run as onnxruntime's sessions run them, on compiled code."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.base.errors import one_of
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.reader import load_onnx, read_model
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.runtime.cuda import driver as cuda
from vtakit.runtime.inputs import InputError, check_threads
from vtakit.runtime.model import compile
from vtakit.runtime.stages.dims import Dim, dim
from vtakit.runtime.stages.ports import OpenPort, port_of
from vtakit.runtime.target import Array

if TYPE_CHECKING:
    import onnx

PROVIDERS = {"CPUExecutionProvider": "llvm", "CUDAExecutionProvider": "cuda"}
_REFUSED = {  # options of onnxruntime's sessions without a meaning here: name -> the value that asks for nothing
    "enable_profiling": (False, "Module.profile times layers"),
    "optimized_model_filepath": ("", "Module.save writes compiled models"),
}


@dataclass(kw_only=True)
class SessionOptions:
    """Options of a session; an onnxruntime.SessionOptions will do as well.

    intra_op_num_threads : of one run; 0 for OpenMP's number
    inter_op_num_threads : 0 or 1, since operators run one after another
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output.

    type  : "tensor(float)", "seq(tensor(int64))", "optional(tensor(float))"
    shape : sizes, open ones by name or None; of a sequence, and of an output whose rank is open, []
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Metadata of a model's file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


class InferenceSession:
    """A model with the calls of onnxruntime.InferenceSession.

    ::

        session = vtakit.InferenceSession("model.onnx")
        (scores,) = session.run(None, {session.get_inputs()[0].name: image})

    Open sizes are those of the arrays: code for each set of sizes is compiled at its first use (`vtakit.runtime.stages`).

    path_or_bytes : of an ONNX file, or its bytes; or an onnx.ModelProto
    sess_options  : `SessionOptions`, or onnxruntime's, of which the numbers of threads count
    providers     : names, or (name, options): CPUExecutionProvider, CUDAExecutionProvider; the first that there is, with a
                    warning for each before it. The latter needs an NVIDIA GPU; of its options `device_id` counts

    Several threads may run a session at once.
    Raises ModelError for a model that cannot be read, InputError for options that there are not, and if there is no provider.
    """

    def __init__(
        self, path_or_bytes: "str | Path | bytes | onnx.ModelProto", sess_options: Any = None,
        providers: Sequence[Any] | None = None, **options: Any,
    ) -> None:
        for name in options:
            raise InputError(f"InferenceSession({name}=…): there is no such option; known: sess_options, providers")
        self._provider, device = _provider(providers)
        model, self._proto = _read(path_or_bytes)
        graph = self._proto.graph
        initial = {each.name for each in graph.initializer}
        self._ports = {each.name: port_of(each, "input") for each in graph.input if each.name not in initial}
        self._inputs = [_node_arg(each) for each in graph.input if each.name not in initial]
        self._outputs = [_node_arg(each) for each in graph.output]
        shapes = {each.name: _sizes(each) for each in self._inputs if not all(isinstance(size, int) for size in each.shape)}
        self._model = compile(model, PROVIDERS[self._provider], shapes=shapes or None, device=device,
                              threads=_threads(sess_options))

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """Run on arrays by name, lists of them for sequences; return the outputs of these names, or all in order.

        Raises InputError for names that the model does not have, and for arrays that do not fit.
        """
        names = [each.name for each in self._outputs]
        for name in output_names or ():
            if name not in names:
                raise InputError(f"the model has no output {name!r}; {one_of(names, str(name))}")
        made = self._model.run(self._checked(input_feed))
        return [made[name] for name in (output_names or names)]

    def _checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(feed, Mapping):
            raise InputError(f"run takes a dict of arrays by name, got {type(feed).__name__}")
        known = {each.name: each for each in self._inputs}
        for name in feed:
            if name not in known:
                raise InputError(f"the model has no input {name!r}; {one_of(known, str(name))}")
        if missing := [name for name, each in known.items() if name not in feed and not each.type.startswith("optional")]:
            raise InputError(f"the model lacks {', '.join(f'{name!r} ({known[name].type})' for name in missing)}")
        return {name: _value(self._ports[name], each) for name, each in feed.items()}

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs, without those that have a value in the model."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        """Return the provider that runs the model."""
        return [self._provider]

    def get_modelmeta(self) -> ModelMetadata:
        """Return the metadata of the model's file."""
        proto = self._proto
        return ModelMetadata(
            proto.producer_name, proto.graph.name, proto.domain, proto.doc_string, proto.model_version,
            {each.key: each.value for each in proto.metadata_props})

    def io_binding(self) -> "IOBinding":
        """Return a binding of arrays to inputs and outputs, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: "IOBinding", run_options: Any = None) -> None:
        """Run on bound inputs; bound arrays of outputs are filled."""
        iobinding.run()


class IOBinding:
    """Arrays bound to the inputs and outputs of a session, in memory of the processor."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Array | None] = {}
        self._made: list[Any] = []

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Bind an array, which is not copied, to an input."""
        self._inputs[name] = array

    def bind_output(self, name: str, device_type: str = "cpu", *, array: Array | None = None) -> None:
        """Ask for an output, in `array` if that is given."""
        if device_type != "cpu":
            raise InputError(f"bind_output({name!r}, {device_type!r}): outputs are in memory of the processor, 'cpu'")
        self._outputs[name] = array

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run."""
        return list(self._made)

    def clear_binding_inputs(self) -> None:
        """Unbind all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbind all outputs."""
        self._outputs.clear()

    def run(self) -> None:
        """Run the session."""
        self._made = self._session.run(list(self._outputs) or None, self._inputs)
        for at, (name, array) in enumerate(self._outputs.items()):
            if array is not None:
                found = self._made[at]
                if not isinstance(found, np.ndarray):
                    raise InputError(f"output {name!r} is a {type(found).__name__}, which no array can hold: bind it without one")
                if array.shape != found.shape or array.dtype != found.dtype:
                    raise InputError(f"output {name!r} is {found.dtype}{list(found.shape)}; the array bound to it is "
                                     f"{array.dtype}{list(array.shape)}")
                array[...] = found


def _read(given: "str | Path | bytes | onnx.ModelProto") -> "tuple[str | Path | onnx.ModelProto, onnx.ModelProto]":
    """Return a model as `vtakit.compile` takes it, and the model itself."""
    if isinstance(given, bytes | bytearray | memoryview):
        load_onnx()
        import onnx
        from google.protobuf.message import DecodeError

        try:
            proto = onnx.ModelProto.FromString(bytes(given))
        except DecodeError:
            raise ModelError(f"{len(given)} bytes are no ONNX model, or a damaged one") from None
        return proto, read_model(proto)[0]
    return given, read_model(given)[0]


def _node_arg(info: Any) -> NodeArg:
    kind = info.type
    tensor = kind.optional_type.elem_type.tensor_type if kind.HasField("optional_type") else kind.tensor_type
    shape: list[int | str | None] = [
        each.dim_value if each.HasField("dim_value") else each.dim_param or None for each in tensor.shape.dim]
    return NodeArg(info.name, _type(kind), shape)


def _type(kind: Any) -> str:
    """Return a type as onnxruntime spells it."""
    from onnx import TensorProto

    if kind.HasField("optional_type"):
        return f"optional({_type(kind.optional_type.elem_type)})"
    if kind.HasField("sequence_type"):
        return f"seq({_type(kind.sequence_type.elem_type)})"
    element = kind.tensor_type.elem_type
    return f"tensor({TensorProto.DataType.Name(element).lower() if element else 'undefined'})"


def _value(port: OpenPort, given: Any) -> Any:
    """Return numbers in lists as an array of an input's type, as onnxruntime does; anything else is the module's to judge."""
    if not port.form.endswith("tensor") or given is None or hasattr(given, "__dlpack__"):
        return given
    try:
        return np.asarray(given, None if port.kind is None else numpy_dtype(port.kind))
    except (TypeError, ValueError, OverflowError) as error:
        why = " ".join(str(error).split())
        raise InputError(f"input {port.name!r} is {port}, got a {type(given).__name__} that is no array: {why}") from None


def _sizes(given: NodeArg) -> tuple[int | Dim, ...]:
    """The shape of an input, its open sizes by their names in the model or one of their own."""
    return tuple([
        size if isinstance(size, int) else dim(size or f"{given.name}.{axis}") for axis, size in enumerate(given.shape)])


def _provider(given: Sequence[Any] | None) -> tuple[str, str | None]:
    """Return the first of some providers that there is, and the device that its options name; warn of each before it."""
    named = [each if isinstance(each, tuple) else (each, {}) for each in (given or ["CPUExecutionProvider"])]
    for name, options in named:
        why = _lacking(name)
        if not why:
            return str(name), _device(name, options)
        warnings.warn(why, RuntimeWarning, stacklevel=3)
    raise InputError(f"providers={list(given or ())!r:.200}: there is none of them here; {one_of(PROVIDERS, str(named[0][0]))}")


def _device(provider: str, options: Mapping[str, Any]) -> str | None:
    """Return the device that a provider's options name, None for the provider's own."""
    if PROVIDERS[provider] != "cuda" or "device_id" not in options:
        return None
    number = str(options["device_id"])  # onnxruntime takes "1", too
    if not number.isdecimal():
        raise InputError(f"{provider}: device_id is the number of a GPU, got {options['device_id']!r:.60}")
    return f"cuda:{number}"


def _lacking(name: Any) -> str:
    """Return why there is no such provider, or ""."""
    if name not in PROVIDERS:
        return f"there is no provider {name!r:.60} here; {one_of(PROVIDERS, str(name))}"
    why = cuda.missing() if PROVIDERS[name] == "cuda" else ""
    return f"there is no provider {name!r} here: {why}" if why else ""


def _threads(options: Any) -> int | None:
    if options is None:
        return None
    for name, (nothing, cure) in _REFUSED.items():
        if getattr(options, name, nothing) != nothing:
            raise InputError(f"sess_options.{name}: sessions here do not have it; {cure}")
    inter = getattr(options, "inter_op_num_threads", 0)
    if inter not in (0, 1):
        raise InputError(f"sess_options.inter_op_num_threads={inter}: operators run one after another; leave it at 0")
    given = getattr(options, "intra_op_num_threads", 0)
    return check_threads(given or None)
