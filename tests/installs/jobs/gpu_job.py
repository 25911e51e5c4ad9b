"""Run what the extra `gpu` promises; `python gpu_job.py` in an empty folder."""

import numpy as np
from steps import command, fails, step

import vtakit
from vtakit import te

with step("a function is compiled for three architectures, with machine code"):
    a = te.placeholder((1000,), name="A")
    b = te.compute((1000,), lambda i: te.exp(a[i]) * 2.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 128)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    for arch in ("sm_80", "sm_90a", "sm_100"):
        function = vtakit.build(s, [a, b], vtakit.target("cuda", arch=arch))
        assert function.kernels.cubin, arch
        assert function.resources, arch

with step("it runs on the emulator"):
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    y = np.empty_like(x)
    vtakit.build(s, [a, b], "cuda", device="emulator")(x, y)
    np.testing.assert_allclose(y, 2 * np.exp(x), rtol=1e-6)

with step("a model is compiled into a file, and runs on the emulator"):
    command("python", "-m", "vtakit.models", "dqn", "-o", "dqn.onnx")
    command("vtakit", "compile", "dqn.onnx", "--target", "cuda", "-o", "dqn.vtak")
    np.savez("in.npz", **vtakit.models.inputs("dqn"))
    command("vtakit", "run", "dqn.vtak", "--device", "emulator", "--input", "in.npz", "--output", "out.npz")

with step("without a driver, running says what is missing"):
    from vtakit.runtime.cuda import driver
    if driver.missing():
        fails("driver", "vtakit", "run", "dqn.vtak", "--input", "in.npz")
