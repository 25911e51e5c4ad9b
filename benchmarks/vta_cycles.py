"""Exact cycles of operators that the compiler has scheduled, and their share of the peak.

The default configuration with one 64-bit AXI4 port; the reference system has 40 cycles of read latency, the ideal one none.
"one copy" is the reference system with one copy of every buffer, so that nothing is loaded or stored while it is in use; "by the
ALU" is it without REQUANT and without products that overwrite. A second table compares ways to hide latency: none, two virtual
threads, two copies of every buffer. A third has the size of each program, and how long it took to make on this machine.

Cycles are those of the cycle model. The RTL confirms short programs, or all of them: with every counter and byte.

    python benchmarks/vta_cycles.py [--only TEXT]     print the table
    python benchmarks/vta_cycles.py --device rtl      the same, with all programs on the RTL
    python benchmarks/vta_cycles.py --write           write it into docs/vta.md, and the cycles into tests/data/vta_cycles.json
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from page_parts import write_between

from vtakit import te
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.depthwise import Depthwise2d, Parts
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.hw.isa.config import DEFAULT, INSN_BYTES, UOP_BYTES
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.sim.confirmed import DEVICES, SAMPLE_CYCLES, measured

ROOT = Path(__file__).parents[1]
PAGE, GOLDEN = ROOT / "docs" / "vta.md", ROOT / "tests" / "data" / "vta_cycles.json"
BEGIN, END = "<!-- begin: benchmarks/vta_cycles.py --write -->\n", "<!-- end -->\n"
PEAK = DEFAULT.batch * DEFAULT.block**2  # multiplications a cycle
# ResNet-18: height, in and out channels, kernel, stride, pad, how often the network has it.
RESNET18 = (
    (56, 64, 64, 3, 1, 1, 4), (56, 64, 128, 3, 2, 1, 1), (56, 64, 128, 1, 2, 0, 1), (28, 128, 128, 3, 1, 1, 3),
    (28, 128, 256, 3, 2, 1, 1), (28, 128, 256, 1, 2, 0, 1), (14, 256, 256, 3, 1, 1, 3), (14, 256, 512, 3, 2, 1, 1),
    (14, 256, 512, 1, 2, 0, 1), (7, 512, 512, 3, 1, 1, 3),
)
# Systems: options of the target, options of device "rtl".
SYSTEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reference": ({}, {}), "ideal": ({}, {"latency": 0}), "one copy": ({"copies": 1}, {}),
    "by the ALU": ({"without": Feature.REQUANT | Feature.OVERWRITE}, {}),
}
# Latency hiding: how the pages call it, and the system.
HIDING = {"off": "one copy", "two virtual threads": "two threads", "two copies": "reference"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An operator: its layer for a target; `count` is how often a network has it."""

    name: str
    macs: int
    layer: Any
    count: int = 0

    def program(self, target: Target, threads: int = 1) -> Program:
        """What the compiler makes of it."""
        layer = self.layer(target)
        schedule = te.create_schedule(layer.result.op)
        layer.schedule(schedule, **({"threads": threads} if threads > 1 else {}))
        return compile_for(lower(schedule, [*layer.inputs, layer.result]), target)


def requantized(target: Target, outs: int, products: int) -> Requantize:
    """Bias, scale, zero point and clip for each channel, for sums of so many products."""
    rng = np.random.default_rng(outs)
    return Requantize.by_scale(target=target, scale=rng.uniform(1, 2, outs) / 2**14, bias=rng.integers(-9999, 9999, outs),
                               zero_point=-3, low=-3, largest=products << 14)


