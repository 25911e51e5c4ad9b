"""Assemble text into a program file.

  vtakit asm PROGRAM.vtas
  vtakit asm PROGRAM.vtas -o OTHER.vta

The text has directives, then instructions; every directive may be left out:

  .isa 1.0                            version of the instruction set
  .config NAME                        hardware configuration, or a JSON object
  .buffer NAME KIND BYTES             DRAM buffer; KIND is input, output, const or scratch
  .data NAME HEX…                     contents of a buffer
  .uop dst=… src=… wgt=…              micro-op
  load.inp sram_base=0 dram_base=@image y_size=1 x_size=16 x_stride=16 push_next   ; comment

`vtakit isa` lists the instructions and their fields; `vtakit disasm` writes such text from a program file.
"""

import argparse
from pathlib import Path

from vtakit.base.reading import read_bytes
from vtakit.base.text import counted
from vtakit.base.writing import write_bytes
from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.config import load_config
from vtakit.hw.isa.errors import AsmError
from vtakit.hw.isa.file import dump
from vtakit.runtime.commands._arguments import add_config
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("text", type=Path, metavar="PROGRAM.vtas", help="assembly text")
    parser.add_argument("-o", "--out", type=Path, metavar="PROGRAM.vta",
                        help="program file to write (default: the text's name with the ending .vta)")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    try:
        text = read_bytes(args.text, "assembly text").decode()
    except UnicodeDecodeError as error:
        raise AsmError(f"{str(args.text)!r} is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}") from None
    out = args.out or args.text.with_suffix(".vta")
    if out == args.text:
        raise AsmError(f"the program file would replace its text {str(out)!r}; name another with -o")
    try:
        program = asm_program(text, None if args.config is None else load_config(args.config))
    except AsmError as error:
        raise AsmError(f"{args.text}: {error}") from None
    write_bytes(out, dump(program), "program file")
    sizes = (program.insns, "instruction"), (program.uops, "micro-op"), (program.buffers, "buffer")
    say(f"{out}: {', '.join(counted(len(found), noun) for found, noun in sizes)}")
    return 0
