"""The hand-made matrix products: bit-equal to NumPy in every interleaving, free of races, and broken by any missing token."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import raises, random_configs
from test_workloads import CONFIGS, ORDERS, tokens, without_token

from vtakit.hw.isa.config import DEFAULT, NAMED, VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MemType, Queue
from vtakit.sim import run
from vtakit.sim.checker import check_program
from vtakit.sim.gemm_programs import MatMul, matmul_program, matmul_reference, pack_matmul_inputs, unpack_matmul_result
from vtakit.sim.micro_programs import alu_program, load_rows_program, short_gemms_program

PASSES = {"none": {}, "shift": {"shift": 3}, "clip": {"clip": True}, "shift_clip": {"shift": 5, "clip": True}}


def random_inputs(cfg: VTAConfig, shape: MatMul, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values over the whole range of their types: data [rows, inner] and weights [columns, inner]."""
    rng = np.random.default_rng(seed)

    def values(bits: int, *dimensions: int) -> np.ndarray:
        return rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), dimensions)

    return values(cfg.inp_bits, shape.rows, shape.inner), values(cfg.wgt_bits, shape.columns, shape.inner)


def in_blocks(cfg: VTAConfig, rows: int, inner: int, columns: int, **more: object) -> MatMul:
    return MatMul(rows=rows * cfg.batch, inner=inner * cfg.block, columns=columns * cfg.block, **more)


