"""A residual network for coloured images of 32x32 pixels, as CIFAR's are, trained in NumPy within half a minute.

The images are scikit-learn's handwritten digits, enlarged three times, near the centre, in a
bright colour on a dark one, with Gaussian noise.
"""

import hashlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from sklearn.datasets import load_digits
from support import EXAMPLES

from vtakit.cache.building import built_once
from vtakit.cache.place import cache_folder

sys.path.insert(0, str(EXAMPLES / "digits"))
import training
from training import Adam, Array, Digits, Weights, convolve, pool, spread, windows

SIDE, CLASSES, TESTED = 32, 10, 400
CHANNELS = ((3, 16), (16, 32), (32, 32), (32, 32))  # of the convolutions; two pools, then a residual around the last


def images(seed: int = 0) -> tuple[Digits, Digits]:
    """Images [N, 3, 32, 32] from -1 to 1, and the digits they show: those to learn from, and those to test on."""
    rng, data = np.random.default_rng(seed), load_digits()
    order = rng.permutation(len(data.target))
    ink = (data.images[order] / 16).repeat(3, 1).repeat(3, 2)
    paper, colour = rng.uniform(-1, 0, (2, len(order), 3, 1, 1)) + np.array([0, 1]).reshape(2, 1, 1, 1, 1)
    made = np.broadcast_to(paper, (len(order), 3, SIDE, SIDE)).copy()
    for at, (down, across) in enumerate(rng.integers(2, 7, (len(order), 2))):
        part = made[at, :, down : down + 24, across : across + 24]
        part += ink[at] * (colour[at] - paper[at])
    made += rng.normal(0, 0.1, made.shape)
    found, labels = np.clip(made, -1, 1).astype(np.float32), data.target[order]
    return Digits(found[TESTED:], labels[TESTED:]), Digits(found[:TESTED], labels[:TESTED])


def initial(seed: int) -> Weights:
    """He-initialised weights."""
    rng, found = np.random.default_rng(seed), {}
    for at, (c, n) in enumerate(CHANNELS, 1):
        found[f"conv{at}.weight"] = rng.standard_normal((n, c, 3, 3), np.float32) * np.float32(np.sqrt(2 / (9 * c)))
        found[f"conv{at}.bias"] = np.zeros(n, np.float32)
    found["fc.weight"] = rng.standard_normal((CLASSES, CHANNELS[-1][1] * 64), np.float32) * np.float32(np.sqrt(2 / 2048))
    return found | {"fc.bias": np.zeros(CLASSES, np.float32)}


def slopes(weights: Weights, x: Array, labels: Array) -> Weights:
    """Return the gradient of a batch's mean cross-entropy with respect to each weight."""
    seen, sums, places = {}, {}, {}
    for at in range(1, len(CHANNELS) + 1):
        skip, seen[at] = x, windows(x)
        sums[at] = convolve(seen[at], weights[f"conv{at}.weight"], x.shape) + weights[f"conv{at}.bias"].reshape(-1, 1, 1)
        if at == len(CHANNELS):
            sums[at] += skip
        x = np.maximum(sums[at], 0)
        if at <= 2:
            x, places[at] = pool(x)
    flat = x.reshape(len(x), -1)
    logits = flat @ weights["fc.weight"].T + weights["fc.bias"]
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(len(labels)), labels] -= 1
    share /= len(labels)
    found = {"fc.weight": share.T @ flat, "fc.bias": share.sum(axis=0)}
    slope = (share @ weights["fc.weight"]).reshape(x.shape)
    for at in range(len(CHANNELS), 0, -1):
        slope = np.where(sums[at] > 0, spread(slope, places[at]) if at in places else slope, 0)
        rows = slope.transpose(0, 2, 3, 1).reshape(-1, slope.shape[1])
        weight = weights[f"conv{at}.weight"]
        found |= {f"conv{at}.weight": (rows.T @ seen[at]).reshape(weight.shape), f"conv{at}.bias": rows.sum(axis=0)}
        if at > 1:
            back = convolve(windows(slope), weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), slope.shape)
            slope = back + slope if at == len(CHANNELS) else back
    return found


def train(data: Digits, epochs: int = 6, seed: int = 0) -> Iterator[Weights]:
    """Yield the weights after each epoch."""
    rng, weights = np.random.default_rng(seed), initial(seed)
    adam = Adam(weights)
    for epoch in range(epochs):
        order = rng.permutation(len(data.labels))
        for at in range(0, len(order) - 31, 32):
            chosen = order[at : at + 32]
            adam.step(slopes(weights, data.images[chosen], data.labels[chosen]), 1 - epoch / epochs)
        yield weights


def learnt(name: str, train: Callable[[], Weights]) -> Weights:
    """Return the weights that `train` gives, kept in the user's cache folder until the code of a training or NumPy changes."""
    sources = b"".join(Path(file).read_bytes() for file in (__file__, training.__file__))
    key = hashlib.sha256(sources + f"{name} {np.__version__}".encode()).hexdigest()[:32]
    kept = built_once(cache_folder("tests") / key, ("weights.npz",),
                      lambda work: np.savez(work / "weights.npz", **train()), "trained network")
    return dict(np.load(io.BytesIO(kept.data)))


def export(weights: Weights) -> onnx.ModelProto:
    """Return the network as an ONNX model with a symbolic batch."""
    nodes, x = [], "image"
    for at in range(1, len(CHANNELS) + 1):
        name, skip = f"conv{at}", x
        nodes.append(helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [name], name, pads=[1, 1, 1, 1]))
        if at == len(CHANNELS):
            nodes.append(helper.make_node("Add", [name, skip], ["sum"], "sum"))
        nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], [x := f"relu{at}"], x))
        if at <= 2:
            nodes.append(helper.make_node("MaxPool", [x], [x := f"pool{at}"], x, kernel_shape=[2, 2], strides=[2, 2]))
    nodes += [helper.make_node("Flatten", [x], ["flat"]),
              helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1)]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", *shape])
             for name, shape in (("image", (3, SIDE, SIDE)), ("logits", (CLASSES,)))]
    known = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "coloured", ports[:1], ports[1:], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
