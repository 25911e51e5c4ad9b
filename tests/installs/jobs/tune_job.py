"""Run what the extra `tune` promises; `python tune_job.py` in an empty folder."""

import json
from pathlib import Path

from steps import command, step

SCRIPT = """
from vtakit import te, tune

A = te.placeholder((64, 64), name="A")
k = te.reduce_axis((0, 64), "k")
C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
if __name__ == "__main__":
    task = tune.expression(C, [A, C])
    assert tune.run(task, trials=8).cost < 1
    with tune.WorkersMeasurer() as workers:
        assert tune.run(task, trials=4, measurer=workers).cost < 1
"""

with step("an expression, here and on a worker"):
    Path("session.py").write_text(SCRIPT)
    command("python", "session.py")

with step("a quantized model"):
    command("python", "-m", "vtakit.models", "dqn", "-o", "dqn.onnx")
    command("python", "-c", "import numpy, vtakit; numpy.savez('samples.npz', **vtakit.models.inputs('dqn', 4))")
    command("vtakit", "quantize", "dqn.onnx", "--calibration", "samples.npz", "-o", "int8.onnx")

with step("it is tuned, goes on from its records, and is compiled with them"):
    words = ("vtakit", "tune", "int8.onnx", "--records", "r.jsonl", "--json", "r.json", "--trials")
    command(*words, "20")
    command(*words, "30")
    found = json.loads(Path("r.json").read_text())
    assert (found["trials"], found["reused"]) == (30, 20), found
    assert found["network"]["tuned"] <= found["network"]["default"], found
    told = command("vtakit", "compile", "int8.onnx", "--target", "vta", "--tuned", "r.jsonl", "-o", "o.vtak")
    assert "tuned: r.jsonl has records of" in told, told
    command("vtakit", "records", "r.jsonl")
