"""Compare torch.compile(backend="vtakit") with PyTorch: modules of torch.nn, and networks, on several batches and lengths.

    python benchmarks/torch_agreement.py [NAME …] [--export] [--overhead]

prints for each the greatest error relative to the greatest element, and what PyTorch ran itself. --export compiles what
torch.export.export gives instead. --overhead measures a call of a small module, in turn with PyTorch's own.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import torch

import vtakit
from vtakit.base.errors import VtakitError

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
CASES = import_module("torch_cases")
TOLERANCE = 1e-4  # relative to the greatest element of an output
SIZES = ((2, 9), (3, 12), (2, 9), (5, 7))


def flat(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a result, however nested."""
    if isinstance(result, tuple | list):
        return [each for part in result for each in flat(part)]
    return [] if result is None else [result]


def error(got: Any, wanted: Any) -> float:
    """Return the greatest difference, relative to the greatest element; infinity for other shapes or types."""
    mine, theirs = flat(got), flat(wanted)
    if [(each.shape, each.dtype) for each in mine] != [(each.shape, each.dtype) for each in theirs]:
        return float("inf")
    worst = 0.0
    for a, b in zip(mine, theirs, strict=True):
        if b.numel():
            worst = max(worst, float((a.double() - b.double()).abs().max() / max(1.0, float(b.double().abs().max()))))
    return worst if worst == worst else float("inf")


def compiled_error(case: Any) -> float:
    """Return the greatest error of a case through torch.compile, batch and length changing from call to call."""
    torch.compiler.reset()
    torch.manual_seed(0)
    ours, theirs = case.make().eval(), case.make().eval()
    theirs.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, backend=vtakit.torch_backend)
    worst = 0.0
    with torch.no_grad():
        for sizes in SIZES:
            inputs = case.inputs(*sizes)
            worst = max(worst, error(compiled(*inputs), theirs(*inputs)))
    return max(worst, error(list(ours.buffers()), list(theirs.buffers())))


def exported_error(case: Any) -> float:
    """Return the greatest error of a case through torch.export."""
    torch.manual_seed(0)
    module = case.make().eval()
    inputs = case.inputs(*SIZES[0])
    with torch.no_grad():
        wanted = [each.clone() for each in flat(module(*inputs))]
        program = torch.export.export(module, inputs)
    made = vtakit.compile(program)
    got = made.run(dict(zip(made.inputs, [each.numpy() for each in inputs], strict=True)))
    return error([torch.from_numpy(each) for each in got.values()], wanted)


def overhead() -> None:
    """Print the microseconds that a call of a small module takes, by PyTorch and compiled, measured in turn."""
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    compiled, x = torch.compile(module, backend=vtakit.torch_backend, options={"threads": 1}), torch.randn(2, 8)
    torch.set_num_threads(1)

    def seconds(call: Callable[[torch.Tensor], Any]) -> float:
        begin = time.process_time()
        for _ in range(1000):
            call(x)
        return (time.process_time() - begin) / 1000

    with torch.no_grad():
        for _ in range(100):
            compiled(x)
        pairs = [(seconds(module), seconds(compiled)) for _ in range(15)]
    eager, ours = (median(column) * 1e6 for column in zip(*pairs, strict=True))
    print(f"a call of linear and relu: PyTorch {eager:.1f} µs, compiled {ours:.1f} µs, {ours - eager:+.1f} µs (processor time)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    args = parser.parse_args()
    if args.overhead:
        overhead()
        return 0
    torch._dynamo.config.allow_rnn = True  # PyTorch leaves recurrent modules to itself by default
    torch._dynamo.config.recompile_limit = 64
    wrong = 0
    for name, case in {**CASES.MODULES, **CASES.NETWORKS}.items():
        if args.names and name not in args.names:
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = exported_error(case) if args.export else compiled_error(case)
                outcome = f"{found:.1e}" if found <= TOLERANCE else f"WRONG {found:.1e}"
            except VtakitError as refused:
                outcome = f"refused: {refused}"
        wrong += outcome.startswith("WRONG")
        ran = [str(each.message).partition('"vtakit"): ')[2] for each in said if each.category.__name__ == "RunsInPyTorch"]
        print(f"{name:26} {outcome}  {'; '.join(ran)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
