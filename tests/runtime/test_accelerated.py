"""`vtakit.build` for the accelerator: a schedule as a function of arrays."""

import numpy as np
from support import raises
from vta_support import matmul, matmul_schedule, wrap

import vtakit
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import vta

RNG = np.random.default_rng(0)


def built(config: str):
    target = vta(config)
    tensors = matmul(target, 4, 4, 4)
    data, weights, _, _, result = tensors
    return vtakit.build(matmul_schedule(target, tensors), [data, weights, result], target, name="matmul"), target.config


def test_arrays_in_place():
    for config in ("default", "i4w4", "b4x8"):
        f, cfg = built(config)
        x = RNG.integers(-8, 8, (4, 4, cfg.batch, cfg.block), np.int8)
        w = RNG.integers(-8, 8, (4, 4, cfg.block, cfg.block), np.int8)
        out = np.zeros((4, 4, cfg.batch, cfg.block), np.int8)
        f(x, w, out)
        sums = np.einsum("ykbi,xkji->yxbj", x.astype(np.int64), w.astype(np.int64))
        assert np.array_equal(out, wrap(np.maximum(sums >> 4, 0), cfg.out_bits))
        assert f.counters["gemm_counter"] == 64


def test_the_default_target():
    target = vta()
    tensors = matmul(target, 4, 2, 2)
    f = vtakit.build(matmul_schedule(target, tensors), [tensors[0], tensors[1], tensors[4]], "vta")
    assert repr(f) == f"<program main, {len(f.program.insns)} instructions, on fsim>"


def test_arguments_that_do_not_fit():
    f, _ = built("default")
    x, w = np.zeros((4, 4, 1, 16), np.int8), np.zeros((4, 4, 16, 16), np.int8)
    with raises(VtaError, "matmul takes 3 arrays (data, weights, result), got 2"):
        f(x, w)
    with raises(VtaError, "argument weights of matmul is int8[4, 4, 16, 16], got int8[4, 4, 16, 8]"):
        f(x, w[..., :8], x)
    with raises(VtaError, "argument data of matmul is int8[4, 4, 1, 16], got int32[4, 4, 1, 16]"):
        f(x.astype(np.int32), w, x)
    with raises(VtaError, "argument result of matmul is int8[4, 4, 1, 16], got list"):
        f(x, w, [1])
