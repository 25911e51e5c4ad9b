"""Exact cycles of operators that a network has beside its large convolutions, against what memory and products allow.

The default configuration, the reference system: one 64-bit AXI4 port, 40 cycles of read latency. No program can take less than a
cycle for each 8 bytes that it must read, for each 8 that it must write, and for each product of elements.

Cycles are those of the cycle model. The RTL confirms short programs, or all of them: with every counter and byte.

    python benchmarks/vta_operators.py [--only TEXT]     print the table
    python benchmarks/vta_operators.py --device rtl      the same, with all programs on the RTL
    python benchmarks/vta_operators.py --write           write it into docs/vta.md, and all into tests/data/vta_operators.json
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from page_parts import write_between

from vtakit import te
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.vta.binary import Binary2d
from vtakit.compiler.nn.vta.concat import Concat2d
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.depthwise import Depthwise2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.fold import Fold, choose_fold
from vtakit.compiler.nn.vta.pad import Pad2d
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.compiler.nn.vta.resize import Resize2d
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.hw.isa.program import BufferKind
from vtakit.sim.confirmed import DEVICES, SAMPLE_CYCLES, measured

ROOT = Path(__file__).parents[1]
PAGE, GOLDEN = ROOT / "docs" / "vta.md", ROOT / "tests" / "data" / "vta_operators.json"
BEGIN, END = "<!-- begin: benchmarks/vta_operators.py --write -->\n", "<!-- end -->\n"
BUS_BYTES = 8
Layer = Conv2d | Depthwise2d | Pool2d | SumPool2d | Pad2d | Resize2d | Concat2d | Binary2d


@dataclass(frozen=True, slots=True)
class Case:
    """An operator's name, and its layer for a target."""

    name: str
    layer: Callable[[Target], Layer]


