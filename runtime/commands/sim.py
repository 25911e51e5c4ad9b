"""Run a program on a simulated accelerator.

  vtakit sim PROGRAM.vta --input NAME=FILE --output NAME=FILE
  vtakit sim PROGRAM.vta --device rtl --report table --report REPORT.html
  vtakit sim --config CFG --image DRAM.bin --insn-addr ADDRESS --insn-count N --out OUT.bin --json STATS.json

The program is a file with named buffers, or a raw DRAM image. The command prints the device's counters; --json writes them with
the CRC-32 of DRAM and of the accumulator (little-endian int32). Devices cycle and rtl count cycles; fsim counts none. A
program that breaks a rule of the instruction set ends with the instruction at fault and exit status 2.

--report gives cycles, multiply-accumulates and bytes, with a row for each layer of a compiled program: `table` prints it, and
a file takes it as text (.txt), .json, page (.html) or roofline plot (.svg, .png). Pages and plots need:
pip install 'vtakit[plot]'
"""

import argparse
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError
from vtakit.base.reading import read_bytes
from vtakit.base.writing import write_bytes
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.program import Program
from vtakit.runtime.commands._arguments import (
    RawImage,
    add_core,
    add_memory_system,
    add_program,
    add_system,
    bus_bytes_of,
    check_outputs,
    number,
    pairs,
    read_program,
    simulated_core,
    simulated_system,
)
from vtakit.runtime.terminal import console, say

if TYPE_CHECKING:
    from vtakit.sim.api import Result
    from vtakit.sim.trace import Trace

_NUMBERS = {  # options of devices cycle and rtl beside their memory system
    "stall": ("PERCENT", "cycle, rtl: share of the cycles in which each channel stalls, at random (0)"),
    "seed": ("N", "cycle, rtl: seed of the stalls (0)"),
    "read_error": ("ADDRESS", "rtl: byte of DRAM whose reads fail (none)"),
    "write_error": ("ADDRESS", "rtl: byte of DRAM whose writes fail (none)"),
    "max_cycles": ("CYCLES", "cycle, rtl: a longer run is an error (1,000,000,000)"),
}
_OPTIONS = ("order", "path", "wave", *_NUMBERS)  # of the devices
_DEVICES_OF = {"order": "fsim", "path": "fsim and cycle", "wave": "rtl", "read_error": "rtl", "write_error": "rtl"}
_TABLE = "table"  # a report on the terminal, in place of a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_program(parser)
    parser.add_argument("--device", default="fsim",
                        help="fsim, the functional simulator (default); rtl, the hardware in Verilator; or cycle, which has the "
                        "cycles of rtl and the results of fsim")
    parser.add_argument("--order", type=_order, metavar="ORDER",
                        help="fsim: interleaving of the stages: program (default), eager, lazy, or the seed of a random one")
    parser.add_argument("--path", help="fsim and cycle: auto (default), compiled, or plain, which is the definition and slow")
    add_system(parser)
    add_memory_system(parser)
    add_core(parser)
    for name, (metavar, what) in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=number, metavar=metavar, help=what)
    parser.add_argument("--wave", type=Path, metavar="FILE", help="rtl: .vcd or .fst file for a waveform of all signals")
    parser.add_argument("--trace", type=Path, metavar="TRACE.json",
                        help="cycle, rtl: file for a timeline of the stages, for ui.perfetto.dev or chrome://tracing")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE",
                        help="contents of one of the program's buffers")
    parser.add_argument("--output", action="append", default=[], metavar="NAME=FILE",
                        help="file for the contents of a buffer after the run")
    parser.add_argument("--out", type=Path, metavar="OUT.bin", help="file for all of DRAM after the run")
    parser.add_argument("--json", type=Path, metavar="STATS.json", help="file for the counters")
    parser.add_argument("--report", action="append", default=[], metavar="FILE",
                        help="costs: `table` prints them, a file gets them; may be repeated")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit import sim  # NumPy: only once the arguments are right
    from vtakit.runtime.report.report import check_savable
    from vtakit.sim.api import find_device
    from vtakit.sim.faults import DeviceError, ProgramFault

    program = read_program(args)
    known = find_device(args.device).OPTIONS
    options = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None} | {"device": args.device}
    for name in options.keys() - {"device", *known}:
        of = _DEVICES_OF.get(name, "cycle and rtl")
        raise VtakitError(f"--{name.replace('_', '-')} is an option of device {of}, and the device is {args.device}")
    system = simulated_system(args, args.device)
    options |= system | simulated_core(args, args.device)
    several = isinstance(program, Program) and len(program.parts) > 1 and "trace" in known
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
        _report(args, program if isinstance(program, Program) else Program(config=config, insns=words), result, system)
    if _TABLE not in args.report:
        width = max(map(len, result.counters))
        for name, value in result.counters.items():
            say(f"{name:{width}}  {value:>12,}")
    return 0


def _write_timeline(path: Path, trace: "Trace", words: Sequence[int], config: VTAConfig) -> None:
    write_bytes(path, trace.to_perfetto([disasm(word, config) for word in words]).encode(), "timeline")


def _report(args: argparse.Namespace, program: Program, result: "Result", system: Mapping[str, Any]) -> None:
    from vtakit.runtime.report import Report
    from vtakit.runtime.report.sections import layers_of

    timed = "cycles" in result.counters
    bus_bytes = bus_bytes_of(system) if timed else None
    name = str(args.program or args.image)
    layers = layers_of(name, program, result.counters, result.trace, bus_bytes=bus_bytes)
    report = Report(args.device, tuple(layers), result.trace)
    for path in args.report:
        if path == _TABLE:
            console().print(report.tables())
        else:
            report.save(path)


def _order(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text[:40]
