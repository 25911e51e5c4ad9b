"""Write a Vivado project: the accelerator beside the processor of a Zynq board, or as IP for any other part of AMD.

  vtakit vivado pynq-z1 -o DIR
  vtakit vivado ultra96 -o DIR --config blk8 --coherent
  vtakit vivado xc7z010clg400-1 -o DIR --mhz 80
  vtakit vivado xc7a100tcsg324-1 -o DIR

DIR gets Verilog, the Tcl that packages it as IP and makes project, block design and bitstream, constraints, an overlay of the
device tree (UIO and u-dma-buf), and build.sh, which runs all of it. A part without a processor gets the IP alone. `vtakit boards`
lists the boards. No Vivado has run these scripts yet: tests run them against a stand-in for Vivado.

DIR holds one project. The command replaces the files of an earlier one, and refuses if one was changed since.
"""

import argparse
from pathlib import Path

from vtakit.base.errors import needs
from vtakit.base.folder import write
from vtakit.base.text import counted, one_line
from vtakit.hw.isa.config import load_config
from vtakit.runtime.commands._arguments import add_config, add_core, core_of, number
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("target", metavar="BOARD|PART", help="`vtakit boards` lists boards; a part is such as xc7z020clg400-1")
    add_config(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to, new or old")
    parser.add_argument("--mhz", type=float, metavar="MHZ", help="clock of the core (Zynq-7000: 100, UltraScale+: 200)")
    parser.add_argument("--bus-bits", type=number, metavar="N", help="width of the memory port (Zynq-7000: 64, UltraScale+: 128)")
    parser.add_argument("--coherent", action="store_true",
                        help="data through the port that looks into the caches: ACP of a Zynq-7000, HPC0 of an UltraScale+")
    parser.add_argument("--dma-mib", type=number, default=64, metavar="N", help="MiB of memory for u-dma-buf (64)")
    add_core(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.boards.vivado.targets import find_vivado_target

    target = find_vivado_target(args.target)
    core = core_of(args)
    config = load_config("default" if args.config is None else args.config)
    with needs("writing Verilog", "sim"):
        from vtakit.boards.vivado.project import NOT_TRIED, core_params, project_files
        from vtakit.hw.params import CoreParams
        from vtakit.sim.rtl.build import kept_verilog
    params = core_params(target, CoreParams(cfg=config, **core), coherent=args.coherent, bus_bits=args.bus_bits)
    texts = project_files(target, params, kept_verilog(params), mhz=args.mhz, coherent=args.coherent, dma_mib=args.dma_mib)
    found = {name: text.encode() for name, text in texts.items()}
    write(args.output, found, {"vivado": args.target})
    total = sum(map(len, found.values()))
    where = one_line(str(args.output))
    say(f"{counted(len(found), 'file')}, {total:,} bytes, in {where}; sh {where}/build.sh runs Vivado. {NOT_TRIED}")
    return 0
