"""vtakit.boards.synth.products: which registers move into DSP blocks, and that the netlist still does the same."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from vtakit.base.process import ToolError
from vtakit.boards.synth.netlist import CELLS
from vtakit.boards.synth.products import pack_products
from vtakit.boards.synth.tools import run_yosys

pytestmark = pytest.mark.skipif(find_spec("pyosys") is None, reason="needs pyosys: pip install 'vtakit[fpga]'")

HEAD = """module top(input clk, rst, go, input [3:0] a, b, output [7:0] y);
  reg [3:0] s, t; always @(posedge clk) {s, t} <= {a, b};
"""
HELD = {
    "always": "reg [7:0] p; always @(posedge clk) p <= s * t; assign y = p;",
    "enabled": "reg [7:0] p; always @(posedge clk) if (go) p <= s * t; assign y = p;",
    "low bits": "reg [4:0] p; always @(posedge clk) p <= s * t; assign y = {p, p[2:0]};",
    "two, with enables of their own": (
        "reg [7:0] p, q; always @(posedge clk) begin if (go) p <= s * t; if (rst) q <= a * t; end "
        "assign y = {p[3:0], q[3:0]};"
    ),
}
LEFT = {
    "a bit is used at once too": "wire [7:0] w = s * t; reg [7:0] p; always @(posedge clk) p <= w; assign y = p ^ w[3];",
    "a bit leaves the module": "wire [7:0] w = s * t; reg [6:0] p; always @(posedge clk) p <= w[7:1]; assign y = {p, w[0]};",
    "a reset": "reg [7:0] p; always @(posedge clk) if (rst) p <= 0; else p <= s * t; assign y = p;",
    "other enables": "reg [7:0] p; wire [7:0] w = s * t; always @(posedge clk) begin p[3:0] <= w; if (go) p[7:4] <= w[7:4]; end "
                     "assign y = p;",
    "the other edge": "reg [7:0] p; always @(negedge clk) p <= s * t; assign y = p;",
    "a first value": "reg [7:0] p = 1; always @(posedge clk) p <= s * t; assign y = p;",
    "two registers": "wire [7:0] w = s * t; reg [7:0] p, q; always @(posedge clk) begin p <= w; if (go) q <= w; end "
                     "assign y = {p[3:0], q[3:0]};",
}


def yosys(script: str, folder: Path) -> None:
    run_yosys(script.replace("; ", "\n"), folder, limit_seconds=600)


def packed(body: str, folder: Path) -> tuple[list[dict], int]:
    """The multipliers after packing, and how many registers were saved; the netlist lies in `packed.json`."""
    (folder / "top.v").write_text(f"{HEAD}  {body}\nendmodule\n")
    yosys("read_verilog top.v; synth_ecp5 -top top; write_json mapped.json", folder)
    before = (folder / "mapped.json").read_text()
    after, saved = pack_products(before, "top")
    (folder / "packed.json").write_text(json.dumps({"modules": {"top": json.loads(after)["modules"]["top"]}}))

    def registers(netlist: str) -> int:
        return sum(cell["type"] == "TRELLIS_FF" for cell in json.loads(netlist)["modules"]["top"]["cells"].values())

    assert registers(before) - registers(after) == saved
    cells = json.loads(after)["modules"]["top"]["cells"].values()
    return [cell for cell in cells if cell["type"] == "MULT18X18D"], saved


def same(folder: Path) -> None:
    """Prove that the packed netlist does in every cycle what the source does, from registers that hold 0 on."""
    yosys(
        "read_verilog top.v; prep -top top; design -stash source; read_json packed.json; delete t:$scopeinfo; "
        f"read_verilog {CELLS}; read_verilog -nooverwrite +/ecp5/cells_sim.v; hierarchy -top top; proc; flatten; opt -full; "
        "rename top packed; design -copy-from source -as source top; miter -equiv -flatten -make_outputs source packed both; "
        "hierarchy -top both; sat -verify -prove trigger 0 -seq 1 -set-init-zero -tempinduct -maxsteps 4 both", folder,
    )


@pytest.mark.parametrize("name", HELD)
def test_registers_that_hold_only_a_product_move_into_its_block(name, tmp_path):
    multipliers, saved = packed(HELD[name], tmp_path)
    assert saved == (5 if name == "low bits" else 8)
    for multiplier in multipliers:
        assert multiplier["parameters"]["REG_OUTPUT_CLK"] == "CLK0"
        assert multiplier["connections"]["RST0"] == ["0"]
        assert (multiplier["connections"]["CE0"] == ["1"]) == (name in {"always", "low bits"})
    same(tmp_path)


@pytest.mark.parametrize("name", LEFT)
def test_others_stay(name, tmp_path):
    multipliers, saved = packed(LEFT[name], tmp_path)
    assert saved == 0
    assert all("CLK0" not in multiplier["connections"] for multiplier in multipliers)
    assert multipliers


def test_a_wrong_netlist_would_be_seen(tmp_path):
    packed(HELD["enabled"], tmp_path)
    text = (tmp_path / "packed.json").read_text()
    netlist = json.loads(text)
    cell, = (cell for cell in netlist["modules"]["top"]["cells"].values() if cell["type"] == "MULT18X18D")
    cell["connections"]["CE0"] = ["1"]
    (tmp_path / "packed.json").write_text(json.dumps(netlist))
    with pytest.raises(ToolError, match="proof did fail"):
        same(tmp_path)
