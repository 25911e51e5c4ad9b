"""Random ONNX models with open sizes, data-dependent shapes, branches and loops."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

OPSET = 17


@dataclass
class Writer:
    """A graph being written. Values are of float32; `ranks` has the rank of each, `values` their names."""

    rng: np.random.Generator
    prefix: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def name(self, word: str = "v") -> str:
        self.count += 1
        return f"{self.prefix}{word}{self.count}"

    def add(self, op: str, inputs: list[str], rank: int | None = None, **attrs: Any) -> str:
        out = self.name()
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"n_{out}", **attrs))
        if rank is not None:
            self.ranks[out] = rank
        return out

    def const(self, array: Any, kind: type = np.float32) -> str:
        name = self.name("c")
        if self.rng.random() < 0.5:
            self.constants.append(numpy_helper.from_array(np.asarray(array, kind), name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array, kind))))
        return name

    def pick(self, *, least: int = 0, most: int = 9) -> str | None:
        names = [name for name, rank in self.ranks.items() if least <= rank <= most]
        return str(self.rng.choice(names)) if names else None


def grow(w: Writer, steps: int, depth: int) -> None:
    """Add random operators."""
    for _ in range(steps):
        kind = w.rng.choice(_KINDS if depth < 2 else _KINDS[:-_NESTED])
        _GROW[kind](w, depth)


def _unary(w: Writer, depth: int) -> None:
    x = w.pick()
    op = str(w.rng.choice(["Relu", "Neg", "Tanh", "Abs", "Sigmoid", "Identity"]))
    w.add(op, [x], w.ranks[x])


def _binary(w: Writer, depth: int) -> None:
    x = w.pick()
    other = w.const(w.rng.standard_normal(()).round(2)) if w.rng.random() < 0.5 else x
    w.add(str(w.rng.choice(["Add", "Mul", "Sub", "Max"])), [x, other], w.ranks[x])


def _reduce(w: Writer, depth: int) -> None:
    x = w.pick(least=1)
    if x is None:
        return
    axis, keep = int(w.rng.integers(-w.ranks[x], w.ranks[x])), int(w.rng.integers(2))
    op = "ReduceMean" if w.rng.random() < 0.5 else "ReduceL1"
    w.add(op, [w.add("Relu", [_padded(w, x)])], w.ranks[x] - 1 + keep, axes=[axis], keepdims=keep)


def _padded(w: Writer, x: str) -> str:
    """A value none of whose sizes is 0, so that a mean is a number."""
    return w.add("Pad", [x, w.const([1] * (2 * w.ranks[x]), np.int64)], w.ranks[x])


def _flatten(w: Writer, depth: int) -> None:
    """To a matrix, by the sizes that Shape says."""
    x = w.pick(least=2)
    if x is None:
        return
    shape = w.add("Shape", [x])
    first = w.add("Slice", [shape, w.const([0], np.int64), w.const([1], np.int64)])
    rest = w.add("ReduceProd", [w.add("Slice", [shape, w.const([1], np.int64), w.const([9], np.int64)])], keepdims=1)
    to = w.add("Concat", [first, rest], axis=0)
    w.add("Reshape", [x, to], 2)


def _transpose(w: Writer, depth: int) -> None:
    x = w.pick(least=2)
    if x is not None:
        w.add("Transpose", [x], w.ranks[x], perm=[int(axis) for axis in w.rng.permutation(w.ranks[x])])


def _self_product(w: Writer, depth: int) -> None:
    x = w.pick(least=2, most=3)
    if x is not None:
        rank = w.ranks[x]
        swapped = w.add("Transpose", [x], rank, perm=[*range(rank - 2), rank - 1, rank - 2])
        scaled = w.add("Mul", [w.add("MatMul", [x, swapped]), w.const(0.1)], rank)
        w.add("Tanh", [scaled], rank)


def _nonzero(w: Writer, depth: int) -> None:
    x = w.pick(least=1)
    if x is not None:
        places = w.add("NonZero", [w.add("Greater", [x, w.const(0.3)])])
        w.add("Cast", [w.add("Transpose", [places])], 2, to=T.FLOAT)


def _compress(w: Writer, depth: int) -> None:
    x = w.pick(least=1)
    if x is not None:
        flat = w.add("Reshape", [x, w.const([-1], np.int64)])
        w.add("Compress", [flat, w.add("Greater", [flat, w.const(0.0)])], 1)


def _count(w: Writer, x: str) -> str:
    """A number from 0 to 3 that the data decide, of int64."""
    some = w.add("ReduceSum", [w.add("Cast", [w.add("Greater", [x, w.const(0.0)])], to=T.INT64)], keepdims=0)
    return w.add("Mod", [some, w.const(4, np.int64)])


def _range(w: Writer, depth: int) -> None:
    x = w.pick()
    numbers = w.add("Range", [w.const(0, np.int64), _count(w, x), w.const(1, np.int64)])
    w.add("Cast", [numbers], 1, to=T.FLOAT)


def _tile(w: Writer, depth: int) -> None:
    """Repeats that the data decide."""
    x = w.pick(least=1, most=1)
    if x is not None:
        w.add("Tile", [x, w.add("Unsqueeze", [_count(w, x), w.const([0], np.int64)])], 1)


def _cut(w: Writer, depth: int) -> None:
    """A slice whose end the data decide."""
    x = w.pick(least=1)
    if x is not None:
        end = w.add("Unsqueeze", [_count(w, x), w.const([0], np.int64)])
        w.add("Slice", [x, w.const([0], np.int64), end, w.const([0], np.int64)], w.ranks[x])


def _top(w: Writer, depth: int) -> None:
    """The largest elements, as many as the data decide."""
    x = w.pick(least=1, most=1)
    if x is not None:
        wide = w.add("Concat", [x, w.const([0.5, -0.25, 0.125, 7.5])], axis=0)
        out = w.name()
        k = w.add("Unsqueeze", [_count(w, x), w.const([0], np.int64)])
        w.nodes.append(helper.make_node("TopK", [wide, k], [out, w.name()], name=f"n_{out}"))
        w.ranks[out] = 1


def _branch(w: Writer, depth: int) -> None:
    x = w.pick()
    total = w.add("ReduceSum", [x], keepdims=0)
    condition = w.add("Greater", [total, w.const(0.1)])
    out = w.name()
    graphs = [_inner(w, x, f"{out}_{word}", depth) for word in ("then", "else")]
    w.nodes.append(helper.make_node("If", [condition], [out], name=f"n_{out}", then_branch=graphs[0], else_branch=graphs[1]))
    w.ranks[out] = w.ranks[x]


def _inner(w: Writer, x: str, prefix: str, depth: int) -> onnx.GraphProto:
    """A graph of no inputs that ends with something of the shape of a value outside."""
    inner = Writer(w.rng, f"{prefix}_", ranks=dict(w.ranks))
    grow(inner, 2, depth + 1)
    own = [name for name in inner.ranks if name not in w.ranks]
    extra = inner.add("ReduceMax", [_padded(inner, own[-1])], keepdims=0) if own else inner.const(0.5)
    result = inner.add("Add", [x, inner.add("Tanh", [extra])])
    info = helper.make_tensor_value_info(result, T.FLOAT, [None] * w.ranks[x])
    return helper.make_graph(inner.nodes, prefix, [], [info], inner.constants)


def _loop(w: Writer, depth: int) -> None:
    x = w.pick()
    rank, out, stack = w.ranks[x], w.name(), w.name()
    inner = Writer(w.rng, f"{out}_", ranks={**w.ranks, f"{out}_x": rank})
    grow(inner, 2, depth + 1)
    trip = inner.add("Cast", [f"{out}_i"], to=T.FLOAT)
    moved = inner.add("Add", [inner.add("Tanh", [f"{out}_x"]), inner.add("Mul", [trip, inner.const(0.25)])])
    going = inner.add("Less", [inner.add("ReduceMax", [_padded_as(inner, moved, rank)], keepdims=0), inner.const(1.6)])
    mean = inner.add("ReduceSum", [moved], keepdims=0)
    infos = [helper.make_tensor_value_info(f"{out}_i", T.INT64, []), helper.make_tensor_value_info(f"{out}_c", T.BOOL, []),
             helper.make_tensor_value_info(f"{out}_x", T.FLOAT, [None] * rank)]
    results = [helper.make_tensor_value_info(going, T.BOOL, []), helper.make_tensor_value_info(moved, T.FLOAT, [None] * rank),
               helper.make_tensor_value_info(mean, T.FLOAT, [])]
    body = helper.make_graph(inner.nodes, f"{out}_body", infos, results, inner.constants)
    trips = _count(w, x) if w.rng.random() < 0.6 else w.const(int(w.rng.integers(0, 4)), np.int64)
    condition = w.const(True, np.bool_) if w.rng.random() < 0.5 else ""
    w.nodes.append(helper.make_node("Loop", [trips, condition, x], [out, stack], name=f"n_{out}", body=body))
    w.ranks[out], w.ranks[stack] = rank, 1


def _padded_as(w: Writer, x: str, rank: int) -> str:
    return w.add("Pad", [x, w.const([1] * (2 * rank), np.int64)]) if rank else x


def _scan(w: Writer, depth: int) -> None:
    x = w.pick(least=1)
    if x is None:
        return
    rank, out, stack = w.ranks[x], w.name(), w.name()
    axis, way, out_way = int(w.rng.integers(rank)), int(w.rng.integers(2)), int(w.rng.integers(2))
    inner = Writer(w.rng, f"{out}_")
    total = inner.add("Add", [inner.add("Tanh", [f"{out}_s"]), inner.add("ReduceSum", [f"{out}_x"], keepdims=0)])
    each = inner.add("Mul", [f"{out}_x", inner.add("Tanh", [total])])
    infos = [helper.make_tensor_value_info(f"{out}_s", T.FLOAT, []),
             helper.make_tensor_value_info(f"{out}_x", T.FLOAT, [None] * (rank - 1))]
    results = [helper.make_tensor_value_info(total, T.FLOAT, []),
               helper.make_tensor_value_info(each, T.FLOAT, [None] * (rank - 1))]
    body = helper.make_graph(inner.nodes, f"{out}_body", infos, results, inner.constants)
    wide = _padded(w, x)
    w.nodes.append(helper.make_node(
        "Scan", [w.const(0.5), wide], [out, stack], name=f"n_{out}", body=body, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[way], scan_output_directions=[out_way], scan_output_axes=[axis]))
    w.ranks[out], w.ranks[stack] = 0, rank


def _sequence(w: Writer, depth: int) -> None:
    """A value taken apart and put together."""
    x = w.pick(least=1)
    if x is None:
        return
    parts, axis = w.name("s"), int(w.rng.integers(w.ranks[x]))
    w.nodes.append(helper.make_node("SplitToSequence", [_padded(w, x)], [parts], axis=axis, keepdims=1, name=f"n_{parts}"))
    first = w.add("SequenceAt", [parts, w.const(-1, np.int64)])
    longer = w.add("SequenceInsert", [parts, first, w.const(0, np.int64)])
    w.add("ConcatFromSequence", [longer], w.ranks[x], axis=axis)


_GROW = {each.__name__: each for each in (
    _unary, _binary, _reduce, _flatten, _transpose, _self_product, _nonzero, _compress, _range, _tile, _cut, _top, _scan,
    _sequence, _branch, _loop)}
_KINDS = tuple(_GROW)
_NESTED = 2


def random_model(seed: int) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    """Return a model with open sizes, and inputs of several sizes."""
    rng = np.random.default_rng(seed)
    w = Writer(rng, ranks={"x": int(rng.integers(1, 4)), "y": int(rng.integers(0, 3))})
    inputs = [helper.make_tensor_value_info(name, T.FLOAT, [f"{name}{at}" for at in range(rank)])
              for name, rank in w.ranks.items()]
    ranks = dict(w.ranks)
    grow(w, int(rng.integers(3, 9)), 0)
    made = [name for name in w.ranks if name not in ranks]
    chosen = made[-3:] or ["x"]
    outputs = [helper.make_tensor_value_info(name, T.FLOAT, [None] * w.ranks[name]) for name in chosen]
    graph = helper.make_graph(w.nodes, "random", inputs, outputs, w.constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    sets = [
        {name: np.asarray(rng.standard_normal(rng.integers(1, 5, rank)).round(2), np.float32) for name, rank in ranks.items()}
        for _ in range(3)
    ]
    return proto, [*sets, sets[0]]
