"""A convolutional network for handwritten digits of 8x8 pixels, trained in NumPy within seconds.

Images are [N, C, H, W]; a convolution is a product with the matrix of its windows, [N * H * W, C * 9].
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

CLASSES, SIDE = 10, 8
CHANNELS = (16, 32, 32)  # of the three convolutions; the second is followed by a max pool
TESTED = 500  # images that training does not see
EPOCHS, BATCH, RATE = 12, 32, 2e-3
_MOMENTA, _TINY = (0.9, 0.999), 1e-8  # of Adam

Array = np.ndarray
Weights = dict[str, Array]


class Digits(NamedTuple):
    """Images [N, 1, 8, 8] from 0 to 1 in float32, and what they show."""

    images: Array
    labels: Array

    def first(self, count: int) -> "Digits":
        """The first so many."""
        return Digits(self.images[:count], self.labels[:count])


def digits(seed: int = 0) -> tuple[Digits, Digits]:
    """scikit-learn's handwritten digits in random order: those to learn from, and those to test on."""
    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    images = (data.images[order, None] / 16).astype(np.float32)
    labels = data.target[order]
    return Digits(images[TESTED:], labels[TESTED:]), Digits(images[:TESTED], labels[:TESTED])


def initial(seed: int = 0) -> Weights:
    """He-initialised weights: three convolutions and a classifier, each with a bias."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        f"conv{k}": (n, c, 3, 3) for k, (c, n) in enumerate(zip((1, *CHANNELS), CHANNELS, strict=False), 1)}
    shapes["fc"] = (CLASSES, CHANNELS[-1] * (SIDE // 2) ** 2)
    weights: Weights = {}
    for name, shape in shapes.items():
        scale = np.float32(np.sqrt(2 / np.prod(shape[1:])))
        weights[f"{name}.weight"] = rng.standard_normal(shape, np.float32) * scale
        weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return weights


def windows(x: Array) -> Array:
    """The 3x3 windows of images with a border of zeros: [N * H * W, C * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))  # [N, C, H, W, 3, 3]
    return seen.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * 9)


def convolve(seen: Array, weight: Array, shape: tuple[int, ...]) -> Array:
    """The convolution of images of that shape, from their windows."""
    made: Array = (seen @ weight.reshape(len(weight), -1).T).reshape(shape[0], *shape[2:], len(weight))
    return made.transpose(0, 3, 1, 2)


def loss_and_gradients(weights: Weights, images: Array, labels: Array) -> tuple[float, Weights]:
    """The mean cross-entropy of a batch, and its gradient with respect to each weight."""
    kept, x, largest = [], images, images  # the places of the largest, once the pooling has found them
    for number in range(1, len(CHANNELS) + 1):
        seen = windows(x)
        y = convolve(seen, weights[f"conv{number}.weight"], x.shape) + weights[f"conv{number}.bias"].reshape(-1, 1, 1)
        kept.append((seen, x.shape, y))
        x = np.maximum(y, 0)
        if number == 2:
            x, largest = pool(x)
    flat = x.reshape(len(x), -1)
    logits = flat @ weights["fc.weight"].T + weights["fc.bias"]
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    loss = -np.log(share[np.arange(len(labels)), labels]).mean()
    share[np.arange(len(labels)), labels] -= 1
    share /= len(labels)  # from here on the gradient of what is named
    found = {"fc.weight": share.T @ flat, "fc.bias": share.sum(axis=0)}
    slope = (share @ weights["fc.weight"]).reshape(x.shape)
    for number in range(len(CHANNELS), 0, -1):
        if number == 2:
            slope = spread(slope, largest)
        seen, _, y = kept[number - 1]
        slope = np.where(y > 0, slope, 0)
        rows = slope.transpose(0, 2, 3, 1).reshape(-1, slope.shape[1])
        weight = weights[f"conv{number}.weight"]
        found[f"conv{number}.weight"] = (rows.T @ seen).reshape(weight.shape)
        found[f"conv{number}.bias"] = rows.sum(axis=0)
        if number > 1:
            slope = convolve(windows(slope), weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), slope.shape)
    return float(loss), found


def pool(x: Array) -> tuple[Array, Array]:
    """The largest of each 2x2 pixels, and which of the four it is."""
    images, channels, high, wide = x.shape
    fours = x.reshape(images, channels, high // 2, 2, wide // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    fours = fours.reshape(images, channels, high // 2, wide // 2, 4)
    return fours.max(axis=-1), fours.argmax(axis=-1)


def spread(slope: Array, largest: Array) -> Array:
    """The gradient of `pool`: that of each four goes to the largest of them."""
    images, channels, high, wide = slope.shape
    fours = np.where(np.arange(4) == largest[..., None], slope[..., None], 0).reshape(images, channels, high, wide, 2, 2)
    return fours.transpose(0, 1, 2, 4, 3, 5).reshape(images, channels, 2 * high, 2 * wide)


class Adam:
    """Adam (Kingma and Ba, ICLR 2015); updates the weights in place."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.steps = weights, 0
        self.first, self.second = ({name: np.zeros_like(array) for name, array in weights.items()} for _ in range(2))

    def step(self, slopes: Weights, share: float) -> None:
        """Update the weights once; `share` scales the learning rate."""
        self.steps += 1
        rate = RATE * share * np.sqrt(1 - _MOMENTA[1] ** self.steps) / (1 - _MOMENTA[0] ** self.steps)
        for name, slope in slopes.items():
            self.first[name] = _MOMENTA[0] * self.first[name] + (1 - _MOMENTA[0]) * slope
            self.second[name] = _MOMENTA[1] * self.second[name] + (1 - _MOMENTA[1]) * slope**2
            self.weights[name] -= (rate * self.first[name] / (np.sqrt(self.second[name]) + _TINY)).astype(np.float32)


def train(data: Digits, epochs: int = EPOCHS, seed: int = 0) -> Iterator[tuple[Weights, float]]:
    """Yield the weights and the mean loss after each epoch."""
    rng, weights = np.random.default_rng(seed), initial(seed)
    adam = Adam(weights)
    for epoch in range(epochs):
        order = rng.permutation(len(data.labels))
        losses = []
        for at in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            loss, found = loss_and_gradients(weights, data.images[chosen], data.labels[chosen])
            losses.append(loss)
            adam.step(found, 1 - epoch / epochs)
        yield weights, float(np.mean(losses))
