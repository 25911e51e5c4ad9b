"""Draw random vectors of decisions for the kernels of random models, and compare each with the kernel without a schedule.

  python tests/compiler/decision_fuzz.py --seed 0 --count 200

A kernel that the verifier refuses counts as refused, with its reason; one that computes something else ends the run with status 1
and the decisions that repeat it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "compiler")]

from networks.draw import draw
from networks.emit import model_of

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.fusion import Group, fuse
from vtakit.compiler.graph.lower import key_of, tensors_of
from vtakit.compiler.lower.errors import LowerError, VerifyError
from vtakit.compiler.nn.cpu.flow import Flow
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.schedule.decisions import Decision
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.target import Cpu
from vtakit.runtime.source import Options

Decided = dict[str, Any]
VECTORS = 6  # of each kernel
RELATIVE_ERROR = 2e-4  # of float32, to the largest result; the sums have up to 2,000 terms


class WrongError(AssertionError):
    """A kernel that computes something else with other decisions."""


@dataclass(slots=True)
class Tally:
    """Count kernels and vectors of decisions, by what became of them."""

    kernels: int = 0
    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)  # changed decisions, by rule and name


def layer_model(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a layer of a usual size in float32, a convolution of some kind or a product, most often between two others."""
    kind = rng.choice(["conv", "depthwise", "grouped", "transposed", "matmul", "dense"])
    size, channels, filters = (int(rng.choice(sizes)) for sizes in ([7, 14, 19, 28], [16, 48, 96, 160], [16, 24, 64, 128]))
    side = int(rng.choice([1, 3, 3, 5]))
    words: dict[str, Any] = {"pads": [side // 2] * 4, "strides": [int(rng.integers(1, 3))] * 2}
    shape: tuple[int, ...] = (int(rng.integers(1, 3)), channels, size, size)
    if kind == "matmul":
        shape, weights, op, words = (size, channels), (channels, filters), "MatMul", {}
    elif kind == "dense":
        shape, weights, op, words = (int(rng.integers(1, 9)), channels), (filters, channels), "Gemm", {"transB": 1}
    elif kind == "transposed":
        weights, op = (channels, filters, side, side), "ConvTranspose"
    else:
        groups = {"conv": 1, "depthwise": channels, "grouped": int(rng.choice([2, 4, 8]))}[str(kind)]
        filters = channels if kind == "depthwise" else filters
        weights, op, words = (filters, channels // groups, side, side), "Conv", {**words, "group": groups}
    known, nodes, last = {"w": rng.standard_normal(weights, np.float32)}, [], "x"
    ends = len(shape) == 4 and bool(rng.integers(4))  # between convolutions of single pixels, most often: a layout in blocks pays
    if ends:
        known |= {"first": rng.standard_normal((channels, channels, 1, 1), np.float32),
                  "last": rng.standard_normal((16, filters, 1, 1), np.float32)}
        nodes += [helper.make_node("Conv", ["x", "first"], ["p"]), helper.make_node("Relu", ["p"], ["q"])]
        last = "q"
    nodes += [helper.make_node(op, [last, "w"], ["a"], **words), helper.make_node("Relu", ["a"], ["b" if ends else "y"])]
    nodes += [helper.make_node("Conv", ["b", "last"], ["y"])] if ends else []
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)]
             for name, dims in (("x", shape), ("y", [None] * len(shape)))]
    graph = helper.make_graph(nodes, "layer", *ports, [numpy_helper.from_array(array, name) for name, array in known.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def models(seed: int) -> Iterator[onnx.ModelProto]:
    """A random network, quantized or in floating point, and some layers of usual sizes."""
    yield model_of(draw(seed), real=bool(seed % 2))
    rng = np.random.default_rng([seed, 1])
    for _ in range(4):
        yield layer_model(rng)


def groups_of(model: onnx.ModelProto, target: Cpu) -> list[Group]:
    """The different kernels of a model, as they would be compiled."""
    evaluate = evaluator(target)
    graph = target.prepared(import_model(model, evaluate=evaluate), Options(), evaluate)
    return list({key_of(group): group for group in fuse(graph, machine_of(target)) if not group.view}.values())


def drawn(outputs: list[te.Tensor], target: Cpu, rng: np.random.Generator) -> tuple[te.Schedule, Decided]:
    """A schedule with random decisions: one after another, since candidates depend on what was decided before."""
    given: Decided = {}
    while True:
        s = schedule(outputs, target, given)
        left: list[Decision] = [one for one in s.decisions if one.name not in given]
        if not left:
            return s, given
        given[left[0].name] = left[0].candidates[int(rng.integers(len(left[0].candidates)))]


def array_of(tensor: te.Tensor, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of an input's type."""
    shape, kind = [extent.value for extent in tensor.shape], np.dtype(str(tensor.dtype))
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        low, high = (0, 100) if kind.kind == "u" else (-100, 100)
        return rng.integers(low, high, shape, dtype=kind) if kind.itemsize < 4 else rng.integers(0, 30, shape, dtype=kind)
    return rng.standard_normal(shape).astype(kind)


def check_group(group: Group, target: Cpu, rng: np.random.Generator, tally: Tally, vectors: int = VECTORS) -> None:
    """Compare a kernel with random decisions with one of plain loops. Raises WrongError."""
    inputs, outputs = tensors_of(group)
    if not list(schedule(outputs, target).decisions):
        return
    tally.kernels += 1
    plain = te.create_schedule([out.op for out in outputs])
    there = Flow.of(plain.outputs).ops
    args = [tensor for tensor in inputs if tensor.op in there]
    arrays = [array_of(tensor, rng) for tensor in args]

    def results(s: te.Schedule) -> list[np.ndarray]:
        made = [np.full([extent.value for extent in out.shape], 77, str(out.dtype)) for out in outputs]
        vtakit.build(s, [*args, *outputs], target)(*arrays, *made)
        return made

    wanted = results(plain)
    for _ in range(vectors):
        s, given = drawn(outputs, target, rng)
        try:
            got = results(s)
        except (LowerError, VerifyError) as error:
            tally.refused[type(error).__name__ + ": " + error.found] += 1
            continue
        tally.right += 1
        tally.decided.update(f"{one.rule}: {one.name}" for one in s.decisions if not one.is_default)
        for out, want, have in zip(outputs, wanted, got, strict=True):
            check_equal(f"{group.name} of {', '.join(str(value.type) for value in group.inputs)}", out.name, want, have, given)


def check_equal(kernel: str, name: str, want: np.ndarray, got: np.ndarray, given: Mapping[str, Any]) -> None:
    """Raise WrongError for results that are farther apart than rounding; integers may not differ."""
    if want.dtype.kind != "f":
        off, most = float((want != got).sum()), 0.0
    else:
        wide = [array.astype(np.float64) for array in (want, got)]
        off, most = float(np.abs(wide[0] - wide[1]).max(initial=0)), RELATIVE_ERROR * float(np.abs(wide[0]).max(initial=0))
    if not off <= most:
        raise WrongError(f"{kernel}: {name} is {off:g} off with the decisions {dict(given)}")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=20, help="seeds")
    parser.add_argument("--cpu", action="append", default=[], help="LLVM's name of a processor beside this one, e.g. haswell")
    args = parser.parse_args()
    tally, host = Tally(), Cpu.host()
    for seed in range(args.seed, args.seed + args.count):
        rng = np.random.default_rng(seed)
        for model in models(seed):
            target = [host, *[Cpu(host.triple, cpu) for cpu in args.cpu]][seed % (1 + len(args.cpu))]
            for group in groups_of(model, target):
                try:
                    check_group(group, target, rng, tally)
                except WrongError as error:
                    print(f"seed {seed}: {error}")
                    return 1
        refused = sum(tally.refused.values())
        print(f"seed {seed}: {tally.kernels} kernels, {tally.right} vectors right, {refused} refused", flush=True)
    for text, count in [*tally.refused.most_common(), *sorted(tally.decided.items())]:
        print(f"{count:6} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
