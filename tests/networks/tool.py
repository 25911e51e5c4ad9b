"""Draw random quantized networks and compare them on every target until two results differ.

  python tests/network_fuzz.py --seed 0 --count 300               on fsim; each seed chooses the accelerator
  python tests/network_fuzz.py --config tiny --device rtl --count 50
  python tests/network_fuzz.py --float --count 100                without quantizations, on this processor alone
  python tests/network_fuzz.py --seed 7 --count 1 --save DIR      keep the shrunk network as ONNX, with its inputs

A network has up to 30 layers: branches, joins, residuals, values read again at a distance, several inputs and outputs, and its
nodes in a random topological order (tests/networks/draw.py). tests/networks/checks.py says what is compared with what. The first
difference is printed with the network, a smaller one that has the same fault, and the command that repeats it; exit status 1.
"""

import argparse
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from networks.accelerators import PUBLISHED, accelerator
from networks.checks import Check, CheckFloats, Difference, Tally, describe
from networks.draw import draw
from networks.emit import model_of
from networks.recipe import Recipe
from networks.shrink import shrunk
from vtakit.hw.isa.config import NAMED

CHUNK = 10  # networks of one task
TASKS = 40  # that a process runs before a fresh one follows: it keeps all machine code that it loads
SECONDS = 300.0  # that one comparison may take


@dataclass(frozen=True, slots=True)
class Failure:
    """A difference in one seed's network."""

    seed: int
    between: str
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    args = parser().parse_args(argv)
    check_arguments(args)
    return run(args)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    style = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(prog="network_fuzz.py", description=__doc__, formatter_class=style)
    made.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the first network; each next has one more")
    made.add_argument("--count", type=int, default=100, metavar="N", help="networks (100)")
    made.add_argument("--config", metavar="CFG", help="the accelerator's configuration; by default one that the seed chooses; "
                      f"or {PUBLISHED}: any, with the published instruction set")
    made.add_argument("--device", choices=("fsim", "rtl"), default="fsim", help="run launches on the RTL too")
    made.add_argument("--float", action="store_true", help="the networks without quantizations, on this processor alone")
    made.add_argument("--orders", type=int, default=1, metavar="N", help="random interleavings on fsim, beside three fixed (1)")
    made.add_argument("--decisions", action="store_true", help="compile with random decisions")
    made.add_argument("-j", "--jobs", type=int, default=1, metavar="J", help="processes (1)")
    made.add_argument("--all", action="store_true", help="go on after a difference, and count them; shrink none")
    made.add_argument("--save", type=Path, metavar="DIR", help="where the shrunk network is kept, as ONNX, with its inputs")
    return made


def check_arguments(args: argparse.Namespace) -> None:
    """End with a sentence for numbers out of range and names that are none."""
    cores = os.cpu_count() or 1
    for name, least, most in (("seed", 0, 2**40), ("count", 1, 10**7), ("orders", 0, 1000), ("jobs", 1, 4 * cores)):
        if not least <= getattr(args, name) <= most:
            parser().error(f"--{name} is {getattr(args, name)} and must be from {least} to {most}")
    if args.config is not None and args.config not in (*NAMED, PUBLISHED):
        parser().error(f"--config {args.config}: known configurations are {', '.join(NAMED)}, and {PUBLISHED}")


