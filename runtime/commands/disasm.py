"""Disassemble a program into text, one instruction a line.

  vtakit disasm PROGRAM.vta
  vtakit disasm --config CFG --image DRAM.bin --insn-addr ADDRESS --insn-count N

`vtakit asm` reads the text back.
"""

import argparse

from vtakit.base.text import counted
from vtakit.hw.isa.asm import disasm_program
from vtakit.hw.isa.codec import from_bytes
from vtakit.hw.isa.config import INSN_BYTES
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.program import Program
from vtakit.runtime.commands._arguments import RawImage, add_program, read_program
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_program(parser)
    parser.add_argument("--no-comments", action="store_true", help="omit the comments that explain each instruction")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    program = read_program(args, placed=False)
    if isinstance(program, RawImage):
        program = Program(config=program.config, insns=from_bytes(_code(program)))
    say(disasm_program(program, comments=not args.no_comments), end="")
    return 0


def _code(image: RawImage) -> bytes:
    end = image.insn_addr + image.insn_count * INSN_BYTES
    if end > len(image.dram):
        raise ProgramError(
            f"{counted(image.insn_count, 'instruction')} at byte {image.insn_addr} end at byte {end}, "
            f"and the DRAM image has {len(image.dram)} bytes"
        )
    return image.dram[image.insn_addr : end]
