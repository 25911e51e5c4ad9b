"""Modules of torch.nn and networks, with inputs of a given batch and length, for comparisons of compiled code with PyTorch.

Run by tests/runtime/test_torch_backend.py (some) and benchmarks/torch_agreement.py (all). They need torch, an extra.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f

Inputs = Callable[[int, int], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """A module with its inputs.

    make   : the module
    inputs : of a batch and a length
    """

    make: Callable[[], nn.Module]
    inputs: Inputs


def _floats(*shape: int | str) -> Inputs:
    """Inputs of random numbers; "n" is the batch, "l" the length."""
    return lambda n, length: (torch.randn(*[{"n": n, "l": length}.get(size, size) for size in shape]),)


def _words(bound: int) -> Inputs:
    return lambda n, length: (torch.randint(0, bound, (n, length)),)


IMAGE = _floats("n", 4, 9, 11)
ROWS = _floats("n", "l", 12)
SIGNAL = _floats("n", 4, "l")
VOLUME = _floats("n", 3, 4, 6, 5)

MODULES: dict[str, Case] = {
    "Linear": Case(lambda: nn.Linear(12, 7), ROWS),
    "Bilinear": Case(lambda: nn.Bilinear(5, 6, 4), lambda n, _: (torch.randn(n, 5), torch.randn(n, 6))),
    "Conv1d": Case(lambda: nn.Conv1d(4, 6, 3, padding=1, dilation=2), SIGNAL),
    "Conv2d": Case(lambda: nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), IMAGE),
    "Conv2d reflect": Case(lambda: nn.Conv2d(4, 8, 3, padding=1, padding_mode="reflect"), IMAGE),
    "Conv3d": Case(lambda: nn.Conv3d(3, 4, 3, padding=1), VOLUME),
    "ConvTranspose1d": Case(lambda: nn.ConvTranspose1d(4, 5, 3, stride=2, output_padding=1), SIGNAL),
    "ConvTranspose2d": Case(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1), IMAGE),
    "MaxPool1d": Case(lambda: nn.MaxPool1d(3, 2), SIGNAL),
    "MaxPool2d": Case(lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    "MaxPool3d": Case(lambda: nn.MaxPool3d(2), VOLUME),
    "AvgPool1d": Case(lambda: nn.AvgPool1d(3, 2, 1), SIGNAL),
    "AvgPool2d": Case(lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "AvgPool2d divisor": Case(lambda: nn.AvgPool2d(2, divisor_override=3), IMAGE),
    "AvgPool3d": Case(lambda: nn.AvgPool3d(2), VOLUME),
    "LPPool2d": Case(lambda: nn.LPPool2d(2, 2), _floats("n", 4, 8, 8)),
    "AdaptiveAvgPool2d": Case(lambda: nn.AdaptiveAvgPool2d((3, 4)), IMAGE),
    "AdaptiveMaxPool2d": Case(lambda: nn.AdaptiveMaxPool2d((3, 4)), IMAGE),
    "BatchNorm1d": Case(lambda: nn.BatchNorm1d(4), SIGNAL),
    "BatchNorm2d": Case(lambda: nn.BatchNorm2d(4), IMAGE),
    "InstanceNorm2d": Case(lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "GroupNorm": Case(lambda: nn.GroupNorm(2, 4), IMAGE),
    "LayerNorm": Case(lambda: nn.LayerNorm(12), ROWS),
    "RMSNorm": Case(lambda: nn.RMSNorm(12), ROWS),
    "LocalResponseNorm": Case(lambda: nn.LocalResponseNorm(3), IMAGE),
    "LSTM": Case(lambda: nn.LSTM(12, 5, 2, batch_first=True, bidirectional=True), ROWS),
    "GRU": Case(lambda: nn.GRU(12, 5, batch_first=True), ROWS),
    "RNN": Case(lambda: nn.RNN(12, 5, batch_first=True), ROWS),
    "LSTMCell": Case(lambda: nn.LSTMCell(12, 5), _floats("n", 12)),
    "GRUCell": Case(lambda: nn.GRUCell(12, 5), _floats("n", 12)),
    "Embedding": Case(lambda: nn.Embedding(20, 6, padding_idx=0), _words(20)),
    "EmbeddingBag": Case(lambda: nn.EmbeddingBag(20, 6, mode="mean"), _words(20)),
    "MultiheadAttention": Case(lambda: _SelfAttention(12, 3), ROWS),
    "TransformerEncoderLayer": Case(lambda: nn.TransformerEncoderLayer(12, 3, 24, batch_first=True), ROWS),
    "TransformerDecoderLayer": Case(
        lambda: nn.TransformerDecoderLayer(12, 3, 24, batch_first=True),
        lambda n, length: (torch.randn(n, length, 12), torch.randn(n, 4, 12))),
    "Softmax": Case(lambda: nn.Softmax(-1), ROWS),
    "LogSoftmax": Case(lambda: nn.LogSoftmax(1), ROWS),
    "Softmin": Case(lambda: nn.Softmin(1), ROWS),
    "GELU": Case(nn.GELU, ROWS),
    "GLU": Case(nn.GLU, ROWS),
    "SiLU": Case(nn.SiLU, ROWS),
    "Mish": Case(nn.Mish, ROWS),
    "ELU": Case(nn.ELU, ROWS),
    "CELU": Case(lambda: nn.CELU(1.5), ROWS),
    "SELU": Case(nn.SELU, ROWS),
    "PReLU": Case(lambda: nn.PReLU(4), IMAGE),
    "Hardswish": Case(nn.Hardswish, ROWS),
    "Hardshrink": Case(nn.Hardshrink, ROWS),
    "Softshrink": Case(nn.Softshrink, ROWS),
    "Tanhshrink": Case(nn.Tanhshrink, ROWS),
    "Threshold": Case(lambda: nn.Threshold(0.1, -2), ROWS),
    "LogSigmoid": Case(nn.LogSigmoid, ROWS),
    "Softplus": Case(lambda: nn.Softplus(2), ROWS),
    "PixelShuffle": Case(lambda: nn.PixelShuffle(2), IMAGE),
    "PixelUnshuffle": Case(lambda: nn.PixelUnshuffle(2), _floats("n", 4, 8, 6)),
    "ChannelShuffle": Case(lambda: nn.ChannelShuffle(2), IMAGE),
    "Upsample": Case(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "Upsample nearest 1d": Case(lambda: nn.Upsample(scale_factor=2), SIGNAL),
    "Unfold": Case(lambda: nn.Unfold(3, padding=1), IMAGE),
    "Fold": Case(lambda: nn.Fold((5, 5), 2), _floats("n", 12, 16)),
    "ReflectionPad2d": Case(lambda: nn.ReflectionPad2d(2), IMAGE),
    "ReplicationPad2d": Case(lambda: nn.ReplicationPad2d((1, 2, 0, 3)), IMAGE),
    "CircularPad2d": Case(lambda: nn.CircularPad2d(1), IMAGE),
    "ZeroPad2d": Case(lambda: nn.ZeroPad2d((1, -1, 2, 0)), IMAGE),
    "Flatten": Case(lambda: nn.Flatten(), IMAGE),
    "CosineSimilarity": Case(nn.CosineSimilarity, lambda n, _: (torch.randn(n, 8), torch.randn(n, 8))),
    "PairwiseDistance": Case(nn.PairwiseDistance, lambda n, _: (torch.randn(n, 8), torch.randn(n, 8))),
}


class _SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.attention(x, x, x)


class Residual(nn.Module):
    """A block of a ResNet."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
        self.down = nn.Conv2d(inputs, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + self.down(x))


