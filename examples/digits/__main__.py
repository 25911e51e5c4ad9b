"""Handwritten digits, from training to a page of where the time went.

    python examples/digits                      what `make demo` runs
    python examples/digits --folder out         leave the model, the module and the page in another folder

A small convolutional network learns scikit-learn's digits in NumPy, becomes an ONNX model, is compiled for this processor, and
reads images that it has not seen.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper
from rich.console import Console
from rich.progress import track
from training import CHANNELS, CLASSES, EPOCHS, SIDE, Array, Digits, Weights, digits, train

import vtakit
from vtakit.hw.isa.file import write_bytes
from vtakit.runtime.grid import Grid
from vtakit.runtime.module import Module
from vtakit.runtime.report.ceilings import measure
from vtakit.runtime.report.model_page import model_page
from vtakit.runtime.report.page import Section

FOLDER = Path("build/digits")
SHADES = " ░▒▓█"
ACROSS = 6  # images in a row on the terminal


class Reading(NamedTuple):
    """What a network made of some images: its guesses, and which are wrong."""

    guesses: Array
    wrong: Array

    @property
    def accuracy(self) -> float:
        return 1 - len(self.wrong) / len(self.guesses)


def learn(data: Digits, epochs: int) -> Weights:
    """The weights after training."""
    console = Console(stderr=True)
    rounds = track(train(data, epochs), "training", epochs, console=console, transient=True, disable=not console.is_terminal)
    start = time.perf_counter()
    weights, loss = list(rounds)[-1]
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


def compile_for_cpu(model: onnx.ModelProto, batch: int) -> Module:
    """Native code for so many images at once."""
    start = time.perf_counter()
    module = vtakit.compile(model, batch=batch)
    print(f"compiled for this processor in {time.perf_counter() - start:.1f} s: {len(module.image.layers)} layers, "
          f"{module.image.params_bytes:,} bytes of parameters")
    return module


def read(module: Module, data: Digits) -> Reading:
    """Run the network on all images at once."""
    guesses = module.run({"image": data.images})["logits"].argmax(axis=1)
    found = Reading(guesses, np.flatnonzero(guesses != data.labels))
    print(f"float32 on this processor: {found.accuracy:.1%} of {len(guesses)} images that training did not see")
    return found


def drawn(image: Array) -> list[str]:
    """An image in letters, two a pixel, since letters are high."""
    return ["".join(SHADES[round(float(pixel) * (len(SHADES) - 1))] * 2 for pixel in row) for row in image[0]]


def show(data: Digits, found: Reading) -> None:
    """Print the images that were read wrongly."""
    for first in range(0, len(found.wrong), ACROSS):
        row = found.wrong[first : first + ACROSS]
        print("\n" + "   ".join(f"{f'{data.labels[at]}, read as {found.guesses[at]}':16}" for at in row).rstrip())
        for lines in zip(*(drawn(data.images[at]) for at in row), strict=True):
            print("   ".join(lines).rstrip())
    print()


def page(module: Module, data: Digits, found: Reading, path: Path) -> None:
    """Write the report: accuracy, what was read wrongly, and where the time went."""
    made = model_page("Handwritten digits", module.image, module.profile({"image": data.images}), measure(module.image.target))
    result = Grid("accuracy", ("device", "numbers", "images", "wrong", "right"), (
        ("this processor", "float32", str(len(data.labels)), str(len(found.wrong)), f"{found.accuracy:.1%}"),
    ), labels=2)
    made = made.beginning_with(
        Section("Accuracy", "Images that training did not see.", grid=result),
        Section("Read wrongly", picture="".join(figure(data, found, at) for at in found.wrong)),
    )
    made.save(path)
    print(f"the report: {path}")


def figure(data: Digits, found: Reading, at: int) -> str:
    """An image of the page, a square for each pixel, with what it is and what it was taken for."""
    squares = "".join(
        f'<rect x="{10 * column}" y="{10 * row}" width="10" height="10" fill="rgb({shade},{shade},{shade})"/>'
        for (row, column), shade in np.ndenumerate((255 * (1 - data.images[at, 0])).astype(int))
    )
    text = f'<text x="0" y="95" font-size="11">{data.labels[at]}, read as {found.guesses[at]}</text>'
    return f'<svg width="100" height="100" viewBox="0 0 100 100">{squares}{text}</svg>'


def main() -> int:
    """Run the job; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python examples/digits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="DIR", help=f"where to leave files ({FOLDER})")
    parser.add_argument("--epochs", type=int, default=EPOCHS, metavar="N", help=f"rounds over the images ({EPOCHS})")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    to_learn, to_test = digits()
    model = export(learn(to_learn, args.epochs))
    write_bytes(args.folder / "digits.onnx", model.SerializeToString(), "the model")
    module = compile_for_cpu(model, len(to_test.labels))
    module.save(args.folder / "digits.vtak")
    found = read(module, to_test)
    show(to_test, found)
    page(module, to_test, found, args.folder / "digits.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
