"""Build the bitstream of a board with open tools: accelerator, memory controller and host link, placed, routed and packed.

  vtakit bitstream --board ulx3s-85f -o vtakit.bit
  vtakit bitstream --board ulx3s-85f --link usb -o vtakit.bit
  vtakit bitstream --board ulx3s-85f --config blk8 --seeds 4 --jobs 2 -o blk8.bit --json blk8.json

Synthesis takes minutes, and place and route for each seed some ten minutes to an hour. What has been done is kept in the cache:
the same command goes on after an interruption, and with more seeds places only the new ones. The seed whose slowest clock has
the most margin is kept. A core that does not fit, or a clock that is missed, is an error that says what would work.

No bitstream of this command has run on a board yet. The tools come with: pip install 'vtakit[fpga]'
"""

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError, needs
from vtakit.base.process import run_tool
from vtakit.base.text import counted
from vtakit.base.writing import write_bytes
from vtakit.boards.known import BAUD, LINKS, find_board
from vtakit.hw.isa.config import load_config
from vtakit.runtime.commands._arguments import add_config, add_core, check_outputs, core_of, number
from vtakit.runtime.terminal import console, progress, say

if TYPE_CHECKING:
    from vtakit.boards.bitstream.flow import Build
    from vtakit.boards.bitstream.report import BitstreamReport

