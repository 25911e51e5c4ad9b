"""ResNet-18 in integers as C: the time and the bytes of an export, and its run on the RTL beside that of the Python driver.

The default configuration on the reference system, weights at random. Outputs must be the same bytes, and cycles the same.

    python benchmarks/c_runtime.py [--folder DIR]     print the table; DIR keeps the exports
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from vtakit.hw.params import CoreParams
from vtakit.runtime.crt.export import export_c
from vtakit.runtime.module import Module
from vtakit.runtime.target import Image
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim.rtl.build import library

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "compiler"))  # where the network and the way to compile it are
NETS, SUPPORT = import_module("integer_nets"), import_module("model_support")
LIMIT_SECONDS = 1800


def seconds(act: Callable[[], object]) -> float:
    """How long something takes."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def measure(image: Image, embed: str, folder: Path) -> Path:
    """Export in one way and build the example, with one line of figures each."""
    took = seconds(lambda: export_c(image, folder, embed=embed))
    data = next(folder.glob("*.bin" if embed == "incbin" else "*_data.c"))
    total = sum(file.stat().st_size for file in folder.iterdir())
    print(f"export --embed {embed}: {took:.2f} s, {total:,} bytes, {data.name} {data.stat().st_size:,}", flush=True)
    build = seconds(lambda: subprocess.run(["make", "-s"], cwd=folder, check=True, timeout=LIMIT_SECONDS))
    program = folder / "build" / image.name
    print(f"make: {build:.1f} s, the program has {program.stat().st_size:,} bytes", flush=True)
    return program


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to keep the exports")
    args = parser.parse_args()
    graph = NETS.resnet18()
    given = NETS.inputs_of(graph)
    image = SUPPORT.vta_image(graph)
    with tempfile.TemporaryDirectory() as temporary:
        work = args.folder or Path(temporary)
        measure(image, "c", work / "c")
        program = measure(image, "incbin", work / "incbin")
        inputs, outputs = [work / f"in{at}" for at in range(len(given))], [work / f"out{at}" for at in range(len(image.outputs))]
        for file, array in zip(inputs, given.values(), strict=True):
            array.tofile(file)
        rtl = library(CoreParams(cfg=image.parts_of(VtaPart)[0].program.config)).path
        begin = time.perf_counter()
        done = subprocess.run([program, "--rtl", rtl, *inputs, *outputs], check=True, capture_output=True, text=True,
                              timeout=LIMIT_SECONDS)
        print(f"C on the RTL: {time.perf_counter() - begin:.1f} s, {done.stderr.strip()}", flush=True)
        with Module(image, "rtl") as module:
            begin = time.perf_counter()
            wanted = module.run(given)
            cycles = [counters["cycles"] for counters in module.counters]
            print(f"Python on the RTL: {time.perf_counter() - begin:.1f} s, {', '.join(map(str, cycles))} cycles")
        assert [int(line.split()[2]) for line in done.stderr.splitlines()] == cycles
        for file, array in zip(outputs, wanted.values(), strict=True):
            np.testing.assert_array_equal(np.fromfile(file, array.dtype), array.ravel())
        print("the same bytes and cycles")


if __name__ == "__main__":
    main()
