"""Run random programs on a device and on the plain definition until they differ.

  vtakit fuzz --programs 100000 --seed 1                        all named configurations in turn, and random ones
  vtakit fuzz --config default --config any --programs 1000     only these; `any` is a random configuration for each program

  vtakit fuzz --device rtl --config tiny --programs 20000        the hardware in Verilator, memory's latency and stalls by seed

Each program is also checked statically: it is free of races by construction, so the checker must find nothing. A difference
is printed with the first element, the first instruction, a shrunk program and the command that repeats it; exit status 1.
"""

import argparse
import os

from vtakit.hw.isa.config import load_config
from vtakit.hw.isa.errors import VtakitError
from vtakit.runtime.commands._arguments import number

_JOBS_A_CORE = 4  # more only fill memory
_MOST_PROGRAMS = 1_000_000  # whose cases are all made at the start
_MOST_LENGTH = 100_000
_MOST_SEED = 2**62  # of the first; the simulated memory takes up to 2**63


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--device", default="fsim", help="the device to test (default: fsim, its compiled path)")
    parser.add_argument("--config", action="append", metavar="CFG", help="a name, a JSON file, or any; may be repeated")
    parser.add_argument("--programs", type=number, default=1000, metavar="N", help="how many programs (default 1000)")
    parser.add_argument("--seed", type=number, default=0, metavar="S", help="seed of the first program; each next has one more")
    parser.add_argument("--length", type=number, default=40, metavar="L", help="about the most instructions a program has (40)")
    parser.add_argument("--jobs", type=number, default=os.cpu_count() or 1, metavar="J", help="processes (default: all cores)")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from vtakit.sim import fuzz
    from vtakit.sim.api import find_device

    find_device(args.device)
    configs = args.config or fuzz.default_configs()
    for config in configs:
        if config != fuzz.ANY:
            load_config(config)
    cores = os.cpu_count() or 1
    for name, least, most in (
        ("jobs", 1, _JOBS_A_CORE * cores), ("programs", 1, _MOST_PROGRAMS), ("length", 0, _MOST_LENGTH), ("seed", 0, _MOST_SEED),
    ):
        value = getattr(args, name)
        if not least <= value <= most:
            raise VtakitError(f"--{name} is {value} and must be from {least} to {most}")
    work = list(fuzz.cases(args.device, configs, args.seed, args.programs, args.length))
    columns = (TextColumn("random programs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(work))
        failures = fuzz.fuzz(work, args.jobs, lambda count: progress.advance(task, count))
    for failure in failures:
        print(failure)
    if not failures:
        seeds = f"seeds {args.seed} to {args.seed + len(work) - 1}"
        print(f"{len(work)} random programs, {seeds}, {len(configs)} configurations: no difference")
    return 1 if failures else 0
