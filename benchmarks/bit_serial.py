"""Bit-serial convolutions beside those of int8 on one thread: layers of ResNet-18, and the whole network.

    python benchmarks/bit_serial.py [--repeat N] [--only TEXT ...] [--cpu NAME ...] [--write]

The layers are C2 to C12 of Chen et al., "TVM" (OSDI 2018), table 2, as a network runs them: bytes in blocks of channels come in,
are packed as planes of bits for the bit-serial forms, and sums are requantized to bytes. All forms of a layer compute the same
numbers, which are compared. The network has random weights, and is quantized by `vtakit.quantize`; its outputs are compared
too. Titles have the bits of activations before those of weights.

Forms take turns in one process. Figures are medians of processor time, and ratios medians of a turn's own. Operands are bound
once, and a turn begins with a run that is not counted.

--cpu   makes code for other processors whose instructions this one has: x86-64-v3 is one with AVX2. By default this one, then it.
--write puts the tables into docs/quantization.md.
"""

import argparse
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # read when the first parallel loop runs

import numpy as np
from cpu_convolutions import LAYERS, Layer, apply, seconds
from cpu_suite import machine, shape_of
from page_parts import write_between

import vtakit
from vtakit import models, te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.passes.packed_bytes import requantized_bytes
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.conv.bit_weights import Encoding, excess, packed_bits
from vtakit.compiler.nn.conv.packed_weights import ZERO, block_of, packed_vector, packed_weight
from vtakit.compiler.nn.cpu.schedule import schedule

PAGE = Path(__file__).parents[1] / "docs" / "quantization.md"
BEGIN, END = "<!-- begin: benchmarks/bit_serial.py --write -->\n", "<!-- end -->\n"
TURN_S = 4e-3  # a form runs as often in a turn as takes this long
Run = Callable[[], Any]


class Form(NamedTuple):
    """Bits of activations, and the encoding of weights."""

    title: str
    planes: int
    encoding: Encoding
    numbers: Sequence[int]  # of the weights


FORMS = (
    Form("1 bit by 1, bipolar", 1, Encoding("bipolar", 1), (-1, 1)),
    Form("2 by 1, bipolar", 2, Encoding("bipolar", 1), (-1, 1)),
    Form("2 by 2, ternary", 2, Encoding("ternary", 1), (-1, 0, 1)),
    Form("2 by 2, unipolar", 2, Encoding("unipolar", 2), range(4)),
)
NETWORKS = (2, 1), (2, 2), (4, 2)  # bits of activations and of weights


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that begins at a line of the cache, as a network's arena does."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    made = raw[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def kernel(
    out: te.Tensor, tensors: Sequence[te.Tensor], arrays: Sequence[np.ndarray], target: Target,
) -> tuple[Run, np.ndarray]:
    """Return a run of one kernel, and the array that it writes."""
    result = aligned(np.zeros([int_value(extent) or 0 for extent in out.shape], str(out.dtype)))
    return vtakit.build(schedule([out], target), [*tensors, out], target).bound(*arrays, result), result


def placeholders(*arrays: np.ndarray) -> list[te.Tensor]:
    """Return a tensor for each array."""
    return [te.placeholder(array.shape, str(array.dtype), name=f"in{at}") for at, array in enumerate(arrays)]


def bytes_of(sums: te.Tensor, inputs: Sequence[te.Tensor], arrays: Sequence[np.ndarray], off: np.ndarray, spread: float,
             target: Target) -> tuple[Run, np.ndarray]:
    """Return a run of sums and what requantizes them, less `off` for each filter, and the array of its bytes."""
    shift = 15 + int(np.ceil(np.log2(spread)))
    found = requantized_bytes(-off, np.full(len(off), 40_000, np.int32), np.full(len(off), shift, np.int32))
    assert found is not None
    block = int_value(sums.shape[-1]) or 0
    numbers = [aligned(packed_vector(vector.astype(np.int32), block)) for vector in found]
    vectors = placeholders(*numbers)
    return kernel(apply("requantize_bytes", sums, *vectors), [*inputs, *vectors], [*arrays, *numbers], target)


def int8_form(layer: Layer, x: np.ndarray, weight: np.ndarray, spread: float, target: Target) -> tuple[Run, np.ndarray]:
    """Return a run of the layer by products of bytes, and the array that it writes."""
    arrays = [x, aligned(packed_weight(weight, x.shape[-1], block_of(layer.filters), 4))]
    inputs = placeholders(*arrays)
    sums = apply("conv_packed", *inputs, block=block_of(layer.filters), strides=(layer.stride,) * 2, pads=layer.pads, fill=ZERO)
    return bytes_of(sums, inputs, arrays, ZERO * weight.sum((1, 2, 3), dtype=np.int64), spread, target)


def bit_form(
    layer: Layer, form: Form, x: np.ndarray, weight: np.ndarray, spread: float, target: Target,
) -> tuple[Run, Run, np.ndarray]:
    """Return runs of packing and of the layer by counting bits, and the array that the layer writes."""
    (data,) = placeholders(x)
    pack, planes = kernel(apply("pack_bits", data, planes=form.planes, zero=ZERO, pads=layer.pads), [data], [x], target)
    arrays = [planes, aligned(packed_bits(weight, form.encoding, x.shape[-1], block_of(layer.filters)))]
    inputs = placeholders(*arrays)
    sums = apply("conv_bits", *inputs, block=block_of(layer.filters), encoding=form.encoding.name, strides=(layer.stride,) * 2)
    return pack, *bytes_of(sums, inputs, arrays, excess(weight, form.encoding, form.planes), spread, target)


