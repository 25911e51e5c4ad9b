"""The published snippets (T. Chen et al., TVM, OSDI'18, sections 4.1 to 4.3), as printed but for the import line.

A matrix product is described, tiled, given an accelerator's buffers and mapped to its instruction of 8 x 8 x 8; then the same
description with symbolic sizes becomes machine code.
"""

import numpy as np

import vtakit
import vtakit.te as t
from vtakit.compiler.lower.interpreter import interpret


class vdla:
    """The paper's accelerator: two on-chip memories and a matrix instruction; what its instructions do is below."""

    acc_buffer = "acc"
    inp_buffer = "inp"


# Section 4.3: the instruction, declared by what it computes and how it is called.
w, x = t.placeholder((8, 8)), t.placeholder((8, 8))
k = t.reduce_axis((0, 8))
y = t.compute((8, 8), lambda i, j: t.sum(w[k, i] * x[k, j], axis=k))


def gemm_intrin_lower(inputs, outputs):
    ww_ptr = inputs[0].access_ptr("r")
    xx_ptr = inputs[1].access_ptr("r")
    zz_ptr = outputs[0].access_ptr("w")
    compute = t.hardware_intrin("gemm8x8", ww_ptr, xx_ptr, zz_ptr)
    reset = t.hardware_intrin("fill_zero", zz_ptr)
    update = t.hardware_intrin("fuse_gemm8x8_add", ww_ptr, xx_ptr, zz_ptr)
    return compute, reset, update


gemm8x8 = t.decl_tensor_intrin(y.op, gemm_intrin_lower)

# Section 4.1: the product, and its loops.
A, B = t.placeholder((64, 64), name="A"), t.placeholder((64, 64), name="B")
k = t.reduce_axis((0, 64), name="k")
C = t.compute((64, 64), lambda y, x: t.sum(A[k, y] * B[k, x], axis=k), name="C")
s = t.create_schedule(C.op)

CL = s.cache_write(C, vdla.acc_buffer)
AL = s.cache_read(A, vdla.inp_buffer)
BL = s.cache_read(B, vdla.inp_buffer)

# "Additional schedule steps omitted", the paper says; these are they.
yo, xo, yi, xi = s[C].tile(*s[C].op.axis, 8, 8)
s[CL].compute_at(s[C], xo)
y, x = s[CL].op.axis
(k,) = s[CL].op.reduce_axis
yo, xo, ko, yi, xi, ki = s[CL].tile(y, x, k, 8, 8, 8)
s[AL].compute_at(s[CL], ko)
s[BL].compute_at(s[CL], ko)

s[CL].tensorize(yi, gemm8x8)
program = vtakit.lower(s, [A, B, C])
print(program)


# What the instructions do, for the interpreter.
def fill_zero(z):
    for i in range(64):
        z[i] = 0.0


def fuse_gemm8x8_add(w, x, z):
    for i in range(8):
        for j in range(8):
            z[i * 8 + j] = z[i * 8 + j] + sum(w[k * 8 + i] * x[k * 8 + j] for k in range(8))


rng = np.random.default_rng(0)
a, b = (rng.integers(-8, 8, (64, 64)).astype("float32") for _ in "ab")
c = np.zeros((64, 64), "float32")
interpret(program, [a, b, c], packed={"fill_zero": fill_zero, "fuse_gemm8x8_add": fuse_gemm8x8_add})
assert (c == a.T @ b).all()

# Symbolic sizes: one machine code for all.
m, n, h = t.var("m"), t.var("n"), t.var("h")
A, B = t.placeholder((h, m), name="A"), t.placeholder((h, n), name="B")
k = t.reduce_axis((0, h), name="k")
C = t.compute((m, n), lambda y, x: t.sum(A[k, y] * B[k, x], axis=k), name="C")
product = vtakit.build(t.create_schedule(C.op), [A, B, C])
for shape in ((1, 1, 1), (5, 7, 3), (64, 64, 64)):
    m, n, h = shape
    a, b = rng.integers(-8, 8, (h, m)).astype("float32"), rng.integers(-8, 8, (h, n)).astype("float32")
    c = np.empty((m, n), "float32")
    product(a, b, c)
    assert (c == a.T @ b).all()
print("the accelerator's program and the machine code agree with NumPy")