@pytest.mark.parametrize("contexts", [1, 2, 3])
@pytest.mark.parametrize("passes", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("config", CONFIGS)
def test_every_interleaving_gives_numpys_result(config, passes, contexts):
    cfg = NAMED[config]
    shape = in_blocks(cfg, 7, 5, 3, **passes)
    data, weights = random_inputs(cfg, shape, seed=contexts)
    want = matmul_reference(cfg, shape, data, weights)
    program = matmul_program(cfg, shape, contexts)
    for order in ORDERS:
        result = run(program, pack_matmul_inputs(cfg, shape, data, weights), order=order).buffers["result"]
        np.testing.assert_array_equal(unpack_matmul_result(cfg, shape, result), want, err_msg=f"order {order}")


@st.composite
def cases(draw: st.DrawFn) -> tuple[VTAConfig, MatMul, int]:
    """Any configuration, a small product and a number of contexts that it has room for."""
    cfg = draw(random_configs())
    size = st.integers(1, 5)
    shape = in_blocks(
        cfg, draw(size), draw(size), draw(size), shift=draw(st.integers(0, cfg.acc_bits + 1)), clip=draw(st.booleans())
    )
    room = min(4, cfg.inp_depth, cfg.wgt_depth, cfg.acc_depth, int(cfg.uop_depth**0.5))
    return cfg, shape, draw(st.integers(1, room))


@settings(max_examples=50)
@given(cases(), st.sampled_from(ORDERS), st.integers(0, 1 << 32))
def test_any_shape_runs_on_any_configuration(case, order, seed):
    cfg, shape, contexts = case
    data, weights = random_inputs(cfg, shape, seed)
    result = run(matmul_program(cfg, shape, contexts), pack_matmul_inputs(cfg, shape, data, weights), order=order)
    got = unpack_matmul_result(cfg, shape, result.buffers["result"])
    np.testing.assert_array_equal(got, matmul_reference(cfg, shape, data, weights))


def test_the_reference_is_a_sum_that_is_shifted_and_then_clipped_or_cut():
    data, weights = np.array([[100] * 16]), np.array([[99] * 16, [-99] * 16, [1] * 16] + [[0] * 16] * 13)
    sums = [16 * 9900, -16 * 9900, 1600]
    for clip in (False, True):
        got = matmul_reference(DEFAULT, MatMul(rows=1, inner=16, columns=16, shift=4, clip=clip), data, weights)[0, :3]
        shifted = [total >> 4 for total in sums]
        want = [min(max(v, -128), 127) if clip else (v + 128) % 256 - 128 for v in shifted]
        assert got.tolist() == want


@pytest.mark.parametrize("contexts", [1, 2, 3])
def test_the_static_checker_accepts_the_program_and_finds_a_race_without_any_one_token(contexts):
    program = matmul_program(NAMED["tiny"], in_blocks(NAMED["tiny"], 8, 4, 8), contexts)
    assert check_program(program) == []
    for queue in Queue:
        numbers = range(len(tokens(program, queue, "push")))
        assert numbers
        for number in numbers:
            faults = check_program(without_token(program, queue, number))
            assert Fault.RACE in {fault.fault for fault in faults}, f"token {number} of {queue.name}"


def test_every_step_of_a_product_multiplies_or_requantizes():
    shape = MatMul(rows=512, inner=512, columns=512, shift=16)
    program = matmul_program(DEFAULT, shape)
    assert check_program(program) == []
    data, weights = random_inputs(DEFAULT, shape, seed=0)
    result = run(program, pack_matmul_inputs(DEFAULT, shape, data, weights))
    want = matmul_reference(DEFAULT, shape, data, weights)
    np.testing.assert_array_equal(unpack_matmul_result(DEFAULT, shape, result.buffers["result"]), want)
    counters = result.counters
    assert counters["gemm_counter"] * DEFAULT.block**2 == shape.macs
    assert (counters["gemm_reset_counter"], counters["acc_load_nbytes"]) == (0, 0)
    assert counters["alu_counter"] * DEFAULT.block == counters["out_store_nbytes"] == want.size


@pytest.mark.parametrize(("shape", "contexts", "message"), [
    ({"rows": 0}, 2, "matrix product: rows is 0 and must be at least 1"),
    ({"shift": -1}, 2, "matrix product: shift is -1 and must be at least 0"),
    ({"inner": 24}, 2, "matrix product: inner is 24 and must be a multiple of 16"),
    ({}, 0, "contexts is 0 and must be from 1 to 1024, the elements of the smallest scratchpad"),
    ({}, 1000, "1000 contexts need 1000000 micro-ops, and the scratchpad holds 8192"),
])
def test_what_cannot_be_done_is_refused(shape, contexts, message):
    with raises(ProgramError, message):
        matmul_program(DEFAULT, replace(MatMul(rows=16, inner=16, columns=16), **shape), contexts)


def test_arrays_of_another_shape_are_refused():
    shape = MatMul(rows=2, inner=16, columns=32)
    with raises(ProgramError, "data and weights must have shapes (2, 16) and (32, 16), got (2, 16) and (16, 32)"):
        pack_matmul_inputs(DEFAULT, shape, np.zeros((2, 16), int), np.zeros((16, 32), int))


def test_rows_fill_the_scratchpad_and_leave_gaps_unread():
    program = load_rows_program(DEFAULT, MemType.INP, 256)
    assert check_program(program) == []
    assert program.buffer("source").size_bytes == 127 * 384 + 256
    assert run(program, {"source": bytes(127 * 384 + 256)}).counters["inp_load_nbytes"] == 1 << DEFAULT.log_inp_buff_size


@pytest.mark.parametrize("row_bytes", [8, 24, 48])
def test_rows_that_do_not_fill_the_scratchpad_are_refused(row_bytes):
    with raises(ProgramError, f"rows of {row_bytes} bytes do not fill 2048 elements of 16 bytes evenly"):
        load_rows_program(DEFAULT, MemType.INP, row_bytes)


@pytest.mark.parametrize("use_imm", [True, False])
def test_alu_and_short_programs_do_what_their_names_say(use_imm):
    alu, short = alu_program(DEFAULT, 3, use_imm=use_imm), short_gemms_program(DEFAULT, 10)
    assert check_program(alu) == check_program(short) == []
    result = run(alu)
    assert result.counters["alu_counter"] == 3 * 1024
    assert result.acc[:1024].min() == result.acc[:1024].max() == (9 if use_imm else 0)
    assert run(short).counters["gemm_counter"] == 10
