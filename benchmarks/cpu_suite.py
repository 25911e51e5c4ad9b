"""The CPU back end beside onnxruntime and OpenVINO: networks, their layers, memory and compile time, on this machine.

    python benchmarks/cpu_suite.py [--install] [--only TEXT] [--repeat N] [--threads N …] [--json FILE] [--write]
    python benchmarks/cpu_suite.py --models MODEL.onnx … [--threads N …]

Models are made by script (`vtakit.models`), the layers are C1 to C12 and D1 to D9 of `cpu_convolutions.py`. Ours, the peers and a
loop that measures the core's peak take turns in one process, so that a change of the machine's speed meets all alike; figures are
medians over turns, ratios medians of the ratios of a turn. On one thread the clock is the process's processor time, which other
programs on the machine do not count in; on several it is the clock on the wall. Results are compared with onnxruntime's. Memory
and compile time are those of fresh processes.

--models measures ONNX models of one's own, float or quantized, instead; random float32 is what they read. Networks with
random weights that another quantizer made differ between runtimes by more than an error would, so their difference is only shown.

--install fetches the peers that are missing from PyPI. --write keeps the figures in benchmarks/cpu_results, in the place of
former ones of the same processor, and puts them into docs/cpu.md and its picture docs/cpu.svg.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when they are loaded; runs have their own number

import cpu_convolutions
import cpu_page
import cpu_peers
import numpy as np
import onnx
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import vtakit
from vtakit import models, te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.apply import apply
from vtakit.compiler.graph.lower import macs_of
from vtakit.runtime.module import Module

ROOT = Path(__file__).parents[1]
OURS = "vtakit"
OTHERS = {  # networks that are also computed otherwise
    "int8": ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2"), "bfloat16": ("resnet18",),
}
TURN_S = 4e-3  # a contender runs as often in a turn as takes this long
DIFFERENCE = {"float32": 1e-3, "int8": 0.1, "bfloat16": 0.1}  # of the largest output, that is no error of a runtime
Run = Callable[[], Any]


def in_turns(runs: Mapping[str, Run], repeat: int, clock: Callable[[], float]) -> list[dict[str, float]]:
    """Seconds of a run of each, for each turn."""
    def seconds(run: Run, times: int) -> float:
        begin = clock()
        for _ in range(times):
            run()
        return (clock() - begin) / times
    times = {}
    for name, run in runs.items():
        run()  # once more than is counted: it touches memory, starts threads and fills caches
        times[name] = max(1, int(TURN_S / max(seconds(run, 1), 1e-7)))
    return [{name: seconds(run, times[name]) for name, run in runs.items()} for _ in range(repeat)]


def figures(turns: Sequence[Mapping[str, float]], flops: float, operations: float) -> dict[str, Any]:
    """Medians: milliseconds of each, how many times ours each peer takes, and ours as a share of the peak."""
    names = [name for name in turns[0] if name != "peak"]
    peers = [name for name in names if name != OURS]
    found: dict[str, Any] = {"ms": {name: 1e3 * statistics.median(turn[name] for turn in turns) for name in names}}
    found["ratios"] = {name: statistics.median(turn[name] / turn[OURS] for turn in turns) for name in peers}
    if peers:
        found["best"] = statistics.median(min(turn[name] for name in peers) / turn[OURS] for turn in turns)
    if "peak" in turns[0]:
        found["share_of_peak"] = statistics.median(flops / turn[OURS] * turn["peak"] / operations for turn in turns)
    return found


def compared(runs: Mapping[str, Run], most: float, what: str) -> float:
    """The greatest difference of ours from onnxruntime's result, or the first peer's, by the largest value; 0 without peers.

    Exits for one of more than `most`.
    """
    peers = [run for name, run in runs.items() if name not in (OURS, "peak")]
    if not peers:
        return 0.0
    wanted, got = peers[0](), [*runs[OURS]().values()]
    worst = max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(got, wanted, strict=True))
    if not worst <= most:
        sys.exit(f"{what}: the result differs by {worst:.1e} of the largest value from that of another runtime")
    return worst


def clock_of(threads: int) -> Callable[[], float]:
    """Processor time for one thread; the wall's for several, which work at the same time."""
    return time.process_time if threads == 1 else time.perf_counter


