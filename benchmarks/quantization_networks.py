"""Twelve small networks in PyTorch, trained on rendered digits, for benchmarks/quantization_peers.py.

The images are those of tests/trained_network.py: scikit-learn's handwritten digits, in colour, with noise, of 32x32 pixels.
Each digit is rendered several times. Digits of the test set are in no training image. One network segments, the others classify.
Trained models are kept as ONNX files, with the batch normalizations' statistics of training, in the folder that the caller names.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

SIDE, CLASSES, BACKGROUND = 32, 10, 10
TESTED, RENDERED = 400, 2  # digits that training does not see, renderings of each digit
EPOCHS, BATCH, RATE = 3, 32, 4e-3

Array = np.ndarray[Any, Any]


def rendered(first: int, last: int | None, seed: int) -> tuple[Array, Array, Array]:
    """Return images [N, 3, 32, 32] from -1 to 1, the digits they show, and of each pixel its digit or `BACKGROUND`."""
    rng, data = np.random.default_rng(seed), load_digits()
    chosen = np.random.default_rng(0).permutation(len(data.target))[first:last].repeat(RENDERED)
    ink, labels = (data.images[chosen] / 16).repeat(3, 1).repeat(3, 2), data.target[chosen]
    paper, colour = rng.uniform(-1, 0, (2, len(chosen), 3, 1, 1)) + np.array([0, 1]).reshape(2, 1, 1, 1, 1)
    made = np.broadcast_to(paper, (len(chosen), 3, SIDE, SIDE)).copy()
    masks = np.full((len(chosen), SIDE, SIDE), BACKGROUND)
    for at, (down, across) in enumerate(rng.integers(2, 7, (len(chosen), 2))):
        place = slice(down, down + 24), slice(across, across + 24)
        made[at][:, *place] += ink[at] * (colour[at] - paper[at])
        masks[at][place][ink[at] > 0.4] = labels[at]
    made += rng.normal(0, 0.1, made.shape)
    return np.clip(made, -1, 1).astype(np.float32), labels, masks


def conv(
    i: int, o: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """A convolution with batch normalization and an activation."""
    parts = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*parts, *([act()] if act else []))


class Residual(nn.Module):
    """A body with a shortcut, which is a convolution where the shapes differ, and an activation behind the sum."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, act: bool = False) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut or nn.Identity(), nn.ReLU() if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.shortcut(x))


class Excite(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU(),
                                  nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def inverted(
    i: int, o: int, stride: int, act: type[nn.Module], kernel: int = 3, grow: int = 4, excite: bool = False,
) -> nn.Module:
    """An inverted bottleneck with a depthwise convolution."""
    wide = i * grow
    body = nn.Sequential(conv(i, wide, 1, act=act), conv(wide, wide, kernel, stride, wide, act),
                         *([Excite(wide)] if excite else []), conv(wide, o, 1, act=None))
    return Residual(body) if i == o and stride == 1 else body


def classifier(channels: int, *parts: nn.Module) -> nn.Sequential:
    """A network that ends in a global mean and a product."""
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(channels, CLASSES))


def mobilenet_v1() -> nn.Module:
    parts: list[nn.Module] = [conv(3, 16, 3, 2)]
    for i, o, stride in ((16, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)):
        parts += [conv(i, i, 3, stride, i), conv(i, o, 1)]
    return classifier(128, *parts)


def mobilenet_v2() -> nn.Module:
    act = nn.ReLU6
    return classifier(96, conv(3, 16, 3, 2, act=act), inverted(16, 16, 1, act, grow=1), inverted(16, 24, 1, act),
                      inverted(24, 24, 1, act), inverted(24, 32, 2, act), inverted(32, 32, 1, act),
                      inverted(32, 48, 2, act), conv(48, 96, 1, act=act))


def mobilenet_v3() -> nn.Module:
    act = nn.Hardswish
    return classifier(
        96, conv(3, 16, 3, 2, act=act), inverted(16, 16, 1, nn.ReLU, grow=1, excite=True), inverted(16, 24, 1, nn.ReLU),
        inverted(24, 32, 2, act, 5, excite=True), inverted(32, 32, 1, act, 5, excite=True),
        inverted(32, 48, 2, act, 5, excite=True), conv(48, 96, 1, act=act))


def efficientnet_lite() -> nn.Module:
    act = nn.ReLU6
    return classifier(96, conv(3, 16, 3, 2, act=act), inverted(16, 16, 1, act), inverted(16, 24, 1, act, 5),
                      inverted(24, 24, 1, act, 5),
                      inverted(24, 40, 2, act), inverted(40, 40, 1, act), inverted(40, 48, 1, act, 5),
                      conv(48, 96, 1, act=act))


class Dense(nn.Module):
    """Layers that each append some channels to those they read."""

    def __init__(self, channels: int, layers: int, grow: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(
            nn.BatchNorm2d(channels + at * grow), nn.ReLU(), nn.Conv2d(channels + at * grow, 2 * grow, 1, bias=False),
            nn.BatchNorm2d(2 * grow), nn.ReLU(), nn.Conv2d(2 * grow, grow, 3, 1, 1, bias=False)) for at in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> nn.Module:
    def between(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, o, 1, bias=False), nn.AvgPool2d(2))
    return classifier(80, conv(3, 16, 3, 2), Dense(16, 4, 12), between(64, 32), Dense(32, 4, 12), nn.BatchNorm2d(80), nn.ReLU())


