"""Eight networks for benchmarks/tool_files.py, with samples: of `vtakit.models`, of timm, and three transformers made here."""

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx

import vtakit

Array = npt.NDArray[Any]
Inputs = dict[str, Array]
SIZE, LENGTH, WORDS, WIDTH, HEADS = 64, 32, 1000, 128, 4


def published(name: str) -> Callable[[], tuple[onnx.ModelProto, list[Inputs]]]:
    """A network of `vtakit.models`, and samples."""
    def make() -> tuple[onnx.ModelProto, list[Inputs]]:
        size = {"size": SIZE} if vtakit.models.find(name).resizable else {}
        return vtakit.models.build(name, **size), [vtakit.models.inputs(name, seed=seed, **size) for seed in range(4)]
    return make


def exported(module: Any, *samples: Any) -> tuple[onnx.ModelProto, list[Inputs]]:
    """A PyTorch module through PyTorch's exporter."""
    import torch

    torch.manual_seed(3)
    module = module.eval()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, (samples[0],), path, dynamo=True, verbose=False, input_names=["x"], output_names=["y"])
        proto = onnx.load(path)
    return proto, [{"x": sample.numpy()} for sample in samples]


def by_timm(name: str, **options: Any) -> Callable[[], tuple[onnx.ModelProto, list[Inputs]]]:
    """A network of timm, its batch normalizations with statistics of random images."""
    def make() -> tuple[onnx.ModelProto, list[Inputs]]:
        import torch

        timm: Any = import_module("timm")

        torch.manual_seed(5)
        module = timm.create_model(name, pretrained=False, **options)
        with torch.no_grad():
            module.train()
            for _ in range(8):
                module(torch.randn(8, 3, SIZE, SIZE))
        return exported(module, *[torch.randn(1, 3, SIZE, SIZE) for _ in range(4)])
    return make


def language(kind: str) -> Callable[[], tuple[onnx.ModelProto, list[Inputs]]]:
    """Two blocks of a transformer: "bert" and "gpt" with layer norms and GELU, "llama" with RMS norms, rotary places and
    SwiGLU."""
    def make() -> tuple[onnx.ModelProto, list[Inputs]]:
        import torch

        torch.manual_seed(7)
        return exported(transformer(kind), *[torch.randint(0, WORDS, (1, LENGTH)) for _ in range(4)])
    return make


def transformer(kind: str) -> Any:
    """The module of `language`."""
    import torch
    from torch import nn
    from torch.nn import functional

    def turned(x: Any) -> Any:
        half = WIDTH // HEADS // 2
        angles = torch.outer(torch.arange(x.shape[2]).float(), 10000 ** (-torch.arange(half).float() / half))
        c, s, a, b = angles.cos(), angles.sin(), x[..., :half], x[..., half:]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    class Block(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            norm = nn.RMSNorm if kind == "llama" else nn.LayerNorm
            self.first, self.second = norm(WIDTH), norm(WIDTH)
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=kind != "llama") for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.gate = nn.Linear(WIDTH, 4 * WIDTH)

        def attended(self, x: Any) -> Any:
            parts = [each(x).view(x.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2) for each in (self.q, self.k, self.v)]
            if kind == "llama":
                parts[:2] = [turned(each) for each in parts[:2]]
            scores = parts[0] @ parts[1].transpose(2, 3) / (WIDTH // HEADS) ** 0.5
            if kind != "bert":
                scores = scores + torch.full((x.shape[1], x.shape[1]), -1e4).triu(1)
            return self.o((scores.softmax(-1) @ parts[2]).transpose(1, 2).reshape(x.shape))

        def wide(self, x: Any) -> Any:
            if kind == "llama":
                return self.down(functional.silu(self.gate(x)) * self.up(x))
            return self.down(functional.gelu(self.up(x), approximate="tanh" if kind == "gpt" else "none"))

        def forward(self, x: Any) -> Any:
            if kind == "bert":
                x = self.first(x + self.attended(x))
                return self.second(x + self.wide(x))
            x = x + self.attended(self.first(x))
            return x + self.wide(self.second(x))

    class Model(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.kinds, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(WIDTH, WORDS, bias=False)

        def forward(self, x: Any) -> Any:
            found = self.words(x)
            if kind != "llama":
                found = found + self.places(torch.arange(x.shape[1]))
            if kind == "bert":
                found = self.norm(found + self.kinds(torch.zeros_like(x)))
            return self.head(self.blocks(found))
    return Model()


NETWORKS: dict[str, Callable[[], tuple[onnx.ModelProto, list[Inputs]]]] = {
    "resnet18": published("resnet18"), "mobilenet_v2": published("mobilenet_v2"), "lstm": published("lstm"),
    "bert": language("bert"), "gpt": language("gpt"), "llama": language("llama"),
    "vit": by_timm("vit_tiny_patch16_224", img_size=SIZE, depth=3), "mobilenetv3": by_timm("mobilenetv3_small_100"),
}
