"""Arguments that several commands share: a configuration, a program as a file or a raw DRAM image, a memory system."""

import argparse
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.limits import MAX_DRAM_BYTES, check_limit
from vtakit.base.reading import read_bytes
from vtakit.hw.isa.codec import from_bytes
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig, load_config
from vtakit.hw.isa.file import MAGIC, parse
from vtakit.hw.isa.program import Program
from vtakit.hw.isa.published import Ability
from vtakit.hw.system import REFERENCE, SYSTEMS, load_system, peak_bytes_a_cycle


def number(text: str) -> int:
    """Return a number that is written in decimal, or in hexadecimal after 0x; it is not negative."""
    try:
        value = int(text, 0) if len(text) < 32 else -1
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 0 up (decimal, or hexadecimal after 0x)")
    return value


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declare --config."""
    parser.add_argument("--config", metavar="CFG", help="hardware configuration: a name or a JSON file (default: 'default')")


# Of `vtakit.hw.params.CoreParams`: what can be left out.
PARTS = ("requantizes", "pad_values", "lookups", "windows", "pools", "counters")


def add_core(parser: argparse.ArgumentParser) -> None:
    """Declare what makes a core smaller: --dsp-budget, --gemm-passes, --mul-passes, --acc-copies, --without and --published."""
    group = parser.add_argument_group("a smaller core")
    group.add_argument("--dsp-budget", type=number, metavar="N",
                       help="DSP blocks to take at most: the matrix core's other products are logic (default: none are)")
    group.add_argument("--gemm-passes", type=number, metavar="N",
                       help="cycles of a GEMM step: so many parts of a tile's outputs share the matrix core (1)")
    group.add_argument("--mul-passes", type=number, metavar="N",
                       help="cycles of a MUL step: so many parts of the ALU's lanes share multipliers (1)")
    group.add_argument("--acc-copies", type=number, metavar="N",
                       help="1: half of the memory for ACC, and arithmetic and STOREs wait where they read one bank (2)")
    group.add_argument("--without", nargs="+", default=[], metavar="PART", help=f"leave out: {', '.join(PARTS)}")
    group.add_argument("--published", action="store_true",
                       help="the published instruction set alone: no extension is built, and bits of no field are ignored")


def core_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of CoreParams that options of `add_core` give. Raises VtakitError for what cannot be left out."""
    for part in args.without:
        if part not in PARTS:
            raise VtakitError(f"--without: {part[:40]!r} is no part that can be left out; {one_of(PARTS, part)}")
    sizes = {name: getattr(args, name) for name in ("dsp_budget", "gemm_passes", "mul_passes", "acc_copies")}
    given = {name: value for name, value in sizes.items() if value is not None} | dict.fromkeys(args.without, False)
    return given | ({"published": True} if args.published else {})


def simulated_core(args: argparse.Namespace, device: str | None) -> dict[str, Any]:
    """Return the option `core` that `add_core` says, if any. Raises VtakitError if the device simulates no core."""
    core = core_of(args)
    if device == "fsim" and core == {"published": True}:
        return core
    if core and device not in SIMULATED_MEMORY:
        option = "--without" if args.without else _option(next(iter(core)))
        raise VtakitError(f"{option} describes the accelerator's core, which devices {' and '.join(SIMULATED_MEMORY)} simulate: "
                          f"add --device {SIMULATED_MEMORY[0]}")
    return {"core": core} if core else {}


def add_program(parser: argparse.ArgumentParser) -> None:
    """Declare a program file, or --image with --insn-addr and --insn-count; and --config."""
    parser.add_argument("program", nargs="?", type=Path, metavar="PROGRAM.vta", help="program file; `vtakit asm` writes one")
    parser.add_argument("--image", type=Path, metavar="DRAM.bin", help="raw DRAM image, in place of a program file")
    parser.add_argument("--insn-addr", type=number, metavar="ADDRESS", help="with --image: byte address of the first instruction")
    parser.add_argument("--insn-count", type=number, metavar="N", help="with --image: number of instructions")
    add_config(parser)


ISA_HELP = ("vtakit (default), or original, the published one, with abilities that the device is known to have, as in "
            f"original+mul: {', '.join(str(ability.name).lower() for ability in Ability)}")