def bottleneck(i: int, o: int, stride: int, groups: int) -> nn.Module:
    """A bottleneck whose middle convolution has groups."""
    body = nn.Sequential(conv(i, o, 1), conv(o, o, 3, stride, groups), conv(o, o, 1, act=None))
    return Residual(body, None if i == o and stride == 1 else conv(i, o, 1, stride, act=None), act=True)


def resnext() -> nn.Module:
    return classifier(96, conv(3, 24, 3, 2), bottleneck(24, 48, 1, 8), bottleneck(48, 48, 1, 8), bottleneck(48, 96, 2, 8),
                      bottleneck(96, 96, 1, 8))


def regnet() -> nn.Module:
    return classifier(96, conv(3, 16, 3, 2), bottleneck(16, 32, 1, 4), bottleneck(32, 64, 2, 8), bottleneck(64, 64, 1, 8),
                      bottleneck(64, 96, 2, 12))


class Shuffle(nn.Module):
    """A unit of ShuffleNet v2 at stride 1: half of the channels pass, then channels are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(conv(half, half, 1), conv(half, half, 3, 1, half, None), conv(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        both = torch.cat([a, self.body(b)], 1)
        _, c, h, w = both.shape
        return both.reshape(-1, 2, c // 2, h, w).transpose(1, 2).reshape(-1, c, h, w)


def shufflenet() -> nn.Module:
    return classifier(128, conv(3, 32, 3, 2), Shuffle(32), conv(32, 64, 3, 1, 32), Shuffle(64), Shuffle(64),
                      conv(64, 96, 3, 2, 32), Shuffle(96), conv(96, 128, 1))


class Fire(nn.Module):
    """A squeeze, then two expansions side by side."""

    def __init__(self, i: int, squeezed: int, wide: int) -> None:
        super().__init__()
        self.squeeze, self.one, self.three = conv(i, squeezed, 1), conv(squeezed, wide, 1), conv(squeezed, wide)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x)
        return torch.cat([self.one(x), self.three(x)], 1)


def squeezenet() -> nn.Module:
    return nn.Sequential(
        conv(3, 32, 3, 2), Fire(32, 12, 32), Fire(64, 12, 32), nn.MaxPool2d(2), Fire(64, 16, 48),
        Fire(96, 16, 48), nn.Conv2d(96, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class UNet(nn.Module):
    """Two levels down and up; the result has a class for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(conv(3, 8), conv(8, 16)), nn.Sequential(conv(16, 24), conv(24, 32))
        self.middle = nn.Sequential(conv(32, 48), conv(48, 64))
        self.up_second, self.up_first = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.third, self.last = conv(64, 32), nn.Sequential(conv(32, 16), nn.Conv2d(16, CLASSES + 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(functional.max_pool2d(a, 2))
        c = self.middle(functional.max_pool2d(b, 2))
        d = self.third(torch.cat([self.up_second(c), b], 1))
        found: Tensor = self.last(torch.cat([self.up_first(d), a], 1))
        return found


class Attention(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        _, tokens, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(-1, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        share = torch.softmax(q @ k.transpose(2, 3) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((share @ v).transpose(1, 2).reshape(-1, tokens, width))
        found: Tensor = x + self.mlp(x)
        return found


class Transformer(nn.Module):
    """A small vision transformer; the mean of its tokens is classified."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 64, width) * 0.02)
        self.blocks = nn.Sequential(*[Attention(width, 4) for _ in range(3)], nn.LayerNorm(width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        found: Tensor = self.head(self.blocks(tokens).mean(1))
        return found


class Recurrent(nn.Module):
    """Convolutions along the columns of an image, then a GRU over them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(96, 64, 3, 1, 1), nn.ReLU(), nn.Conv1d(64, 64, 3, 1, 1), nn.ReLU(),
                                  nn.Conv1d(64, 48, 3, 2, 1), nn.ReLU())
        self.gru, self.head = nn.GRU(48, 64), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.gru(self.body(x.flatten(1, 2)).permute(2, 0, 1))
        found: Tensor = self.head(steps[-1])
        return found


NETWORKS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "mobilenet_v1": ("MobileNet v1", mobilenet_v1), "mobilenet_v2": ("MobileNet v2", mobilenet_v2),
    "mobilenet_v3": ("MobileNet v3", mobilenet_v3), "efficientnet_lite": ("EfficientNet-Lite", efficientnet_lite),
    "densenet": ("DenseNet", densenet), "resnext": ("ResNeXt", resnext), "shufflenet": ("ShuffleNet v2", shufflenet),
    "squeezenet": ("SqueezeNet", squeezenet), "regnet": ("RegNet", regnet), "unet": ("U-Net, pixels", UNet),
    "vit": ("vision transformer", Transformer), "gru": ("1-D convolutions, GRU", Recurrent),
}


def trained(name: str, folder: Path) -> Path:
    """Return the path of a trained network as ONNX with an open batch, trained if the folder lacks it."""
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    torch.manual_seed(0)
    made = NETWORKS[name][1]()
    images, labels, masks = map(torch.from_numpy, rendered(TESTED, None, seed=1))
    wanted = masks if name == "unet" else labels
    rate = RATE / 4 if name == "vit" else RATE
    optimizer = torch.optim.AdamW(made.parameters(), rate, weight_decay=0.01)
    epochs = EPOCHS * 3 if name == "vit" else EPOCHS
    steps = epochs * (len(images) // BATCH)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            optimizer.zero_grad()
            functional.cross_entropy(made(images[chosen]), wanted[chosen]).backward()
            optimizer.step()
            plan.step()
    made.eval()
    torch.onnx.export(made, (images[:2],), path, dynamo=False, input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}}, opset_version=17)
    return path
