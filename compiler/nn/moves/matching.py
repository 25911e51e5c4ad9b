"""Elements that are looked for: keys of a table, runs of numbers in sequences, trees of decisions."""

from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import all_of, any_of, binary, maximum, minimum, select
from vtakit.compiler.ir.stmt import Allocate, For, Stmt, Store, seq
from vtakit.compiler.ir.values import const, wrap
from vtakit.compiler.nn.common import dims, made, same_dtype
from vtakit.compiler.nn.moves.indexing import loops
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math, reduce
from vtakit.compiler.te.compose import extern
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.tensor import Tensor


@operator("label_encode", kind=Kind.OPAQUE)
def label_encode(x: Tensor, keys: Tensor, values: Tensor, default: Tensor) -> Tensor:
    """For each element the value beside its key, the first of equal ones, else the default; NaN is a key too.

    keys, values : [K]. Source: ONNX ai.onnx.ml LabelEncoder. Raises OperatorError for types or shapes that do not fit.
    """
    same_dtype("label_encode: elements and keys", x, keys)
    same_dtype("label_encode: values", values, default)
    count = dims(keys)[0] if keys.ndim == 1 else 0
    if not count or dims(values) != dims(keys):
        raise OperatorError(f"label_encode: keys {dims(keys)} and values {dims(values)}: give as many of both, in one dimension")
    k = reduce_axis((0, count), "k")

    def found(*at: Expr) -> Any:
        same = binary(ir.EQ, x(*at), keys(k))
        if x.dtype.is_float:
            same = any_of(same, all_of(math.isnan(x(*at)), math.isnan(keys(k))))
        return reduce.min(select(same, k.as_expr(), const(count, "int32")), axis=k)
    place = made(dims(x), found, "place")
    other = [0] * default.ndim
    return made(dims(x), lambda *at: select(
        place(*at) < count, values(minimum(place(*at), count - 1)), default(*other)), "label_encode")


@operator("count_ngrams", kind=Kind.OPAQUE)
def count_ngrams(x: Tensor, grams: Tensor, lengths: Tensor, *, max_skip: int = 0) -> Tensor:
    """Count n-grams in sequences [B, L], with up to `max_skip` numbers left out between two of a gram.

    grams   : [G, N], each gram in the first of its N numbers        lengths : int32 [G], of each gram
    A gram of one number is counted once, not for each number of skips. Source: ONNX TfIdfVectorizer. In float32 [B, G].
    """
    same_dtype("count_ngrams", x, grams)
    if x.ndim != 2 or grams.ndim != 2 or dims(lengths) != dims(grams)[:1] or max_skip < 0:
        raise OperatorError(f"count_ngrams of {dims(x)}, runs {dims(grams)}, lengths {dims(lengths)}: give [B, L], [G, N], [G]")
    (batch, length), (count, longest) = dims(x), dims(grams)
    start, skip = reduce_axis((0, length), "start"), reduce_axis((0, max_skip + 1), "skip")

    def value(b: Expr, g: Expr) -> Any:
        here = [any_of(binary(ir.EQ, skip.as_expr(), const(0, "int32")), lengths(g) > 1)]
        for at in range(longest):
            place = start + (skip + 1) * at
            same = all_of(place < length, binary(ir.EQ, x(b, minimum(place, length - 1)), grams(g, at)))
            here.append(any_of(lengths(g) <= at, same))
        return reduce.sum(select(all_of(*here), const(1, "float32"), const(0, "float32")), axis=[start, skip])
    return made((batch, count), value, "count_ngrams")


MODES = ("<=", "<", ">=", ">", "==", "!=")  # how a node compares a feature with its threshold


@operator("tree_leaves", kind=Kind.OPAQUE)
def tree_leaves(
    x: Tensor, features: Tensor, thresholds: Tensor, modes: Tensor, missing: Tensor, lower: Tensor, upper: Tensor, roots: Tensor,
    *, depth: int,
) -> Tensor:
    """The leaf of each tree that rows [B, F] come to, int32 [B, trees].

    features, thresholds, modes : int32, of x's type and int32 [nodes]: what each node compares, with what, and how (see `MODES`)
    missing                     : int32 [nodes], 1 where it holds of NaN
    lower, upper                : int32 [nodes], the node that follows where it holds, and where not; a leaf follows itself
    roots                       : int32 [trees]        depth : steps from a root to the deepest leaf
    A feature outside of the rows is taken as the nearest one.
    Source: ONNX ai.onnx.ml TreeEnsemble. Raises OperatorError for shapes or types that do not fit.
    """
    same_dtype("tree_leaves: rows and thresholds", x, thresholds)
    nodes = [features, thresholds, modes, missing, lower, upper]
    if x.ndim != 2 or roots.ndim != 1 or len({dims(each) for each in nodes}) > 1 or thresholds.ndim != 1 or not x.dtype.is_float:
        raise OperatorError(f"tree_leaves of {x.dtype}{dims(x)}, roots {dims(roots)}: give rows [B, F] of "
                            "floating-point numbers, and one number a node")
    width = dims(x)[1]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        rows, feature, threshold, mode, missed, low, high, root = ins

        def walk(b: Expr, t: Expr) -> Stmt:
            slot, zero = Buffer("node", (wrap(1),), INT32), wrap(0)
            here = Load(slot, (zero,))
            number = Load(rows, (b, maximum(minimum(Load(feature, (here,)), width - 1), 0)))
            limit = Load(threshold, (here,))
            tests = (number <= limit, number < limit, number >= limit, number > limit, binary(ir.EQ, number, limit),
                     binary(ir.NE, number, limit))
            holds = tests[0]
            for at, test in enumerate(tests[1:], 1):
                holds = select(binary(ir.EQ, Load(mode, (here,)), wrap(at)), test, holds)
            holds = any_of(holds, all_of(binary(ir.NE, Load(missed, (here,)), zero), math.isnan(number)))
            step = Store(slot, (zero,), select(holds, Load(low, (here,)), Load(high, (here,))))
            return Allocate(slot, seq(
                Store(slot, (zero,), Load(root, (t,))), For(Var("level"), wrap(depth), step), Store(outs[0], (b, t), here)))
        return loops((dims(x)[0], *dims(roots)), walk)
    found: Tensor = extern((dims(x)[0], *dims(roots)), [x, *nodes, roots], body, name="tree_leaves", dtype="int32")
    return found
