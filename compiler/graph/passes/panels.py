"""Products with constant matrices: their columns are laid out in panels of a vector each when the model is compiled.

On request their numbers are kept in 16 bits, and become float32 as they are read.
"""

from math import prod

import numpy as np

from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.ir.dtypes import FLOAT32, dtype
from vtakit.compiler.nn.product.panels import panels_of
from vtakit.compiler.nn.recurrent.recurrent_panels import gates_in_blocks, peepholes_in_blocks, recurrent_panels

FLOAT16 = dtype("float16")
PEEPHOLES = 6  # the operand of an LSTM that looks at its cells
MOST_ROWS = 64  # of data that a matrix is kept in 16 bits for: with more its numbers become float32 again and again
WASTE = 3  # of a product's columns, at most one in so many may be one that fills up a panel


def pack_matrices(graph: Graph, lanes: int, kept: str = "float32", decisions: ModelDecisions | None = None) -> Graph:
    """With panels of `lanes` columns for the constant matrices of products, and of recurrent layers.

    ::

        %y: float32[8, 100] = gemm(%x, %w, %b, trans_b=True)                  # w: float32[100, 64], lanes=16

        %y: float32[8, 100] = dense_panels(%x, %w.1, columns=100)             # w.1: float32[7, 64, 16]
        %y.1: float32[8, 100] = add(%y, %b)

    Of more than two dimensions, a constant has a matrix for each matrix of the data.
    A matrix that something else reads as well stays as it is, rather than being there twice. Products of float16 are made in
    float32, and rounded once: matrices that many rows of data meet are float32 too.

    kept : the type in which matrices are kept that up to `MOST_ROWS` rows of data meet: "float32", or "float16" or "bfloat16",
           rounded to nearest even; a matrix with a number beyond the greatest of that type stays in float32

    Decisions: matrix, plain or in panels, of each node that multiplies by one; it is there twice if nodes that share it differ.
    """
    packer = _Packer(graph, lanes, kept, ModelDecisions() if decisions is None else decisions)
    return packer.run() if packer.chosen else graph


