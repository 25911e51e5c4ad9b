"""Clock frequency and size of the SDRAM controller alone on an ECP5-85F, after place and route, between registers.

    python benchmarks/controller_frequency.py [--mhz 110] [--speed 6] [--seeds 1 2]
"""

import argparse
import json
import tempfile
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.base.process import run_tool
from vtakit.boards.memory.chips import find_chip
from vtakit.boards.memory.controller import SdramController
from vtakit.boards.synth.devices import find_device
from vtakit.boards.synth.report import Names, read_placed, usage_of
from vtakit.boards.synth.tools import find_tool, run_yosys
from vtakit.hw.params import CoreParams

CHIP = "MT48LC16M16A2-7E"
LIMIT_SECONDS = 3600.0
SCRIPT = """\
read_rtlil design.il
hierarchy -check -top pins
setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i
setattr -mod -set keep_hierarchy 1 pins.controller
{synthesis}
tee -q -o stat.json stat -json
setattr -mod -unset keep_hierarchy pins.controller
flatten
autoname
opt_clean
write_json netlist.json
"""


class Pins(wiring.Component):
    """The controller behind a shift register before each input and behind each output.

    Members
    -------
    serial_in : ``In(1)``
    serial_out : ``Out(1)``    depends on all outputs
    """

    def __init__(self, mhz: float) -> None:
        chip = find_chip(CHIP)
        self._controller = SdramController(CoreParams(), chip.timing(mhz), power_up_clocks=chip.clocks(chip.power_up, mhz))
        super().__init__({"serial_in": In(1), "serial_out": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.controller = controller = self._controller
        ports = [(member.flow, Value.cast(value)) for _, member, value in controller.signature.flatten(controller)]
        inputs = Cat(value for flow, value in ports if flow is In)
        outputs = Cat(value for flow, value in ports if flow is Out)
        shifted, taken = Signal(len(inputs)), Signal(len(outputs))
        m.d.sync += [shifted.eq(Cat(self.serial_in, shifted)), taken.eq(outputs ^ (taken << 1))]
        m.d.comb += [inputs.eq(shifted), self.serial_out.eq(taken[-1])]
        return m


def main() -> None:
    """Parse the arguments, synthesise, place, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mhz", type=float, default=110, help="clock that the chip's times are rounded for (110)")
    parser.add_argument("--speed", default="6", help="speed grade (6)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    device = find_device("ecp5-85k")
    assert device.place is not None
    nextpnr = find_tool(device.place[0], device.package)
    with tempfile.TemporaryDirectory(prefix="vtakit-synth.") as name:
        work = Path(name)
        (work / "design.il").write_text(str(rtlil.convert(Pins(args.mhz), name="pins", emit_src=True)))
        run_yosys(SCRIPT.format(synthesis=device.synthesis), work, limit_seconds=LIMIT_SECONDS)
        usage = usage_of(device, (work / "stat.json").read_text(), "pins.controller")
        print(json.dumps({each: use.used for each, use in usage.items()}))
        names = Names((work / "netlist.json").read_text(), "pins")
        for seed in args.seeds:
            placing = [nextpnr, *device.place[1:], "--speed", args.speed, "--freq", str(args.mhz), "--timing-allow-fail", "-q"]
            placing += ["--seed", str(seed), "--json", "netlist.json", "--top", "pins", "--report", "report.json"]
            run_tool(placing, work=work, limit_seconds=LIMIT_SECONDS)
            mhz, path = read_placed((work / "report.json").read_text(), names)
            print(f"seed {seed}: {mhz:.1f} MHz, from {path[0].signal} to {path[-1].signal}", flush=True)


if __name__ == "__main__":
    main()
