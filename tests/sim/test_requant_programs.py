"""Convolutions made by hand that requantize on the way out: each result value, every order of the stages, no pass of the ALU."""

import random

import numpy as np
import pytest
from support import raises

from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.config import DEFAULT, NAMED
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import Feature, Opcode
from vtakit.sim import run
from vtakit.sim.checker import check_program
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, pack_conv2d_parameters, unpack_conv2d_result
from vtakit.sim.workloads import Conv2d, conv2d_program

SHAPES = [
    Conv2d(height=8, width=8, in_channels=16, out_channels=16, kernel=3, stride=1, pad=1, requant=True),
    Conv2d(height=9, width=7, in_channels=20, out_channels=35, kernel=3, stride=2, pad=1, requant=True),
    Conv2d(height=6, width=6, in_channels=8, out_channels=8, kernel=1, stride=2, pad=0, requant=True),
    Conv2d(height=3, width=3, in_channels=4, out_channels=4, kernel=1, stride=1, pad=2, requant=True),  # tiles of padding alone
]
CONFIGS = ["default", "tiny", "tiny_b2", "i4w4", "blk8", "b2x16"]


def case(config, shape, seed=0):
    """The program, its buffers, and the result that they should give."""
    cfg, numbers, pick = NAMED[config], np.random.default_rng(seed), random.Random(seed)
    half = 1 << cfg.inp_bits - 1
    data = numbers.integers(-half, half, (cfg.batch, shape.in_channels, shape.height, shape.width))
    most = 1 << cfg.wgt_bits - 1
    weights = numbers.integers(-most, most, (shape.out_channels, shape.in_channels, shape.kernel, shape.kernel))
    shifts = (24, 31) if cfg.inp_bits == 8 else (19, 22)
    most_bias = 5000 if cfg.inp_bits == 8 else 50
    parameters = [
        {"bias": pick.randint(-most_bias, most_bias), "multiplier": pick.randint(32768, 65535), "shift": pick.randint(*shifts),
         "zero_point": pick.randint(-20, 20), "low": pick.choice((-128, 0)), "high": 127}
        for _ in range(shape.out_channels)
    ]
    buffers = pack_conv2d_inputs(cfg, shape, data, weights)
    buffers["parameters"] = pack_conv2d_parameters(cfg, shape, parameters)
    return cfg, buffers, conv2d_reference(cfg, shape, data, weights, parameters)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.height}x{s.width} {s.in_channels}-{s.out_channels} {s.kernel}")
@pytest.mark.parametrize("config", CONFIGS)
def test_results(config, shape):
    cfg, buffers, want = case(config, shape)
    for contexts in (1, 2):
        program = conv2d_program(cfg, shape, contexts)
        assert check_program(program) == []
        for order in ("eager", "lazy", 5):
            result = run(program, buffers, order=order)
            np.testing.assert_array_equal(unpack_conv2d_result(cfg, shape, result.buffers["result"]), want)
    assert len(np.unique(want)) > (10 if cfg.out_bits == 8 else 6)


def test_nothing_but_products_takes_steps():
    program = conv2d_program(DEFAULT, SHAPES[0])
    assert program.features == Feature.REQUANT | Feature.OVERWRITE
    ops = [decode(DEFAULT, word).op for word in program.insns]
    assert Opcode.ALU not in ops
    assert Opcode.STORE not in ops
    counters = run(program, case("default", SHAPES[0])[1]).counters
    assert counters["gemm_counter"] == 64 * 9
    assert counters["gemm_reset_counter"] == counters["alu_counter"] == 0


def test_what_is_refused():
    with raises(ProgramError, "convolution: requant needs 32-bit accumulators and outputs of at most 8 bits"):
        conv2d_program(NAMED["tiny_acc16"], SHAPES[0])
    with raises(ProgramError, "convolution: parameters and a value of 9 contexts need 36 accumulator elements, and there are 32"):
        conv2d_program(NAMED["tiny"], SHAPES[0], 9)
    with raises(ProgramError, "a convolution with 16 output channels has 1 sets of parameters"):
        pack_conv2d_parameters(DEFAULT, SHAPES[0], [{}])
