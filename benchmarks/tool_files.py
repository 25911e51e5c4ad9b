"""Models as tools write them: onnxruntime's optimizers, converter and quantizers, applied to eight networks, and PyTorch's PT2E.

    python benchmarks/tool_files.py [--only WORD …] [--keep DIR]

prints a table: for each file which operators of the domain com.microsoft are in it, and how far vtakit's results are from those
of
the tool itself (onnxruntime, or PyTorch for PT2E): the root mean square of the difference, relative to that of the result.
Needs torch, timm, onnxscript and onnxruntime; PT2E needs torchao. The exit status is 1 if a file is refused or its results
differ.
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

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
        import timm
        import torch

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

    class Block(nn.Module):
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

    class Model(nn.Module):
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


def session(path: Path, level: Any = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, **written: str) -> Any:
    """An onnxruntime session with one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 4
    for name, value in written.items():
        setattr(options, name, value)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def optimized(level: str) -> Callable[[Path, Path, list[Inputs]], None]:
    """The file that onnxruntime's own optimizer writes: "BASIC" or "EXTENDED"."""
    def make(source: Path, target: Path, samples: list[Inputs]) -> None:
        session(source, getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"), optimized_model_filepath=str(target))
    return make


def fused(kind: str) -> Callable[[Path, Path, list[Inputs]], None]:
    """What onnxruntime's optimizer of transformers makes of a model."""
    def make(source: Path, target: Path, samples: list[Inputs]) -> None:
        from onnxruntime.transformers import optimizer

        heads, width = {"vit": (3, 192)}.get(kind, (HEADS, WIDTH))
        called = {"vit": "vit", "gpt": "gpt2"}.get(kind, "bert")
        made = optimizer.optimize_model(str(source), model_type=called, num_heads=heads, hidden_size=width, opt_level=0)
        made.save_model_to_file(str(target))
    return make


def halved(source: Path, target: Path, samples: list[Inputs]) -> None:
    """The model in float16 by onnxruntime's converter, inputs and outputs as they were."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def dynamic(source: Path, target: Path, samples: list[Inputs]) -> None:
    """Weights in 8 bits, activations when the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QUInt8)


def static(form: str, **extra: Any) -> Callable[[Path, Path, list[Inputs]], None]:
    """Weights and activations in 8 bits by samples, as "QDQ" or "QOperator"."""
    def make(source: Path, target: Path, samples: list[Inputs]) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Reader(CalibrationDataReader):  # type: ignore[misc,unused-ignore]
            def __init__(self) -> None:
                self.left = iter(samples)

            def get_next(self) -> Inputs | None:
                return next(self.left, None)
        quantize_static(source, target, Reader(), quant_format=QuantFormat[form], **extra)
    return make


def in_four_bits(source: Path, target: Path, samples: list[Inputs]) -> None:
    """Weights of products in blocks of 4 bits (MatMulNBits)."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    made = MatMulNBitsQuantizer(onnx.load(source), block_size=32, is_symmetric=False)
    made.process()
    onnx.save(made.model.model, target)


def after(*steps: Callable[[Path, Path, list[Inputs]], None]) -> Callable[[Path, Path, list[Inputs]], None]:
    """One tool after another."""
    def make(source: Path, target: Path, samples: list[Inputs]) -> None:
        for at, step in enumerate(steps):
            to = target if at == len(steps) - 1 else target.with_suffix(f".{at}.onnx")
            step(source, to, samples)
            source = to
    return make


BASIC, EXTENDED = optimized("BASIC"), optimized("EXTENDED")
FILES: tuple[tuple[str, str, Callable[[Path, Path, list[Inputs]], None], float], ...] = (
    # network, tool, how, the greatest difference
    ("resnet18", "basic", BASIC, 1e-5), ("resnet18", "extended", EXTENDED, 1e-5),
    ("resnet18", "static QOperator", static("QOperator"), 0.02),
    ("resnet18", "static QDQ, extended", after(static("QDQ"), EXTENDED), 0.02),
    ("resnet18", "float16", halved, 5e-3),
    ("mobilenet_v2", "extended", EXTENDED, 1e-5), ("mobilenet_v2", "dynamic", dynamic, 0.02),
    ("mobilenet_v2", "static QDQ, extended", after(static("QDQ"), EXTENDED), 0.05),
    ("lstm", "extended", EXTENDED, 1e-5), ("lstm", "dynamic", dynamic, 0.02),
    ("bert", "basic", BASIC, 1e-5), ("bert", "extended", EXTENDED, 1e-5), ("bert", "transformers", fused("bert"), 1e-5),
    ("bert", "transformers, float16", after(fused("bert"), halved), 5e-3),
    ("bert", "dynamic, extended", after(dynamic, EXTENDED), 0.02),
    ("bert", "transformers, dynamic", after(fused("bert"), dynamic), 0.02),
    ("gpt", "extended", EXTENDED, 1e-5), ("gpt", "transformers", fused("gpt"), 1e-5), ("gpt", "float16", halved, 5e-3),
    ("gpt", "dynamic", dynamic, 0.02), ("gpt", "4 bits", in_four_bits, 1e-4),
    ("llama", "extended", EXTENDED, 1e-5), ("llama", "transformers", fused("llama"), 1e-5),
    ("llama", "4 bits, extended", after(in_four_bits, EXTENDED), 1e-4), ("llama", "float16", halved, 5e-3),
    ("vit", "extended", EXTENDED, 1e-5), ("vit", "transformers", fused("vit"), 1e-5),
    ("vit", "static QDQ, extended", after(static("QDQ"), EXTENDED), 0.05), ("vit", "float16, extended", after(halved, EXTENDED),
                                                                            5e-3),
    ("mobilenetv3", "extended", EXTENDED, 1e-5), ("mobilenetv3", "static QOperator", static("QOperator"), 0.05),
    ("mobilenetv3", "float16", halved, 5e-3),
)


def special(proto: onnx.ModelProto) -> str:
    """The operators of a model that are not ONNX's own."""
    return ", ".join(sorted({node.op_type for node in proto.graph.node if node.domain not in ("", "ai.onnx")})) or "-"