_MOST_SEEDS = 64
_LEAST_MHZ, _MOST_MHZ = 4, 400
_LOOK_SECONDS = 1.0
_PROGRAM_SECONDS = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--board", required=True, metavar="BOARD", help="`vtakit boards` lists them")
    add_config(parser)
    add_core(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.bit", help="file for the bitstream")
    parser.add_argument("--mhz", type=float, metavar="MHZ",
                        help="clock of core and link (default: the board's, or that of its best known core)")
    parser.add_argument("--memory-mhz", type=float, metavar="MHZ", help="clock of the memory (default: that of the core)")
    parser.add_argument("--link", default=LINKS[0], metavar="LINK",
                        help="way to the host: uart (default), a serial line; usb, the FPGA's own full-speed USB pins")
    parser.add_argument("--seeds", type=number, default=1, metavar="N", help="placements to try, with seeds 1 to N (1)")
    parser.add_argument("--jobs", type=number, default=1, metavar="N", help="placements at a time; each takes 2 GB of memory (1)")
    parser.add_argument("--slow", action="store_true", help="take a bitstream whose clock is missed")
    parser.add_argument("--limit", type=number, default=7200, metavar="SECONDS", help="time limit of each tool (7200)")
    parser.add_argument("--json", type=Path, metavar="REPORT.json", help="file for the report")
    parser.add_argument("--program", action="store_true", help="load it into the board, with openFPGALoader or fujprog")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    with needs("building bitstreams", "fpga"):
        from vtakit.boards.bitstream.flow import Build, Order, programmer
        from vtakit.boards.bitstream.targets import find_target
        from vtakit.cache.place import cache_folder
        from vtakit.hw.params import CoreParams

    target = find_target(args.board)
    given: dict[str, Any] = core_of(args)
    config, mhz, memory_mhz = args.config, args.mhz, args.memory_mhz
    if config is None and not given and target.fits:  # the best that is known
        known = target.fits[0]
        config, given, mhz = known.config, dict(known.core), known.mhz if mhz is None else mhz
        memory_mhz = known.memory_mhz if memory_mhz is None else memory_mhz
    core = CoreParams(cfg=load_config("default" if config is None else config), **given)
    if not 1 <= args.seeds <= _MOST_SEEDS or not args.jobs or not args.limit:
        raise VtakitError(f"--seeds is from 1 to {_MOST_SEEDS}, --jobs and --limit at least 1")
    for option, value in (("--mhz", mhz), ("--memory-mhz", memory_mhz)):
        if value is not None and not _LEAST_MHZ <= value <= _MOST_MHZ:
            raise VtakitError(f"{option} must be from {_LEAST_MHZ} to {_MOST_MHZ}, got {value:g}")
    command, installed = programmer(target)
    if args.program and not installed:
        raise VtakitError(f"--program needs {' or '.join(words[0] for words in target.programs)}, and neither is on PATH")
    check_outputs(("--output", "the bitstream", args.output), ("--json", "the report", args.json))
    order = Order(target=target, core=core, given=given, mhz=mhz, memory_mhz=memory_mhz, link=args.link,
                  seeds=tuple(range(1, args.seeds + 1)), jobs=args.jobs, limit_seconds=args.limit, slow=args.slow)
    build = Build(order, cache_folder("bitstreams"))
    with _shown(build, target.name) as step:
        data, report = build.run(step)
    write_bytes(args.output, data, "the bitstream")
    if args.json is not None:
        write_bytes(args.json, report.to_json().encode(), "the report")
    _show(report)
    size = f"{len(data) / 1e6:.1f} MB"
    say(f"{args.output}: {size}; no board has run a bitstream of this kit yet")
    line = [*command, str(args.output)]
    board = find_board(target.design)
    port = "/dev/ttyACM0" if args.link == "usb" else board.port
    rate = f" --baud {board.baud}" if args.link != "usb" and board.baud != BAUD else ""
    if args.program:
        run_tool(line, limit_seconds=_PROGRAM_SECONDS)
        say(f"loaded with {command[0]}; then: vtakit run MODEL --target vta --device board:{port}{rate}")
    else:
        say(f"load it with: {' '.join(line)}; then: vtakit run MODEL --target vta --device board:{port}{rate}")
    return 0


@contextmanager
def _shown(build: "Build", name: str) -> Iterator[Any]:
    """Show the steps, and while seeds are placed how far each is; yields what is told a step."""
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    ended = threading.Event()
    steps = ["start"]
    with progress(SpinnerColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task(name, total=None)

        def watch() -> None:
            while not ended.wait(_LOOK_SECONDS):
                state = build.state() if steps[-1] == "nextpnr" else ""
                bar.update(task, description=f"{name}: {steps[-1]}{f' ({state})' if state else ''}")

        def step(text: str) -> None:
            steps.append(text)
            bar.update(task, description=f"{name}: {text}")

        looking = threading.Thread(target=watch, daemon=True)
        looking.start()
        try:
            yield step
        finally:
            ended.set()
            looking.join()


def _show(report: "BitstreamReport") -> None:
    from rich.table import Column, Table

    from vtakit.boards.synth.devices import RESOURCES

    there = console(soft_wrap=True)
    columns = [RESOURCES[name] for name in report.usage]
    table = Table("block", *columns, title=f"{report.board}: {report.part}, speed grade {report.speed}", title_justify="left")
    for block, used in report.blocks.items():
        table.add_row(block or "the top itself", *(f"{used[name]:,.10g}" for name in report.usage))
    shares = [f"{each.used:,.10g} of {each.available:,} ({each.used / each.available:.0%})" for each in report.usage.values()]
    table.add_section()
    table.add_row("all, before packing", *shares)
    there.print(table)
    for clock in report.clocks:
        margin = clock.fmax_mhz / clock.wanted_mhz - 1
        there.print(f"clock {clock.net}: {clock.fmax_mhz:.1f} MHz, to be {clock.wanted_mhz:g} (margin {margin:+.0%})",
                    highlight=False, markup=False)
    worst = min(report.clocks, key=lambda clock: clock.fmax_mhz / clock.wanted_mhz)
    path = Table("at ns", "cell", "wire", Column("signal", overflow="fold"), "source", title=f"slowest path of {worst.net}",
                 title_justify="left")
    at = 0.0
    for hop in worst.path:
        at += hop.cell_ns + hop.wire_ns
        path.add_row(f"{at:.2f}", f"{hop.cell_ns:.2f}", f"{hop.wire_ns:.2f}", hop.signal, hop.source)
    there.print(path)
    seeds = ", ".join(f"{seed.seed}: {seed.margin:+.1%}" if seed.margin is not None else f"{seed.seed}: {seed.failed}"
                      for seed in report.seeds)
    there.print(f"seed {report.best} is the best of {counted(len(report.seeds), 'seed')} by clock margin ({seeds})",
                highlight=False, markup=False)
