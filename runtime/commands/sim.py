"""Run a program on a simulated accelerator.

  vtakit sim PROGRAM.vta --input NAME=FILE --output NAME=FILE
  vtakit sim --config CFG --image dram.bin --insn-addr A --insn-count N --out out.bin --json stats.json

The first form takes a program file and its buffers, the second a raw DRAM image. Counters go to the terminal, and to
--json with the CRC-32 of DRAM and of the accumulator (little-endian int32). A program that the instruction set forbids ends with
a sentence that names the instruction, and exit status 2.

--report says where cycles, multiplications and bytes went: `table` on the terminal in place of the counters, or a file that
ends in .txt, .json, .html (a page), .svg or .png (a roofline plot). `vtakit[plot]` brings what pages and plots need. It may be
given more than once.
A compiled program has a row for each of its layers.
"""

import argparse
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.file import read_bytes, write_bytes
from vtakit.hw.isa.program import Program
from vtakit.hw.params import CoreParams
from vtakit.runtime.commands._arguments import RawImage, add_program, check_outputs, number, pairs, read_program

if TYPE_CHECKING:
    from vtakit.sim.api import Result
    from vtakit.sim.trace import Trace

_NUMBERS = {  # options of device rtl
    "bus_bits": "width of the AXI bus (64)", "latency": "cycles of memory latency (40)",
    "outstanding": "bursts in flight (16)", "bandwidth": "percent of a beat a cycle (100)",
    "stall": "percent of cycles in which a channel stalls (0)", "seed": "of the stalls (0)",
    "read_error": "byte of DRAM whose reads fail (none)", "write_error": "byte of DRAM whose writes fail (none)",
    "max_cycles": "a longer run is an error (1,000,000,000)",
}
_OPTIONS = ("order", "path", "wave", *_NUMBERS)  # of the devices
_TABLE = "table"  # what --report takes beside files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_program(parser)
    parser.add_argument("--device", default="fsim", help="fsim: functional simulator (default); rtl: the hardware in Verilator")
    parser.add_argument("--order", type=_order, metavar="ORDER",
                        help="fsim: interleaving of the stages: program (default), eager, lazy, or a number as a seed")
    parser.add_argument("--path", help="fsim: auto (default), compiled, or plain, the slow definition")
    for name, what in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=number, metavar="N", help=f"rtl: {what}")
    parser.add_argument("--wave", type=Path, metavar="FILE", help="rtl: write all signals to a .vcd or .fst file")
    parser.add_argument("--trace", type=Path, metavar="TRACE.json",
                        help="rtl: write a timeline of the stages, for ui.perfetto.dev or chrome://tracing")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE", help="bytes of a program's buffer")
    parser.add_argument("--output", action="append", default=[], metavar="NAME=FILE", help="where to write a buffer afterwards")
    parser.add_argument("--out", type=Path, metavar="OUT.bin", help="where to write all of DRAM afterwards")
    parser.add_argument("--json", type=Path, metavar="STATS.json", help="where to write the counters")
    parser.add_argument("--report", action="append", default=[], metavar="FILE", help="what it cost: table, or a file to write")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit import sim  # NumPy: only once the arguments are right
    from vtakit.runtime.report.report import check_savable
    from vtakit.sim.api import find_device
    from vtakit.sim.faults import DeviceError, ProgramFault

    program = read_program(args)
    options = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None} | {"device": args.device}
    several = isinstance(program, Program) and len(program.parts) > 1 and "trace" in find_device(args.device).OPTIONS
    if args.trace or (args.report and several):
        options["trace"] = True
    outputs = pairs(args.output, "--output")
    if isinstance(program, Program):
        for name in outputs:
            program.buffer(name)
    check_outputs(
        *((f"--output {name}", f"output {name}", path) for name, path in outputs.items()), ("--out", "DRAM image", args.out),
        ("--json", "statistics", args.json), ("--trace", "timeline", args.trace), ("--wave", "the waveform", args.wave),
        *((f"--report {path}", "the report", path) for path in args.report if path != _TABLE),
        reads=[("the program", args.program), *((f"input {name}", path) for name, path in pairs(args.input, "--input").items())],
    )
    for path in args.report:
        if path != _TABLE:
            check_savable(path, args.device, cycles=args.device != "fsim")
    if isinstance(program, RawImage) and (args.input or args.output):
        raise VtakitError("--input and --output name a program file's buffers; a raw image has --out")
    config, words = program.config, program.insns
    try:
        if isinstance(program, Program):
            inputs = {name: read_bytes(path, f"input {name}") for name, path in pairs(args.input, "--input").items()}
            result = sim.run(program, inputs, **options)
        else:
            result = sim.run_image(program.dram, program.insn_addr, program.insn_count, config, **options)
    except (DeviceError, ProgramFault) as error:  # then the way there is what is looked for
        if args.trace and error.trace is not None:
            _write_timeline(args.trace, error.trace, words, config)
        raise
    stats = {
        "device": args.device, "config": config.to_dict(), "insn_count": len(words), "counters": result.counters,
        "dram_crc32": zlib.crc32(result.dram), "acc_crc32": zlib.crc32(result.acc.astype("<i4").tobytes()),
    }
    for name, path in outputs.items():
        write_bytes(path, result.buffers[name], f"output {name}")
    if args.out:
        write_bytes(args.out, result.dram, "DRAM image")
    if args.json:
        write_bytes(args.json, (json.dumps(stats, indent=2) + "\n").encode(), "statistics")
    if args.trace and result.trace:
        _write_timeline(args.trace, result.trace, words, config)
    if args.report:
        _report(args, program if isinstance(program, Program) else Program(config=config, insns=words), result)
    if _TABLE not in args.report:
        width = max(map(len, result.counters))
        for name, value in result.counters.items():
            print(f"{name:{width}}  {value:>12,}")
    return 0


def _write_timeline(path: Path, trace: "Trace", words: Sequence[int], config: VTAConfig) -> None:
    write_bytes(path, trace.to_perfetto([disasm(word, config) for word in words]).encode(), "timeline")


def _report(args: argparse.Namespace, program: Program, result: "Result") -> None:
    from rich.console import Console

    from vtakit.runtime.report import Report
    from vtakit.runtime.report.report import TEXT_WIDTH
    from vtakit.runtime.report.sections import layers_of

    timed = "cycles" in result.counters
    bus_bytes = (args.bus_bits or CoreParams().bus_bits) / 8 * (args.bandwidth or 100) / 100 if timed else None
    name = str(args.program or args.image)
    layers = layers_of(name, program, result.counters, result.trace, bus_bytes=bus_bytes)
    report = Report(args.device, tuple(layers), result.trace)
    for path in args.report:
        if path == _TABLE:
            console = Console()
            console.print(report.tables(), width=None if console.is_terminal else TEXT_WIDTH)
        else:
            report.save(path)


def _order(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text[:40]