def measure_model(
    model: onnx.ModelProto, given: cpu_peers.Given, kind: str, peers: Sequence[cpu_peers.Peer], threads: Sequence[int],
    repeat: int, most: float,
) -> dict[str, Any]:
    """Figures of a model by number of threads, and what ours is made of.

    most : difference from another runtime's result, by the largest value, that is no error
    """
    module = vtakit.compile(model, cache=False, name="network", precision="bfloat16" if kind == "bfloat16" else "float32")
    macs = macs_of_model(model)
    row: dict[str, Any] = {"macs": macs, "memory": _own_memory(module), "threads": {}}
    for count in threads:
        runs: dict[str, Run] = {OURS: partial(Module(module.image, threads=count).run, given)}
        runs |= {peer.name: peer.prepare(model, given, count, kind) for peer in peers if kind in peer.kinds}
        row["difference"] = compared(runs, most, model.graph.name)
        operations = 0
        if count == 1 and kind == "float32":
            runs["peak"], operations = cpu_convolutions.peak_run(Target.host())
        row["threads"][str(count)] = figures(in_turns(runs, repeat, clock_of(count)), 2 * macs, operations)
    return row


def macs_of_model(model: onnx.ModelProto) -> int:
    """Products that the model sums, as it is written: Winograd's way needs fewer."""
    total = 0
    for node in import_model(model).nodes:
        types = [None if value is None else value.type for value in node.inputs]
        operands = [None if kind is None else te.placeholder(kind.shape, str(kind.dtype)) for kind in types]
        total += macs_of(apply(node.op, operands, node.attrs))
    return total


def _own_memory(module: Module) -> dict[str, int]:
    memory = module.memory
    return {"weights": memory.weights_bytes, "arena": memory.arena_bytes, "live": memory.live_bytes}


def shape_of(layer: cpu_convolutions.Layer) -> str:
    """The layer in a line."""
    form = f"{layer.kernel}x{layer.kernel}{' depthwise' if layer.depthwise else ''}, stride {layer.stride}"
    return f"{layer.size}x{layer.size}, {layer.channels} to {layer.filters}, {form}"


