"""List the boards: what has been built, simulated and run on hardware for each, and the best known core.

Bitstreams of the boards of the first table are built by `vtakit bitstream`. Those of the second one need AMD's Vivado, for which
`vtakit vivado` writes a project.

  vtakit boards
"""

import argparse

from vtakit.runtime.terminal import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from rich.table import Column, Table

    from vtakit.boards.bitstream.targets import TARGETS
    from vtakit.boards.known import BOARDS
    from vtakit.boards.vivado.targets import VIVADO_BOARDS

    columns: tuple[str, ...] = ("what it is", "memory and link", "built", "simulated", "hardware", "best known core")
    table = Table("board", *(Column(column, overflow="fold") for column in columns))
    for target in TARGETS.values():
        board = BOARDS.get(target.design)
        what = f"{target.title}, speed grade {target.speed}"
        if board is None:
            table.add_row(target.name, what, f"not yet: needs {target.missing}", "no", "no", "no", "-")
            continue
        memory = f"SDRAM {board.chip.name}, {board.mhz:g} MHz; UART, {board.baud:,} baud"
        if "usb" in board.links:
            memory += ", or full-speed USB (--link usb)"
        table.add_row(target.name, what, memory, target.built or "no", target.simulated or "no", target.hardware or "no",
                      str(target.fits[0]) if target.fits else "none is known to fit")
    columns = ("what it is", "core", "built", "simulated", "hardware")
    zynqs = Table("board", *(Column(column, overflow="fold") for column in columns))
    for name, zynq in VIVADO_BOARDS.items():
        family = zynq.family
        assert family is not None
        zynqs.add_row(
            name, f"{zynq.title}, {family.title}, {zynq.part}", f"{family.mhz:g} MHz, {family.bus_bits}-bit bus",
            "no: no Vivado has run the project of `vtakit vivado`", "core and driver; not the processor system", "no")
    console().print(table, zynqs)
    return 0
