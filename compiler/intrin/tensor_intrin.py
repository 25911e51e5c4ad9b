"""Declaring a tensor intrinsic: its meaning as a tensor expression, its code as calls on buffers.

The same record serves a vector unit's micro-kernel, a matrix unit, and an accelerator's GEMM: a stage is computed by it where
the loops from an axis inward do what its expression says (`Stage.tensorize`; lowering compares the two).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Call, Expr, Var
from vtakit.compiler.ir.stmt import Evaluate, Stmt
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """Declared tensor intrinsic, the result of `decl_tensor_intrin`.

    name    : of the intrinsic, by which a trace knows it
    op      : the meaning: one tile's worth of a compute
    inputs  : the tensors that `op` reads
    buffers : what stands for each input, then for each output, in the code; strides and offsets that are variables are
              given their values where it is used
    scalar_params : variables of `op` that are given where it is used, in the order of the code's last arguments
    body    : the code that computes the outputs
    reset   : the code that sets the outputs to the reduction's identity, or None
    update  : the code that adds to the outputs, or None; without `reset` the first iteration runs `body` and others `update`
    """

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    scalar_params: tuple[Var, ...]
    body: Stmt
    reset: Stmt | None
    update: Stmt | None

    @property
    def input_buffers(self) -> tuple[Buffer, ...]:
        return self.buffers[: len(self.inputs)]

    @property
    def output_buffers(self) -> tuple[Buffer, ...]:
        return self.buffers[len(self.inputs):]

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


def hardware_intrin(name: str, *args: Any) -> Call:
    """A call of an instruction of the hardware, or of a micro-kernel that the code generator knows, for its effect.

    args : addresses (``buffer.access_ptr("r")``), numbers, expressions and strings. Raises ExpressionError for anything else.
    """
    if not isinstance(name, str) or not name:
        raise ExpressionError(f"hardware_intrin names its instruction by a string, got {name!r}")
    try:
        return effect(name, *args)
    except TypeError as error:
        raise ExpressionError(f"hardware_intrin {name!r}: {error}; give buffers by their access_ptr") from None


def decl_tensor_intrin(
    op: Operation | Tensor, fcompute: Callable[..., Any], name: str | None = None,
    binds: Mapping[Tensor, Buffer] | None = None, scalar_params: Sequence[Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """A tensor intrinsic.

    op       : the compute that says what it does
    fcompute : of the inputs' buffers and the outputs' buffers (and the scalar parameters, if there are any); gives the code: one
               statement or call, or several as (body, reset, update), of which reset and update may be None or left out
    binds    : buffers of one's own for some tensors, with other strides, offset or scope; else they are compact
    default_buffer_params : for the other buffers, arguments of `te.decl_buffer`
    Raises ExpressionError where these do not fit together.
    """
    made = op.op if isinstance(op, Tensor) else op
    if not isinstance(made, ComputeOp):
        raise ExpressionError(f"decl_tensor_intrin of {made!r}: its meaning is a te.compute, given as tensor.op")
    title = name if name is not None else made.name
    where = f"tensor intrinsic {title!r}"
    given = dict(binds or {})
    tensors = (*made.input_tensors, *made.outputs)
    for tensor in given:
        if tensor not in tensors:
            raise ExpressionError(f"{where}: binds has {tensor}, which it neither reads nor makes: {_names(tensors)}")
    buffers = []
    for tensor in tensors:
        buffer = given.get(tensor) or decl_buffer(tensor.shape, tensor.dtype, tensor.name, **(default_buffer_params or {}))
        if buffer.dtype is not tensor.dtype or len(buffer.shape) != tensor.ndim:
            raise ExpressionError(f"{where}: the buffer {buffer} does not fit the tensor {tensor}")
        buffers.append(buffer)
    params = tuple(scalar_params or ())
    for param in params:
        if not isinstance(param, Var):
            raise ExpressionError(f"{where}: the scalar parameter {param!r} is no variable: make one with te.var")
    if not callable(fcompute):
        raise ExpressionError(f"{where}: {fcompute!r} is no function of the inputs' and the outputs' buffers")
    count = len(made.input_tensors)
    result = fcompute(buffers[:count], buffers[count:], *([list(params)] if params else []))
    parts = tuple(result) if isinstance(result, tuple | list) else (result,)
    if not 1 <= len(parts) <= 3:
        raise ExpressionError(f"{where}: its function gives {len(parts)} statements; it gives body, or (body, reset, update)")
    body, reset, update = [_code(part, where) for part in (*parts, *[None] * (3 - len(parts)))]
    if body is None:
        raise ExpressionError(f"{where}: its function gives no body")
    if reset is not None and update is None:
        raise ExpressionError(f"{where}: it has a reset but no update: give (body, reset, update)")
    if update is not None and not made.reduce_axis:
        raise ExpressionError(f"{where}: it has an update, but {made.name} is no reduction")
    return TensorIntrin(title, made, made.input_tensors, tuple(buffers), params, body, reset, update)


def _names(tensors: Sequence[Tensor]) -> str:
    return "its tensors are " + ", ".join(tensor.name for tensor in tensors)


def _code(part: Any, where: str) -> Stmt | None:
    if part is None or isinstance(part, Stmt):
        return part
    if isinstance(part, Expr):
        return Evaluate(part)
    raise ExpressionError(f"{where}: its function gives {part!r} of type {type(part).__name__}; it gives statements or calls")
