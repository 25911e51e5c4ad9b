"""Inputs and outputs of a model whose sizes a run decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.base.errors import one_of
from vtakit.base.limits import MAX_RANK, check_limit, check_shape
from vtakit.base.text import counted
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.kinds import kind_of
from vtakit.compiler.frontend.onnx.reader import is_size
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.ir.dtypes import DType
from vtakit.runtime.inputs import InputError, as_array
from vtakit.runtime.stages.dims import Dim
from vtakit.runtime.target import Array

if TYPE_CHECKING:
    import onnx

Size = int | str | Dim | None  # fixed; open, equal wherever the name stands; open within a range; open


@dataclass(frozen=True, slots=True)
class OpenPort:
    """An input or output.

    kind  : element type of a tensor, or of a sequence's tensors; None if the model does not say
    form  : "tensor", "sequence", or "optional " before one of them
    sizes : of a tensor; None if even their number is open
    """

    name: str
    kind: DType | None
    form: str = "tensor"
    sizes: tuple[Size, ...] | None = None

    def __str__(self) -> str:
        element = str(self.kind or "?")
        if self.form != "tensor":
            return f"{self.form} of {element}"
        return f"{element}[…]" if self.sizes is None else f"{element}[{', '.join(map(_shown, self.sizes))}]"

    @property
    def is_open(self) -> bool:
        """Return whether a run decides something of it."""
        return self.sizes is None or any(not isinstance(size, int) for size in self.sizes)


def _shown(size: Size) -> str:
    return "?" if size is None else size.name if isinstance(size, Dim) else str(size)


def port_of(info: "onnx.ValueInfoProto", what: str) -> OpenPort:
    """Return a model's input or output as it is declared. Raises ModelError for kinds of values that vtakit does not have."""
    form, kind = "", info.type
    while kind.WhichOneof("value") in ("optional_type", "sequence_type"):
        inner = kind.optional_type if kind.HasField("optional_type") else kind.sequence_type
        form, kind = form + ("optional " if kind.HasField("optional_type") else "sequence "), inner.elem_type
    if kind.WhichOneof("value") not in ("tensor_type", None):
        raise ModelError(f"{what} {info.name!r} is of the kind {kind.WhichOneof('value')!r}; vtakit has tensors, sequences of "
                         "them and optionals")
    tensor = kind.tensor_type
    element = kind_of(tensor.elem_type, f"{what} {info.name!r}") if tensor.elem_type else None
    if form and form != "optional ":
        return OpenPort(info.name, element, form.rstrip())
    if not tensor.HasField("shape"):
        return OpenPort(info.name, element, f"{form}tensor")
    check_limit(len(tensor.shape.dim), MAX_RANK, f"the rank of {what} {info.name!r}")
    sizes = tuple([int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim])
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise ModelError(f"{what} {info.name!r} has a size below 0")
    return OpenPort(info.name, element, f"{form}tensor", sizes)


def with_sizes(port: OpenPort, given: Sequence[Any] | None, batch: int | Dim | None) -> OpenPort:
    """Return an input with the sizes that the caller gives.

    batch : a first dimension that is symbolic, where the caller does not give the input's shape

    Raises ModelError for sizes that do not fit.
    """
    if given is None:
        if batch is None or not port.sizes or isinstance(port.sizes[0], int):
            return port
        return OpenPort(port.name, port.kind, port.form, (batch, *port.sizes[1:]))
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(is_size(s) or isinstance(s, Dim) for s in given):
        raise ModelError(f"the shape of {port.name!r} is {given!r}: give a sequence of whole numbers, and vtakit.dim(…) for "
                         "sizes that stay open")
    sizes = tuple([size if isinstance(size, Dim) else int(size) for size in given])
    fits = port.sizes is None or (len(sizes) == len(port.sizes) and all(
        not isinstance(old, int) or _takes(new, old) for old, new in zip(port.sizes, sizes, strict=True)))
    if not fits or any(isinstance(size, int) and size < 0 for size in sizes):
        raise ModelError(f"input {port.name!r} is {port} in the model, which the shape [{', '.join(map(_shown, sizes))}] does "
                         "not fit")
    if port.sizes is not None:  # the model's sizes stay
        sizes = tuple([old if isinstance(old, int) else new for old, new in zip(port.sizes, sizes, strict=True)])
    check_shape([size for size in sizes if isinstance(size, int)], f"input {port.name!r}")
    return OpenPort(port.name, port.kind, port.form, sizes)


def _takes(given: int | Dim, size: int) -> bool:
    return given.low <= size <= given.high if isinstance(given, Dim) else given == size


