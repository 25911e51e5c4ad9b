"""Operators that a user defines: tensor expressions for operators of ONNX models and of PyTorch."""

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.compiler.frontend.onnx import nodes as onnx_nodes
from vtakit.compiler.frontend.onnx.operators import CONVERTERS as OF_ONNX
from vtakit.compiler.frontend.torch import nodes as torch_nodes
from vtakit.compiler.frontend.torch.operators import CONVERTERS as OF_TORCH
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.nn.operators import OPERATORS, Kind, Operator, OperatorError
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.tensor import Tensor

Define = Callable[..., Tensor | tuple[Tensor, ...]]
KINDS = {kind.name.lower(): kind for kind in Kind}
OWN: dict[str, Operator] = {}  # the last registration of each name
_LOCK = threading.Lock()


def register_operator(
    name: str, define: Define | None = None, *, onnx: tuple[str, str] | None = None, torch: str | None = None,
    kind: str = "opaque", schedule: Callable[[Sequence[Tensor]], Schedule] | None = None,
) -> Any:
    """Register a tensor expression as an operator, for models of ONNX and programs of PyTorch that have it.

    ::

        @vtakit.register_operator("softcap", onnx=("com.example", "SoftCap"), torch="example::softcap")
        def softcap(x, *, cap=50.0):
            return te.compute(x.shape, lambda *at: te.tanh(x(*at) / cap) * cap)

    define   : tensors, positional, to the tensors that it computes, whose shapes and types are the operator's; an optional
               operand is None. Attributes are keyword-only, by the names that the model has
    onnx     : domain and name of the ONNX operator
    torch    : "namespace::name" of the PyTorch operator, overload "default" or after a dot; tensors are taken in order, other
               arguments by name
    kind     : "injective" (each element from a few of the operands': fuses with neighbours), "reduction" (takes injective
               operators before it), "anchor" (takes them after it), or "opaque" (stays alone)
    schedule : outputs to a schedule for processors, of an opaque operator; else the default rules schedule it, as on GPUs

    A name that is registered again stands for the new definition from then on. Without `define` a decorator.
    Raises OperatorError for a name, kind or operator that is none.
    """
    if define is None:
        return lambda given: register_operator(name, given, onnx=onnx, torch=torch, kind=kind, schedule=schedule)
    if not isinstance(name, str) or not name.isidentifier():
        raise OperatorError(f"register_operator({name!r}): give a word of letters, digits and _")
    if kind not in KINDS:
        raise OperatorError(f"register_operator({name!r}, kind={kind!r}): {one_of(KINDS, str(kind))}")
    if schedule is not None and kind != "opaque":
        raise OperatorError(f"register_operator({name!r}): a schedule is for an operator that stays alone, of kind 'opaque'")
    if onnx is not None and not (isinstance(onnx, tuple) and len(onnx) == 2 and all(isinstance(each, str) for each in onnx)):
        raise OperatorError(f"register_operator({name!r}, onnx={onnx!r}): give domain and name, as ('com.example', 'SoftCap')")
    key = None if torch is None else _torch_key(name, torch)
    with _LOCK:
        inside, count = f"own.{name}", 2
        while inside in OPERATORS:  # kernels and types are remembered by name
            inside, count = f"own.{name}.{count}", count + 1
        made = OPERATORS[inside] = OWN[name] = Operator(inside, KINDS[kind], _guarded(name, define), schedule)
    if onnx is not None:
        domain = "" if onnx[0] == "ai.onnx" else onnx[0]
        OF_ONNX[f"{domain}.{onnx[1]}" if domain else onnx[1]] = _of_onnx(made)
    if key is not None:
        OF_TORCH[key] = _of_torch(made)
    return define


def _torch_key(name: str, given: str) -> str:
    space, colons, word = given.partition("::") if isinstance(given, str) else ("", "", "")
    base, _, overload = word.partition(".")
    if not colons or not space.isidentifier() or not base.isidentifier():
        raise OperatorError(f"register_operator({name!r}, torch={given!r}): give 'namespace::name', such as 'example::softcap'")
    return f"{space}.{base}.{overload or 'default'}"


def _guarded(name: str, define: Define) -> Define:
    """Return a definition whose failures are sentences that name the operator."""
    @wraps(define)
    def guarded(*tensors: Tensor | None, **attrs: Any) -> Tensor | tuple[Tensor, ...]:
        try:
            found = define(*tensors, **attrs)
        except VtakitError as error:
            raise OperatorError(f"operator {name!r}: {error}") from error
        except Exception as error:  # the definition is a user's
            why = " ".join(str(error).split())[:200]
            raise OperatorError(f"operator {name!r}: its definition raises {type(error).__name__}: {why}") from error
        several = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(each, Tensor) for each in several):
            kinds = ", ".join(type(each).__name__ for each in several)
            raise OperatorError(f"operator {name!r}: its definition returns {kinds}; return a tensor, or a tuple of tensors")
        return found
    return guarded


def _of_onnx(made: Operator) -> onnx_nodes.Converter:
    def convert(n: onnx_nodes.OnnxNode) -> Sequence[Value]:
        names = n.attributes
        for each in names:
            if each not in made.attributes:
                raise n.unsupported(f"with the attribute {each!r}, which its registered definition does not have")
        return n.all(made.name, *n.inputs, **{each: n.attr(each) for each in names})
    return convert


def _of_torch(made: Operator) -> torch_nodes.Converter:
    def convert(n: torch_nodes.AtenNode) -> Sequence[Value] | Value:
        attrs = {name: given for name, given in n.operands.items() if name in made.attributes}
        rest = {name: given for name, given in n.operands.items() if name not in attrs}
        for name, given in rest.items():
            if given is not None and not isinstance(given, Value):
                n.unsupported(f"with {name}={given!r}, which its registered definition does not have as an attribute")
        found = n.all(made.name, *rest.values(), **attrs)
        return found[0] if len(n.types) == 1 and len(found) == 1 else found
    return convert
