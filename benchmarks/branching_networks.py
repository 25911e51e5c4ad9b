"""Quantized networks with branches and joins, from another library: outputs of the accelerator compared with the CPU's.

pytorchcv defines the networks; weights are random, and batch normalizations have averages of random images. PyTorch exports
each to ONNX. onnxruntime quantizes it (QDQ, int8, symmetric activations, weights by channel), and so does `vtakit.quantize`. The
functional simulator runs both with the default configuration. The exit status is 1 if an output differs.
Needs `pip install pytorchcv onnxscript onnxruntime torch`.

    python benchmarks/branching_networks.py [--only TEXT]     print the table
    python benchmarks/branching_networks.py --write           write it into docs/networks.md
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

import vtakit

PAGE = Path(__file__).parents[1] / "docs" / "networks.md"
BEGIN, END = "<!-- begin: benchmarks/branching_networks.py --write -->\n", "<!-- end -->\n"
# name -> (module of pytorchcv, function, pixels of a side)
NETWORKS = {
    "Inception v3": ("inceptionv3", "inceptionv3", 299),
    "HRNet-W18-S": ("hrnet", "hrnet_w18_small_v1", 224),
    "ShuffleNet, 3 groups": ("shufflenet", "shufflenet_g3_w1", 224),
    "ShuffleNet v2, half": ("shufflenetv2", "shufflenetv2_wd2", 224),
    "DLA-34": ("dla", "dla34", 224),
}
QUANTIZERS = ("onnxruntime", "vtakit")
SAMPLES = 2


class Samples(CalibrationDataReader):
    """The calibration samples, one after another."""

    def __init__(self, name: str, images: np.ndarray[Any, Any]) -> None:
        self.each = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.each, None)


def network(name: str) -> tuple[torch.nn.Module, np.ndarray[Any, Any]]:
    """A network with random weights whose normalizations have seen images, and some images."""
    module, function, size = NETWORKS[name]
    torch.manual_seed(0)
    made = getattr(import_module(f"pytorchcv.models.{module}"), function)(pretrained=False)
    images = torch.randn(8, 3, size, size)
    made.train()
    with torch.no_grad():
        for _ in range(10):  # running averages of mean and variance
            made(images)
    return made.eval(), images[:SAMPLES].numpy()


def quantized(model: onnx.ModelProto, images: np.ndarray[Any, Any], by: str) -> onnx.ModelProto:
    """The model in int8."""
    name = model.graph.input[0].name
    if by == "vtakit":
        return vtakit.quantize(model, {name: images}).model
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / each) for each in ("float.onnx", "int8.onnx"))
        onnx.save(model, source)
        quantize_static(
            source, target, Samples(name, images), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
        )
        return onnx.load(target)


def exported(name: str) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """A network as ONNX, and its images."""
    made, images = network(name)
    program = torch.onnx.export(made, (torch.from_numpy(images[:1]),), dynamo=True, verbose=False)
    assert program is not None
    return program.model_proto, images


def row(name: str, model: onnx.ModelProto, images: np.ndarray[Any, Any], by: str) -> tuple[str, bool]:
    """A line of the table, and whether every byte was right."""
    proto = quantized(model, images, by)
    given = {proto.graph.input[0].name: images[:1]}
    want = vtakit.compile(proto, cache=False).run(given)
    module = vtakit.compile(proto, "vta", cache=False)
    found, placement = module.run(given), module.placement
    wrong = sum(int((found[output] != array).sum()) for output, array in want.items())
    count = sum(array.size for array in want.values())
    share = f"{placement.share_of_macs:.1%}" if placement.share_of_macs is not None else ""
    layers = len(placement.accelerator)
    cells = name, by, placement.launches, f"{layers} of {layers + len(placement.cpu)}", share, f"{wrong} of {count:,}"
    return f"| {' | '.join(map(str, cells))} |", not wrong


def main() -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only networks with TEXT in their name")
    parser.add_argument("--write", action="store_true", help="write the table into docs/networks.md instead of printing it")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every network: leave out --only")
    head = "network", "quantized by", "launches", "layers on the accelerator", "of MACs", "outputs that differ"
    lines, right = [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---:|"], True
    for name in NETWORKS:
        if args.only in name:
            model, images = exported(name)
            for by in QUANTIZERS:
                line, equal = row(name, model, images, by)
                print(line, file=sys.stderr, flush=True)
                lines.append(line)
                right &= equal
    table = "\n".join(lines) + "\n"
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}", encoding="utf-8")
    else:
        sys.stdout.write(table)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
