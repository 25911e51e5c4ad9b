"""Handwritten digits on the accelerator, from training to a page of where the cycles went.

    python examples/digits                      what `make demo` runs
    python examples/digits --folder out         leave the models, the module and the page in another folder
    python examples/digits --config blk8        on another shape of the hardware

A small convolutional network learns scikit-learn's digits in NumPy, becomes an ONNX model, is quantized to int8, and is compiled
into one program for the accelerator. The functional simulator and the hardware itself, in Verilator, read images that it has not
learnt from; each must give the bytes that NumPy gives.
"""

import argparse
import io
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper
from pages import Reading, differences, page, print_layers, print_wrong
from rich.console import Console
from rich.progress import Progress, track
from threadpoolctl import threadpool_limits
from training import CHANNELS, CLASSES, EPOCHS, SIDE, TESTED, Array, Digits, Weights, digits, train

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.base.writing import make_folder, write_bytes
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.reference import reference
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.grid import count, share
from vtakit.runtime.module import Module
from vtakit.runtime.profile import Profile
from vtakit.runtime.vta.part import VtaPart

FOLDER = Path("build/digits")
CONFIG = "default"  # 256 MACs; a model of 16 ("tiny") is built in three quarters of the time, and needs 28 times the cycles
CALIBRATED = 100  # images that the ranges of int8 are chosen from
BATCH = 20  # images of a launch
TOLERATED = 0.5  # points of accuracy that int8 may lose
PROGRESS = Console(stderr=True)
Step = TypeVar("Step")


def shown(steps: Iterable[Step], what: str, count: int) -> Iterable[Step]:
    """The steps, with a bar of how many are done."""
    return track(steps, what, count, console=PROGRESS, transient=True, disable=not PROGRESS.is_terminal)


def learn(data: Digits, epochs: int) -> Weights:
    """The weights after training."""
    start = time.perf_counter()
    with threadpool_limits(1):  # the products are too small for two threads, which take eight times as long on a busy machine
        weights, loss = list(shown(train(data, epochs), "training", epochs))[-1]
    print(f"trained on {len(data.labels)} images for {epochs} rounds in {time.perf_counter() - start:.1f} s; loss {loss:.4f}")
    return weights


def export(weights: Weights) -> onnx.ModelProto:
    """The network as an ONNX model with a symbolic batch."""
    nodes, x = [], "image"
    for number in range(1, len(CHANNELS) + 1):
        name = f"conv{number}"
        nodes += [
            helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [name], name=name, pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [name], [f"relu{number}"], name=f"relu{number}"),
        ]
        x = f"relu{number}"
        if number == 2:
            nodes.append(helper.make_node("MaxPool", [x], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
            x = "pool"
    nodes += [
        helper.make_node("Flatten", [x], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], name="fc", transB=1),
    ]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", *shape])
        for name, shape in (("image", (1, SIDE, SIDE)), ("logits", (CLASSES,)))
    ]
    known = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "digits", ports[:1], ports[1:], known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="vtakit examples")
    onnx.checker.check_model(model, full_check=True)
    return model


def quantize(model: onnx.ModelProto, data: Digits) -> onnx.ModelProto:
    """The network with weights and activations in int8, whose ranges are those of images that it has learnt from."""
    start = time.perf_counter()
    with Progress(console=PROGRESS, transient=True, disable=not PROGRESS.is_terminal) as bar:
        task = bar.add_task("quantizing", total=None)
        found = vtakit.quantize(
            model, data.images[:CALIBRATED],
            progress=lambda what, done, count: bar.update(task, description=what, completed=done, total=count),
        )
    worst = found.accuracy.worst(1)[0]
    print(f"quantized with {CALIBRATED} images in {time.perf_counter() - start:.1f} s; least signal to noise: "
          f"{worst.decibels:.1f} dB, of {worst.name}")
    return found.model


def compile_for_accelerator(model: onnx.ModelProto, config: str, batch: int) -> Module:
    """A program of the accelerator for a batch of images, and machine code for what is not in integers."""
    start = time.perf_counter()
    module = vtakit.compile(model, "vta", batch=batch, config=config)
    launches, rest = module.image.parts_of(VtaPart), module.image.parts_of(CpuPart)
    print(f"compiled for the accelerator in {time.perf_counter() - start:.1f} s: launches {len(launches)}, their layers "
          f"{sum(len(part.layers) for part in launches)}, layers of this processor {sum(len(part.layers) for part in rest)}")
    return module


