"""Operations that are no element-wise formula: outside code, and scans."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import is_address
from vtakit.compiler.ir.dtypes import DType, dtype
from vtakit.compiler.ir.expr import Call, Expr, Load, ProducerLoad, StringImm, Var, same
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.stmt import Evaluate, Stmt
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import map_expr, map_stmt, subexpressions
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.language import extents
from vtakit.compiler.te.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp
from vtakit.compiler.te.tensor import NO_ATTRS, Tensor

_ALIGNMENTS = tuple(1 << power for power in range(32))  # of addresses, as LLVM has them


def decl_buffer(
    shape: Any, dtype: str | DType = "float32", name: str = "buffer", data: object = None, strides: Sequence[Any] | None = None,
    elem_offset: Expr | None = None, scope: Any = "global", data_alignment: int = 64, offset_factor: int = 1,
) -> Buffer:
    """Memory as outside code or an intrinsic sees it: a shape, a type, strides in elements (compact if None), a scope.

    elem_offset : elements that the address is before the first element, or a variable where any will do
    offset_factor : with a value above 1 and no `elem_offset`, the offset is some multiple of it
    data : must be None; a buffer has an address of its own
    data_alignment : bytes that the address is a multiple of, a power of two; -1 for the default, 0 for any
    Raises ExpressionError for parts that do not fit.
    """
    if data is not None:
        raise ExpressionError(f"decl_buffer {name!r}: data is given by the caller of the program, so leave it None")
    if elem_offset is None and offset_factor > 1:
        elem_offset = Var(f"{name}_offset")
    if data_alignment not in (-1, 0, *_ALIGNMENTS):
        raise ExpressionError(f"decl_buffer {name!r}: the alignment is {data_alignment!r}: give a power of two, in bytes")
    for stride in strides or ():
        if isinstance(stride, int) and stride < 0:
            raise ExpressionError(f"decl_buffer {name!r}: the stride {stride} is negative: give strides of at least 0")
    try:
        return Buffer(
            name, extents(shape, name), _dtype(dtype), scope_name(scope), strides=tuple(strides or ()),
            align=64 if data_alignment == -1 else data_alignment, offset=elem_offset,
        )
    except (TypeError, ValueError) as error:  # of the strides, for one
        raise ExpressionError(str(error)) from None


def scope_name(scope: Any) -> str:
    """The name of a memory scope that is given as a string or as an object with a name; "" for anything else."""
    name = scope if isinstance(scope, str) else getattr(scope, "name", "")
    return name if isinstance(name, str) else ""


def extern(
    shape: Any, inputs: Sequence[Tensor], fcompute: Callable[..., Any], name: str = "extern", dtype: Any = None,
    in_buffers: Sequence[Buffer] | None = None, out_buffers: Sequence[Buffer] | None = None, tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors by statements of one's own.

    shape    : of the output, or a list of shapes of several outputs
    fcompute : of the inputs' buffers and the outputs' buffers; gives a statement, or a call such as ``te.call_packed(…)``
    dtype    : of the outputs, one or a list; that of the inputs if None and they agree
    Raises ExpressionError for inputs that are no tensors, or buffers that do not fit.
    """
    for item in inputs if isinstance(inputs, list | tuple) else [inputs]:
        if not isinstance(item, Tensor):
            raise ExpressionError(f"extern {name!r}: the input {item!r} is no tensor")
    tensors = tuple(inputs)
    if out_buffers is None:
        shapes = [extents(item, name) for item in shape] if _several(shape) else [extents(shape, name)]
        kinds = _kinds(dtype, tensors, len(shapes), name)
        names = [name] if len(shapes) == 1 else [f"{name}.v{at}" for at in range(len(shapes))]
        outs = tuple([Buffer(n, dims, kind) for n, dims, kind in zip(names, shapes, kinds, strict=True)])
    else:
        outs = tuple(out_buffers)
    ins = tuple(in_buffers) if in_buffers is not None else tuple([Buffer(t.name, t.shape, t.dtype) for t in tensors])
    if len(ins) != len(tensors):
        raise ExpressionError(f"extern {name!r} has {len(tensors)} inputs but {len(ins)} in_buffers: give one an input")
    for buffer, tensor in zip(ins, tensors, strict=True):
        if buffer.dtype is not tensor.dtype or len(buffer.shape) != tensor.ndim:
            raise ExpressionError(f"extern {name!r}: the buffer {buffer} does not fit its input {tensor}")
    body = fcompute(list(ins), list(outs))
    if isinstance(body, Expr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise ExpressionError(f"extern {name!r}: its function gave {body!r}; it gives a statement or a call")
    body = map_stmt(body, on_expr=lambda e: map_expr(e, lambda node: _only_read(node, ins, name)))
    op = ExternOp(name, tensors, ins, outs, body, tag, NO_ATTRS if attrs is None else attrs)
    return op.output(0) if len(outs) == 1 else list(op.outputs)


def _only_read(e: Expr, inputs: tuple[Buffer, ...], name: str) -> Expr:
    """An address of an input as one that is read: other stages, and the caller, rely on what it holds."""
    if isinstance(e, Call) and is_address(e) and isinstance(e.args[0], Load) and e.args[0].buffer in inputs:
        if same(e.args[2], StringImm("w")):
            raise ExpressionError(f"extern {name!r} writes its input {e.args[0].buffer.name}: write to an output")
        return e.replace(args=(*e.args[:2], StringImm("r")))
    return e


def _several(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and bool(shape) and isinstance(shape[0], list | tuple)


def _kinds(given: Any, inputs: tuple[Tensor, ...], count: int, name: str) -> list[DType]:
    if given is None:
        found = {tensor.dtype for tensor in inputs}
        if len(found) != 1:
            have = ", ".join(sorted(map(str, found))) or "none"
            raise ExpressionError(f"extern {name!r}: give dtype=, since its inputs' types ({have}) do not settle it")
        return [*found] * count
    if isinstance(given, list | tuple):
        if len(given) != count:
            raise ExpressionError(f"extern {name!r} has {count} outputs but {len(given)} dtypes: give one an output")
        return [_dtype(item) for item in given]
    return [_dtype(given)] * count


def _dtype(of: str | DType) -> DType:
    try:
        return dtype(of)
    except ValueError as error:
        raise ExpressionError(str(error)) from None


def scan(
    init: Any, update: Any, state_placeholder: Any, inputs: Any = None, name: str = "scan", tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """States computed row by row along their first dimension, each row from earlier ones.

    init              : the first rows of each state
    update            : a tensor of the whole state's shape; row t, past the initial ones, is computed from rows before t
    state_placeholder : the placeholder through which `update` reads the state
    inputs            : other tensors that the update reads
    Each is one tensor or a list, one a state. Gives the states: one tensor, or a list of them.
    Raises ExpressionError where numbers, shapes or types differ, or an update reads the row that it makes.
    """
    inits, updates, states = (_tensors(given, what, name) for given, what in (
        (init, "init"), (update, "update"), (state_placeholder, "state_placeholder")))
    if not len(inits) == len(updates) == len(states) or not inits:
        raise ExpressionError(
            f"scan {name!r} has {len(inits)} init, {len(updates)} update and {len(states)} state_placeholder: "
            "give one of each a state"
        )
    for first, step, state in zip(inits, updates, states, strict=True):
        _check_state(name, first, step, state)
    begin, end = inits[0].shape[0], updates[0].shape[0]
    axis = IterVar(Var(f"{name}_idx", end.dtype), Range(begin, end - begin), IterKind.ORDERED)
    spatial = tuple([
        tuple([
            IterVar(Var(f"{name}_i{dim}", extent.dtype), Range(const(0, extent.dtype), extent), IterKind.DATA)
            for dim, extent in enumerate(state.shape[1:], 1)
        ])
        for state in states
    ])
    given = _tensors(inputs, "inputs", name) if inputs is not None else ()
    op = ScanOp(name, axis, inits, updates, states, given, spatial, tag, NO_ATTRS if attrs is None else attrs)
    return list(op.outputs) if isinstance(init, list | tuple) else op.output(0)


def _tensors(given: Any, what: str, name: str) -> tuple[Tensor, ...]:
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    for item in found:
        if not isinstance(item, Tensor):
            raise ExpressionError(f"scan {name!r}: {what} holds {item!r}, which is no tensor")
    return found


def _check_state(name: str, init: Tensor, update: Tensor, state: Tensor) -> None:
    where = f"scan {name!r}, state {state.name!r}"
    if not isinstance(state.op, PlaceholderOp):
        raise ExpressionError(f"{where}: the state_placeholder is made by {state.op}; give a te.placeholder")
    if not state.ndim:
        raise ExpressionError(f"{where}: the state has no dimension to scan along")
    if not init.dtype is update.dtype is state.dtype:
        kinds = f"{init.dtype}, {update.dtype}, {state.dtype}"
        raise ExpressionError(f"{where}: init, update and state have types {kinds}: give all one type")
    if not init.ndim == update.ndim == state.ndim:
        raise ExpressionError(f"{where}: init, update and state have {init.ndim}, {update.ndim} and {state.ndim} dimensions")
    for dim, (a, b, c) in enumerate(zip(init.shape, update.shape, state.shape, strict=True)):
        if not same(b, c) or (dim and not same(a, b)):
            raise ExpressionError(f"{where}: dimension {dim} is {a} in init, {b} in update and {c} in the state")
    first, last = int_value(init.shape[0]), int_value(update.shape[0])
    if first == 0 or (first is not None and last is not None and first > last):
        raise ExpressionError(f"{where}: init has {first} rows of {last}: give at least one and at most all")
    if not isinstance(update.op, ComputeOp):
        return
    row = update.op.axis[0].var
    for node in subexpressions(update.op.body[update.value_index]):
        if isinstance(node, ProducerLoad) and node.tensor == state and same(node.indices[0], row):
            raise ExpressionError(f"{where}: the update of row {row} reads {node}, the row that it makes: read earlier rows")
