"""Prove a program free of faults, deadlock and races, or say where they are.

  vtakit check PROGRAM.vta
  vtakit check --config CFG --image dram.bin --insn-addr A --insn-count N

Finds unknown encodings, indices and addresses out of range, a missing FINISH, deadlock, tokens left over or too many, and
races: two accesses to one element of a scratchpad or of DRAM by different stages that no token orders. Exit status: 0 if there
is nothing to find, 1 with one line for each finding, 2 if the program cannot be read.
"""

import argparse

from vtakit.hw.isa.program import Program
from vtakit.runtime.commands._arguments import add_program, read_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_program(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.sim import checker  # NumPy: only once the arguments are right

    program = read_program(args)
    if isinstance(program, Program):
        found, count = checker.check_program(program), len(program.insns)
    else:
        count = program.insn_count
        found = checker.check_image(program.dram, program.insn_addr, count, program.config)
    for fault in found:
        print(fault)
    if not found:
        print(f"{count} instructions: no fault, no deadlock, no race")
    return 1 if found else 0
