"""Prove a program free of faults, deadlock and races, or list them.

  vtakit check PROGRAM.vta
  vtakit check PROGRAM.vta --isa original
  vtakit check --config CFG --image DRAM.bin --insn-addr ADDRESS --insn-count N

The checker reports:
  - unknown encodings, and indices or addresses out of range
  - a missing or misplaced FINISH
  - deadlock, and dependence tokens that are left over or overflow a queue
  - races: two stages access one element of a scratchpad or of DRAM, and no token orders the accesses
  - values in scratch memory that are overwritten before they are read; a raw image names no values, so not there
  - with --isa original, what not every implementation of the published instruction set has

Exit status: 0 if nothing is found, 1 if something is, one line each, 2 if the program cannot be read.
"""

import argparse

from vtakit.base.text import counted
from vtakit.hw.isa.program import Program
from vtakit.hw.isa.published import Isa
from vtakit.runtime.commands._arguments import ISA_HELP, add_program, read_program
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_program(parser)
    parser.add_argument("--isa", default="vtakit", metavar="ISA", help=f"instructions that it may use: {ISA_HELP}")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.sim import checker  # NumPy: only once the arguments are right

    isa = Isa.parse(args.isa)
    program = read_program(args)
    if isinstance(program, Program):
        found, count = checker.check_program(program, isa), len(program.insns)
    else:
        count = program.insn_count
        found = checker.check_image(program.dram, program.insn_addr, count, program.config, isa=isa)
    for fault in found:
        say(str(fault))
    if not found:
        values = ", no value lost" if isinstance(program, Program) else ""
        rules = f", as {isa} has it" if isa.published else ""
        say(f"{counted(count, 'instruction')}: no fault, no deadlock, no race{values}{rules}")
    return 1 if found else 0
