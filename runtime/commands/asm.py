"""Assemble a program's text into a program file.

The text holds, in this order: `.isa 1.0`, `.config NAME` (or a JSON object), `.buffer NAME KIND BYTES` with `.data NAME HEX…`,
`.uop dst=… src=… wgt=…`, then instructions such as

  load.inp sram_base=0 dram_base=@image y_size=1 x_size=16 x_stride=16 push_next   ; comment

All but the instructions may be absent. `vtakit isa` lists the fields; `vtakit disasm` writes such text.
"""

import argparse
from pathlib import Path

from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.config import load_config
from vtakit.hw.isa.errors import AsmError
from vtakit.hw.isa.file import dump, read_bytes, write_bytes
from vtakit.runtime.commands._arguments import add_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("text", type=Path, metavar="PROGRAM.vtas", help="assembly text")
    parser.add_argument("-o", "--out", type=Path, metavar="PROGRAM.vta", help="program file (default: the text's name with .vta)")
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
    print(f"{out}: {len(program.insns)} instructions, {len(program.uops)} micro-ops, {len(program.buffers)} buffers")
    return 0
