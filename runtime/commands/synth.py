"""Synthesise the accelerator for an FPGA with open tools: resources, clock frequency, slowest path.

  vtakit synth --config tiny --device ecp5-85k
  vtakit synth --config default --device xc7 --json REPORT.json
  vtakit synth --config tiny --device xc7 --without counters

yosys counts LUTs, flip-flops, DSPs and block RAMs. nextpnr places and routes for the devices that it knows, which takes
minutes. The accelerator is synthesised between two shift registers, so that every path starts and ends at a register.
The slowest path is given in the names of the Amaranth source. A core that does not fit is reported with its resources.
The tools come with: pip install 'vtakit[fpga]'
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.base.errors import VtakitError, needs
from vtakit.base.writing import write_bytes
from vtakit.hw.isa.config import load_config
from vtakit.runtime.commands._arguments import add_config, add_core, check_outputs, core_of, number
from vtakit.runtime.terminal import console, progress

if TYPE_CHECKING:
    from vtakit.boards.synth import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_config(parser)
    parser.add_argument("--device", default="ecp5-85k", help="FPGA: ecp5-85k (default), ice40, ice40-up5k, xc7 or xcup")
    parser.add_argument("--speed", metavar="GRADE", help="speed grade: ecp5-85k has 6 (slowest, default), 7 and 8")
    parser.add_argument("--bus-bits", type=number, default=64, metavar="N", help="width of the AXI bus (64)")
    add_core(parser)
    parser.add_argument("--seed", type=number, default=1, metavar="N", help="seed of the placement (1)")
    parser.add_argument("--yosys-only", action="store_true", help="count resources only, without place and route")
    parser.add_argument("--limit", type=number, default=3600, metavar="SECONDS", help="time limit of each tool (3600)")
    parser.add_argument("--json", type=Path, metavar="REPORT.json", help="file for the report")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    with needs("synthesis", "fpga"):
        from vtakit.boards.synth import find_device
        from vtakit.boards.synth.flow import synthesise
        from vtakit.boards.synth.tools import check_yosys
        from vtakit.hw.params import CoreParams

    check_yosys()
    device = find_device(args.device)
    speed = device.speed(args.speed)
    params = CoreParams(cfg=load_config("default" if args.config is None else args.config), bus_bits=args.bus_bits,
                        **core_of(args))
    if not args.limit:
        raise VtakitError("--limit must be at least 1 second")
    check_outputs(("--json", "report", args.json))
    with progress(SpinnerColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("start", total=None)
        report = synthesise(
            params, device, speed=speed, seed=args.seed, place=not args.yosys_only, limit_seconds=args.limit,
            say=lambda step: bar.update(task, description=f"{device.name}: {step}"),
        )
    if args.json:
        write_bytes(args.json, report.to_json().encode(), "report")
    _show(report)
    return 0


def _show(report: "Report") -> None:
    from rich.table import Column, Table

    from vtakit.boards.synth.devices import RESOURCES

    there = console(soft_wrap=True)
    grade = f", speed grade {report.speed}" if report.speed else ""
    table = Table("resource", "used", "available", "share", title=f"{report.part}{grade}", title_justify="left")
    for name, usage in report.usage.items():
        share = f"{usage.used / usage.available:.0%}" if usage.available else "-"
        table.add_row(RESOURCES[name], f"{usage.used:,.10g}", f"{usage.available:,}", share if usage.fits else f"[red]{share}[/]")
    there.print(table)
    fmax = f"{report.fmax_mhz:.1f} MHz" if report.fmax_mhz is not None else "none"
    there.print(f"Fmax: {fmax} ({report.fmax_note})", highlight=False, markup=False)
    if report.bound_mhz is not None:
        there.print(f"bound: {report.bound_mhz:.1f} MHz", highlight=False)
    if report.path:
        columns = ("at ns", "cell", "wire", Column("signal", overflow="fold"), "source")
        path = Table(*columns, title="slowest path", title_justify="left")
        at = 0.0
        for hop in report.path:
            at += hop.cell_ns + hop.wire_ns
            path.add_row(f"{at:.2f}", f"{hop.cell_ns:.2f}", f"{hop.wire_ns:.2f}", hop.signal, hop.source)
        there.print(path)
