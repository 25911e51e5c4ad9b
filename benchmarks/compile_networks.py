"""Processor time of `vtakit.compile` for whole networks, by stage, with a fresh cache, each in a process of its own.

    python benchmarks/compile_networks.py [NAME|MODEL.onnx …] [--repeat N] [--json FILE]
    python benchmarks/compile_networks.py … --write         write the table into docs/cpu.md
    python benchmarks/compile_networks.py --export FOLDER   write five networks of timm as ONNX; needs timm, torch, onnxscript

NAME is a network of `vtakit.models`. Processor time is user and system time of the process and its children, so others on the
machine count little; figures are medians. A stage's time is without that of stages within it: constants are computed by code that
is compiled while passes over the graph run, and that code's lowering counts as lowering.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from page_parts import write_between

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cpu.md"
BEGIN, END = "<!-- begin: python benchmarks/compile_networks.py --write -->\n", "<!-- end -->\n"
DEFAULT = ("resnet50", "mobilenet_v2")
TIMM = {"densenet121": 224, "vgg11": 224, "inception_v3": 299, "mobilenetv3_large_100": 224, "efficientnet_b0": 224}
# stage -> functions whose time it is: module below vtakit, and name there; several stages may be within another
STAGES = {
    "import": [("runtime.images", "graph_of")],
    "graph passes": [("runtime.cpu.target", "run_passes"), ("compiler.graph.compile", "fuse"),
                     ("compiler.graph.compile", "plan_memory")],
    "schedules": [("compiler.graph.lower", "scheduled")],
    "lowering": [("compiler.graph.lower", "lower")],
    "verifying": [("compiler.lower.function", "verify")],
    "late passes": [("compiler.graph.cpu", "lower_late")],
    "LLVM's text": [("compiler.codegen.llvm.network", "write_function")],
    "LLVM, optimising": [("compiler.codegen.llvm.passes", "_parsed"), ("compiler.codegen.llvm.passes", "_optimise")],
    "LLVM, emitting": [("compiler.codegen.llvm.network", "translate")],
    "files": [("runtime.images", "source_of"), ("runtime.kept_models", "place_of"), ("runtime.kept_models", "keep")],
}
OTHER = "other"  # loading libraries among it


class Clock:
    """Splits processor time among stages; the innermost one that runs is charged."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys([*STAGES, OTHER], 0.0)
        self.within, self.since = [OTHER], processor_s()

    def charge(self) -> None:
        """Charge the time since the last change to the stage that runs."""
        now = processor_s()
        self.spent[self.within[-1]] += now - self.since
        self.since = now

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that charges its time to a stage."""
        def run(*args: Any, **words: Any) -> Any:
            self.charge()
            self.within.append(stage)
            try:
                return function(*args, **words)
            finally:
                self.charge()
                self.within.pop()
        return run


def processor_s() -> float:
    """Return the processor time so far, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def one(model: str) -> None:
    """Compile one network and print the seconds of each stage as JSON."""
    import vtakit

    given = model if Path(model).suffix else vtakit.models.build(model)
    clock = Clock()
    for stage, functions in STAGES.items():
        for module, name in functions:
            home = import_module(f"vtakit.{module}")
            setattr(home, name, clock.timed(stage, getattr(home, name)))
    vtakit.compile(given)
    clock.charge()
    print(json.dumps(clock.spent))


def measured(model: str, repeat: int) -> dict[str, float]:
    """Return the seconds of each stage, and "all": medians, each by itself."""
    found = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--one", model]
            environment = os.environ | {"XDG_CACHE_HOME": folder, "VTAKIT_CACHE": str(Path(folder, "vtakit"))}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            spent: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            found.append(spent | {"all": sum(spent.values())})
    return {stage: statistics.median(each[stage] for each in found) for stage in found[0]}


def table(results: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table of Markdown, in seconds."""
    stages = ["all", *STAGES, OTHER]
    lines = [f"| network | {' | '.join(stages)} |", f"| --- |{' ---: |' * len(stages)}"]
    lines += [f"| {name} | {' | '.join(f'{spent[stage]:.2f}' for stage in stages)} |" for name, spent in results.items()]
    return "\n".join(lines) + "\n"


def export(folder: Path) -> None:
    """Write networks of timm with random weights as ONNX files."""
    import torch

    timm: Any = import_module("timm")
    for name, size in TIMM.items():
        torch.manual_seed(0)
        network, images = timm.create_model(name, pretrained=False), torch.randn(4, 3, size, size)
        with torch.no_grad():
            network.train()
            for _ in range(2):  # running averages of mean and variance
                network(images)
        torch.onnx.export(network.eval(), (images[:1],), folder / f"{name}.onnx", dynamo=False, opset_version=17,
                          input_names=["x"], output_names=["y"])
        print(f"{name}: written")


def main(given: Sequence[str] | None = None) -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="NAME|MODEL.onnx", help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="compilations of each, in fresh processes (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument("--write", action="store_true", help="write the table into docs/cpu.md")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write networks of timm as ONNX files, and measure nothing")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    args = parser.parse_args(given)
    if args.one:
        return one(args.one)
    if args.export:
        return export(args.export)
    results = {}
    for model in args.models:
        results[Path(model).stem] = measured(model, args.repeat)
        print(f"{Path(model).stem}: {results[Path(model).stem]['all']:.2f} s", file=sys.stderr)
    print(table(results), end="")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if args.write:
        command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True)
        told = "one compilation of each" if args.repeat == 1 else f"medians of {args.repeat}"
        head = f"{date.today()}, commit {commit.stdout.strip()}, {machine()}; {told}.\n\n"
        write_between(PAGE, BEGIN, head + table(results), END)
    return None


def machine() -> str:
    """Return what LLVM calls this processor, and how many there are."""
    from vtakit.compiler.codegen.llvm.target import Target

    return f"{Target.host().cpu}, {os.cpu_count()} processors"


if __name__ == "__main__":
    main()
