"""The model behind an open module, and the compilation of its parts."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vtakit.base.collector import seldom_collected
from vtakit.base.reading import memory_bytes
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.external import fill_data
from vtakit.compiler.frontend.onnx.importer import word
from vtakit.compiler.frontend.onnx.order import Part
from vtakit.compiler.frontend.onnx.part import import_part
from vtakit.compiler.frontend.onnx.reader import load_onnx, opset_versions, read_model
from vtakit.compiler.frontend.onnx.stages import Plan
from vtakit.compiler.frontend.own import OWN
from vtakit.compiler.graph.ir import TensorType
from vtakit.compiler.graph.passes.base import Seen
from vtakit.runtime import kept_models
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.module import Module
from vtakit.runtime.module_file import PackageError, parse
from vtakit.runtime.source import Options
from vtakit.runtime.stages.dims import Dim
from vtakit.runtime.stages.ports import Inputs, OpenPort, port_of, with_sizes
from vtakit.runtime.target import Array, Image, Opening, Progress, Target
from vtakit.runtime.tune.network import Network, covered

if TYPE_CHECKING:
    import onnx


class Compiled(NamedTuple):
    """The module of a part for one set of sizes.

    key : digest of the part's place in the model, its nodes, and the types and elements that it is compiled for
    """

    key: bytes
    module: Module


@dataclass(eq=False, kw_only=True)
class OpenSource:
    """A model whose parts are compiled when a run needs them.

    proto    : the model, with all its data
    name     : of the functions in C
    inputs   : with the sizes that the caller gives
    options  : of compilation
    tuned    : records of the tuner and the name of their file
    stored   : images from a module file, by what tells a part and its sizes apart
    """

    proto: "onnx.ModelProto"
    name: str
    target: Target
    options: Options
    inputs: Inputs
    outputs: tuple[OpenPort, ...]
    cache: bool = True
    tuned: Any = None
    after: Seen | None = None
    progress: Progress | None = None
    threads: int | None = None
    stored: dict[bytes, bytes] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Plan:
        """The stages of the model."""
        return Plan(self.proto, self.name, opset_versions(self.proto, self.name))

    def check(self) -> None:
        """Raise UnsupportedError for operators that neither code nor a stage can be."""
        assert self.plan.main is not None

    @cached_property
    def model_bytes(self) -> int:
        """Size in bytes of the model."""
        return int(self.proto.ByteSize())

    @cached_property
    def contents(self) -> bytes:
        """The model as bytes. Raises ModelError for one of more than 2 GiB."""
        try:
            return bytes(self.proto.SerializeToString(deterministic=True))
        except ValueError:
            raise ModelError(f"model {self.name!r} has more than 2 GiB, and so is neither kept nor saved with open sizes: "
                             "compile it with shapes= for one set of sizes") from None

    @cached_property
    def _digest(self) -> bytes:
        return sha256(self.contents).digest()

    def compiled(
        self, part: Part, types: Mapping[str, TensorType], fixed: Mapping[str, Array], key: bytes, *, opening: Opening,
    ) -> Compiled:
        """Return the module of a part for inputs of these types, those in `fixed` with these elements."""
        digest = sha256(key + repr(sorted((name, str(kind)) for name, kind in types.items())).encode()).digest()
        image = self._image(part, types, fixed, digest)
        module = Module(image, opening.device, opening.timeout_s, threads=opening.threads, **opening.options)
        return Compiled(digest, module)

    def _image(
        self, part: Part, types: Mapping[str, TensorType], fixed: Mapping[str, Array], digest: bytes,
    ) -> Image:
        if digest in self.stored:
            stored = parse(self.stored[digest], where := f"the module file of {self.name!r}")
            inputs = all(types.get(port.name) == TensorType(port.shape, port.dtype) for port in stored.inputs)
            if not inputs or tuple([port.name for port in stored.outputs]) != part.outputs:
                raise PackageError(f"{where} is inconsistent: it has code of another part for {', '.join(part.outputs)}")
            return stored
        place = self._place(digest)
        image = None if place is None else kept_models.found(place)
        if image is not None:
            return replace(image, source=None)
        begin = time.perf_counter()
        target = self.target.ready("compile")
        evaluate = evaluator(target)
        with seldom_collected():
            open_types = {name: kind for name, kind in types.items() if name not in fixed}
            graph = import_part(self.proto, part, open_types, fixed, called=self.name, name=self.name, evaluate=evaluate)
            options, said = self.options, ""
            if self.tuned is not None:
                found = covered(Network.of(graph, target, options, evaluate, self.threads), *self.tuned)
                options, said = replace(options, decisions={**found.decisions, **options.decisions}), found.said
            limit = None if target.misfit else memory_bytes()
            image = target.compile(graph, options, evaluate, after=self.after, progress=self.progress, most_bytes=limit)
        image = replace(image, said="; ".join(filter(None, (image.said, said))))
        if place is not None:
            kept_models.keep(place, image, time.perf_counter() - begin, lambda: place)
        return image

    def _place(self, digest: bytes) -> Any:
        if not self.cache or self.after is not None or self.tuned is not None or OWN:  # whose definitions no digest has
            return None
        try:
            contents = self._digest
        except ModelError:  # too large
            return None
        return kept_models.place_of_contents([contents, digest], self.target.key, self.options, self.name)


def open_source(
    model: Any, target: Target, options: Options, *, shapes: Mapping[str, Any] | None, batch: int | Dim | None,
    fixed: Mapping[str, Any] | None, name: str | None, **how: Any,
) -> OpenSource:
    """Return a model to be compiled when it runs; arguments as of `vtakit.compile`.

    Raises what `vtakit.compile` raises for the model, its operators and the arguments.
    """
    read, called, folder = read_model(model)
    proto = type(read)()
    proto.CopyFrom(read)
    fill_data(proto, folder)
    held = {tensor.name for tensor in proto.graph.initializer}
    infos = [info for info in proto.graph.input if info.name not in held]
    _fix(proto, infos, fixed or {})
    declared = [port_of(info, "input") for info in infos if info.name not in (fixed or {})]
    names = [port.name for port in declared]
    for word_ in shapes or {}:
        if word_ not in names:
            listed = ", ".join(map(repr, names)) or "none"
            raise ModelError(f"shapes names {word_!r}, which is no input of the model: it has {listed}")
    ports = [with_sizes(port, (shapes or {}).get(port.name), batch) for port in declared]
    outputs = tuple([port_of(info, "output") for info in proto.graph.output])
    source = OpenSource(
        proto=proto, name=word(called) if name is None else name, target=target, options=options,
        inputs=Inputs(called, ports, declared), outputs=outputs, **how,
    )
    source.check()
    return source


def _fix(proto: "onnx.ModelProto", infos: "list[onnx.ValueInfoProto]", fixed: Mapping[str, Any]) -> None:
    """Make constants of inputs."""
    from onnx import numpy_helper

    known = {info.name: info for info in infos}
    for name, given in fixed.items():
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise ModelError(f"fixed names {name!r}, which is no input of the model: it has {listed}")
        array = np.asarray(given)
        port = port_of(known[name], "input")
        if str(array.dtype) != str(port.kind):
            raise ModelError(f"fixed[{name!r}] is an array of {array.dtype}; the input has element type {port.kind}")
        proto.graph.initializer.append(numpy_helper.from_array(array, name))


def model_of(data: bytes, where: str) -> "onnx.ModelProto":
    """Return the model in a module file, checked as any model is. Raises PackageError."""
    load_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return read_model(onnx.ModelProto.FromString(data))[0]
    except (DecodeError, ValueError) as error:  # a ModelError is one
        raise PackageError(f"{where} is inconsistent: its model: {' '.join(str(error).split())[:200]}") from None
