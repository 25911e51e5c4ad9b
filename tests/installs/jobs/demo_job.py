"""Run what the extra `demo` promises: the digits, with few rounds of training; `python demo_job.py` in an empty folder."""

import sys
from pathlib import Path

from steps import command, step

DIGITS = Path(sys.argv[1]) / "examples" / "digits"

with step("learn, quantize, compile and read digits, on the functional simulator and the hardware"):
    said = command("python", str(DIGITS), "--epochs", "2", "--config", "tiny", "--batch", "4", "--sample", "8")
    assert "rtl: the same bytes as NumPy for all 8 images" in said
    assert Path("build/digits/digits.html").exists()

with step("pictures of where the cycles of a program went"):
    load = "load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1"
    Path("one.vtas").write_text(f".config tiny\n.uop dst=0 src=0 wgt=0\n{load}\nfinish\n")
    command("vtakit", "asm", "one.vtas")
    command("vtakit", "sim", "one.vta", "--device", "rtl", "--report", "one.svg", "--report", "one.png")
    assert Path("one.png").read_bytes().startswith(b"\x89PNG")