def fresh(what: str, *args: str) -> dict[str, float]:
    """What a process of its own finds: `cpu_fresh.py`."""
    command = [sys.executable, str(Path(__file__).with_name("cpu_fresh.py")), what, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_processes(
    model: onnx.ModelProto, given: cpu_peers.Given, kind: str, peers: Sequence[cpu_peers.Peer]
) -> dict[str, dict[str, float]]:
    """Of fresh processes: seconds of a compilation, and what memory loading a model and running it takes."""
    with tempfile.TemporaryDirectory() as folder:
        path, inputs, compiled = (str(Path(folder) / name) for name in ("network.onnx", "in.npz", "network.vtak"))
        onnx.save(model, path)
        arrays: dict[str, Any] = {**given}
        np.savez(inputs, **arrays)
        found = {OURS: fresh("compile", path, compiled, kind)}
        found[OURS] |= fresh(OURS, compiled, inputs, kind)
        return found | {peer.name: fresh(peer.name, path, inputs, kind) for peer in peers if kind in peer.kinds}


def machine() -> dict[str, Any]:
    """What was measured, on what and when."""
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = [line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines()]
        cpu = next((value.strip() for name, _, value in lines if name.strip() == "model name"), cpu)
    asked = [git, "rev-parse", "--short", "HEAD"] if (git := shutil.which("git")) else ["true"]  # no commit outside a clone
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    target = Target.host()
    kept = ("avx2", "avx512f", "avx512vnni", "avx512bf16", "amx-int8", "amx-bf16", "dotprod", "i8mm")
    return {
        "processor": cpu, "processors": os.cpu_count(), "features": [name for name in kept if f"+{name}" in target.features],
        "system": f"{platform.system()} {platform.release()}", "python": platform.python_version(),
        "numpy": np.__version__, "vtakit": vtakit.__version__, "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def nothing(peers: Sequence[cpu_peers.Peer], repeat: int) -> dict[str, Any]:
    """Results without a figure yet."""
    return {
        "machine": machine(), "peers": {peer.name: peer.version for peer in peers}, "repeat": repeat, "networks": {},
        "layers": {},
    }


def measure(only: str, peers: Sequence[cpu_peers.Peer], threads: Sequence[int], repeat: int) -> dict[str, Any]:
    """All figures of the networks and layers whose names contain `only`."""
    named = [(name, "float32") for name in models.NETWORKS] + [(name, kind) for kind, names in OTHERS.items() for name in names]
    networks = [each for each in named if only in " ".join(each)]
    layers, target = [layer for layer in cpu_convolutions.LAYERS if only in layer.name], Target.host()
    found = nothing(peers, repeat)
    columns = SpinnerColumn(), TextColumn("{task.description:24}"), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as bar:
        task = bar.add_task("", total=len(networks) + len(layers))
        for name, kind in networks:
            bar.update(task, description=f"{name} {kind}")
            model, given = models.build(name), models.inputs(name, 1)
            if kind == "int8":
                model = vtakit.quantize(model, models.inputs(name, 4)).model
            model = cpu_peers.of_batch(model, 1)
            row: dict[str, Any] = {"title": models.find(name).title, "parameters": models.parameter_count(model)}
            row |= measure_model(model, given, kind, peers, threads, repeat, DIFFERENCE[kind])
            found["networks"][f"{name} {kind}"] = row | {"processes": measure_processes(model, given, kind, peers)}
            bar.advance(task)
        for layer in layers:
            bar.update(task, description=layer.name)
            row = cpu_convolutions.measure(layer, target, repeat, peers)
            found["layers"][layer.name] = {"shape": shape_of(layer)} | row
            bar.advance(task)
    return found


def measure_files(paths: Sequence[Path], peers: Sequence[cpu_peers.Peer], threads: Sequence[int], repeat: int) -> dict[str, Any]:
    """The figures of models in files, on random inputs, as those of `measure`."""
    found = nothing(peers, repeat)
    for path in paths:
        model = cpu_peers.of_batch(onnx.load(path), 1)
        ops = " ".join(node.op_type for node in model.graph.node)
        kind = "int8" if "QuantizeLinear" in ops or "QLinear" in ops else "float32"
        known = {tensor.name for tensor in model.graph.initializer}
        given = {port.name: np.random.default_rng(0).standard_normal(
            [dim.dim_value for dim in port.type.tensor_type.shape.dim], np.float32)
            for port in model.graph.input if port.name not in known}
        row = {"title": path.stem, **measure_model(model, given, kind, peers, threads, repeat, np.inf)}
        found["networks"][f"{path.stem} {kind}"] = row | {"processes": measure_processes(model, given, kind, peers)}
    return found


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install peers that are missing with pip")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="networks ('resnet18 float32') and layers with this in the name")
    parser.add_argument("--models", type=Path, nargs="+", default=[], metavar="FILE", help="ONNX models to measure instead")
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns (default 15)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="of networks (default 1 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument("--write", action="store_true", help="write them into the documents too; needs all of them")
    given = parser.parse_args()
    if given.write and (given.only or given.models):
        parser.error("--write needs every network and layer: leave out --only and --models")
    peers = cpu_peers.found(install=given.install)
    if given.write and len(peers) < len(cpu_peers.PEERS):
        parser.error("--write needs both peers: --install fetches them")
    results = measure_files(given.models, peers, given.threads, given.repeat) if given.models else measure(
        given.only, peers, given.threads, given.repeat)
    print(cpu_page.text(results))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if given.write:
        cpu_page.keep(results)
        cpu_page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