def read_in_float(model: onnx.ModelProto, data: Digits) -> Reading:
    """What the float network makes of all images, on this processor."""
    module = vtakit.compile(model, batch=len(data.labels))
    found = Reading("this processor", "float32", module.run({"image": data.images})["logits"], data.labels)
    print(found)
    return found


def read_in_int8(module: Module, device: str, data: Digits) -> Reading:
    """What the quantized network makes of images, batch by batch."""
    batches = np.split(data.images, len(data.labels) // module.image.inputs[0].shape[0])
    logits = [module.run({"image": batch})["logits"] for batch in shown(batches, f"reading on {device}", len(batches))]
    found = Reading(device, "int8", np.concatenate(logits), data.labels)
    print(found)
    return found


def computed_by_numpy(model: onnx.ModelProto, images: Array) -> Array:
    """The outputs of the quantized network in plain NumPy, which shares nothing with the compiler's operators."""
    (logits,) = reference(integer_form(import_model(model, batch=len(images))), images)
    return logits


def check_bytes(found: Reading, wanted: Array) -> None:
    """End the program unless a device gave what NumPy gives, byte by byte."""
    if wrong := differences(found.logits, wanted):
        sys.exit(f"{found.device} gives other bytes than NumPy for {wrong} of {len(wanted)} images")
    print(f"{found.device}: the same bytes as NumPy for all {len(wanted)} images")


def check_accuracy(real: Reading, small: Reading) -> None:
    """End the program if int8 reads too many images wrongly that float32 does not."""
    lost = 100 * (real.accuracy - small.accuracy)
    if lost > TOLERATED:
        sys.exit(f"int8 is {lost:.1f} points less accurate than float32; {TOLERATED} are tolerated")


def read_on_hardware(module: Module, data: Digits) -> tuple[Reading, Profile]:
    """What the hardware in Verilator makes of images, and where the cycles of the first batch went."""
    batch = module.image.inputs[0].shape[0]
    with Module(module.image, "rtl") as hardware:
        profile = hardware.profile({"image": data.images[:batch]})
        found = read_in_int8(hardware, "rtl", data)
    for report in profile.launches:
        cycles, utilisation = count(report.total.cycles), share(report.total.share_of_peak)
        print(f"rtl: {cycles} cycles for a batch of {batch} images, {utilisation} of the array's peak")
        print_layers(report)
    return found, profile


def main() -> int:
    """Run the job; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python examples/digits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="DIR", help=f"where to leave files ({FOLDER})")
    parser.add_argument("--epochs", type=int, default=EPOCHS, metavar="N", help=f"rounds over the images ({EPOCHS})")
    parser.add_argument("--config", default=CONFIG, metavar="CFG", help=f"hardware: a name or a JSON file ({CONFIG})")
    parser.add_argument("--batch", type=int, default=BATCH, metavar="N", help=f"images of a launch ({BATCH})")
    parser.add_argument("--sample", type=int, default=TESTED, metavar="N", help=f"images that rtl reads ({TESTED})")
    args = parser.parse_args()
    if args.batch < 1 or TESTED % args.batch:
        parser.error(f"--batch takes a divisor of {TESTED}, not {args.batch}")
    if not 0 < args.sample <= TESTED or args.sample % args.batch:
        parser.error(f"--sample takes a multiple of {args.batch} up to {TESTED}, not {args.sample}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in a file too, what standard error says stands where it belongs
    make_folder(args.folder)
    to_learn, to_test = digits()

    model = export(learn(to_learn, args.epochs))
    write_bytes(args.folder / "digits.onnx", model.SerializeToString(), "the model")
    quantized = quantize(model, to_learn)
    write_bytes(args.folder / "digits_int8.onnx", quantized.SerializeToString(), "the quantized model")
    module = compile_for_accelerator(quantized, args.config, args.batch)
    module.save(args.folder / "digits.vtak")

    real = read_in_float(model, to_test)
    small = read_in_int8(module, "fsim", to_test)
    wanted = computed_by_numpy(quantized, to_test.images)
    check_bytes(small, wanted)
    check_accuracy(real, small)
    print_wrong(to_test, small, real)

    on_hardware, profile = read_on_hardware(module, to_test.first(args.sample))
    check_bytes(on_hardware, wanted[: args.sample])
    file = args.folder / "digits.html"
    page(module, profile, to_test, (real, small, on_hardware)).save(file)
    print(f"the report: {file}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VtakitError as error:
        sys.exit(f"digits: {error}")