class ResNet(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1), Residual(8, 16, 2),
                         Residual(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


class MobileBlock(nn.Module):
    """An inverted residual with squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        more = 3 * channels
        self.expand, self.depthwise = nn.Conv2d(channels, more, 1), nn.Conv2d(more, more, 5, 1, 2, groups=more)
        self.squeeze, self.excite, self.project = nn.Conv2d(more, 8, 1), nn.Conv2d(8, more, 1), nn.Conv2d(more, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = f.hardswish(self.depthwise(f.hardswish(self.expand(x))))
        gate = f.hardsigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return x + self.project(y * gate)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(self.one(x))
        b = torch.relu(self.two(f.max_pool2d(a, 2)))
        return self.last(torch.cat([a, self.up(b)], 1))


class Attention(nn.Module):
    """Attention as GPT and BERT have it."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = (each.view(n, length, self.heads, -1).transpose(1, 2) for each in self.qkv(x).split(width, 2))
        y = f.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, 4, causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.layers, self.norm = nn.ModuleList([Layer(32, True) for _ in range(2)]), nn.LayerNorm(32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.T


class Bert(nn.Module):
    """With a mask of padding, a class token's pooler and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(50, 32), nn.Embedding(64, 32), nn.LayerNorm(32)
        self.layers, self.pooler = nn.ModuleList([Layer(32, False) for _ in range(2)]), nn.Linear(32, 32)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = (ids != 0)[:, None, None, :].expand(-1, -1, ids.shape[1], -1)
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Words(nn.Module):
    """A language model of LSTMs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.cells, self.head = nn.Embedding(50, 16), nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.embedding(ids))[0])


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 32, 8, 8), nn.Parameter(torch.randn(1, 1, 32))
        self.layers, self.head = nn.ModuleList([Layer(32, False) for _ in range(2)]), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class WaveNet(nn.Module):
    """Dilated gated convolutions of a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.filters = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2 ** at) for at in range(3)])
        self.last = nn.Conv1d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for at, each in enumerate(self.filters):
            a, b = each(f.pad(x, (2 ** at, 0))).chunk(2, 1)
            x = x + torch.tanh(a) * torch.sigmoid(b)
        return self.last(x)


class Detector(nn.Module):
    """Two heads at two scales, concatenated, as YOLO has them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.near, self.far = nn.Conv2d(24, 6, 1), nn.Conv2d(16, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = f.silu(self.one(x))
        b = f.silu(self.two(a))
        up = f.interpolate(b, scale_factor=2.0, mode="nearest")
        heads = [self.near(torch.cat([a, up], 1)), self.far(b)]
        return torch.cat([each.flatten(2).transpose(1, 2).sigmoid() for each in heads], 1)


class Breaking(nn.Module):
    """A graph break: Python decides by numbers which branch is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.one(x))
        if float(x.sum().item()) > 0:
            x = self.two(x)
        torch._dynamo.graph_break()
        return self.three(x).softmax(-1)


class Cached(nn.Module):
    """A buffer that each call changes, and an output that is a view of an input."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(12, 12)
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(12))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.steps += 1
        self.mean.lerp_(x.mean((0, 1)), 0.25)
        return self.mix(x - self.mean) / self.steps, x.transpose(0, 1)


class Experts(nn.Module):
    """A mixture of experts with a gate of two; PyTorch runs what vtakit has no code for."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(12, 4), nn.ModuleList([nn.Linear(12, 12) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).topk(2, -1)
        share = torch.zeros_like(self.gate(x)).scatter(-1, chosen, weights.softmax(-1))
        return sum(share[..., at:at + 1] * each(x) for at, each in enumerate(self.experts))


NETWORKS: dict[str, Case] = {
    "resnet": Case(ResNet, _floats("n", 3, 32, 32)),
    "mobilenet block": Case(lambda: MobileBlock(8), _floats("n", 8, 14, 14)),
    "u-net": Case(UNet, _floats("n", 1, 16, 20)),
    "gpt": Case(Gpt, _words(50)),
    "bert": Case(Bert, _words(50)),
    "lstm words": Case(Words, _words(50)),
    "vit": Case(Vit, _floats("n", 3, 32, 32)),
    "wavenet": Case(WaveNet, _floats("n", 1, "l")),
    "detector": Case(Detector, _floats("n", 3, 16, 24)),
    "graph breaks": Case(Breaking, ROWS),
    "buffers": Case(Cached, ROWS),
    "experts": Case(Experts, ROWS),
}