def data(channels: int, height: int, width: int, images: int = 1, name: str = "data") -> te.Tensor:
    """Activations."""
    return te.placeholder((images, -(-channels // 16), height, width, 1, 16), "int8", name=name)


def weights(*outer: int) -> te.Tensor:
    """Weights of so many elements; of one for an identity."""
    return te.placeholder((*outer, 16, 16), "int8", name="weights")


def requantized(target: Target, channels: int, scale: float = 2**-9) -> Epilogue:
    """A scale for each channel."""
    return Epilogue(requantize=Requantize.by_scale(target=target, scale=np.full(channels, scale)))


def first(target: Target, folded: bool) -> Conv2d:
    """ResNet's first convolution: 7 x 7, stride 2, of three channels."""
    shape, pad = (1, 3, 224, 224), (3, 3, 3, 3)
    chosen = choose_fold(target, shape, 64, kernel=(7, 7), stride=(2, 2), pad=pad)
    fold = chosen if folded else Fold(kernel=(7, 7), taps=(1, 1), strides=(2, 2), pad=pad)
    work = fold.work(target, shape, 64)
    rows, columns = fold.folded_size(*shape[2:])
    return Conv2d(target=target, data=data(work.in_blocks * 16, rows, columns), stride=fold.stride, dilation=fold.dilation,
                  weights=weights(4, work.in_blocks, *fold.parts), epilogue=requantized(target, 64))


def dense(target: Target, rows: int, ins: int, outs: int) -> Conv2d:
    """A product of matrices."""
    return Conv2d(target=target, data=data(ins, 1, 1, rows), weights=weights(outs // 16, ins // 16, 1, 1),
                  epilogue=requantized(target, outs))


def depthwise(target: Target, size: int, channels: int, stride: int) -> Depthwise2d:
    """A layer of MobileNet."""
    return Depthwise2d(target=target, data=data(channels, size, size), weights=weights(channels // 16, 1), kernel=(3, 3),
                       pad=(1, 1, 1, 1), stride=(stride, stride), epilogue=requantized(target, channels))


def two(target: Target, kind: str, *, repeated: bool) -> Binary2d:
    """Two tensors, the second maybe of one pixel."""
    b = data(128, 1, 1, name="b") if repeated else data(128, 28, 28, name="b")
    return Binary2d(target=target, a=data(128, 28, 28), b=b, weights=(weights(), weights()), kind=kind,
                    epilogue=requantized(target, 128))


def joined(target: Target) -> Concat2d:
    """The four branches of an Inception block."""
    parts = tuple(data(channels, 28, 28, name=f"part{at}") for at, channels in enumerate((64, 128, 32, 32)))
    return Concat2d(target=target, data=parts, weights=weights())


def cases() -> Iterator[Case]:
    """Every case, in the table's order."""
    yield Case("first convolution 224x224, 3->64, 7x7, stride 2, channels as they are", lambda t: first(t, folded=False))
    yield Case("first convolution 224x224, 3->64, 7x7, stride 2, folded", lambda t: first(t, folded=True))
    yield Case("LSTM, 1x1024 by 1024x2048", lambda t: dense(t, 1, 1024, 2048))
    yield Case("LSTM, 16x1024 by 1024x2048", lambda t: dense(t, 16, 1024, 2048))
    yield Case("classifier, 1x512 by 512x1008", lambda t: dense(t, 1, 512, 1008))
    for size, channels, stride in ((112, 32, 1), (56, 128, 1), (56, 128, 2), (14, 512, 1), (7, 1024, 1)):
        yield Case(f"depthwise convolution {size}x{size}, {channels}, 3x3, stride {stride}",
                   partial(depthwise, size=size, channels=channels, stride=stride))
    yield Case("greatest of 3x3, stride 2, 112x112, 64", lambda t: Pool2d(
        target=t, data=data(64, 112, 112), kernel=(3, 3), stride=(2, 2), pad=(1, 0, 1, 0)))
    yield Case("global average, 7x7, 512", lambda t: SumPool2d(
        target=t, data=data(512, 7, 7), weights=weights(), kernel=(7, 7), epilogue=requantized(t, 512, 1 / 49)))
    yield Case("add with two scales, 28x28, 128", lambda t: two(t, "add", repeated=False))
    yield Case("multiply by one pixel, 28x28, 128", lambda t: two(t, "mul", repeated=True))
    yield Case("concatenation 28x28, 64 + 128 + 32 + 32", joined)
    yield Case("nearest resizing 26x26 -> 52x52, 128", lambda t: Resize2d(
        target=t, data=data(128, 26, 26), weights=weights(), rows=52, columns=52))
    yield Case("pad by 1 with a value, 28x28, 128", lambda t: Pad2d(
        target=t, data=data(128, 28, 28), weights=weights(), pad=(1, 1, 1, 1), value=-3))


def measure(case: Case, device: str = "cycle") -> dict[str, int]:
    """Cycles, products of elements, and the bytes of inputs and outputs; `device` as in `vtakit.sim.confirmed.measured`."""
    target = vta()
    layer = case.layer(target)
    schedule = te.create_schedule(layer.result.op)
    layer.schedule(schedule)
    program = compile_for(lower(schedule, [*layer.inputs, layer.result]), target)
    rng = np.random.default_rng(0)
    given = {b.name: rng.bytes(b.size_bytes) for b in program.buffers if b.kind is BufferKind.INPUT}
    counters = measured(program, given, device).counters
    return {
        "cycles": counters["cycles"], "products": counters["gemm_counter"] + counters["dwconv_counter"],
        "read": sum(b.size_bytes for b in program.buffers if b.kind is BufferKind.INPUT),
        "written": sum(b.size_bytes for b in program.buffers if b.kind is BufferKind.OUTPUT),
    }


def table(found: list[tuple[str, dict[str, int]]]) -> str:
    """The rows with their head."""
    rows = []
    for name, one in found:
        memory = max(one["read"], one["written"]) // BUS_BYTES
        rows.append(f"| {name} | {one['products']:,} | {one['read']:,} | {one['written']:,} | {one['cycles']:,} | "
                    f"{memory / one['cycles']:.0%} | {one['products'] / one['cycles']:.0%} |")
    head = ("operator", "products", "bytes read", "written", "cycles", "memory bound", "products' bound")
    return "\n".join([f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}", *rows]) + "\n"


def main() -> None:
    """Parse the arguments, measure, print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only operators with TEXT in their name")
    parser.add_argument("--device", choices=DEVICES, default="cycle",
                        help=f"rtl: the RTL confirms every program; cycle: those of at most {SAMPLE_CYCLES:,} cycles")
    parser.add_argument("--write", action="store_true", help="write the page and the file of cycles instead of printing")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every operator: leave out --only")
    found = []
    for case in cases():
        if args.only in case.name:
            print(case.name, file=sys.stderr)
            found.append((case.name, measure(case, args.device)))
    if not args.write:
        sys.stdout.write(table(found))
        return
    write_between(PAGE, BEGIN, table(found), END)
    GOLDEN.write_text(json.dumps(dict(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