def run(args: argparse.Namespace) -> int:
    """Compare all networks, as many at a time as there are processes."""
    os.environ.setdefault("VTAKIT_CACHE", "off")
    os.environ.setdefault("VTAKIT_RTL_TRAINING", "off")
    tally, failures, begin, interrupted = Tally(), [], time.monotonic(), False
    columns = TextColumn("random networks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=args.count)
        try:
            for count, found, wrong in _results(args):
                tally += found
                progress.advance(task, count)
                failures += wrong
                for failure in wrong:
                    progress.console.print(failure.text, markup=False, highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            interrupted = True
    seeds = f"seeds {args.seed} to {args.seed + args.count - 1}{', interrupted' if interrupted else ''}"
    if args.float:
        print(f"{seeds}, {time.monotonic() - begin:,.0f} s: {tally.networks} networks in floating point without a difference")
    else:
        tell(tally, seeds, time.monotonic() - begin, "on fsim and the RTL" if args.device == "rtl" else "on fsim")
    if failures:
        print(f"{len(failures)} networks differ: {' '.join(str(failure.seed) for failure in failures)}")
    return 1 if failures else 130 if interrupted else 0


def tell(tally: Tally, seeds: str, seconds: float, where: str) -> None:
    """Print what was compared."""
    print(f"{seeds}, {seconds:,.0f} s: {tally.networks} networks without a difference, {tally.exact} of them equal to "
          f"onnxruntime, {tally.launches} launches of {sum(tally.layers.values())} layers {where}")
    if tally.vectors:
        print(f"{tally.vectors} vectors of decisions, {sum(tally.refused.values())} refused: "
              + ", ".join(f"{count} {reason}" for reason, count in tally.refused.most_common()))
        print("not the default: " + ", ".join(f"{count} {name}" for name, count in tally.decided.most_common()))
    print("on the accelerator: " + ", ".join(f"{count} {name}" for name, count in tally.layers.most_common()))


def _results(args: argparse.Namespace) -> Iterator[tuple[int, Tally, list[Failure]]]:
    """How many networks a task had, their tally, and those that differ; up to the first of these unless all are asked for."""
    starts = iter(range(args.seed, args.seed + args.count, CHUNK))
    end = args.seed + args.count
    pool = ProcessPoolExecutor(args.jobs, get_context("spawn"), max_tasks_per_child=TASKS)
    running: dict[Future[tuple[Tally, list[Failure]]], range] = {}
    try:
        while True:
            for _, start in zip(range(2 * args.jobs - len(running)), starts, strict=False):  # in this order, or one is lost
                seeds = range(start, min(start + CHUNK, end))
                running[pool.submit(_chunk, args, seeds)] = seeds
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                seeds = running.pop(future)
                try:
                    tally, wrong = future.result()
                except BrokenProcessPool:
                    text = f"a process died, perhaps that of the seeds {seeds[0]} to {seeds[-1]}: run these with --jobs 1"
                    yield len(seeds), Tally(), [Failure(seeds[0], "crash", text)]
                    return
                yield len(seeds), tally, wrong
                if wrong and not args.all:
                    return
    finally:
        pool.shutdown(cancel_futures=True)


def _chunk(args: argparse.Namespace, seeds: range) -> tuple[Tally, list[Failure]]:
    """Compare some networks; of the first that differs a smaller one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker at once
    tally, failures = Tally(), []
    for seed in seeds:
        found = one(args, seed)
        if isinstance(found, Failure):
            failures.append(found)
            if not args.all:
                break
        else:
            tally += found
    return tally, failures


def one(args: argparse.Namespace, seed: int) -> Tally | Failure:
    """Compare one network; the text of a failure has a smaller one with the same fault."""
    check = CheckFloats() if args.float else Check(args.config, args.device, args.orders, args.decisions)

    def fault(recipe: Recipe) -> Difference | None:
        try:
            with within(SECONDS):
                check(recipe)
        except Difference as found:
            return found
        return None
    recipe = draw(seed)
    try:
        with within(SECONDS):
            return check(recipe)
    except Difference as error:
        difference = error
    if args.all:
        return Failure(seed, difference.between, f"{seed}: {difference}")
    small = shrunk(recipe, lambda each: (found := fault(each)) is not None and found.between == difference.between)
    if args.save is not None:
        keep(small, args.save, real=args.float)
    words = f"--seed {seed} --count 1" + (f" --config {args.config}" if args.config else "")
    words += " --float" if args.float else ""
    words += " --device rtl" if args.device == "rtl" else ""
    words += " --decisions" if args.decisions else ""
    words += f" --orders {args.orders}" if args.orders != 1 else ""
    machine = describe(accelerator(seed, args.config, args.device))
    text = (f"seed {seed}: {difference}\n{recipe}\n\n"
            f"shrunk from {recipe.layers} to {small.layers} layers: {fault(small)}\n{small}\n\n"
            f"accelerator: {machine}\nreplay: python tests/network_fuzz.py {words}")
    return Failure(seed, difference.between, text)


def keep(recipe: Recipe, folder: Path, *, real: bool) -> None:
    """Write a network as ONNX, and its inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model_of(recipe, real=real), folder / f"net{recipe.seed}.onnx")
    np.savez(folder / f"net{recipe.seed}.npz", **recipe.inputs(real=real))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Difference in whatever runs here when the time is over."""
    def over(_: int, __: FrameType | None) -> None:
        raise Difference("time", f"one network took more than {seconds:g} s")
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
