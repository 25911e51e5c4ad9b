"""Random mutations of valid files of every format that vtakit reads: each gives a result or one sentence.

    python tests/file_mutations.py [--seed N] [--count N] [--format NAME]... [-j N] [--keep FILE]

A mutation changes bytes or structure of a small valid file: fields of a protobuf, values of JSON, members of an archive, headers
and code of a module with its checksums made right again. A process that has imported everything forks for each file; the child
is what `vtakit run` (or sim, check, disasm, asm) would be. It fails beyond 2 s of processor time or 1 GB of memory in use. It may
ask for 4 GB, so that what a file makes vtakit allocate is seen and does not become a refusal. A crash, a traceback, an error of
several lines, memory that ran out instead of being compared before, and a canary are failures too: some files hold pickles,
Python text or machine code that would make a folder if it was run. `--seed N --count 1 --format F` runs a mutation again, and
`--keep FILE` writes it down. The exit status is 1 if any failed.
"""

import argparse
import collections
import functools
import gc
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import Process, Queue
from pathlib import Path
from typing import NamedTuple

sys.path += [str(Path(__file__).parent), str(Path(__file__).with_name("compiler"))]  # as pytest has them

from file_formats import Case, formats_here
from module_formats import ALL_FORMATS as FORMATS

CPU_SECONDS = 2
MEMORY_BYTES = 1 << 30
ASKED_BYTES = 4 << 30  # of address space
WALL_SECONDS = 30  # a child that sleeps or waits is a hang
RAN, TOLD = "ran", "told"
LARGE = "loads within the limits, and computes beyond them"  # as a model may that pads an image to 700 MB
GOOD = (RAN, TOLD, LARGE)
CANARY = "canary"
TOO_LONG, TOO_LARGE = f"more than {CPU_SECONDS} s", "too much memory"
_RAN_OUT = "this machine has too little memory for that"  # of `vtakit.runtime.cli`, for a MemoryError
_WARNING = re.compile(r"vtakit \w+: warning: ")


class Fate(NamedTuple):
    """Outcome of reading a mutated file: `RAN`, `TOLD` with the error's first words, or a failure."""

    seed: int
    format: str
    state: str
    what: str
    seconds: float
    bytes: int


def case_of(seed: int, names: list[str]) -> Case:
    """The mutation of a seed."""
    rng = random.Random(seed)
    return FORMATS[rng.choice(names)].case(rng)


def run_case(seed: int, case: Case) -> Fate:
    """Run one mutation; a model that takes too long is compiled once more without inputs, so that it is not run."""
    fate = _run(seed, case)
    at = case.command.index("--input") if "--input" in case.command else 0
    if fate.state in (TOO_LONG, TOO_LARGE) and at:
        again = _run(seed, replace(case, command=case.command[:at] + case.command[at + 2:]))
        fate = again if again.state not in (RAN, TOLD) else again._replace(state=LARGE)
    return fate


def _taken() -> tuple[int, int]:
    """Bytes of this process's address space, and of its own memory, which a child has too; files are mapped as they are read."""
    space, resident, files = (int(pages) * resource.getpagesize() for pages in Path("/proc/self/statm").read_text().split()[:3])
    return space, resident - files


def _run(seed: int, case: Case) -> Fate:
    """Run one mutation in a child of this process, in the current folder."""
    said = os.memfd_create("said")
    begin, shared = time.monotonic(), _taken()[1]
    child = os.fork()
    if not child:
        os._exit(_child(case, said))
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    text = os.pread(said, 1 << 20, 0).decode(errors="replace")
    os.close(said)
    for path in Path().iterdir():
        if path.name != CANARY:
            path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
    seconds, used = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 - shared
    state, what = _judged(code, text)
    if Path(CANARY).exists():
        Path(CANARY).rmdir()
        state, what = "code of the file was run", text[-100:]
    elif state in (RAN, TOLD) and used > MEMORY_BYTES:
        state, what = TOO_LARGE, f"{used >> 20} MB"
    if state in (RAN, TOLD) and time.monotonic() - begin > WALL_SECONDS:
        state, what = "hang", text[-100:]
    return Fate(seed, case.format, state, what, seconds, used)


def _judged(code: int, text: str) -> tuple[str, str]:
    lines = [line for line in text.splitlines() if not _WARNING.match(line)]
    if code == -signal.SIGXCPU:
        return TOO_LONG, ""
    if code == -signal.SIGALRM:
        return "hang", ""
    if code < 0:
        return f"crash, {signal.Signals(-code).name}", text[-200:]
    if "Traceback" in text or code not in (0, 1, 2):
        return "traceback", text[-300:]
    if _RAN_OUT in text:
        return TOO_LARGE, text[-200:]
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("vtakit ")):
        return "an error that is not one sentence", text[-300:]
    return (TOLD, lines[0].partition(":")[0]) if code == 2 else (RAN, "")


