"""A convolution of ResNet-18 on the simulated accelerator, compared with NumPy.

    python examples/conv2d.py            check and run the shipped program conv2d.vta
    python examples/conv2d.py --write    make that file anew

The program is blocked by hand (`vtakit.sim.workloads`): two contexts take turns in the scratchpads, and tokens let loads,
arithmetic and stores overlap. It carries its image and its weights, so `vtakit sim examples/conv2d.vta` runs it too.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from vtakit import sim
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.file import load, save
from vtakit.hw.isa.program import Program
from vtakit.runtime.cli import main as vtakit
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result
from vtakit.sim.workloads import Conv2d, conv2d_program

SHAPE = Conv2d(height=14, width=14, in_channels=256, out_channels=64, kernel=3, stride=1, pad=1, shift=10)
FILE = Path(__file__).with_suffix(".vta")


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """A random int8 image [1, in, height, width] and weights [out, in, kernel, kernel], always the same."""
    numbers = np.random.default_rng(2018)
    image = numbers.integers(-128, 128, (1, SHAPE.in_channels, SHAPE.height, SHAPE.width), np.int8)
    return image, numbers.integers(-128, 128, (SHAPE.out_channels, SHAPE.in_channels, SHAPE.kernel, SHAPE.kernel), np.int8)


def program() -> Program:
    """The convolution with its image and weights inside."""
    made = conv2d_program(DEFAULT, SHAPE)
    for name, data in pack_conv2d_inputs(DEFAULT, SHAPE, *arrays()).items():
        made = made.with_data(name, data)
    return made


def main() -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name} and stop")
    if parser.parse_args().write:
        save(program(), FILE)
        return 0
    print(f"$ vtakit check {FILE.name}")
    if vtakit(["check", str(FILE)]):
        return 1
    print(f"$ vtakit sim {FILE.name}")
    if vtakit(["sim", str(FILE)]):
        return 1
    start = time.perf_counter()
    result = sim.run(load(FILE))
    seconds = time.perf_counter() - start
    got = unpack_conv2d_result(DEFAULT, SHAPE, result.buffers["result"])
    want = conv2d_reference(DEFAULT, SHAPE, *arrays())
    wrong = int((got != want).sum())
    print(f"{SHAPE.macs:,} multiplications in {1000 * seconds:.1f} ms; {want.size} outputs, {wrong} differ from NumPy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
