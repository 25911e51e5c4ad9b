"""Clock frequency and size of the SDRAM controller alone on an ECP5-85F, after place and route, between registers.

    python benchmarks/controller_frequency.py [--mhz 110] [--speed 6] [--seeds 1 2]
"""

import argparse
import json
import tempfile
from pathlib import Path

from vtakit.base.process import run_tool
from vtakit.boards.memory.chips import find_chip
from vtakit.boards.memory.controller import SdramController
from vtakit.boards.synth.devices import find_device
from vtakit.boards.synth.flow import script_of
from vtakit.boards.synth.pins import PINS_NAME, module_of, to_rtlil
from vtakit.boards.synth.report import Names, read_placed, usage_of
from vtakit.boards.synth.tools import find_tool, run_yosys
from vtakit.hw.params import CoreParams

CHIP = "MT48LC16M16A2-7E"
LIMIT_SECONDS = 3600.0
NAME = "controller"


def main() -> None:
    """Parse the arguments, synthesise, place, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mhz", type=float, default=110, help="clock that the chip's times are rounded for (110)")
    parser.add_argument("--speed", default="6", help="speed grade (6)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    chip, device = find_chip(CHIP), find_device("ecp5-85k")
    controller = SdramController(CoreParams(), chip.timing(args.mhz), power_up_clocks=chip.clocks(chip.power_up, args.mhz))
    assert device.place is not None
    nextpnr = find_tool(device.place[0], device.package)
    with tempfile.TemporaryDirectory(prefix="vtakit-synth.") as name:
        work = Path(name)
        (work / "design.il").write_text(to_rtlil(controller, NAME))
        run_yosys(script_of(device, NAME), work, limit_seconds=LIMIT_SECONDS)
        usage = usage_of(device, (work / "stat.json").read_text(), module_of(NAME))
        print(json.dumps({each: use.used for each, use in usage.items()}))
        names = Names((work / "netlist.json").read_text(), PINS_NAME)
        for seed in args.seeds:
            placing = [nextpnr, *device.place[1:], "--speed", args.speed, "--freq", str(args.mhz), "--timing-allow-fail", "-q"]
            placing += ["--seed", str(seed), "--json", "netlist.json", "--top", PINS_NAME, "--report", "report.json"]
            run_tool(placing, work=work, limit_seconds=LIMIT_SECONDS)
            mhz, path = read_placed((work / "report.json").read_text(), names)
            print(f"seed {seed}: {mhz:.1f} MHz, from {path[0].signal} to {path[-1].signal}", flush=True)


if __name__ == "__main__":
    main()
