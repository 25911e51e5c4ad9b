"""Products of quantized rows with constant matrices on a CPU: rows as uint8, matrices in panels.

Values keep their shapes; int8 ones are held as uint8, which is 128 more. Sums of products of uint8 are more than those that the
model asks for by a number for each column, which is taken off where they are dequantized or requantized. Everything is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.packed_bytes import MOST_BYTE, SHORT_SHIFT, requantized_bytes
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.nn.conv.packed_weights import ZERO
from vtakit.compiler.nn.product.byte_panels import byte_panels

INT8, UINT8, INT32 = dtype("int8"), dtype("uint8"), dtype("int32")
Longs = npt.NDArray[np.int64]
_INT8, _INT32 = np.iinfo(np.int8), np.iinfo(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Stand-in for a value: uint8 for int8, or int32 sums that are too large by `excess` in each column."""

    value: Value
    excess: Longs | None = None


def byte_rows(graph: Graph, decisions: ModelDecisions | None = None) -> Graph:
    """With products of quantized rows by constant matrices on uint8 and panels.

    Decisions: matrix, plain or in panels, of each product.

    ::

        %a: int32[197, 768] = matmul_integer(%x, %w)                      # x: int8[197, 192], w: int8[192, 768]
        %y: int8[197, 768] = requantize(%a, %bias, %multiplier, %shift)

        %a: int32[197, 768] = dense_bytes(%x, %w.1, columns=768)                       # w.1: int8[24, 48, 32, 4]
        %y.1: uint8[197, 768] = requantize_bytes(%a, %least, %most, %multiplier, %offset, %shift)
        %y: int8[197, 768] = to_int8(%y.1)
    """
    if not any(node.op == "matmul_integer" for node in graph.nodes):
        return graph
    return _Rows(graph, ModelDecisions() if decisions is None else decisions).run()


