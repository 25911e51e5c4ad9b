"""Operations: inputs, computes, statements and scans, the nodes of the dataflow.

Nothing changes an operation after it is made. Two are equal only if they are one object. What all have in common, and the tensors
that they make, is in `vtakit.compiler.te.tensor`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Expr, ProducerLoad, Reduce
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import Stmt
from vtakit.compiler.ir.walk import subexpressions
from vtakit.compiler.te.tensor import NO_ATTRS, Operation, Tensor


class PlaceholderOp(Operation):
    """An input of the program."""

    __slots__ = ("dtype", "shape")

    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: DType) -> None:
        super().__init__(name)
        self.shape, self.dtype = shape, dtype

    def type_of(self, value_index: int) -> tuple[tuple[Expr, ...], DType]:
        return self.shape, self.dtype


class ComputeOp(Operation):
    """An operation that computes each element by an expression of its indices.

    axis : the data axes, one a dimension of each output
    reduce_axis : those of the reduction that the body is, else ()
    body : one expression an output; a reduction is a whole body, and then all of them are that one reduction
    """

    __slots__ = ("_inputs", "axis", "body", "reduce_axis")

    def __init__(
        self, name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...], tag: str = "", attrs: Mapping[str, Any] = NO_ATTRS,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.axis, self.body = axis, body
        self.reduce_axis: tuple[IterVar, ...] = body[0].axes if isinstance(body[0], Reduce) else ()
        self._inputs: tuple[Tensor, ...] | None = None

    @property
    def num_outputs(self) -> int:
        return len(self.body)

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return self.axis + self.reduce_axis

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        if self._inputs is None:
            domains = [bound for axis in self.reduce_axis if axis.dom for bound in axis.dom]
            self._inputs = tensors_read([*self.body, *domains])
        return self._inputs

    def type_of(self, value_index: int) -> tuple[tuple[Expr, ...], DType]:
        return tuple([axis.dom.extent for axis in self.axis if axis.dom]), self.body[value_index].dtype


class ExternOp(Operation):
    """An operation of statements that its maker wrote, over a buffer for each input and output.

    inputs, input_buffers   : what it reads, and the buffer that stands for each in the body
    output_buffers          : one an output, with its shape and type
    body                    : loops and stores, or calls
    """

    __slots__ = ("body", "input_buffers", "inputs", "output_buffers")

    def __init__(
        self, name: str, inputs: tuple[Tensor, ...], input_buffers: tuple[Buffer, ...], output_buffers: tuple[Buffer, ...],
        body: Stmt, tag: str = "", attrs: Mapping[str, Any] = NO_ATTRS,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.inputs, self.input_buffers, self.output_buffers, self.body = inputs, input_buffers, output_buffers, body

    @property
    def num_outputs(self) -> int:
        return len(self.output_buffers)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))

    def type_of(self, value_index: int) -> tuple[tuple[Expr, ...], DType]:
        buffer = self.output_buffers[value_index]
        return buffer.shape, buffer.dtype


class ScanOp(Operation):
    """An operation that advances states along their first dimension, each step a function of earlier ones.

    scan_axis : from the length of the initial states to that of the whole
    init, update : the tensors that give each state's first rows, and a further row
    state_placeholder : what the update reads the states through
    inputs : other tensors that the update reads, named so that a schedule keeps their making inside
    spatial_axis : one axis for each further dimension of each state; schedules of the scan split and order these
    """

    __slots__ = ("init", "inputs", "scan_axis", "spatial_axis", "state_placeholder", "update")

    def __init__(
        self, name: str, scan_axis: IterVar, init: tuple[Tensor, ...], update: tuple[Tensor, ...],
        state_placeholder: tuple[Tensor, ...], inputs: tuple[Tensor, ...], spatial_axis: tuple[tuple[IterVar, ...], ...],
        tag: str = "", attrs: Mapping[str, Any] = NO_ATTRS,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.scan_axis, self.init, self.update = scan_axis, init, update
        self.state_placeholder, self.inputs, self.spatial_axis = state_placeholder, inputs, spatial_axis

    @property
    def num_outputs(self) -> int:
        return len(self.state_placeholder)

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *[axis for axes in self.spatial_axis for axis in axes])

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.init + self.update))

    def type_of(self, value_index: int) -> tuple[tuple[Expr, ...], DType]:
        state = self.state_placeholder[value_index]
        return state.shape, state.dtype


def tensors_read(exprs: Iterable[Expr]) -> tuple[Tensor, ...]:
    """Return the tensors that expressions read, each once, in the order of their first use."""
    found: dict[Tensor, None] = {}
    for e in exprs:
        for node in subexpressions(e):
            if isinstance(node, ProducerLoad):
                found[node.tensor] = None
    return tuple(found)


def producers_first(outputs: Iterable[Operation], reads: Callable[[Operation], Iterable[Operation]]) -> list[Operation]:
    """Return the outputs and all operations that they need, each after those that it reads."""
    order: dict[Operation, None] = {}
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed([*outputs])]
    while stack:
        op, ready = stack.pop()
        if op in order:
            continue
        if ready:
            order[op] = None
        else:
            stack.append((op, True))
            stack += [(producer, False) for producer in reversed([*reads(op)])]
    return [*order]
