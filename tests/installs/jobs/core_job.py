"""Run what a plain install promises; `python core_job.py` in an empty folder, with an empty cache."""

import os
import pkgutil
from pathlib import Path

import numpy as np
import onnx
from steps import command, refused, step

import vtakit
from vtakit.cache.bounds import entries
from vtakit.cache.place import cache_folder
from vtakit.runtime import commands, kept_models

X = np.random.default_rng(0).random((4, 4, 84, 84), np.float32)

with step("every command has help"):
    for module in pkgutil.iter_modules(commands.__path__):
        if not module.name.startswith("_"):
            assert f"usage: vtakit {module.name}" in command("vtakit", module.name, "--help")

with step("compile, run, profile, save and load a model"):
    model = vtakit.models.build("dqn")
    onnx.save(model, "dqn.onnx")
    kept_models.WORTH_SECONDS = 0.0  # or a quick machine does not keep it
    compiled = vtakit.compile(model)
    (name,) = compiled.inputs
    wanted = compiled.run({name: X[:1]})
    assert compiled.profile({name: X[:1]})
    compiled.save("saved.vtak")
    again = vtakit.load("saved.vtak").run({name: X[:1]})
    assert all((again[key] == wanted[key]).all() for key in wanted)

with step("keep a compiled model"):
    assert len(entries(cache_folder("models"))) == 1
    assert cache_folder("models").stat().st_mode & 0o777 == 0o700
    command("vtakit", "compile", "dqn.onnx", "-o", "dqn.vtak")

with step("run a model from the command line"):
    np.savez("in.npz", **{name: X[:1]})
    assert "conv1" in command("vtakit", "run", "dqn.vtak", "--input", "in.npz", "--output", "out.npz", "--profile")
    with np.load("out.npz") as out:
        assert set(out) == set(wanted)

with step("quantize a model"):
    np.savez("data.npz", **{name: X})
    command("vtakit", "quantize", "dqn.onnx", "--calibration", "data.npz", "-o", "int8.onnx")
    int8 = vtakit.compile("int8.onnx").run({name: X[:1]})
    assert all(np.abs(int8[key] - wanted[key]).max() < 0.2 * np.abs(wanted[key]).max() for key in wanted)

with step("compile a model for the accelerator, and run it on the functional simulator"):
    there = vtakit.compile("int8.onnx", "vta").run({name: X[:1]})
    assert all((there[key] == int8[key]).all() for key in int8)

with step("a tensor expression as machine code"):
    te = vtakit.te
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    add = vtakit.build(te.create_schedule(b.op), [a, b])
    x, y = np.arange(16, dtype="f4"), np.empty(16, "f4")
    add(x, y)
    assert (y == x + 1).all()

with step("assemble, check, disassemble and simulate a program"):
    Path("add.vtas").write_text(
        ".config default\n.buffer x input 64\n.buffer y output 16\n.uop dst=0 src=0 wgt=0\n"
        "load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1\nload.acc dram_base=@x y_size=1 x_size=1 x_stride=1\n"
        "alu.add use_imm imm=3 uop_end=1 iter_out=1 iter_in=1 push_next\n"
        "store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev\nfinish\n"
    )
    np.arange(16, dtype="<i4").tofile("x.bin")
    command("vtakit", "asm", "add.vtas")
    command("vtakit", "check", "add.vta")
    assert "alu.add" in command("vtakit", "disasm", "add.vta")
    command("vtakit", "sim", "add.vta", "--input", "x=x.bin", "--output", "y=y.bin")
    assert np.fromfile("y.bin", np.int8).tolist() == list(range(3, 19))
    assert "gemm" in command("vtakit", "isa").lower()

with step("what an extra would bring is refused with its name"):
    Path("m.pt2").touch()
    refused("sim", "vtakit", "sim", "add.vta", "--input", "x=x.bin", "--device", "rtl")
    refused("sim", "vtakit", "sim", "add.vta", "--input", "x=x.bin", "--path", "compiled")
    refused("sim", "vtakit", "run", "int8.onnx", "--target", "vta", "--device", "rtl", "--input", "in.npz", "--output", "o.npz")
    refused("sim", "vtakit", "fuzz", "--programs", "4")
    refused("plot", "vtakit", "report", "int8.onnx", "-o", "page.html")
    refused("plot", "vtakit", "sim", "add.vta", "--input", "x=x.bin", "--report", "page.html")
    refused("fpga", "vtakit", "synth", "--config", "tiny")
    refused("fpga", "vtakit", "bitstream", "--board", "ulx3s-85f", "-o", "board.bit")
    refused("board", "vtakit", "run", "int8.onnx", "--target", "vta", "--device", "board:/dev/ttyUSB0", "--input", "in.npz")
    refused("torch", "vtakit", "compile", "m.pt2", "-o", "o.vtak")
    refused("sign", "vtakit", "sign", "--new-key", "me")
    refused("tune", "vtakit", "tune", "int8.onnx", "--records", "r.jsonl")
    left = {path.name for path in Path().iterdir()}
    assert not left & {"page.html", "o.npz", "o.vtak", "r.jsonl"}, left

with step("without a cache"):
    os.environ["VTAKIT_CACHE"] = "off"
    assert vtakit.compile(model, batch=1).run({name: X[:1]})
