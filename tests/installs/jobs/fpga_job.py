"""Run what the extra `fpga` promises, on a counter; `python fpga_job.py` in an empty folder.

The accelerator takes these tools 3 minutes to half an hour (docs/synthesis.md).
"""

import json
from pathlib import Path

from amaranth.back import verilog
from steps import command, step

from vtakit.base.process import run_tool
from vtakit.boards.link.usb import UsbSerial
from vtakit.boards.synth import find_device
from vtakit.boards.synth.flow import TARGET_MHZ
from vtakit.boards.synth.tools import find_tool, run_yosys

LIMIT_SECONDS = 300
COUNTER = "module pins(input clk, output reg [15:0] count); always @(posedge clk) count <= count + 1; endmodule\n"

with step("the command"):
    assert "--yosys-only" in command("vtakit", "synth", "--help")

with step("the USB device of a link"):
    assert "module" in verilog.convert(UsbSerial(), name="usb")

for name in ("ecp5-85k", "ice40"):
    with step(f"synthesis, place and route for {name}"):
        device = find_device(name)
        assert device.place is not None
        Path("count.v").write_text(COUNTER)
        script = f"read_verilog count.v\n{device.synthesis}\nwrite_json netlist.json\n"
        run_yosys(script, Path(), limit_seconds=LIMIT_SECONDS)
        nextpnr = [find_tool(device.place[0], device.package), *device.place[1:], "--freq", str(TARGET_MHZ)]
        run_tool([*nextpnr, "--json", "netlist.json", "--report", "report.json", "-q"], limit_seconds=LIMIT_SECONDS)
        (clock,) = json.loads(Path("report.json").read_text())["fmax"].values()
        assert clock["achieved"] > TARGET_MHZ
