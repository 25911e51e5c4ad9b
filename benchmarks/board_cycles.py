"""Cycles of programs on the simulated board ulx3s, beside those that the cycle model gives for the board's memory system.

    python benchmarks/board_cycles.py [--config blk8]              layers of ResNet-18, one program each
    python benchmarks/board_cycles.py [--config blk8] --resnet     ResNet-18 at 224x224, weights at random
    python benchmarks/board_cycles.py --mhz 75 --memory-mhz 100    other clocks, and the memory system that stands for them

Bytes are compared too. Memory is read and written in the simulated chip (option memory="chip"); registers go over the line.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

from vtakit.boards.known import find_board
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.hw.system import System
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim.workloads import Conv2d, conv2d_program

ROOT = Path(__file__).parents[1]
DEVICE, MEMORY_BYTES = "sim:ulx3s", 32 << 20
WAIT_SECONDS = 6 * 3600.0
SHAPES = (  # height and width, channels in and out, kernel, stride
    (56, 64, 64, 3, 1), (56, 64, 128, 3, 2), (28, 128, 256, 1, 2), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1),
)


def layers(config: str) -> Iterator[tuple[str, Program]]:
    """Yield a program for each of some layers of ResNet-18."""
    for side, channels, to, kernel, stride in SHAPES:
        shape = Conv2d(
            height=side, width=side, in_channels=channels, out_channels=to, kernel=kernel, stride=stride, pad=kernel // 2)
        yield f"{side}x{side}, {channels} -> {to}, {kernel}x{kernel}, stride {stride}", conv2d_program(NAMED[config], shape)


def resnet(config: str, system: System) -> Iterator[tuple[str, Program]]:
    """Yield the programs of ResNet-18, compiled for the memory system."""
    sys.path.insert(0, str(ROOT / "tests" / "compiler"))
    sys.path.insert(0, str(ROOT / "tests"))
    nets, support = import_module("integer_nets"), import_module("model_support")
    image = support.vta_image(nets.resnet18(), config, system)
    for number, part in enumerate(image.parts_of(VtaPart)):
        yield f"ResNet-18, launch {number + 1}", part.program


def share(board: int, model: int) -> str:
    """Return how much longer the board takes than the model says."""
    return f"{100 * (board / model - 1):+.2f} %"


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", choices=sorted(NAMED), default="blk8")
    parser.add_argument("--resnet", action="store_true", help="the whole network")
    parser.add_argument("--mhz", type=float, help="clock of the core (the board's)")
    parser.add_argument("--memory-mhz", type=float, help="clock of the memory (the board's)")
    args = parser.parse_args()
    board_of = find_board(DEVICE.partition(":")[2]).clocked(args.mhz, args.memory_mhz)
    system = board_of.system()
    named = resnet(args.config, system) if args.resnet else layers(args.config)
    rng, totals = np.random.default_rng(1), [0, 0]
    model = connect("cycle", args.config, memory_bytes=MEMORY_BYTES, system=system)
    with connect(DEVICE, args.config, memory="chip", mhz=args.mhz, memory_mhz=args.memory_mhz) as board, model:
        for name, program in named:
            inputs = {b.name: rng.integers(-128, 128, b.size_bytes, np.int8).tobytes() for b in program.buffers
                      if b.kind is BufferKind.INPUT}
            begin = time.monotonic()
            found = board.run(program, inputs, timeout_s=WAIT_SECONDS)
            seconds = time.monotonic() - begin
            wanted = model.run(program, inputs, timeout_s=WAIT_SECONDS)
            if found.buffers != wanted.buffers:
                sys.exit(f"{name}: the board gives other bytes than the functional simulator")
            cycles = found.counters["cycles"], wanted.counters["cycles"]
            totals = [total + each for total, each in zip(totals, cycles, strict=True)]
            print(f"{name}: {cycles[0]:,} cycles on the board, {cycles[1]:,} in the model, {share(*cycles)}, {seconds:.0f} s",
                  flush=True)
    print(f"{args.config}: {totals[0]:,} and {totals[1]:,} cycles in all, {share(*totals)}")


if __name__ == "__main__":
    main()
