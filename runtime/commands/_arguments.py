"""Arguments that several commands take: a configuration, and a program as a file or as a raw DRAM image."""

import argparse
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vtakit.hw.isa.codec import from_bytes
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig, load_config
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.file import MAGIC, parse, read_bytes
from vtakit.hw.isa.program import Program


def number(text: str) -> int:
    """A number in decimal, or in hexadecimal after 0x; not negative."""
    try:
        value = int(text, 0) if len(text) < 32 else -1
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 0 up (decimal, or hexadecimal after 0x)")
    return value


def add_config(parser: argparse.ArgumentParser) -> None:
    """--config"""
    parser.add_argument("--config", metavar="CFG", help="hardware configuration: a name or a JSON file (default: 'default')")


def add_program(parser: argparse.ArgumentParser) -> None:
    """A program file, or --image with --insn-addr and --insn-count; and --config."""
    parser.add_argument("program", nargs="?", type=Path, metavar="PROGRAM.vta", help="program file (see `vtakit asm`)")
    parser.add_argument("--image", type=Path, metavar="DRAM.bin", help="raw DRAM image instead of a program file")
    parser.add_argument("--insn-addr", type=number, metavar="A", help="with --image: byte address of the first instruction")
    parser.add_argument("--insn-count", type=number, metavar="N", help="with --image: number of instructions")
    add_config(parser)


@dataclass(frozen=True, slots=True)
class RawImage:
    """A DRAM image with the place of its instructions."""

    config: VTAConfig
    dram: bytes
    insn_addr: int
    insn_count: int

    @property
    def insns(self) -> tuple[int, ...]:
        """The words of its instructions, as many as it holds."""
        code = self.dram[self.insn_addr : self.insn_addr + self.insn_count * INSN_BYTES]
        return tuple(from_bytes(code[: len(code) // INSN_BYTES * INSN_BYTES]))


def read_program(args: argparse.Namespace) -> Program | RawImage:
    """What the arguments of `add_program` name."""
    if (args.program is None) == (args.image is None):
        raise VtakitError("give either a program file or --image with --insn-addr and --insn-count")
    if args.image is not None:
        if args.insn_addr is None or args.insn_count is None:
            raise VtakitError("--image needs --insn-addr and --insn-count, to say where its instructions are")
        config = load_config("default" if args.config is None else args.config)
        return RawImage(config, read_bytes(args.image, "DRAM image"), args.insn_addr, args.insn_count)
    if args.insn_addr is not None or args.insn_count is not None:
        raise VtakitError("--insn-addr and --insn-count go with --image; a program file says where its instructions are")
    data = read_bytes(args.program, "program file")
    if not data.startswith(MAGIC[:4]):
        raise VtakitError(
            f"{str(args.program)!r} is not a vtakit program file; for a raw DRAM image use --image, --insn-addr and --insn-count"
        )
    program = parse(data, f"program file {str(args.program)!r}")
    if args.config is not None:
        program.require(load_config(args.config))
    return program


def pairs(words: list[str], option: str) -> dict[str, str]:
    """What an option that is given as NAME=FILE, once or often, names."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not name or not path:
            raise VtakitError(f"{option} takes NAME=FILE, got {word!r}")
        if name in found:
            raise VtakitError(f"{option} names {name!r} twice")
        found[name] = path
    return found


def check_outputs(
    *outputs: tuple[str, str, str | Path | None], reads: Sequence[tuple[str, str | Path | None]] = (),
) -> None:
    """Refuse files that cannot be written, not both, or only over what is read, before time is spent on what is to be in them.

    outputs   (the option that names a file, what is to be written there, the file or None)
    reads     (what a file is, the file or None), of those that the command reads
    """
    options: dict[str, str] = {}
    for option, what, path in outputs:
        if path is None:
            continue
        target = Path(path)
        folder, place = target.parent, os.path.realpath(target)
        if target.is_dir():
            problem = errno.EISDIR
        elif not folder.is_dir():
            problem = errno.ENOTDIR if folder.exists() else errno.ENOENT
        elif target.exists() and not target.is_file():  # a device or pipe, which may have several writers
            continue
        else:
            problem = 0 if os.access(folder, os.W_OK | os.X_OK) else errno.EACCES
        if problem:
            raise VtakitError(f"cannot write {what} {str(path)!r}: {os.strerror(problem)}")
        if place in options:
            raise VtakitError(f"{options[place]} and {option} both name the file {str(path)!r}; each needs one of its own")
        options[place] = option
        for source, read in reads:
            if read is not None and target.exists() and Path(read).exists() and target.samefile(read):
                raise VtakitError(f"{option} {str(path)!r} would replace {source} {str(read)!r}; name another file")
