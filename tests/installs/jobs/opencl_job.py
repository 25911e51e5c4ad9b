"""Run what the extra `opencl` promises; `python opencl_job.py` in an empty folder."""

import numpy as np
from steps import step

import vtakit
from vtakit import te

with step("a function runs on an OpenCL device"):
    a = te.placeholder((1000,), name="A")
    b = te.compute((1000,), lambda i: te.exp(a[i]) * 2.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 128)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    y = np.empty_like(x)
    vtakit.build(s, [a, b], "opencl")(x, y)
    np.testing.assert_allclose(y, 2 * np.exp(x), rtol=1e-5)
