"""Write the accelerator as Verilog for a design of your own: a wrapper with AXI interfaces, register map, requirements.

  vtakit verilog -o DIR
  vtakit verilog blk8 -o DIR --bus-bits 128 --without lookups windows
  vtakit verilog my_config.json -o DIR --axi-cache 0b1111

DIR gets vta.v, the wrapper vta_axi.v, a list of both (vta.f), the register map as CMSIS-SVD and C header, the parameters as JSON,
and README.md, which says what clock, reset and buses must be. The text is Verilog-2001, which SystemVerilog reads alike.

DIR holds one core. The command replaces the files of an earlier one, and refuses if one was changed since.
"""

import argparse
from pathlib import Path

from vtakit.base.errors import needs
from vtakit.base.folder import write
from vtakit.base.text import counted, one_line
from vtakit.hw.isa.config import load_config
from vtakit.hw.system import BUS_BITS
from vtakit.runtime.commands._arguments import add_core, core_of, number
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", nargs="?", default="default", metavar="CONFIG",
                        help="hardware configuration: a name or a JSON file (default: 'default')")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to, new or old")
    parser.add_argument("--bus-bits", type=number, default=BUS_BITS[0], metavar="N",
                        help=f"width of the memory bus: {', '.join(map(str, BUS_BITS))} ({BUS_BITS[0]})")
    parser.add_argument("--address-bits", type=number, default=40, metavar="N", help="width of a memory address: 32 to 64 (40)")
    parser.add_argument("--outstanding", type=number, default=16, metavar="N", help="bursts in flight each way (16)")
    parser.add_argument("--burst-beats", type=number, default=16, metavar="N", help="beats of the longest burst (16)")
    parser.add_argument("--buffer-beats", type=number, default=128, metavar="N", help="beats of read data in a buffer (128)")
    add_core(parser)
    for name, first in (("cache", 3), ("prot", 0), ("qos", 0)):
        parser.add_argument(f"--axi-{name}", type=number, default=first, metavar="N",
                            help=f"Ax{name.upper()} until the host sets another ({first})")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    core = core_of(args)
    config = load_config(args.config)
    with needs("writing Verilog", "sim"):
        from vtakit.hw.integration import files
        from vtakit.hw.params import CoreParams
        from vtakit.sim.rtl.build import kept_verilog
    params = CoreParams(
        cfg=config, bus_bits=args.bus_bits, address_bits=args.address_bits, outstanding=args.outstanding,
        burst_beats=args.burst_beats, buffer_beats=args.buffer_beats, axi_cache=args.axi_cache, axi_prot=args.axi_prot,
        axi_qos=args.axi_qos, **core)
    found = {name: text.encode() for name, text in files(params, kept_verilog(params)).items()}
    write(args.output, found, {"verilog": args.config})
    total = sum(map(len, found.values()))
    say(f"{counted(len(found), 'file')}, {total:,} bytes, in {one_line(str(args.output))}; README.md there says what they need")
    return 0
