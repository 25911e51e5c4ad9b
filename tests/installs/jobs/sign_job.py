"""Run what the extra `sign` promises; `python sign_job.py` in an empty folder."""

import stat
from pathlib import Path

from steps import command, step

with step("keys"):
    command("vtakit", "sign", "--new-key", "me")
    command("vtakit", "sign", "--new-key", "other")
    assert stat.S_IMODE(Path("me.pem").stat().st_mode) == 0o600

with step("a signed module is loaded, and by no other key"):
    command("python", "-m", "vtakit.models", "dqn", "-o", "dqn.onnx")
    command("vtakit", "compile", "dqn.onnx", "-o", "dqn.vtak")
    command("python", "-c", "import numpy, vtakit; numpy.savez('in.npz', **vtakit.models.inputs('dqn'))")
    command("vtakit", "run", "dqn.vtak", "--trusted", "me.pub.pem", "--input", "in.npz", status=2)
    command("vtakit", "sign", "dqn.vtak", "--key", "me.pem")
    command("vtakit", "run", "dqn.vtak", "--trusted", "me.pub.pem", "--input", "in.npz")
    command("vtakit", "run", "dqn.vtak", "--trusted", "other.pub.pem", "--input", "in.npz", status=2)