class _Rows(Replacing):
    """The graph being made. `held` is what stands for a value of the old graph."""

    def __init__(self, graph: Graph, decisions: ModelDecisions) -> None:
        super().__init__(graph)
        self.decisions = decisions
        self.held: dict[Value, _Held] = {}
        self.rows = {node.reads[0] for node in graph.nodes if node.op == "matmul_integer" and self._is_known(node.reads[1])}

    def replaces(self, node: Node) -> bool:
        way = _WAYS.get(node.op)
        return way is not None and way(self, node)

    def as_it_was(self, value: Value) -> Value:
        if value in self.held and value not in self.plain:
            found = self.held[value]
            if found.excess is None:
                self.plain[value] = self.made("to_int8", found.value, attrs={}, like=value)
            else:
                excess = self.constant(found.excess.astype(np.int32), name=f"{value.name}.excess")
                self.plain[value] = self.made("sub", found.value, excess, attrs={}, like=value)
        return super().as_it_was(value)

    def _is_known(self, value: Value | None) -> bool:
        return value in self.graph.constants

    def _is_bytes(self, value: Value) -> bool:
        return value in self.held and self.held[value].excess is None

    def _operand(self, value: Value) -> tuple[Value, int]:
        """Return what a product reads for 8-bit data, and by how much the bytes that it multiplies are more than the data."""
        if self._is_bytes(value):
            return self.held[value].value, ZERO
        return self.as_it_was(value), 0 if value.type.dtype is UINT8 else ZERO

    def product(self, node: Node) -> bool:
        """`matmul_integer` by a constant matrix, whose zero points are constants too."""
        x, weight, x_zero, w_zero = (*node.inputs, None, None)[:4]
        assert x is not None
        assert weight is not None
        out = node.outputs[0]
        if weight not in self.graph.constants or len(x.type.shape) < 2 or len(weight.type.shape) != 2 or not (
                out.type.size and weight.type.size) or (w_zero is not None and not self._is_known(w_zero)) or (
                x_zero is not None and x_zero.type.size != 1) or x.type.dtype not in (INT8, UINT8):
            return False
        zeros = 0 if w_zero is None else self.graph.constants[w_zero].astype(np.int64).reshape(-1)
        wide = self.graph.constants[weight].astype(np.int64) - zeros
        shift = np.zeros(wide.shape[1], np.int64)  # of columns that int8 does not hold
        beyond = (wide.min(0) < _INT8.min) | (wide.max(0) > _INT8.max)
        shift[beyond] = (wide.min(0) + wide.max(0) + 1)[beyond] // 2
        # requantize_bytes clips the sums of `wide`; those of `wide - shift` come before the shift is added back
        most = MOST_BYTE * max(np.abs(each).sum(0).max() for each in (wide, wide - shift))
        if most > _INT32.max or self.decisions.choose(node, "matrix", ["plain", "panels"], "panels", byte_rows) == "plain":
            return False
        data, more = self._operand(x)
        lead = x.type.shape[:-1]
        if sum(extent != 1 for extent in lead) > 1:
            data = self.made("reshape", data, attrs={"shape": (prod(lead), x.type.shape[-1])}, like=x)
        panels = self.constant(byte_panels((wide - shift).astype(np.int8)), name=weight.name)
        made = self.made("dense_bytes", data, panels, attrs={"columns": out.type.shape[-1]}, like=out, name=node.name)
        if made.type.shape != out.type.shape:
            made = self.made("reshape", made, attrs={"shape": out.type.shape}, like=out)
        if shift.any():  # each row's sum of data times the shift
            made = self.made("add", made, self._row_sums(data, shift, out), attrs={}, like=out)
        taps = wide.sum(0)
        known = 0 if x_zero is None else self.graph.constants.get(x_zero)
        if known is not None:
            self.held[out] = _Held(made, (more + int(np.reshape(known, -1)[0])) * taps)
            return True
        assert x_zero is not None
        zero = self.made("cast", self.as_it_was(x_zero), attrs={"to": "int32"}, like=x_zero)
        if more:
            zero = self.made("add", zero, self.constant(np.int32(more)), attrs={}, like=x_zero)
        less = self.made("mul", zero, self.constant(taps.astype(np.int32), name=f"{node.name}.taps"), attrs={}, like=x_zero)
        self.plain[out] = self.made("sub", made, less, attrs={}, like=out)
        return True

    def _row_sums(self, data: Value, shift: Longs, out: Value) -> Value:
        """Return the sum of the bytes of each row that a product multiplies, times a number for each column."""
        wide = self.made("cast", data, attrs={"to": "int32"}, like=out)
        if data.type.dtype is INT8:
            wide = self.made("add", wide, self.constant(np.int32(ZERO)), attrs={}, like=out)
        sums = self.made("reduce_sum", wide, attrs={"axes": (len(data.type.shape) - 1,), "keepdims": True}, like=out)
        sums = self.made("reshape", sums, attrs={"shape": (*out.type.shape[:-1], 1)}, like=out)
        return self.made("mul", sums, self.constant(shift.astype(np.int32)), attrs={}, like=out)

    def requantize(self, node: Node) -> bool:
        """Sums that are here as uint8."""
        acc = node.reads[0]
        sums = self.held.get(acc)
        if sums is None or sums.excess is None or len(acc.type.shape) != 2 or not all(map(self._is_known, node.reads[1:])):
            return False
        bias, multiplier, shift = (self.graph.constants[value] for value in node.reads[1:])
        numbers = requantized_bytes(bias - sums.excess, multiplier, shift, **node.attrs)
        if numbers is None:
            return False
        wide = np.int64 if numbers[-1].max() > SHORT_SHIFT else np.int32
        kinds = np.int32, np.int32, np.int32, wide, np.int32
        vectors = [self.constant(vector.astype(kind), name=node.name) for vector, kind in zip(numbers, kinds, strict=True)]
        made = self.made("requantize_bytes", sums.value, *vectors, attrs={}, like=node.outputs[0], name=node.name)
        return self._is_held(node, made)

    def dequantize(self, node: Node) -> bool:
        """Sums or bytes that are here as real numbers: what they are more goes into the zero point."""
        x, scale, zero = (*node.inputs, None)[:3]
        assert x is not None
        found = self.held.get(x)
        if found is None or (zero is not None and not self._is_known(zero)) or node.attrs.get("block_size"):
            return False
        known = np.zeros((), np.int64) if zero is None else self.graph.constants[zero].astype(np.int64)
        kind: type[np.integer] = np.uint8
        if found.excess is None:
            known = known + ZERO
        elif len(x.type.shape) == 2 and node.attrs["axis"] % 2 == 1:
            known, kind = known + found.excess, np.int32
        else:
            return False
        assert scale is not None
        if known.ndim and scale.type.size == 1:
            scale = self.made("expand", self.as_it_was(scale), attrs={"shape": known.shape}, like=scale)
        less = self.constant(known.astype(kind), name=f"{node.name}.zero")
        self.plain[node.outputs[0]] = self.made(
            "dequantize_linear", found.value, self.as_it_was(scale), less, attrs=node.attrs, like=node.outputs[0], name=node.name)
        return True

    def quantize(self, node: Node) -> bool:
        """Numbers that a product reads quantized to uint8 at once."""
        x, scale, zero = (*node.inputs, None)[:3]
        out = node.outputs[0]
        if out not in self.rows or out.type.dtype is not INT8 or (zero is not None and not self._is_known(zero)):
            return False
        assert x is not None
        assert scale is not None
        known = np.zeros((), np.int64) if zero is None else self.graph.constants[zero].astype(np.int64)
        more = self.constant((known + ZERO).astype(np.uint8), name=f"{node.name}.zero")
        return self._is_held(node, self.made(
            "quantize_linear", self.as_it_was(x), self.as_it_was(scale), more, attrs={**node.attrs, "dtype": "uint8"}, like=out,
            name=node.name))

    def lookup(self, node: Node) -> bool:
        """Look uint8 values up in a table."""
        x, table = node.reads
        if not self._is_bytes(x) or not self._is_known(table):
            return False
        entries = self.constant((self.graph.constants[table].astype(np.int16) + ZERO).astype(np.uint8), name=table.name)
        return self._is_held(node, self.made("lookup_bytes", self.held[x].value, entries, attrs={}, like=node.outputs[0],
                                             name=node.name))

    def move(self, node: Node) -> bool:
        """Move uint8 values: another shape or order."""
        x = node.reads[0]
        return self._is_bytes(x) and self._is_held(
            node, self.made(node.op, self.held[x].value, attrs=node.attrs, like=node.outputs[0], name=node.name))

    def signed(self, node: Node) -> bool:
        """uint8 as int8, which is held as it was."""
        return self._is_held(node, self.as_it_was(node.reads[0]))

    def unsigned(self, node: Node) -> bool:
        """A conversion to uint8 of a value that is held so: nothing is left to do."""
        if not self._is_bytes(node.reads[0]):
            return False
        self.plain[node.outputs[0]] = self.held[node.reads[0]].value
        return True

    def _is_held(self, node: Node, value: Value) -> bool:
        self.held[node.outputs[0]] = _Held(value)
        return True


_WAYS: dict[str, Callable[[_Rows, Node], bool]] = {
    "matmul_integer": _Rows.product, "requantize": _Rows.requantize, "dequantize_linear": _Rows.dequantize,
    "quantize_linear": _Rows.quantize, "lookup": _Rows.lookup, "reshape": _Rows.move, "transpose": _Rows.move,
    "to_int8": _Rows.signed, "to_uint8": _Rows.unsigned,
}
