"""Tensor expressions as operators of PyTorch: called eagerly, by torch.compile, and kept whole by torch.export."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from math import isfinite
from typing import Any

import torch

from vtakit.base.errors import one_of
from vtakit.compiler.frontend.own import OWN, Define, register_operator
from vtakit.compiler.frontend.torch.nodes import Unsupported, kind_of
from vtakit.compiler.frontend.torch.traced import Result, Traced
from vtakit.compiler.graph.apply import result_types
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import TensorType
from vtakit.compiler.nn.operators import OperatorError
from vtakit.runtime.torch_backend.code import Run, runner
from vtakit.runtime.torch_backend.settings import Settings, settings

_KEPT = 64  # sets of shapes, types and attributes of one operator whose code is kept
_SCHEMAS = {bool: "bool", int: "int", float: "float", str: "str"}


def torch_operator(name: str, define: "Define | str", *, options: Mapping[str, Any] | None = None) -> Any:
    """Make an operator of PyTorch from a tensor expression.

    ::

        softcap = vtakit.torch_operator("example::softcap", lambda x, *, cap=50.0: …)
        softcap(tensor, cap=30.0)              # also torch.ops.example.softcap

    name    : "namespace::name", new to PyTorch
    define  : as `register_operator` takes it, or the name of a registered operator. Attributes have a default or an annotation
              that says whether they are bool, int, float or str
    options : of torch.compile's backend: target, threads

    The result of a call has no gradient; `torch.library.register_autograd` gives it one.
    Raises OperatorError for a name or definition that does not fit.
    """
    space, colons, word = name.partition("::")
    if not colons or not space.isidentifier() or not word.isidentifier():
        raise OperatorError(f"torch_operator({name!r}): give 'namespace::name', such as 'example::softcap'")
    if isinstance(define, str):
        if define not in OWN:
            raise OperatorError(f"torch_operator({name!r}, {define!r}): no operator is registered under that name; "
                                f"{one_of(OWN, define)}")
        define = OWN[define].define
    if not callable(define):
        raise OperatorError(f"torch_operator({name!r}, {define!r:.60}): give a function, or the name of a registered operator")
    kernels = _Kernels(word, settings(options))
    schema = _schema(name, define)
    try:
        made = torch.library.custom_op(name, kernels.run, mutates_args=(), schema=schema, device_types="cpu")
    except RuntimeError as error:
        raise OperatorError(f"torch_operator({name!r}): PyTorch refuses {schema}: {' '.join(str(error).split())[:200]}") from None
    made.register_fake(kernels.fake)
    register_operator(word, define, torch=name)  # at the end: a registered operator switches off the cache of modules
    kernels.op = OWN[word].name
    return made


def _schema(name: str, define: Define) -> str:
    """Return the schema of an operator for PyTorch, from the parameters of its definition."""
    tensors, attrs = [], []
    for each in signature(define).parameters.values():
        if each.kind is Parameter.KEYWORD_ONLY:
            known = type(each.default) if each.default is not Parameter.empty else each.annotation
            if known not in _SCHEMAS:
                raise OperatorError(f"torch_operator({name!r}): attribute {each.name!r} has the type {known!r}: give it a "
                                    "default, or an annotation, of bool, int, float or str")
            given = "" if each.default is Parameter.empty else f"={_literal(name, each)}"
            attrs.append(f"{_SCHEMAS[known]} {each.name}{given}")
        elif each.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY):
            tensors.append(f"Tensor? {each.name}=None" if each.default is None else f"Tensor {each.name}")
        else:
            raise OperatorError(f"torch_operator({name!r}): an operator has a fixed number of parameters, not {each}")
    return f"({', '.join([*tensors, *(['*', *attrs] if attrs else [])])}) -> Tensor"


def _literal(name: str, attr: Parameter) -> str:
    """Return the default of an attribute as PyTorch's schemas have it."""
    given = attr.default
    if not (isfinite(given) if isinstance(given, float) else isinstance(given, str) or -(1 << 63) <= given < 1 << 63):
        raise OperatorError(f"torch_operator({name!r}): attribute {attr.name!r} has the default {given}, which PyTorch's schemas "
                            "do not have: give a finite number of 64 bits, or no default and an annotation")
    if not isinstance(given, str):
        return str(given)
    return '"' + "".join([
        each if each.isprintable() and each not in '"\\' else "".join([f"\\{byte:03o}" for byte in each.encode()])
        for each in given]) + '"'


class _Kernels:
    """Code of an operator for each set of shapes, types and attributes, made at its first use."""

    def __init__(self, op: str, chosen: Settings) -> None:
        self.op, self.settings = op, chosen
        self._kept: OrderedDict[Any, Run] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, *tensors: torch.Tensor | None, **attrs: Any) -> torch.Tensor:
        """Compute the result of tensors."""
        key = (*[None if each is None else (each.shape, each.dtype) for each in tensors], *sorted(attrs.items()))
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = self._made(tensors, attrs)
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
        made = found([each for each in tensors if each is not None])
        assert isinstance(made[0], torch.Tensor)
        return made[0]

    def fake(self, *tensors: torch.Tensor | None, **attrs: Any) -> torch.Tensor:
        """Return an empty tensor of the result's shape and type, as PyTorch asks for while it traces."""
        present = next(each for each in tensors if each is not None)
        made = self._types(tensors, attrs)
        return present.new_empty(made.shape, dtype=getattr(torch, str(made.dtype)))

    def _types(self, tensors: Sequence[torch.Tensor | None], attrs: Mapping[str, Any]) -> TensorType:
        made = result_types(self.op, [_type(each) for each in tensors], attrs)
        if len(made) != 1:
            raise OperatorError(f"operator {self.op!r} makes {len(made)} tensors; as an operator of PyTorch it makes one")
        return made[0]

    def _made(self, tensors: Sequence[torch.Tensor | None], attrs: Mapping[str, Any]) -> Run:
        made = self._types(tensors, attrs)
        build = Builder("made_operator")
        operands = []
        for at, each in enumerate(tensors):
            kind = _type(each)
            operands.append(None if kind is None else build.input(f"arg{at}", kind.shape, kind.dtype))
        value = build.one(self.op, *operands, attrs=attrs)
        count = sum(each is not None for each in tensors)
        result = Result(getattr(torch, str(made.dtype)), made.shape, None, made.shape, None)
        return runner(Traced(build.finish([("output", value)]), tuple(range(count)), (result,)), self.settings)


def _type(tensor: torch.Tensor | None) -> TensorType | None:
    if tensor is None:
        return None
    try:
        return TensorType(tuple([int(size) for size in tensor.shape]), kind_of(tensor.dtype))
    except Unsupported as error:
        raise OperatorError(f"a tensor has {error}, which vtakit does not have") from None
