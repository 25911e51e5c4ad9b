"""How long a person waits: `vtakit --help`, and import to first result of a small program, beside an empty Python.

    python benchmarks/start.py [--repeat N] [--json FILE]

Each is a fresh process, in turn, with the cache of machine code warm; the figure is the median.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

FIRST_RESULT = """
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import DEFAULT
from vtakit.sim import run_image
load = encode(DEFAULT, "load", memory_type=3, y_size=1, x_size=1, x_stride=1)
add = encode(DEFAULT, "alu", alu_opcode=2, use_imm=1, imm=3, uop_end=1, iter_out=1, iter_in=1, push_next=1)
store = encode(DEFAULT, "store", memory_type=4, dram_base=4, y_size=1, x_size=1, x_stride=1, pop_prev=1)
code = to_bytes([load, add, store, encode(DEFAULT, "finish")])
result = run_image(bytes(128) + code, 128, 4, path="compiled")
assert result.dram[64:80] == bytes([3] * 16)
"""

JOBS = {
    "empty Python": ["-c", "pass"],
    "vtakit --help": ["-m", "vtakit.runtime", "--help"],
    "import to first result": ["-c", FIRST_RESULT],
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, metavar="N", help="processes of each kind (default 9)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    args = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in JOBS}
    for turn in range(args.repeat + 1):
        for name, words in JOBS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            if turn:  # the first turn fills caches
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name:24} {1000 * median:7.0f} ms")
    if args.json:
        args.json.write_text(json.dumps({"median_seconds": medians, "repeat": args.repeat}, indent=2) + "\n")


if __name__ == "__main__":
    main()
