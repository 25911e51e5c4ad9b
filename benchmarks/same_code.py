"""Compare the code of two versions of the compiler, byte by byte.

Both versions compile the same: all networks of `vtakit.models` in float32, bfloat16 and int8 and the layers of cpu_operators.py
for processors with AVX2, AVX-512, VNNI and AMX; the int8 networks and the operators of vta_operators.py for the accelerator;
random networks for both. A hash of each object file, of its parameters and of each program is compared.

    python benchmarks/same_code.py --old REVISION       compile in this tree and in a worktree of REVISION, and compare
    python benchmarks/same_code.py -o HASHES.json       compile in this tree only
    python benchmarks/same_code.py --against HASHES.json
    options: --quick, without the networks of vtakit.models; --only TEXT, cases with TEXT in their name; --random N, random
             networks (60); -j J, processes (2)

Exit status 1 if a hash differs. Each version runs its own copy of this file.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cpu_operators
import numpy as np
import vta_operators
from rich.console import Console
from rich.progress import track

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.hw.isa import file as program_file

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "compiler")]  # where random networks are drawn
PROCESSORS = {"AVX2": "x86-64-v3", "AVX-512": "x86-64-v4", "VNNI": "icelake-server", "AMX": "sapphirerapids"}
IMAGES = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "dqn", "dcgan")  # networks that become int8
CONFIGS = ("default", "blk8", "b2x16")
Hashes = dict[str, str]
Case = tuple[str, str, tuple[Any, ...]]  # a name, a function of this module, its arguments


def target(feature: str) -> Target:
    """Return a processor with a feature, the same on every machine."""
    return Target("x86_64-unknown-linux-gnu", PROCESSORS[feature])


def cases(random: int, quick: bool) -> Iterator[Case]:
    """Yield all cases, the longest first."""
    for name in [] if quick else sorted(vtakit.models.NETWORKS, key=lambda name: name != "resnet50"):
        for feature in PROCESSORS:
            for precision in ("float32", "bfloat16"):
                yield f"{name}, {precision}, {feature}", "network", (name, feature, precision)
            if name in IMAGES:
                yield f"{name}, int8, {feature}", "quantized", (name, feature)
    for name in [] if quick else IMAGES:
        for config in CONFIGS:
            yield f"{name}, accelerator {config}", "placed", (name, config)
    for at, layer in enumerate(cpu_operators.LAYERS):
        for feature in PROCESSORS:
            yield f"{layer.name}, {feature}", "cpu_operator", (at, feature)
    for at, case in enumerate(vta_operators.cases()):
        yield f"{case.name}, accelerator", "vta_operator", (at,)
    for seed in range(random):
        yield f"random network {seed}", "random_network", (seed,)


def network(name: str, feature: str, precision: str) -> Hashes:
    """Compile a network for a processor."""
    return of_module(vtakit.compile(_model(name), target(feature), precision=precision, cache=False))


def quantized(name: str, feature: str) -> Hashes:
    """Compile a network in int8 for a processor."""
    return of_module(vtakit.compile(_int8(name), target(feature), cache=False))


def placed(name: str, config: str) -> Hashes:
    """Compile a network in int8 for the accelerator."""
    return of_module(vtakit.compile(_int8(name), "vta", config=config, host=target("AVX2"), cache=False))


def cpu_operator(at: int, feature: str) -> Hashes:
    """Compile a layer of cpu_operators.py."""
    layer = cpu_operators.LAYERS[at]
    tensors = [vtakit.te.placeholder(shape, layer.kind, f"in{i}") for i, shape in enumerate(layer.shapes)]
    made = layer.make(*tensors)
    built = vtakit.build(schedule([made], target(feature)), [*tensors, made], target(feature))
    return {"code": digest(built.compiled.code)}


def vta_operator(at: int) -> Hashes:
    """Compile an operator of vta_operators.py."""
    accelerator = vta()
    layer = list(vta_operators.cases())[at].layer(accelerator)
    s = vtakit.te.create_schedule(layer.result.op)
    layer.schedule(s)
    return {"program": digest(program_file.dump(compile_for(lower(s, [*layer.inputs, layer.result]), accelerator)))}


def random_network(seed: int) -> Hashes:
    """Compile a random network for two processors and for a random accelerator."""
    draw, emit, accelerators = (import_module(f"networks.{name}") for name in ("draw", "emit", "accelerators"))
    model = emit.model_of(draw.draw(seed))
    found: Hashes = {}
    for where, chosen in (("AVX2", target("AVX2")), ("AMX", target("AMX"))):
        found |= {f"{where} {key}": value for key, value in of_module(vtakit.compile(model, chosen, cache=False)).items()}
    there = vtakit.compile(model, accelerators.accelerator(seed), host=target("AVX2"), cache=False)
    return found | of_module(there)


def of_module(module: Any) -> Hashes:
    """Hash the parts of a module."""
    found = {}
    for number, part in enumerate(module.image.parts):
        if hasattr(part, "program"):
            found[f"part {number}, program"] = digest(program_file.dump(part.program))
        else:
            found |= {f"part {number}, code": digest(part.code), f"part {number}, parameters": digest(part.params.tobytes())}
    return found


def digest(data: bytes) -> str:
    """Return a hash short enough to read."""
    return hashlib.sha256(data).hexdigest()[:16]


@cache
def _model(name: str) -> Any:
    return vtakit.models.build(name)


@cache
def _int8(name: str) -> Any:
    samples = vtakit.models.inputs(name, 2)
    return vtakit.quantize(_model(name), samples, evaluation=samples).model


def run(case: Case) -> tuple[str, Hashes]:
    """Compile one case; an error is its hash, since both versions must refuse the same."""
    name, function, arguments = case
    compile_case: Callable[..., Hashes] = globals()[function]
    try:
        return name, compile_case(*arguments)
    except VtakitError as error:
        return name, {"refused": str(error).partition("\n")[0]}


def hashes(wanted: Sequence[Case], jobs: int) -> dict[str, Hashes]:
    """Compile all cases, those of one network in one process."""
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        done = track(pool.map(run, wanted), "compiling", total=len(wanted), console=Console(stderr=True))
        return dict(done)


def old_hashes(revision: str, arguments: Sequence[str]) -> dict[str, Hashes]:
    """Compile all cases in a worktree of another revision, by its own copy of this file."""
    with tempfile.TemporaryDirectory() as folder:
        tree, out = Path(folder, "tree"), Path(folder, "old.json")
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            command = [sys.executable, str(tree / "benchmarks" / "same_code.py"), "-o", str(out), *arguments]
            subprocess.run(command, check=True, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)})
            found: dict[str, Hashes] = json.loads(out.read_text(encoding="utf-8"))
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(tree)], check=True)
        return found


def differences(old: dict[str, Hashes], new: dict[str, Hashes]) -> list[str]:
    """Return a line for each case whose hashes differ."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, {}), new.get(name, {})
        if wrong := [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]:
            lines.append(f"{name}: {', '.join(wrong)}")
    return lines


def main() -> int:
    """Parse the arguments, compile and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", metavar="REVISION", help="of git, to compare with")
    parser.add_argument("--against", type=Path, metavar="FILE", help="hashes that -o wrote, to compare with")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the hashes of this tree are written, as JSON")
    parser.add_argument("--quick", action="store_true", help="without the networks of vtakit.models: minutes")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases with TEXT in their name")
    parser.add_argument("--random", type=int, default=60, metavar="N", help="random networks (60)")
    parser.add_argument("-j", "--jobs", type=int, default=2, metavar="J", help="processes (2)")
    args = parser.parse_args()
    np.seterr(all="ignore")
    new = hashes([case for case in cases(args.random, args.quick) if args.only in case[0]], args.jobs)
    if args.output is not None:
        args.output.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
    same = ["--only", args.only, "--random", str(args.random), "-j", str(args.jobs), *["--quick"] * args.quick]
    old = old_hashes(args.old, same) if args.old else json.loads(args.against.read_text()) if args.against else None
    if old is None:
        print(f"{len(new)} cases compiled")
        return 0
    lines = differences(old, new)
    print("\n".join([*lines, f"{len(new)} cases compared: {len(lines)} differ"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
