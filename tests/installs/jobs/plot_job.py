"""Run what the extra `plot` promises; `python plot_job.py` in an empty folder."""

from pathlib import Path

from steps import command, step

with step("a model's page"):
    command("python", "-m", "vtakit.models", "dqn", "-o", "dqn.onnx")
    command("vtakit", "report", "dqn.onnx", "-o", "page.html")
    assert "<svg" in Path("page.html").read_text()

with step("a program's page"):
    load = "load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1"
    Path("one.vtas").write_text(f".config tiny\n.uop dst=0 src=0 wgt=0\n{load}\nfinish\n")
    command("vtakit", "asm", "one.vtas")
    command("vtakit", "sim", "one.vta", "--report", "one.html")
    assert "</html>" in Path("one.html").read_text()