class Inputs:
    """The inputs of a model, which checks what a run is given.

    model    : its name, in messages
    ports    : as the caller wants them
    declared : as the model has them: sizes of one name there are equal too
    """

    def __init__(self, model: str, ports: Sequence[OpenPort], declared: Sequence[OpenPort]) -> None:
        self.model, self.ports = model, {port.name: port for port in ports}
        self.declared = {port.name: port for port in declared}
        self._kinds = {port.name: None if port.kind is None else numpy_dtype(port.kind) for port in ports}

    def port(self, name: object) -> OpenPort:
        """Return an input. Raises InputError if there is none of that name."""
        if name in self.ports:
            return self.ports[name]
        raise InputError(f"model {self.model!r} has no input {name!r}; {one_of(list(self.ports), str(name))}")

    def words(self) -> set[str]:
        """Return the names of open sizes."""
        sizes = [size for port in self.ports.values() for size in port.sizes or ()]
        return {size.name if isinstance(size, Dim) else size for size in sizes if isinstance(size, Dim | str)}

    def values(self, given: Mapping[str, Any] | None, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all inputs: those that are given, or were set before. Raises InputError for what does not fit."""
        if given is not None and not isinstance(given, Mapping):
            first = next(iter(self.ports), "x")
            raise InputError(f"model {self.model!r} takes a dict of arrays by name, such as {{{first!r}: array}}, got "
                             f"{type(given).__name__}")
        asked = {**before, **given} if before and given else given or before
        for name in asked.keys() - self.ports.keys():
            self.port(name)
        missing = [port for name, port in self.ports.items() if name not in asked and not port.form.startswith("optional")]
        if missing:
            kinds = ", ".join(f"{port.name!r} ({port})" for port in missing)
            raise InputError(f"model {self.model!r} lacks {'its input' if len(missing) == 1 else 'its inputs'} {kinds}")
        return {name: self.value(name, asked.get(name)) for name in self.ports}

    def value(self, name: str, given: Any) -> Any:
        """Return an array, a list of arrays, or None for what is given. Raises InputError for what does not fit."""
        port, kind = self.port(name), self._kinds[name]
        if port.form.startswith("optional") and given is None:
            return None
        if port.form.endswith("sequence"):
            if not isinstance(given, list | tuple):
                raise InputError(f"input {name!r} is a {port}, got {type(given).__name__}: give a list of arrays")
            return [self._array(port, kind, each) for each in given]
        return self._array(port, kind, given)

    def takes(self, name: str, shape: tuple[int, ...], kind: "np.dtype[Any]") -> bool:
        """Return whether an array of this type fits an input, whatever the others are."""
        port = self.ports.get(name)
        if port is None or not port.form.endswith("tensor") or self._kinds[name] != kind:
            return False
        try:
            self.check({name: shape})
        except InputError:
            return False
        return True

    def _array(self, port: OpenPort, kind: "np.dtype[Any] | None", given: Any) -> Array:
        if not isinstance(given, np.ndarray):
            given = as_array(port.name, str(port), np.dtype(np.float32) if kind is None else kind, given)
        if kind is not None and given.dtype != kind:
            raise InputError(f"input {port.name!r} is {port}, got {_type(given)}: convert it with .astype({kind.name!r})")
        found: Array = given
        return found

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the sizes by name that shapes of tensors mean. Raises InputError for those that do not fit."""
        found: dict[str, tuple[int, str]] = {}
        for ports in (self.ports, self.declared):
            for name, shape in shapes.items():
                port = ports[name]
                if port.sizes is None or port.form != "tensor":
                    continue
                if len(port.sizes) != len(shape):
                    raise InputError(f"input {name!r} is {port}, with {counted(len(port.sizes), 'dimension')}; got {list(shape)}")
                for axis, (size, got) in enumerate(zip(port.sizes, shape, strict=True)):
                    self._check_size(port, axis, size, got, found)
        return {word: size for word, (size, _) in found.items()}

    def _check_size(self, port: OpenPort, axis: int, size: Size, got: int, found: dict[str, tuple[int, str]]) -> None:
        where = f"dimension {axis} of input {port.name!r} ({port})"
        if isinstance(size, int) and got != size:
            raise InputError(f"{where} has the size {size}, got {got}")
        if isinstance(size, Dim) and not size.low <= got <= size.high:
            raise InputError(f"{where} is {got}, and the module is for {size}: compile it for other sizes with shapes=")
        if isinstance(size, Dim | str):
            word = size.name if isinstance(size, Dim) else size
            known, there = found.setdefault(word, (got, where))
            if known != got:
                raise InputError(f"{where} is {got}, and {there} is {known}: both are {word!r}, and so of one size")


def _type(array: Array) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"
