"""Run what the extra `board` promises, without a board; `python board_job.py` in an empty folder."""

from steps import command, step

with step("the boards, and a port that is not there"):
    assert "ulx3s-85f" in command("vtakit", "boards")
    command("python", "-m", "vtakit.models", "dqn", "-o", "dqn.onnx")
    command("python", "-c", "import numpy, vtakit; numpy.savez('in.npz', **vtakit.models.inputs('dqn'))")
    command("python", "-c", "import numpy, vtakit; numpy.savez('samples.npz', **vtakit.models.inputs('dqn', 4))")
    command("vtakit", "quantize", "dqn.onnx", "--calibration", "samples.npz", "-o", "int8.onnx")
    words = ("--target", "vta", "--config", "tiny", "--input", "in.npz", "--device", "board:/dev/ttyNone")
    command("vtakit", "run", "int8.onnx", *words, status=2)
