"""Ensembles of trees of the domain ai.onnx.ml, as scikit-learn's and gradient boosting's converters write them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.ml import DOMAIN
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value

_MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5}
_MEMBER, _EQUAL = 6, 4


@dataclass
class _Forest:
    """Nodes of trees, leaves among them, each of which follows itself."""

    features: list[int] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def node(self, feature: int = 0, threshold: float = 0.0, mode: int = 0, missing: int = 0) -> int:
        """Add a node that follows itself; its number."""
        at = len(self.features)
        self.thresholds.append(threshold)
        for column, value in ((self.features, feature), (self.modes, mode), (self.missing, missing), (self.lower, at),
                              (self.upper, at)):
            column.append(value)
        return at

    def depth(self, n: OnnxNode) -> int:
        """Steps to the deepest leaf. Raises Unsupported for nodes that form a cycle."""
        level, steps = {*self.roots}, 0
        while True:
            level = {each for at in level for each in (self.lower[at], self.upper[at]) if each != at}
            if not level:
                return steps
            steps += 1
            if steps > len(self.features):
                raise n.unsupported("of trees with cycles")

    def leaves(self, n: OnnxNode, x: Value) -> Value:
        """The leaf of each tree that rows come to. Raises Unsupported for features that the rows do not have."""
        wrong = [each for each in self.features if not 0 <= each < x.type.shape[1]]
        if wrong:
            raise n.unsupported(f"that compares feature {wrong[0]} of rows of {x.type.shape[1]}")
        kind = numpy_dtype(x.type.dtype)
        columns = [np.asarray(column, np.int32) for column in (self.features, self.modes, self.missing, self.lower, self.upper,
                                                               self.roots)]
        features, *rest = [n.value(column) for column in columns]
        limits = np.asarray(self.thresholds, kind)
        return n.apply("tree_leaves", x, features, n.value(limits, x.type.dtype), *rest, depth=self.depth(n))


def _sums(n: OnnxNode, leaves: Value, weights: Any, aggregate: str, x: Value) -> Value:
    """Weights of the leaves that all trees reach, aggregated: [B, targets]."""
    rows = n.apply("gather", n.value(weights.astype(numpy_dtype(x.type.dtype)), x.type.dtype), leaves, axis=0)
    op = {"SUM": "reduce_sum", "AVERAGE": "reduce_mean", "MIN": "reduce_min", "MAX": "reduce_max"}[aggregate]
    return n.apply(op, rows, axes=(1,), keepdims=False)


def _rows(n: OnnxNode) -> Value:
    x = n[0] if n.dtype(0).is_float and n.dtype(0).bits >= 32 else n.apply("cast", n[0], to="float32")
    return x if len(x.type.shape) == 2 else n.apply("reshape", x, shape=(1, x.type.size))


def _transformed(n: OnnxNode, y: Value, name: str) -> Value:
    match name:
        case "NONE":
            return y
        case "SOFTMAX":
            return n.apply("softmax", y, axis=-1)
        case "LOGISTIC":
            return n.apply("sigmoid", y)
    raise n.unsupported(f"with post_transform {name}")


def _numbers(n: OnnxNode, name: str) -> Sequence[Any] | None:
    """An attribute that is a list, or a tensor for numbers of 64 bits."""
    found = n.attr(f"{name}_as_tensor")
    numbers: Sequence[Any] | None = n.attr(name) if found is None else found.reshape(-1).tolist()
    return numbers


def _old_forest(n: OnnxNode, word: str, count: int) -> tuple[_Forest, Any]:
    """The trees of TreeEnsembleRegressor and -Classifier, and what each node weighs for each target."""
    trees, ids = n.required("nodes_treeids"), n.required("nodes_nodeids")
    modes, missing = n.required("nodes_modes"), n.attr("nodes_missing_value_tracks_true") or (0,) * len(trees)
    limits = _numbers(n, "nodes_values") or ()
    forest, number, seen = _Forest(), {}, set()
    for at, key in enumerate(zip(trees, ids, strict=True)):
        leaf = modes[at] == "LEAF"
        if not leaf and modes[at] not in _MODES:
            raise n.unsupported(f"with nodes of mode {modes[at]}")
        number[key] = forest.node() if leaf else forest.node(n.required("nodes_featureids")[at], limits[at], _MODES[modes[at]],
                                                             missing[at])
        if key[0] not in seen:  # the first node of a tree is its root
            seen.add(key[0])
            forest.roots.append(number[key])
    for at, key in enumerate(zip(trees, ids, strict=True)):
        if modes[at] != "LEAF":
            forest.lower[number[key]] = number[key[0], n.required("nodes_truenodeids")[at]]
            forest.upper[number[key]] = number[key[0], n.required("nodes_falsenodeids")[at]]
    weights = np.zeros((len(forest.features), count))
    columns = [n.required(f"{word}_{each}") for each in ("treeids", "nodeids", "ids")]
    for tree, node, target, weight in zip(*columns, _numbers(n, f"{word}_weights") or (), strict=True):
        weights[number[tree, node], target] += weight
    return forest, weights


def _with_base(n: OnnxNode, y: Value) -> Value:
    base = _numbers(n, "base_values")
    return y if not base else n.apply("add", y, n.value(np.asarray(base, numpy_dtype(y.type.dtype)), y.type.dtype))


@converts("TreeEnsembleRegressor", domain=DOMAIN)
def regressor(n: OnnxNode) -> Value:
    x = _rows(n)
    forest, weights = _old_forest(n, "target", n.required("n_targets"))
    y = _with_base(n, _sums(n, forest.leaves(n, x), weights, n.attr("aggregate_function", "SUM"), x))
    y = _transformed(n, y, n.attr("post_transform", "NONE"))
    return y if str(y.type.dtype) == "float32" else n.apply("cast", y, to="float32")


@converts("TreeEnsembleClassifier", domain=DOMAIN)
def classifier(n: OnnxNode) -> list[Value]:
    """The label of the greatest score, and the scores; two classes may share one column of weights, the first."""
    labels = n.attr("classlabels_int64s")
    if not labels:
        raise n.unsupported("with labels that are strings")
    x = _rows(n)
    used = {*n.required("class_ids")}
    forest, weights = _old_forest(n, "class", max(*used, len(labels) - 1) + 1)
    post, names = n.attr("post_transform", "NONE"), n.value(np.asarray(labels, np.int64))
    if len(labels) == 2 and used == {1}:
        raise n.unsupported("of two classes with weights of the second alone")
    if len(labels) == 2 and len(used) == 1:
        column = weights[:, :1]
        y = _with_base(n, _sums(n, forest.leaves(n, x), column, "SUM", x))
        positive = bool((np.asarray(_numbers(n, "class_weights") or ()) >= 0).all()) and post == "NONE"
        above = n.apply("greater", y, n.like(0.5 if positive else 0.0, y))
        one = n.apply("sub", n.like(1, y), y) if positive else n.apply("neg", y)
        if post == "LOGISTIC":
            one, y = (n.apply("sigmoid", each) for each in (one, y))
        elif post != "NONE":
            raise n.unsupported(f"of one column of weights with post_transform {post}")
        place = n.apply("reshape", n.apply("cast", above, to="int64"), shape=(x.type.shape[0],))
        scores = n.apply("concat", one, y, axis=1)
    else:
        y = _with_base(n, _sums(n, forest.leaves(n, x), weights, "SUM", x))
        place = n.apply("argmax", y, axis=1, keepdims=False)
        scores = _transformed(n, y, post)
    return [n.apply("gather", names, place, axis=0),
            scores if str(scores.type.dtype) == "float32" else n.apply("cast", scores, to="float32")]


@converts("TreeEnsemble", domain=DOMAIN)
def ensemble(n: OnnxNode) -> Value:
    """The trees of ai.onnx.ml 5; a node that looks for members of a set is a chain of comparisons."""
    x = _rows(n)
    splits, modes = n.required("nodes_splits").reshape(-1), n.required("nodes_modes").reshape(-1)
    missing = n.attr("nodes_missing_value_tracks_true") or (0,) * len(splits)
    given = n.attr("membership_values")
    members = iter(() if given is None else given.reshape(-1).tolist())
    forest, chains = _Forest(), []
    for at, mode in enumerate(modes.tolist()):
        feature = n.required("nodes_featureids")[at]
        if mode != _MEMBER:
            chains.append([forest.node(feature, float(splits[at]), mode, missing[at])])
            continue
        chain = []
        for value in members:
            if np.isnan(value):
                break
            chain.append(forest.node(feature, value, _EQUAL, missing[at]))
        chains.append(chain or [forest.node(feature, float("nan"), _EQUAL, missing[at])])
    leaves = [forest.node() for _ in n.required("leaf_targetids")]
    sides = [(n.required(f"nodes_{word}nodeids"), n.required(f"nodes_{word}leafs")) for word in ("true", "false")]
    for at, chain in enumerate(chains):
        yes, no = (leaves[ids[at]] if leafs[at] else chains[ids[at]][0] for ids, leafs in sides)
        for place, node in enumerate(chain):
            forest.lower[node], forest.upper[node] = yes, chain[place + 1] if place + 1 < len(chain) else no
    forest.roots = [chains[root][0] for root in n.required("tree_roots")]
    weights = np.zeros((len(forest.features), n.required("n_targets")))
    for leaf, target, weight in zip(leaves, n.required("leaf_targetids"), n.required("leaf_weights").reshape(-1), strict=True):
        weights[leaf, target] = weight
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[n.attr("aggregate_function", 1)]
    if aggregate in ("MIN", "MAX") and weights.shape[1] > 1:
        raise n.unsupported(f"of several targets by {aggregate}")
    y = _sums(n, forest.leaves(n, x), weights, aggregate, x)
    return _transformed(n, y, ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[n.attr("post_transform", 0)])
