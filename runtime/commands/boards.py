"""List the boards: what has been built, simulated and run on hardware for each, and the best known core.

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

    columns = ("what it is", "memory and link", "built", "simulated", "hardware", "best known core")
    table = Table("board", *(Column(column, overflow="fold") for column in columns))
    for target in TARGETS.values():
        board = BOARDS.get(target.design)
        what = f"{target.title}, speed grade {target.speed}"
        if board is None:
            table.add_row(target.name, what, f"not yet: needs {target.missing}", "no", "no", "no", "-")
            continue
        memory = f"SDRAM {board.chip.name}, {board.mhz:g} MHz; UART, {board.baud / 1e6:g} Mbaud"
        table.add_row(target.name, what, memory, target.built or "no", target.simulated or "no", target.hardware or "no",
                      str(target.fits[0]) if target.fits else "none is known to fit")
    console().print(table)
    return 0