def both(first: Run, second: Run) -> None:
    """Run one after the other."""
    first()
    second()


def in_turns(runs: Mapping[str, Run], repeat: int) -> list[dict[str, float]]:
    """Return seconds of a run of each, for each turn."""
    times = {name: max(1, int(TURN_S / min(seconds(run), seconds(run)))) for name, run in runs.items()}
    return [{name: seconds(run, times[name]) for name, run in runs.items()} for _ in range(repeat)]


def measure(layer: Layer, target: Target, repeat: int) -> dict[str, tuple[float, float, float]]:
    """Return microseconds of int8, and for each bit-serial form also int8's time by its own, and packing's share of it."""
    rng, found = np.random.default_rng(0), {}
    shape, filters = layer.shapes[:2]
    for form in FORMS:
        u = block_of(layer.channels)
        data = rng.integers(0, 1 << form.planes, shape)
        x = aligned(np.moveaxis((data + ZERO).astype(np.uint8).reshape(1, -1, u, *shape[2:]), 2, -1))
        weight = rng.choice(form.numbers, filters).astype(np.int8)
        spread = max(1.0, float(np.std(weight)) * np.sqrt(np.prod(filters[1:])) / 4)
        int8, wanted = int8_form(layer, x, weight, spread, target)
        pack, bits, got = bit_form(layer, form, x, weight, spread, target)
        runs: dict[str, Run] = {"int8": int8, "bits": partial(both, pack, bits), "pack": pack}
        turns = in_turns(runs, repeat)
        assert np.array_equal(got, wanted), f"{layer.name}, {form.title}: other bytes than int8"
        micros = {name: 1e6 * statistics.median(turn[name] for turn in turns) for name in runs}
        ratio = statistics.median(turn["int8"] / turn["bits"] for turn in turns)
        found[form.title] = (micros["bits"], ratio, micros["pack"] / micros["bits"])
        found.setdefault("int8", (micros["int8"], 1.0, 0.0))
    return found


def of_layers(target: Target, layers: Sequence[Layer], repeat: int) -> str:
    """Measure the layers; return a table in Markdown, with the geometric mean of the ratios."""
    head = ("layer", "int8, us", *(f"{form.title}, us" for form in FORMS))
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    ratios = {form.title: list[float]() for form in FORMS}
    for layer in layers:
        found = measure(layer, target, repeat)
        cells = [f"{found['int8'][0]:.0f}"]
        for title, kept in ratios.items():
            micros, ratio, share = found[title]
            kept.append(ratio)
            cells.append(f"{micros:.0f} ({ratio:.2f}; {share:.0%})")
        lines.append(f"| {layer.name}: {shape_of(layer)} | {' | '.join(cells)} |")
    means = [f"{statistics.geometric_mean(kept):.2f}" for kept in ratios.values()]
    return "\n".join([*lines, f"| geometric mean of the ratios | | {' | '.join(means)} |"]) + "\n"


def of_networks(target: Target, repeat: int) -> str:
    """Measure ResNet-18 of few bits, its layers in int8, all bit-serial, and as the default is; return a table in Markdown."""
    head = ("ResNet-18", "int8, ms", "bit-serial, ms", "default, ms", "layers bit-serial by default")
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    given = models.inputs("resnet18", 1)
    for activations, weights in NETWORKS:
        samples = models.inputs("resnet18", 4)
        made = vtakit.quantize(models.build("resnet18"), samples, weights=weights, activations=activations).model
        usual = {layer: one.chosen for layer, one in vtakit.decisions(made, target, batch=1) if one.name == "arithmetic"}
        asked: dict[str, Any] = {form: {layer: {"arithmetic": form} for layer in usual} for form in ("bytes", "bits")}
        modules = {name: vtakit.compile(made, target, batch=1, decisions=decisions, cache=False)
                   for name, decisions in (asked | {"default": None}).items()}
        outputs = [[*module.run(given).values()] for module in modules.values()]
        assert all(np.array_equal(*pair) for other in outputs[1:] for pair in zip(outputs[0], other, strict=True))
        turns = in_turns({name: partial(module.run, given) for name, module in modules.items()}, repeat)
        cells = [f"{1e3 * statistics.median(turn[name] for turn in turns):.2f}" for name in modules]
        count = f"{[*usual.values()].count('bits')} of {len(usual)}"
        lines.append(f"| {activations} by {weights} | {' | '.join(cells)} | {count} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns of each layer (default 15)")
    parser.add_argument("--only", default=[""], nargs="+", metavar="TEXT", help="layers whose names begin with one of these")
    parser.add_argument("--cpu", nargs="+", default=["", "x86-64-v3"], metavar="NAME", help="names of LLVM's processors")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/quantization.md")
    given = parser.parse_args()
    layers = [layer for layer in LAYERS[1:12] if layer.name.startswith(tuple(given.only))]
    parts, here = [], machine()
    for cpu in given.cpu:
        target = Target.host(cpu=cpu, features=()) if cpu else Target.host()
        title = f"{here['processor']}, code for {target.cpu}, {here['date']}:"
        tables = [*([of_layers(target, layers, given.repeat)] if layers else []), of_networks(target, given.repeat)]
        parts.append("\n".join([f"{title}\n", *tables]))
        if not given.write:
            print(parts[-1], flush=True)
    if given.write:
        write_between(PAGE, BEGIN, "\n".join(parts), END)


if __name__ == "__main__":
    main()
