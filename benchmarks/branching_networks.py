"""Quantized networks of other libraries: outputs of the accelerator compared with the CPU's.

pytorchcv defines the networks, and timm one. Weights are random, and batch normalizations have averages of random images. PyTorch
exports each to ONNX, which onnxruntime quantizes (QDQ, weights by channel; symmetric int8 activations, or uint8, its default),
and so does `vtakit.quantize`. PyTorch's own quantization, PT2E, makes a program of it by the rules of its compiler for x86, or of
XNNPACK. The functional simulator runs all with the default configuration. The exit status is 1 if an output differs.
The last column compares with PyTorch, layer by layer, each from PyTorch's own values: the share of values that are equal, and of
those within one quantum. Needs `pip install pytorchcv timm torchvision onnxscript onnxruntime torch torchao`.

    python benchmarks/branching_networks.py [--only TEXT] [--save FOLDER]     print the table; save the models of onnxruntime
    python benchmarks/branching_networks.py --write                           write the table into docs/networks.md
"""

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from page_parts import write_between

import vtakit

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "networks.md"
BEGIN, END = "<!-- begin: benchmarks/branching_networks.py --write -->\n", "<!-- end -->\n"
sys.path.insert(0, str(ROOT / "tests" / "compiler"))  # where PyTorch's quantizers are called
PT2E = import_module("pt2e_support")
BRANCHES, DEFAULT = ("onnxruntime", "vtakit"), "onnxruntime, U8S8"
PYTORCH = {"PyTorch, x86": PT2E.X86, "PyTorch, XNNPACK": PT2E.XNNPACK}
# name -> (module that defines it, function, pixels of a side, what quantizes it)
NETWORKS = {
    "Inception v3": ("pytorchcv.models.inceptionv3", "inceptionv3", 299, BRANCHES),
    "HRNet-W18-S": ("pytorchcv.models.hrnet", "hrnet_w18_small_v1", 224, BRANCHES),
    "ShuffleNet, 3 groups": ("pytorchcv.models.shufflenet", "shufflenet_g3_w1", 224, BRANCHES),
    "ShuffleNet v2, half": ("pytorchcv.models.shufflenetv2", "shufflenetv2_wd2", 224, BRANCHES),
    "DLA-34": ("pytorchcv.models.dla", "dla34", 224, BRANCHES),
    "ResNet-18": ("pytorchcv.models.resnet", "resnet18", 224, (DEFAULT, *PYTORCH)),
    "MobileNet v2": ("pytorchcv.models.mobilenetv2", "mobilenetv2_w1", 224, (DEFAULT, *PYTORCH)),
    "MobileNet v3": ("pytorchcv.models.mobilenetv3", "mobilenetv3_large_w1", 224, (DEFAULT,)),
    "EfficientNet-Lite0": ("timm.models.efficientnet", "efficientnet_lite0", 224, (DEFAULT,)),
    "SqueezeNet 1.1": ("pytorchcv.models.squeezenet", "squeezenet_v1_1", 224, (DEFAULT,)),
    "RegNetY-400MF": ("pytorchcv.models.regnet", "regnety004", 224, (DEFAULT,)),
}
SAMPLES = 2


class Samples(CalibrationDataReader):
    """The calibration samples, one after another."""

    def __init__(self, name: str, images: np.ndarray[Any, Any]) -> None:
        self.each = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.each, None)


def network(name: str) -> tuple[torch.nn.Module, np.ndarray[Any, Any]]:
    """A network with random weights whose normalizations have seen images, and some images."""
    module, function, size, _ = NETWORKS[name]
    torch.manual_seed(0)
    made = getattr(import_module(module), function)(pretrained=False)
    images = torch.randn(8, 3, size, size)
    made.train()
    with torch.no_grad():
        for _ in range(10):  # running averages of mean and variance
            made(images)
    return made.eval(), images[:SAMPLES].numpy()


def quantized(made: torch.nn.Module, images: np.ndarray[Any, Any], by: str) -> onnx.ModelProto | torch.export.ExportedProgram:
    """The network in 8 bits."""
    if by in PYTORCH:
        program: torch.export.ExportedProgram = PT2E.by_pt2e(made, torch.from_numpy(images), PYTORCH[by])
        return program
    model = exported(made, images)
    name = model.graph.input[0].name
    if by == "vtakit":
        return vtakit.quantize(model, {name: images}).model
    symmetric = {} if by == DEFAULT else {
        "activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8,
        "extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True},
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / each) for each in ("float.onnx", "int8.onnx"))
        onnx.save(model, source)
        quantize_static(
            source, target, Samples(name, images), quant_format=QuantFormat.QDQ, per_channel=True, **symmetric)
        return onnx.load(target)


def exported(made: torch.nn.Module, images: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """A network as ONNX."""
    program = torch.onnx.export(made, (torch.from_numpy(images[:1]),), dynamo=True, verbose=False)
    assert program is not None
    model: onnx.ModelProto = program.model_proto
    return model


def row(name: str, made: torch.nn.Module, images: np.ndarray[Any, Any], by: str, folder: Path | None) -> tuple[str, bool]:
    """A line of the table, and whether every byte was right; a model of onnxruntime's is saved in the folder."""
    model = quantized(made, images, by)
    if folder is not None and isinstance(model, onnx.ModelProto) and by != "vtakit":
        onnx.save(model, folder / f"{name.replace(' ', '_')}.onnx")
    cpu, module = vtakit.compile(model, cache=False), vtakit.compile(model, "vta", cache=False)
    given = {name: images[:1] for name in cpu.inputs}
    want, found, placement = cpu.run(given), module.run(given), module.placement
    wrong = sum(int((found[output] != array).sum()) for output, array in want.items())
    count = sum(array.size for array in want.values())
    share = f"{placement.share_of_macs:.1%}" if placement.share_of_macs is not None else ""
    layers = len(placement.accelerator)
    near = ""
    if not isinstance(model, onnx.ModelProto):
        off = PT2E.layer_by_layer(model, torch.from_numpy(images[:1]))
        near = f"{np.mean(off == 0):.2%}, {np.mean(off <= 1):.2%}"
    cells = name, by, placement.launches, f"{layers} of {layers + len(placement.cpu)}", share, f"{wrong} of {count:,}", near
    return f"| {' | '.join(map(str, cells))} |", not wrong


def main() -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only networks with TEXT in their name")
    parser.add_argument("--write", action="store_true", help="write the table into docs/networks.md instead of printing it")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="where to save what onnxruntime quantizes")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every network: leave out --only")
    head = ("network", "quantized by", "launches", "layers on the accelerator", "of MACs", "outputs that differ",
            "PyTorch's values, within one quantum")
    lines, right = [f"| {' | '.join(head)} |", f"|---|---|{'---:|' * (len(head) - 2)}"], True
    for name in NETWORKS:
        if args.only in name:
            made, images = network(name)
            for by in NETWORKS[name][-1]:
                line, equal = row(name, made, images, by, args.save)
                print(line, file=sys.stderr, flush=True)
                lines.append(line)
                right &= equal
    table = "\n".join(lines) + "\n"
    if args.write:
        write_between(PAGE, BEGIN, table, END)
    else:
        sys.stdout.write(table)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