def _child(case: Case, said: int) -> int:
    """Write the files and run the command; returns its exit status."""
    from vtakit.runtime import cli

    most = _taken()[0] + ASKED_BYTES
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
    os.environ["VTAKIT_CACHE"] = str(Path("cache").absolute())  # gone with the other files; models look there without --no-cache
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.dup2(said, 2)
    try:
        for name, data in case.files.items():
            Path(name).write_bytes(data)
        for name, make in case.specials.items():
            Path(name).unlink(missing_ok=True)
            make(Path(name))
        return cli.main(case.command)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    except BaseException:
        import traceback

        traceback.print_exc()
        return 3
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def fates(seeds: Iterator[int], names: list[str]) -> Iterator[Fate]:
    """The fates of mutations, in a folder of their own."""
    _import_all()
    for name in names:
        FORMATS[name].warm()
    gc.freeze()  # so that a child's collections do not copy what it shares
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for seed in seeds:
                yield run_case(seed, case_of(seed, names))
        finally:
            os.chdir(before)


def _import_all() -> None:
    """Import what the commands need, once for all children."""
    from vtakit.runtime import cli

    for name in cli.summaries():
        importlib.import_module(f"vtakit.runtime.commands.{name}")
    for name in ("rich.console", "rich.progress", "vtakit.sim.checker", "vtakit.runtime.model", "vtakit.runtime.signing"):
        importlib.import_module(name)
    cli.__dict__["summaries"] = functools.cache(cli.summaries)  # it parses the source of every command
    cli.summaries()


def _worker(number: int, jobs: int, first: int, count: int, names: list[str], out: "Queue[Fate | None]") -> None:
    for fate in fates(iter(range(first + number, first + count, jobs)), names):
        out.put(fate)
    out.put(None)


def results(first: int, count: int, names: list[str], jobs: int) -> Iterator[Fate]:
    """The fates of all seeds, by as many processes."""
    if jobs == 1:
        yield from fates(iter(range(first, first + count)), names)
        return
    out: Queue[Fate | None] = Queue()
    workers = [Process(target=_worker, args=(number, jobs, first, count, names, out)) for number in range(jobs)]
    for worker in workers:
        worker.start()
    ended = 0
    while ended < jobs:
        found = out.get()
        if found is None:
            ended += 1
        else:
            yield found
    for worker in workers:
        worker.join()


def keep(seed: int, names: list[str], to: Path) -> None:
    """Write the files of a mutation, the first one as `to`, the others beside it."""
    case = case_of(seed, names)
    for at, (name, data) in enumerate(case.files.items()):
        (to.with_name(f"{to.name}.{name}") if at else to).write_bytes(data)
    print(f"vtakit {' '.join(case.command)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="only this format; may be repeated")
    parser.add_argument("-j", type=int, default=1, metavar="N", dest="jobs")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the mutation of --seed down, and do not run it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the counts")
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "VTAKIT_CACHE": "off", "COLUMNS": "200"}
    names = args.format or formats_here()
    if args.keep:
        FORMATS[case_of(args.seed, names).format].warm()
        keep(args.seed, names, args.keep)
        return 0
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    slowest, largest, bad = 0.0, 0, 0
    begin = time.monotonic()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("mutations", total=args.count)
        for fate in results(args.seed, args.count, names, args.jobs):
            counts[fate.format, fate.state] += 1
            slowest, largest = max(slowest, fate.seconds), max(largest, fate.bytes)
            if fate.state not in GOOD:
                bad += 1
                print(f"seed {fate.seed} ({fate.format}): {fate.state}: {fate.what}", flush=True)
            bar.update(task, advance=1)
    for (name, state), count in sorted(counts.items()):
        print(f"{count:7}  {name:12} {state}")
    seconds = time.monotonic() - begin
    print(f"{bad} of {sum(counts.values())} mutations failed; at most {slowest:.2f} s of processor time and {largest >> 20} MB "
          f"each; seeds from {args.seed}; {seconds:.0f} s in all")
    if args.json:
        found = {f"{name}: {state}": count for (name, state), count in sorted(counts.items())}
        args.json.write_text(json.dumps({"seed": args.seed, "bad": bad, "slowest": slowest, "largest": largest, "counts": found}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