def difference(got: list[Array], wanted: list[Array]) -> float:
    """The root mean square of the difference, relative to that of the result."""
    a, b = (np.concatenate([each.astype(float).ravel() for each in arrays]) for arrays in (got, wanted))
    return float(np.sqrt(np.mean((a - b) ** 2) / max(np.mean(b**2), 1e-30)))


def judged(target: Path, source: Path, samples: list[Inputs], quantized: bool, most: float) -> tuple[str, bool]:
    """The end of a file's line in the table, and whether its results are right.

    A file of floats is right if its results are those of onnxruntime but for rounding. One of integers has noise, which no two
    programs share: it is right if its results are not farther from the network's in floats than onnxruntime's, but for a tenth.
    """
    try:
        run = session(target)
    except Exception:  # onnxruntime does not optimize each of its own files again
        run = session(target, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    plain = session(source)
    names = [info.name for info in run.get_inputs()]
    given = [{name: sample[name] for name in names} for sample in samples]
    module = vtakit.compile(target, cache=False)
    got = [array for each in given for array in module.run(each).values()]
    wanted = [array for each in given for array in run.run(None, each)]
    shown = difference(got, wanted)
    if not quantized:
        return f"{shown:.1e} | |", shown <= most
    real = [array for each in given for array in plain.run(None, each)]
    ours, theirs = difference(got, real), difference(wanted, real)
    return f"{shown:.1e} | {ours:.3f} of {theirs:.3f} |", ours <= 1.1 * theirs + 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="files whose network and tool have all the words")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files there")
    args = parser.parse_args()
    wrong = 0
    made: dict[str, tuple[Path, list[Inputs]]] = {}
    print("| network | written by | operators of onnxruntime's own | from onnxruntime | from floats: vtakit, onnxruntime |")
    print("|---|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        where = args.keep or Path(folder)
        for network, tool, how, most in FILES:
            if any(word not in f"{network} {tool}" for word in args.only):
                continue
            if network not in made:
                proto, samples = NETWORKS[network]()
                made[network] = where / f"{network}.onnx", samples
                onnx.save(proto, made[network][0])
            source, samples = made[network]
            target = where / f"{network}_{tool.replace(', ', '_').replace(' ', '_')}.onnx"
            quantized = any(word in tool for word in ("dynamic", "static"))
            try:
                how(source, target, samples)
                proto = onnx.load(target)
            except Exception as error:  # of the tool
                print(f"| {network} | {tool} | the tool fails: {type(error).__name__}: {_line(error)} | | |", flush=True)
                continue
            try:
                text, right = judged(target, source, samples, quantized, most)
            except Exception as error:
                text, right = f"{type(error).__name__}: {_line(error)} | |", False
            wrong += not right
            print(f"| {network} | {tool} | {special(proto)} | {text}{'' if right else ' WRONG'}", flush=True)
    return 1 if wrong else 0


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


if __name__ == "__main__":
    sys.exit(main())
