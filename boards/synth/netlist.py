"""The core as synthesis leaves it, as Verilog that simulators take: what is simulated is what nextpnr gets to place."""

import json
import tempfile
from pathlib import Path

from vtakit.boards.synth.devices import DEVICES
from vtakit.boards.synth.flow import LIMIT_SECONDS
from vtakit.boards.synth.pins import rtlil_of
from vtakit.boards.synth.products import pack_products
from vtakit.boards.synth.tools import run_yosys
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top

CELLS = Path(__file__).with_name("ecp5_cells.v")
DEVICE = DEVICES["ecp5-85k"]
# As in `vtakit.boards.synth.flow`, without pins.
_SYNTHESIS = f"""\
read_rtlil design.il
setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i
{DEVICE.synthesis.replace("-top pins", f"-top {TOP_NAME}")}
opt_clean
write_json netlist.json
"""
# Each cell becomes what its model says: those of yosys, and ours where yosys has none.
_EXPANSION = f"""\
read_json packed.json
delete t:$scopeinfo
read_verilog {{cells}}
read_verilog -nooverwrite +/ecp5/cells_sim.v
hierarchy -check -top {TOP_NAME}
proc
flatten
opt_expr
opt_clean
rename -hide
rename -enumerate
write_verilog -noattr -noparallelcase netlist.v
"""


def netlist(params: CoreParams, *, limit_seconds: float = LIMIT_SECONDS) -> str:
    """Return the core synthesised for an ECP5, products held in DSP blocks, as Verilog with the ports of `vtakit.hw.verilog`'s.

    Raises `VtakitError` without yosys, and `ToolError` if it fails or takes longer than `limit_seconds`.
    """
    with tempfile.TemporaryDirectory(prefix="vtakit-netlist.") as name:
        work = Path(name)
        (work / "design.il").write_text(rtlil_of(Top(params), TOP_NAME))
        run_yosys(_SYNTHESIS, work, limit_seconds=limit_seconds)
        packed, _ = pack_products((work / "netlist.json").read_text(), TOP_NAME)
        return expanded(packed, work, limit_seconds=limit_seconds)


def expanded(packed: str, work: Path, *, limit_seconds: float = LIMIT_SECONDS) -> str:
    """Return a netlist, as yosys's JSON, as Verilog; files are left in `work`."""
    core = json.loads(packed)["modules"][TOP_NAME]
    (work / "packed.json").write_text(json.dumps({"modules": {TOP_NAME: core}}))  # without the shells of yosys's cells
    run_yosys(_EXPANSION.format(cells=CELLS), work, limit_seconds=limit_seconds)
    return (work / "netlist.v").read_text()
