"""How fast the Verilated accelerator is: simulated MHz, time to build the model, and time to a first result with the model kept.

    python benchmarks/rtl_speed.py [--threads N] [--repeat N] [--side N] [--keep] [--json FILE]

The program is ResNet's 3x3 convolution of 64 to 64 channels at the default configuration, whose matrix core is busy in nearly
every cycle, with its AXI4 memory. `--threads N` builds a second model of N threads and runs the two in turn. Building uses an
empty cache folder, which is gone afterwards; `--keep` uses the kept models instead, and no time to build is printed. Figures are
medians of wall time, so another process on the same cores counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result
from vtakit.sim.rtl import host
from vtakit.sim.rtl.build import library
from vtakit.sim.workloads import Conv2d, conv2d_program

FIRST_RESULT = """
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import DEFAULT
from vtakit.sim import run_image
load = encode(DEFAULT, "load", memory_type=3, y_size=1, x_size=1, x_stride=1)
add = encode(DEFAULT, "alu", alu_opcode=2, use_imm=1, imm=3, uop_end=1, iter_out=1, iter_in=1, push_next=1)
store = encode(DEFAULT, "store", memory_type=4, dram_base=4, y_size=1, x_size=1, x_stride=1, pop_prev=1)
code = to_bytes([load, add, store, encode(DEFAULT, "finish")])
result = run_image(bytes(128) + code, 128, 4, DEFAULT, "rtl")
assert result.dram[64:80] == bytes([3] * 16)
"""


def build_seconds(threads: int) -> float:
    """Wall time until the model is there."""
    start = time.perf_counter()
    library(CoreParams(cfg=DEFAULT), threads=threads)
    return time.perf_counter() - start


def start_seconds() -> float:
    """Wall time of a new process that imports vtakit, loads the model and gets a small program's result."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", FIRST_RESULT], check=True)
    return time.perf_counter() - start


def simulated_mhz(models: list[int], side: int, repeat: int) -> tuple[int, dict[int, list[float]]]:
    """Cycles of the program, and for each number of threads the rates of its runs; every result is compared with NumPy's."""
    shape = Conv2d(height=side, width=side, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)
    rng = np.random.default_rng(1)
    data, weights = rng.integers(-128, 128, (1, 64, side, side)), rng.integers(-128, 128, (64, 64, 3, 3))
    program = conv2d_program(DEFAULT, shape)
    image = program.link(pack_conv2d_inputs(DEFAULT, shape, data, weights))
    want = conv2d_reference(DEFAULT, shape, data, weights)
    at, size = image.addresses["result"], program.buffer("result").size_bytes
    rates: dict[int, list[float]] = {threads: [] for threads in models}
    cycles = 0
    for _ in range(repeat):
        for threads in models:
            with patch.object(host, "library", partial(library, threads=threads)):
                start = time.perf_counter()
                result = run_image(image.dram, image.insn_addr, image.insn_count, DEFAULT, "rtl")
                seconds = time.perf_counter() - start
            np.testing.assert_array_equal(unpack_conv2d_result(DEFAULT, shape, result.dram[at : at + size]), want)
            cycles = result.counters["cycles"]
            rates[threads].append(cycles / seconds / 1e6)
    return cycles, rates


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, metavar="N", help="also a model of N threads")
    parser.add_argument("--repeat", type=int, default=9, metavar="N", help="runs of each (default 9)")
    parser.add_argument("--side", type=int, default=28, metavar="N", help="height and width of the image (default 28)")
    parser.add_argument("--keep", action="store_true", help="use the kept models; print no time to build")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    args = parser.parse_args()
    if args.repeat < 1 or args.side < 4:
        parser.error(f"--repeat must be at least 1 and --side at least 4, got {args.repeat} and {args.side}")
    if args.threads is not None and not 2 <= args.threads <= (os.cpu_count() or 1):
        parser.error(f"--threads must be from 2 to this machine's {os.cpu_count()} cores, got {args.threads}")
    models = [1] if args.threads is None else [1, args.threads]
    with tempfile.TemporaryDirectory(prefix="rtl_speed.") as folder:
        if not args.keep:
            os.environ["XDG_CACHE_HOME"] = folder
        try:
            built = {threads: build_seconds(threads) for threads in models}
            cycles, rates = simulated_mhz(models, args.side, args.repeat)
            start = median(start_seconds() for _ in range(args.repeat))
        except VtakitError as error:
            parser.error(str(error))
    mhz = {threads: median(values) for threads, values in rates.items()}
    print(f"program      {cycles:,} cycles, {args.side}x{args.side}, 64 to 64 channels, 3x3; medians of {args.repeat}")
    for threads in models:
        spread = f"{min(rates[threads]):.3f} to {max(rates[threads]):.3f}"
        build = "" if args.keep else f"   built in {built[threads]:6.1f} s"
        print(f"{threads} thread{'s' if threads > 1 else ' '}    {mhz[threads]:8.3f} MHz ({spread}){build}")
    print(f"kept model   {start:8.2f} s from a new process to its first result")
    if args.json:
        figures = {"cycles": cycles, "mhz": mhz, "build_seconds": None if args.keep else built, "start_seconds": start}
        args.json.write_text(json.dumps(figures | {"repeat": args.repeat}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
