"""Models as onnxruntime's tools write them: its optimizers, converter and quantizers, applied to eight networks.

    python benchmarks/tool_files.py [--only WORD …] [--keep DIR]

prints a table: for each file which operators of the domain com.microsoft are in it, and how far its results are from those of
onnxruntime: the root mean square of the difference, relative to the result. Needs torch, timm, onnxscript and onnxruntime.
The exit status is 1 if a file is refused or its results differ.
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from tool_networks import HEADS, NETWORKS, WIDTH, Array, Inputs

import vtakit


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
    """Return the maker of a model that onnxruntime's optimizer of transformers has fused."""
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
