"""Buffers with one dimension."""

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32, INT64
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load, Ramp, Var
from vtakit.compiler.ir.stmt import Allocate, Attr, Function, Stmt, Store
from vtakit.compiler.ir.values import cast, int_value, value_of
from vtakit.compiler.passes.base import PassError


def flatten(function: Function) -> Function:
    """Each access gets one index, the element's distance from the buffer's address; see `vtakit.compiler.passes`.

    ``A[i, j]`` of ``A: float32[n, 16]``  ->  ``A[i * 16 + j]``
    """
    return function._replace(body=_Flattener(function).stmt(function.body))


class _Flattener:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.flat: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """The flat buffer over the same memory: the elements from its address to the last one."""
        found = self.flat.get(buffer)
        if found is None:
            size: Expr = IntImm(buffer.dtype.lanes, INT32)
            wide = _is_wide(buffer)
            if buffer.strides:
                span: Expr = IntImm(1, INT32)
                for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
                    span = span + _wider(extent - 1, wide) * _wider(stride, wide)
                size = span * buffer.dtype.lanes
            else:
                for extent in buffer.shape:
                    size = _wider(size, wide) * _wider(extent, wide)
            if int_value(buffer.offset) != 0:
                size = size + buffer.offset
            found = Buffer(buffer.name, (size,), buffer.dtype.scalar, buffer.scope, align=buffer.align,
                           swizzle=buffer.swizzle)
            found.data = buffer.data
            self.flat[buffer] = found
        return found

    def index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The flat index of an element; of a buffer of vectors, that of its lanes."""
        wide = _is_wide(buffer)
        total: Expr = _wider(buffer.offset, wide)
        for index, stride in zip(indices, buffer.compact_strides(), strict=True):
            total = total + _times(_wider(self.expr(index), wide), _wider(stride, wide))
        lanes = buffer.dtype.lanes
        if lanes == 1:
            return total
        if total.dtype.lanes > 1:
            return self._spread(buffer, total)
        return Ramp(total * lanes, IntImm(1, total.dtype), lanes)

    def _spread(self, buffer: Buffer, index: Expr) -> Expr:
        """Vector indices of vectors: a ramp over all their lanes if they follow on each other."""
        if not isinstance(index, Ramp) or int_value(index.stride) != 1:
            raise PassError(
                f"vectors of {buffer.name} ({buffer.dtype}) are taken from {index}, which do not follow on each other: "
                "give the buffer a scalar type and one more dimension", self.function,
            )
        lanes = buffer.dtype.lanes
        return Ramp(index.base * lanes, IntImm(1, index.base.dtype), index.lanes * lanes)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Load):
            return Load(self.buffer(e.buffer), (self.index(e.buffer, e.indices),))
        if isinstance(e, Call) and e.name == "call_packed":
            return e.rebuild(self._packed_argument)
        if isinstance(e, Call) and e.name == "address_of":
            load, offset, mask = e.args
            assert isinstance(load, Load)
            index = self.index(load.buffer, load.indices)
            at = index.base if isinstance(index, Ramp) else index
            first = Load(self.buffer(load.buffer), (at + _wider(self.expr(offset), at.dtype is INT64),))
            return Call(e.dtype, "address_of", (first, IntImm(0, INT32), mask))
        return e.rebuild(self.expr)

    def _packed_argument(self, e: Expr) -> Expr:
        if isinstance(e, Call) and e.name == "address_of":
            load, offset, _ = e.args
            assert isinstance(load, Load)
            if all(value_of(index) == 0 for index in (*load.indices, offset)):
                return e
        return self.expr(e)

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Store):
            return Store(self.buffer(s.buffer), (self.index(s.buffer, s.indices),), self.expr(s.value))
        if isinstance(s, Allocate):
            return Allocate(self.buffer(s.buffer), self.stmt(s.body), s.notes)
        if isinstance(s, Attr) and isinstance(s.node, Buffer):
            s = s.replace(node=self.buffer(s.node))
        return s.rebuild(self.stmt, self.expr)


def _times(index: Expr, stride: Expr) -> Expr:
    """A vector index times a stride, still a ramp if it was one."""
    if isinstance(index, Ramp):
        return Ramp(index.base * stride, index.stride * stride, index.lanes)
    return index * stride


def _wider(e: Expr, wide: bool) -> Expr:
    return cast(e, INT64.with_lanes(e.dtype.lanes)) if wide else e


def _is_wide(buffer: Buffer) -> bool:
    """Return whether the number of elements may not fit 32 bits."""
    size = buffer.dtype.lanes
    for extent in buffer.shape:
        known = int_value(extent)
        if known is None:
            return len(buffer.shape) > 1 or isinstance(extent, Var) is False
        size *= known
    return size > INT32.max or bool(buffer.strides and any(int_value(stride) is None for stride in buffer.strides))