def convolution(target: Target, size: int, ins: int, outs: int, kernel: int, stride: int, pad: int, skip: bool = False) -> Conv2d:
    """A layer with bias, requantization and clip, and maybe a residual with a scale of its own."""
    out = (size + 2 * pad - kernel) // stride + 1
    added = te.placeholder((1, outs // 16, out, out, 1, 16), "int8", name="skip") if skip else None
    return Conv2d(
        target=target, stride=(stride, stride), pad=(pad,) * 4,
        data=te.placeholder((1, ins // 16, size, size, 1, 16), "int8", name="data"),
        weights=te.placeholder((outs // 16, ins // 16, kernel, kernel, 16, 16), "int8", name="weights"),
        epilogue=Epilogue(requantize=requantized(target, outs, ins * kernel**2), add=added, add_scale=300 if skip else None),
    )


def transposed(target: Target, size: int, ins: int, outs: int, images: int = 1) -> TransposedConv2d:
    """A layer of DCGAN: kernel 4, stride 2, pad 1; with bias, requantization and clip."""
    return TransposedConv2d(
        target=target, rows=2 * size, columns=2 * size, pad=(1, 1),
        data=te.placeholder((images, ins // 16, size, size, 1, 16), "int8", name="data"),
        weights=te.placeholder((outs // 16, ins // 16, 2, 2, 2, 2, 16, 16), "int8", name="weights"),
        epilogue=Epilogue(requantize=requantized(target, outs, 4 * ins)),
    )


def depthwise(target: Target, size: int, channels: int, kernel: int, stride: int) -> Depthwise2d:
    """A layer of MobileNet or EfficientNet, with bias, requantization and clip."""
    taps = (kernel, kernel)
    parts = Parts.of(target, taps)
    return Depthwise2d(
        target=target, kernel=taps, stride=(stride, stride), pad=(kernel // 2,) * 4,
        data=te.placeholder((1, channels // 16, size, size, 1, 16), "int8", name="data"),
        weights=te.placeholder((channels // 16, prod(parts.count), 16, 16), "int8", name="weights"),
        epilogue=Epilogue(requantize=requantized(target, channels, kernel**2)),
    )


def diagonal(target: Target, size: int, channels: int, stride: int) -> Conv2d:
    """A depthwise layer for devices without DWCONV: 3 x 3, pad 1, with bias, requantization and clip."""
    blocks = channels // 16
    return Conv2d(
        target=target, stride=(stride, stride), pad=(1,) * 4, groups=blocks,
        data=te.placeholder((1, blocks, size, size, 1, 16), "int8", name="data"),
        weights=te.placeholder((blocks, 1, 3, 3, 16, 16), "int8", name="weights"),
        epilogue=Epilogue(requantize=requantized(target, channels, 9)),
    )


def product(target: Target, size: int) -> Conv2d:
    """A square matrix product with bias, requantization and clip."""
    blocks = size // 16
    return Conv2d(
        target=target, data=te.placeholder((size, blocks, 1, 1, 1, 16), "int8", name="data"),
        weights=te.placeholder((blocks, blocks, 1, 1, 16, 16), "int8", name="weights"),
        epilogue=Epilogue(requantize=requantized(target, size, size)),
    )


def cases() -> Iterator[Case]:
    """Every case, in the table's order."""
    for size, ins, outs, kernel, stride, pad, count in RESNET18:
        out = (size + 2 * pad - kernel) // stride + 1
        yield Case(
            name=f"convolution {size}x{size}, {ins}->{outs}, {kernel}x{kernel}, stride {stride}", count=count,
            macs=out * out * ins * outs * kernel**2,
            layer=lambda t, shape=(size, ins, outs, kernel, stride, pad): convolution(t, *shape),
        )
    yield Case(name="convolution 56x56, 64->64, 3x3, stride 1, residual", macs=56**2 * 64**2 * 9,
               layer=lambda t: convolution(t, 56, 64, 64, 3, 1, 1, skip=True))
    for size, ins, outs, images in ((4, 1024, 512, 1), (4, 1024, 512, 4), (8, 512, 256, 1), (16, 256, 128, 1)):
        yield Case(name=f"transposed convolution {size}x{size}, {ins}->{outs}, 4x4, stride 2{', four images' * (images == 4)}",
                   macs=images * 16 * size * size * ins * outs,
                   layer=lambda t, shape=(size, ins, outs, images): transposed(t, *shape))
    for size, channels, kernel, stride in (
        (56, 128, 3, 1), (56, 128, 3, 2), (14, 512, 3, 1), (28, 256, 5, 1), (56, 128, 5, 2), (28, 256, 7, 1),
    ):
        out = size // stride
        yield Case(name=f"depthwise convolution {size}x{size}, {channels}, {kernel}x{kernel}, stride {stride}",
                   macs=out * out * channels * kernel**2,
                   layer=lambda t, shape=(size, channels, kernel, stride): depthwise(t, *shape))
    yield Case(name="depthwise convolution 56x56, 128, 3x3, stride 1, without DWCONV", macs=56 * 56 * 128 * 9,
               layer=lambda t: diagonal(t, 56, 128, 1))
    yield Case(name="matrix product 512x512x512", macs=512**3, layer=lambda t: product(t, 512))


def large() -> Iterator[Case]:
    """Layers whose programs are long: only their sizes are in the tables."""
    for images, height, width, ins, outs, kernel in ((8, 28, 28, 512, 512, 3), (1, 64, 64, 16, 4096, 1), (1, 512, 512, 64, 64, 3),
                                                     (1, 1080, 1920, 64, 64, 3)):
        yield Case(name=f"convolution {images}x{height}x{width}, {ins}->{outs}, {kernel}x{kernel}, stride 1",
                   macs=images * height * width * ins * outs * kernel**2,
                   layer=lambda t, shape=(images, height, width, ins, outs, kernel): wide(t, *shape))


def wide(target: Target, images: int, height: int, width: int, ins: int, outs: int, kernel: int) -> Conv2d:
    """A convolution of so many images, with bias, requantization and clip."""
    return Conv2d(
        target=target, pad=(kernel // 2,) * 4,
        data=te.placeholder((images, ins // 16, height, width, 1, 16), "int8", name="data"),
        weights=te.placeholder((outs // 16, ins // 16, kernel, kernel, 16, 16), "int8", name="weights"),
        epilogue=Epilogue(requantize=requantized(target, outs, ins * kernel**2)),
    )


def size_bytes(program: Program) -> int:
    """Instructions and micro-ops."""
    return len(program.insns) * INSN_BYTES + len(program.uops) * UOP_BYTES


def measure(
    case: Case, systems: dict[str, tuple[dict[str, Any], dict[str, Any]]] = SYSTEMS, device: str = "cycle",
) -> dict[str, int]:
    """Cycles by system, and the bytes of the program; `device` as in `vtakit.sim.confirmed.measured`."""
    found = {}
    tried = [(name, case.program(vta(**of_target)), options, not of_target) for name, (of_target, options) in systems.items()]
    if case.count and "one copy" in systems:
        tried.append(("two threads", case.program(vta(copies=1), threads=2), {}, False))
    for name, program, options, plain in tried:
        rng = np.random.default_rng(0)
        given = {b.name: rng.bytes(b.size_bytes) for b in program.buffers if b.kind is BufferKind.INPUT}
        found[name] = measured(program, given, device, **options).counters["cycles"]
        if plain:
            found["program bytes"] = size_bytes(program)
    return found


def row(case: Case, cycles: dict[str, int]) -> str:
    """A line of the table."""
    share = [f"{case.macs / PEAK / cycles[system]:.1%}" for system in SYSTEMS]
    return f"| {case.name} | {case.macs:,} | {' | '.join(f'{cycles[s]:,} | {p}' for s, p in zip(SYSTEMS, share, strict=True))} |"


def table(found: list[tuple[Case, dict[str, int]]]) -> str:
    """The rows with their head, and the network's sum."""
    head = ["operator", "MACs", *[word for system in SYSTEMS for word in (f"cycles, {system}", "of peak")]]
    rows = [row(case, cycles) for case, cycles in found]
    network = [(case, cycles) for case, cycles in found if case.count]
    if len(network) == len(RESNET18):
        total = {system: sum(case.count * cycles[system] for case, cycles in network) for system in SYSTEMS}
        macs = sum(case.count * case.macs for case, _ in network)
        name = "ResNet-18: the ten convolutions, 4, 1, 1, 3, 1, 1, 3, 1, 1, 3 times"
        rows.append(row(Case(name=name, macs=macs, layer=None), total))
    return "\n".join([f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}", *rows]) + "\n"


def hiding(found: list[tuple[Case, dict[str, int]]]) -> str:
    """A table of the network's convolutions without latency hiding and with it, each way by itself."""
    head = ["operator", *[word for way in HIDING for word in (f"cycles, {way}", "of peak")]]
    network = [(case, cycles) for case, cycles in found if case.count]
    counted = [(case.name, case.macs, cycles) for case, cycles in network]
    if len(network) == len(RESNET18):
        total = {system: sum(case.count * cycles[system] for case, cycles in network) for system in HIDING.values()}
        counted.append(("ResNet-18: the ten convolutions", sum(case.count * case.macs for case, _ in network), total))
    rows = []
    for name, macs, cycles in counted:
        shares = [f"{cycles[system]:,} | {macs / PEAK / cycles[system]:.1%}" for system in HIDING.values()]
        rows.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join([f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}", *rows]) + "\n"


def programs(found: list[tuple[Case, dict[str, int]]]) -> str:
    """A table of the programs: their sizes, and the processor seconds of making each, from tensor expressions to instructions."""
    rows = []
    for case in [*[case for case, _ in found], *large()]:
        start = time.process_time()
        program = case.program(vta())
        rows.append(f"| {case.name} | {size_bytes(program):,} | {time.process_time() - start:.2f} |")
    return "\n".join(["| operator | program, bytes | made in, s |", "|---|---:|---:|", *rows]) + "\n"


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
            found.append((case, measure(case, device=args.device)))
    text = f"{table(found)}\n{hiding(found)}\n{programs(found)}"
    if not args.write:
        sys.stdout.write(text)
        return
    write_between(PAGE, BEGIN, text, END)
    GOLDEN.write_text(json.dumps({case.name: cycles for case, cycles in found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
