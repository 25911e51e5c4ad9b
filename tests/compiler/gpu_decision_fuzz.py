"""Draw random decisions for the GPU kernels of random models, and compare each with plain loops on this processor.

  python tests/compiler/gpu_decision_fuzz.py --seed 0 --count 200 [--device interpreter]

Kernels run on an OpenCL device, pocl's by default, or by the interpreter, which also checks races, barriers and bounds. A kernel
that the verifier refuses counts as refused, with its reason; one that computes something else ends the run with status 1 and the
decisions that repeat it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "compiler")]

import onnx
from decision_fuzz import array_of, check_equal, models
from gpu_support import A100, PORTABLE, Runner, by_opencl

import vtakit
from vtakit import te
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.fusion import Group, fuse
from vtakit.compiler.graph.gpu import GpuKernels
from vtakit.compiler.graph.lower import key_of, tensors_of
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_gpu
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.errors import LowerError, VerifyError
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.cpu.flow import Flow
from vtakit.compiler.schedule.decisions import Decision
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.target import Cpu

VECTORS = 3  # of each kernel, beside the default
DEVICES: Mapping[str, tuple[Runner, GpuKernels]] = {"opencl": (by_opencl, PORTABLE), "interpreter": (interpret, A100)}


def groups_of(model: onnx.ModelProto, kernels: GpuKernels) -> list[Group]:
    """The different kernels of a model, as they would be compiled."""
    evaluate = evaluator(Cpu.host())
    graph = run_passes(import_model(model, evaluate=evaluate), passes_for_gpu(evaluate))
    return list({key_of(group): group for group in fuse(graph, kernels.machine) if not group.view}.values())


def drawn(outputs: list[te.Tensor], kernels: GpuKernels, rng: np.random.Generator) -> tuple[te.Schedule, dict[str, Any]]:
    """A schedule with random decisions: one after another, since candidates depend on what was decided before."""
    given: dict[str, Any] = {}
    while True:
        s = kernels.schedule(outputs, given)
        left: list[Decision] = [one for one in s.decisions if one.name not in given]
        if not left:
            return s, given
        given[left[0].name] = left[0].candidates[int(rng.integers(len(left[0].candidates)))]


def check_group(
    group: Group, kernels: GpuKernels, runner: Runner, rng: np.random.Generator, tally: Counter[str], vectors: int = VECTORS,
    largest: int | None = None,
) -> None:
    """Compare a kernel by its default schedule, and with random decisions, with one of plain loops. Raises WrongError.

    largest : elements of an operand, beyond which the kernel is left out
    """
    inputs, outputs = tensors_of(group)
    if largest is not None and max(value.type.size for value in (*group.inputs, *group.outputs)) > largest:
        tally["left out"] += 1
        return
    plain = te.create_schedule([out.op for out in outputs])
    there = Flow.of(plain.outputs).ops
    args = [tensor for tensor in inputs if tensor.op in there]
    arrays = [array_of(tensor, rng) for tensor in args]

    def room() -> list[np.ndarray]:
        return [np.full([extent.value for extent in out.shape], 77, str(out.dtype)) for out in outputs]
    wanted = room()
    vtakit.build(plain, [*args, *outputs])(*arrays, *wanted)
    what = f"{group.name} of {', '.join(str(value.type) for value in group.inputs)}"
    for at in range(1 + vectors):
        s, given = drawn(outputs, kernels, rng) if at else (kernels.schedule(outputs), {})
        if at and not given:
            return
        got = room()
        try:
            low = kernels.late(lower(s, [*args, *outputs], limits=kernels.limits))
        except (LowerError, VerifyError) as error:
            if not at:
                raise
            tally[f"refused: {type(error).__name__}: {error.found:.70}"] += 1
            continue
        except Exception as error:
            raise AssertionError(f"{what}: {given}: {error}") from error
        try:
            runner(low, [*arrays, *got])
        except Exception as error:
            raise AssertionError(f"{what}: {given}: {error}") from error
        tally["right"] += 1
        tally.update(f"{one.rule}: {one.chosen}" for one in s.decisions if one.name.endswith(".form"))
        for out, want, have in zip(outputs, wanted, got, strict=True):
            check_equal(what, out.name, want, have, given)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=20, help="seeds")
    parser.add_argument("--device", choices=[*DEVICES], default="opencl", help="what runs the kernels")
    parser.add_argument("--largest", type=int, default=None, help="elements of the largest operand; larger kernels are left out")
    parser.add_argument("--keep-going", action="store_true", help="print all failures, one line each")
    args = parser.parse_args()
    runner, kernels = DEVICES[args.device]
    tally: Counter[str] = Counter()
    for seed in range(args.seed, args.seed + args.count):
        rng = np.random.default_rng(seed)
        for model in models(seed):
            for group in groups_of(model, kernels):
                try:
                    check_group(group, kernels, runner, rng, tally, largest=args.largest)
                except (AssertionError, LowerError, VerifyError) as error:
                    text = str(error)[:300 if args.keep_going else 3000]
                    print(f"seed {seed}: {group.name}: {type(error).__name__}: {text}", flush=True)
                    if not args.keep_going:
                        return 1
                    tally["FAILED"] += 1
        print(f"seed {seed}: {tally['right']} right", flush=True)
    for text, count in sorted(tally.items()):
        print(f"{count:6} {text}")
    return 1 if tally["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