class _Packer(Replacing):
    """The graph being made. `chosen` are the nodes that become others."""

    def __init__(self, graph: Graph, lanes: int, kept: str, decisions: ModelDecisions) -> None:
        super().__init__(graph)
        self.lanes = lanes
        self.kept = numpy_dtype(dtype(kept))
        self.packed: dict[tuple[Value, bool, float], Value] = {}
        self.widened: dict[Value, Value] = {}
        able = {node for node in graph.nodes if self._takes(node)}
        readers = graph.consumers()
        self.chosen = frozenset([node for node in graph.nodes if node in able and decisions.choose(
            node, "matrix", ["plain", "panels"],
            "panels" if all(able.issuperset(readers[value]) for value in self._matrices(node)) else "plain", pack_matrices,
        ) == "panels"])

    def replaces(self, node: Node) -> bool:
        if node in self.chosen:
            made = self._lstm(node) if node.op == "lstm" else self._product(node)
            self.plain |= dict(zip(node.outputs, made, strict=True))
        return node in self.chosen

    def _matrices(self, node: Node) -> tuple[Value, ...]:
        values = node.inputs[1:3] if node.op == "lstm" else node.inputs[1:2]
        return tuple([value for value in values if value is not None])

    def _takes(self, node: Node) -> bool:
        """Return whether a node multiplies by constants that can be packed into panels."""
        kinds = {value.type.dtype for value in node.reads}
        if node.op not in ("gemm", "matmul", "lstm") or (kinds != {FLOAT32} and (node.op == "lstm" or kinds != {FLOAT16})):
            return False
        if not all(value in self.constants and 0 not in value.type.shape for value in self._matrices(node)):
            return False
        if node.op == "lstm":
            bias = node.inputs[3] if len(node.inputs) > 3 else None
            peepholes = node.inputs[PEEPHOLES] if len(node.inputs) > PEEPHOLES else None
            return all(value is None or value in self.constants for value in (bias, peepholes))
        x, weight = node.reads[:2]
        columns = node.outputs[0].type.shape[-1]
        batch = weight.type.shape[:-2]
        if len(x.type.shape) < 2 or len(weight.type.shape) < 2 or (batch and batch != x.type.shape[:-2]):
            return False
        if WASTE * (-columns % self.lanes) > columns:
            return False
        return not node.attrs.get("trans_a", False) and (node.attrs.get("beta", 1.0) == 1 or len(node.reads) < 3)

    def _matrix(self, weight: Value, turned: bool, factor: float, rows: int) -> Value:
        """A matrix in panels; those of several nodes once, as the first takes it."""
        key = weight, turned, factor
        if key not in self.packed:
            array: Array = self.graph.constants[weight]
            array = array.T if turned else array
            if array.dtype == np.float16 and (rows > MOST_ROWS or factor != 1):
                array = array.astype(np.float32)  # the same numbers
            array = array if factor == 1 else array * np.float32(factor)
            kept = array if weight.type.dtype is FLOAT16 else self._kept(array, rows)
            self.packed[key] = self.constant(panels_of(kept, self.lanes), name=weight.name)
        return self.packed[key]

    def _kept(self, array: Array, rows: int) -> Array:
        """A matrix in the type that was asked for, if that pays and holds all of its numbers."""
        if rows > MOST_ROWS:
            return array
        with np.errstate(over="ignore"):
            found: Array = array.astype(self.kept)
        return found if np.array_equal(np.isinf(found), np.isinf(array)) else array

    def _product(self, node: Node) -> tuple[Value]:
        x, weight, *more = node.reads
        turned, factor = node.attrs.get("trans_b", False), node.attrs.get("alpha", 1.0)
        out = node.outputs[0]
        columns = out.type.shape[-1]
        matrix = self._matrix(weight, turned, factor, prod(x.type.shape[:-1]))
        made = self.made("dense_panels", self._wide(x), matrix, attrs={"columns": columns}, like=out, name=node.name)
        for value in more:
            made = self.made("add", made, self._wide(value), attrs={}, like=out, name=node.name)
        if out.type.dtype is FLOAT16:
            made = self.made("cast", made, attrs={"to": "float16"}, like=out, name=node.name)
        return (made,)

    def _wide(self, value: Value) -> Value:
        """Return what stands for a value as float32, made once of float16; of a constant at once."""
        if value.type.dtype is not FLOAT16:
            return self.as_it_was(value)
        if value not in self.widened:
            known = self.graph.constants.get(value)
            self.widened[value] = self.made("cast", self.as_it_was(value), attrs={"to": "float32"}, like=value) if (
                known is None) else self.constant(known.astype(np.float32), name=value.name)
        return self.widened[value]

    def _lstm(self, node: Node) -> tuple[Value, ...]:
        x, w, r, b, h, c, p = [None if value is None else self.as_it_was(value) for value in (*node.inputs, *[None] * 5)][:7]
        assert x is not None
        assert w is not None
        assert r is not None
        steps, rows, _ = x.type.shape
        of_inputs = gates_in_blocks(self.constants[w], self.lanes)
        flat = of_inputs.reshape(-1, of_inputs.shape[-1])
        panels = self.constant(panels_of(self._kept(flat.T, steps * rows), self.lanes), name=w.name)
        inputs = self.made("dense_panels", x, panels, attrs={"columns": flat.shape[0]}, like=node.outputs[0], name=node.name)
        if b is not None:
            array = self.constants[b]
            half = array.shape[1] // 2
            bias = gates_in_blocks(array[:, :half] + array[:, half:], self.lanes).reshape(-1)
            inputs = self.made("add", inputs, self.constant(bias, name=b.name), attrs={}, like=node.outputs[0], name=node.name)
        weight = self.constant(recurrent_panels(self._kept(self.constants[r], rows), self.lanes), name=r.name)
        names = tuple([value.name for value in node.outputs])
        if p is not None:
            p = self.constant(peepholes_in_blocks(self.constants[p], self.lanes), name=p.name)
        return self.add("lstm_panels", inputs, weight, h, c, p, attrs=node.attrs, name=node.name, names=names)
