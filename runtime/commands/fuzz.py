"""Compare a device with its definition on random programs: of the instruction set, or for cycles the hardware in Verilator.

  vtakit fuzz --programs 100000 --seed 1                        each named configuration in turn, and random ones
  vtakit fuzz --config default --config any --programs 1000     these only; `any` is a random configuration for each program
  vtakit fuzz --device rtl --config tiny --programs 20000       the hardware in Verilator; the seed sets its memory and stalls too
  vtakit fuzz --device cycle --config tiny --programs 20000     the cycle model against that hardware: each start, end and cause
  vtakit fuzz --device cycle --system reference --system ideal  each program on both, not on a memory of its seed

Random programs are free of races by construction, so the static checker must find nothing in them either. A difference is
printed with its first element, its first instruction, a shrunk program and the command that repeats it.

Exit status: 0 if there is no difference, 1 if there is one, 2 for a wrong argument.
"""

import argparse
import os
from importlib import import_module

from vtakit.base.errors import VtakitError, needs
from vtakit.base.text import counted
from vtakit.hw.isa.config import load_config
from vtakit.hw.system import load_system
from vtakit.runtime.commands._arguments import number
from vtakit.runtime.terminal import progress, say

_JOBS_A_CORE = 4  # more only fill memory
_MOST_PROGRAMS = 1_000_000  # whose cases are all made at the start
_MOST_LENGTH = 100_000
_MOST_SEED = 2**62  # of the first; the simulated memory takes up to 2**63


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--device", default="fsim", help="device to test: fsim, its compiled path (default), cycle, or rtl")
    parser.add_argument("--config", action="append", metavar="CFG",
                        help="configuration: a name, a JSON file, or any; may be repeated")
    parser.add_argument("--programs", type=number, default=1000, metavar="N", help="number of programs (1000)")
    parser.add_argument("--seed", type=number, default=0, metavar="S",
                        help="seed of the first program; each further program adds 1 (0)")
    parser.add_argument("--length", type=number, default=40, metavar="L",
                        help="largest number of instructions of a program, approximately (40)")
    parser.add_argument("--system", action="append", metavar="SYS",
                        help="memory system of cycle and rtl: a name, a JSON file, or any (default), by seed, with stalls; "
                             "may be repeated: each program runs on all")
    parser.add_argument("--jobs", type=number, default=os.cpu_count() or 1, metavar="J",
                        help="worker processes (default: one a core)")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    from vtakit.sim import fuzz
    from vtakit.sim.api import find_device

    find_device(args.device)
    if args.device == "fsim":
        with needs("fuzzing fsim, whose compiled path is compared with its definition,", "sim"):
            import_module("numba")
    configs = args.config or fuzz.default_configs()
    for config in configs:
        if config != fuzz.ANY:
            load_config(config)
    systems = args.system or [fuzz.ANY]
    if args.system and args.device == "fsim":
        raise VtakitError("--system is of hardware and its cycle model: --device rtl or cycle; fsim has no cycles")
    for system in systems:
        if system != fuzz.ANY:
            load_system(system)
    cores = os.cpu_count() or 1
    for name, least, most in (
        ("jobs", 1, _JOBS_A_CORE * cores), ("programs", 1, _MOST_PROGRAMS), ("length", 0, _MOST_LENGTH), ("seed", 0, _MOST_SEED),
    ):
        value = getattr(args, name)
        if not least <= value <= most:
            raise VtakitError(f"--{name} is {value} and must be from {least} to {most}")
    work = list(fuzz.cases(args.device, configs, args.seed, args.programs, args.length, systems))
    with progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("random programs", total=len(work))
        failures = fuzz.fuzz(work, args.jobs, lambda count: bar.advance(task, count))
    for failure in failures:
        say(str(failure))
    if not failures:
        seeds = f"seed {args.seed}" if args.programs == 1 else f"seeds {args.seed} to {args.seed + args.programs - 1}"
        each = f", each on {counted(len(systems), 'memory system')}" if args.system else ""
        say(f"{counted(args.programs, 'random program')}, {seeds}, {counted(len(configs), 'configuration')}{each}: no difference")
    return 1 if failures else 0