SIMULATED_MEMORY = ("cycle", "rtl")  # devices that have a memory system
# Their options that describe it, by their names in `vtakit.sim.rtl.surroundings` and `open_device`.
_MEMORY_SYSTEM = {
    "latency": ("CYCLES", "cycles from a read's address to its first data, and from a write's last data to its answer (40)"),
    "bandwidth": ("PERCENT", "share of the cycles in which the bus moves a beat, in each direction (100)"),
    "bus_bits": ("BITS", "width of the AXI bus: 64, 128, 256 or 512 (64)"),
    "outstanding": ("N", "bursts in flight in each direction (16)"),
}


def add_system(parser: argparse.ArgumentParser) -> None:
    """Declare --system."""
    parser.add_argument("--system", metavar="SYSTEM",
                        help=f"memory of the accelerator: {', '.join(SYSTEMS)} ({next(iter(SYSTEMS))} is the default), or a JSON "
                        "file of fields, of which \"kind\" is flat, sdram or ddr")


def add_memory_system(parser: argparse.ArgumentParser) -> None:
    """Declare the memory system of devices cycle and rtl in detail, on top of --system."""
    group = parser.add_argument_group("memory system of devices cycle and rtl; the defaults are those of --system")
    for name, (metavar, what) in _MEMORY_SYSTEM.items():
        group.add_argument(_option(name), type=number, metavar=metavar, help=what)


def memory_system(args: argparse.Namespace, device: str | None) -> dict[str, Any]:
    """Return the options of `add_memory_system` that were given. Raises VtakitError if the device has no such memory system."""
    given = {name: getattr(args, name) for name in _MEMORY_SYSTEM if getattr(args, name) is not None}
    _check_simulated([_option(name) for name in given], device)
    return given


def simulated_system(args: argparse.Namespace, device: str | None) -> dict[str, Any]:
    """Return the options that --system and `add_memory_system` say. Raises VtakitError if the device has no memory system."""
    if args.system is None:
        return memory_system(args, device)
    _check_simulated(["--system"], device)
    return load_system(args.system).options | memory_system(args, device)


def _check_simulated(given: Sequence[str], device: str | None) -> None:
    if given and device not in SIMULATED_MEMORY:
        having = " and ".join(SIMULATED_MEMORY)
        raise VtakitError(f"{given[0]} describes the accelerator's memory, which devices {having} simulate: "
                          f"add --device {SIMULATED_MEMORY[0]}")


def add_board(parser: argparse.ArgumentParser) -> None:
    """Declare the options of boards, real and simulated."""
    parser.add_argument("--memory", metavar="WAY", help="of devices sim:BOARD: link (default), by which all bytes go over the "
                        "link, or chip: the simulated chip's content is read and written directly, which takes no "
                        "time; of devices uio and original: the file of the buffer, such as /dev/udmabuf0")
    parser.add_argument("--link", metavar="LINK", help="of devices sim:BOARD: uart (default), the board's serial line, or usb")
    parser.add_argument("--baud", type=number, metavar="RATE", help="of device board: bits a second, as the bitstream was built "
                        "for (3000000)")


def board_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `add_board` says, if any."""
    return {name: value for name in ("memory", "link", "baud") if (value := getattr(args, name, None)) is not None}


def bus_bytes_of(options: Mapping[str, Any]) -> float:
    """Return the bytes that a simulated memory system moves a cycle at most, in each direction."""
    bus = options.get("bus_bits", REFERENCE.bus_bits) / 8
    return peak_bytes_a_cycle(bus, options.get("bandwidth", 100) / 100, options.get("chip"))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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


def read_program(args: argparse.Namespace, *, placed: bool = True) -> Program | RawImage:
    """Read the program that the arguments of `add_program` name.

    placed : whether the command places it in memory, which has a limit

    Raises VtakitError for arguments that do not go together, ProgramError for a file that is no program, LimitError for one that
    declares more memory than the commands give a file.
    """
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
    empty = sum(buffer.size_bytes for buffer in program.buffers if buffer.data is None and placed)
    check_limit(empty, MAX_DRAM_BYTES, f"the DRAM of {str(args.program)!r} beside its data", " bytes")
    return program


def pairs(words: list[str], option: str) -> dict[str, str]:
    """Return the files by name that an option gives as NAME=FILE, once or several times."""
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
    """Refuse output files that cannot be written, that are named twice, or that would replace an input; before any work is done.

    outputs   (the option that names a file, its contents in words, the file or None)
    reads     (its contents in words, the file or None) of the files that the command reads

    Raises VtakitError.
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
