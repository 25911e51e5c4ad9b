"""Tensors and the operations that make them: each refers to the other.

Nothing changes an operation after it is made. Two are equal only if they are one object.
"""

from collections.abc import Mapping
from typing import Any

from vtakit.base.text import counted
from vtakit.compiler.ir.base import OPERATORS, Expr, Operand
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import ProducerLoad
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.te.errors import ExpressionError

NO_ATTRS: Mapping[str, Any] = {}


class Operation:
    """A node of the dataflow.

    name  : for people
    tag   : what kind of operator it is, for library schedules; "" for none
    attrs : whatever the maker wants to keep with it
    """

    __slots__ = ("__weakref__", "attrs", "name", "tag")

    def __init__(self, name: str, tag: str = "", attrs: Mapping[str, Any] = NO_ATTRS) -> None:
        self.name, self.tag, self.attrs = name, tag, attrs

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes that a schedule starts from, data axes first."""
        return ()

    @property
    def input_tensors(self) -> "tuple[Tensor, ...]":
        """The tensors that it reads, each once, in the order of their first use."""
        return ()

    def type_of(self, value_index: int) -> tuple[tuple[Expr, ...], DType]:
        """Return shape and element type of an output."""
        raise NotImplementedError

    def output(self, value_index: int = 0) -> "Tensor":
        """Return one of its tensors. Raises IndexError beyond the last."""
        if not 0 <= value_index < self.num_outputs:
            raise IndexError(f"{self.name!r} has {counted(self.num_outputs, 'output')}, numbered from 0; there is no output "
                             f"{value_index}")
        return Tensor(self, value_index, *self.type_of(value_index))

    @property
    def outputs(self) -> "tuple[Tensor, ...]":
        return tuple(map(self.output, range(self.num_outputs)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Tensor(Operand):
    """One output of an operation.

    Two tensors are equal if they are the same output of one operation. ``A[i, j]`` and ``A[i][j]`` read an element; a
    tensor of rank 0 is itself an expression.

    op    : the operation that makes it
    value_index : which of its outputs
    shape : one expression a dimension; () for a scalar
    dtype : of an element
    """

    __slots__ = ("dtype", "op", "shape", "value_index")
    dtype: DType

    def __init__(self, op: Operation, value_index: int, shape: tuple[Expr, ...], dtype: DType) -> None:
        self.op, self.value_index, self.shape, self.dtype = op, value_index, shape, dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name, with ``.v1`` added to its output 1, and so on."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return self.op is other.op and self.value_index == other.value_index
        return OPERATORS["=="](self.as_expr(), other) if isinstance(other, Operand | int | float) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return not self == other
        return OPERATORS["!="](self.as_expr(), other) if isinstance(other, Operand | int | float) else NotImplemented

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def __call__(self, *indices: Any) -> ProducerLoad:
        """Return the element at the indices. Raises ExpressionError unless there is one a dimension."""
        return read(self, indices)

    def __getitem__(self, indices: Any) -> Any:
        """Return the element at the indices or, with fewer of them than dimensions, a slice that takes the others.

        Raises ExpressionError for too many, or one that is no integer.
        """
        given = indices if isinstance(indices, tuple) else (indices,)
        return read(self, given) if len(given) >= self.ndim else TensorSlice(self, given)

    def as_expr(self) -> ProducerLoad:
        """Return the element of a tensor of rank 0. Raises ExpressionError for any other."""
        return read(self, ())


class TensorSlice(Operand):
    """A tensor with some leading indices given, as in ``A[0][i]``."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor, self.indices = tensor, tuple([_index(tensor, at, index) for at, index in enumerate(indices)])

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __getitem__(self, indices: Any) -> Any:
        return self.tensor[self.indices + (indices if isinstance(indices, tuple) else (indices,))]

    def as_expr(self) -> ProducerLoad:
        """Raise ExpressionError: a slice is no value until it has all its indices."""
        return read(self.tensor, self.indices)

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self.indices))}]"


def read(tensor: Tensor, indices: tuple[Any, ...]) -> ProducerLoad:
    """Return the element of a tensor at the indices. Raises ExpressionError unless there is one integer a dimension."""
    if len(indices) != tensor.ndim:
        dims = f"{tensor.ndim} dimension{'' if tensor.ndim == 1 else 's'}"
        count = f"{len(indices)} {'index' if len(indices) == 1 else 'indices'}"
        raise ExpressionError(f"tensor {tensor.name!r} has {dims}, got {count}: give one index a dimension")
    return ProducerLoad(tensor, tuple([_index(tensor, at, index) for at, index in enumerate(indices)]))


def _index(tensor: Tensor, at: int, index: Any) -> Expr:
    if index is Ellipsis:
        raise ExpressionError(
            f"index {at} of tensor {tensor.name!r} is '...': an expression reads one element, so give one index a dimension"
        )
    if isinstance(index, slice):
        raise ExpressionError(
            f"index {at} of tensor {tensor.name!r} is a Python slice: an expression reads one element, "
            "so compute a tensor of the slice's shape instead"
        )
    if index is None or isinstance(index, bool | str):
        raise ExpressionError(f"index {at} of tensor {tensor.name!r} is {index!r}: an index is an integer or an expression")
    e = wrap(index)
    if not (e.dtype.is_int or e.dtype.is_bool):
        raise ExpressionError(
            f"index {at} of tensor {tensor.name!r} is {e} of {e.dtype}: an index is an integer, so use .astype('int32')"
        )
    return e
