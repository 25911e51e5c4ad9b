"""The hand-made convolutions: bit-equal to NumPy in every interleaving, proven free of races, and broken by any missing token."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import raises, random_configs

from vtakit.hw.isa.codec import decode, encode, to_bytes
from vtakit.hw.isa.config import DEFAULT, NAMED, VTAConfig
from vtakit.hw.isa.errors import EncodingError, ProgramError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FLAG_QUEUES, FORMATS, MemType, Opcode, Queue, Stage
from vtakit.hw.isa.program import Program
from vtakit.sim import run
from vtakit.sim.checker import check_program
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result
from vtakit.sim.decode import FLAGS, Decoded
from vtakit.sim.order import execution_order
from vtakit.sim.workloads import Conv2d, conv2d_program

CONFIGS = ("default", "b2x16", "blk8", "blk32", "w4", "i4w4", "tiny")
ORDERS: tuple[str | int, ...] = ("program", "eager", "lazy", 0, 1, 2, 3)
SHAPES = {
    "3x3": Conv2d(height=9, width=7, in_channels=20, out_channels=33, kernel=3, stride=1, pad=1),
    "3x3_stride2": Conv2d(height=10, width=11, in_channels=33, out_channels=16, kernel=3, stride=2, pad=1),
    "1x1_stride2": Conv2d(height=9, width=8, in_channels=40, out_channels=24, kernel=1, stride=2, pad=0),
    "1x1_in_padding": Conv2d(height=3, width=4, in_channels=5, out_channels=6, kernel=1, stride=3, pad=2),
    "7x7_stride2": Conv2d(height=13, width=15, in_channels=3, out_channels=20, kernel=7, stride=2, pad=3),
    "5x5": Conv2d(height=8, width=6, in_channels=17, out_channels=18, kernel=5, stride=1, pad=2),
    "matrix": Conv2d(height=1, width=40, in_channels=40, out_channels=19, kernel=1, stride=1, pad=0),
}
SMALL = Conv2d(height=6, width=5, in_channels=8, out_channels=8, kernel=3, stride=1, pad=1, shift=9)


def random_inputs(cfg: VTAConfig, shape: Conv2d, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values over the whole range of their types: data [N, CI, H, W] and weights [CO, CI, K, K]."""
    rng = np.random.default_rng(seed)

    def values(bits: int, *dimensions: int) -> np.ndarray:
        return rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), dimensions)

    return (
        values(cfg.inp_bits, cfg.batch, shape.in_channels, shape.height, shape.width),
        values(cfg.wgt_bits, shape.out_channels, shape.in_channels, shape.kernel, shape.kernel),
    )


def results(program: Program, shape: Conv2d, data: np.ndarray, weights: np.ndarray) -> dict[str | int, np.ndarray]:
    """What the program gives in each interleaving."""
    inputs = pack_conv2d_inputs(program.config, shape, data, weights)
    runs = {order: run(program, inputs, order=order) for order in ORDERS}
    return {order: unpack_conv2d_result(program.config, shape, result.buffers["result"]) for order, result in runs.items()}


@pytest.mark.parametrize("contexts", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("config", CONFIGS)
def test_every_interleaving_gives_numpys_result(config, shape, contexts):
    cfg = NAMED[config]
    shape = replace(shape, shift=cfg.wgt_bits + 1)  # about half of the values are clipped
    data, weights = random_inputs(cfg, shape, seed=contexts)
    want = conv2d_reference(cfg, shape, data, weights)
    program = conv2d_program(cfg, shape, contexts)
    for order, got in results(program, shape, data, weights).items():
        np.testing.assert_array_equal(got, want, err_msg=f"order {order}")


@st.composite
def cases(draw: st.DrawFn) -> tuple[VTAConfig, Conv2d, int]:
    """Any configuration, a small convolution and a number of contexts that it has room for."""
    cfg = draw(random_configs())
    kernel, pad = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    side = st.integers(max(1, kernel - 2 * pad), 6)
    channels = st.integers(1, min(3 * cfg.block, 40))
    shape = Conv2d(
        height=draw(side), width=draw(side), in_channels=draw(channels), out_channels=draw(channels), kernel=kernel,
        stride=draw(st.integers(1, 3)), pad=pad, shift=draw(st.integers(0, cfg.acc_bits + 1)),
    )
    return cfg, shape, draw(st.integers(1, min(4, cfg.inp_depth, cfg.wgt_depth, cfg.acc_depth)))


@settings(max_examples=50)
@given(cases(), st.sampled_from(ORDERS), st.integers(0, 1 << 32))
def test_any_shape_runs_on_any_configuration(case, order, seed):
    cfg, shape, contexts = case
    data, weights = random_inputs(cfg, shape, seed)
    result = run(conv2d_program(cfg, shape, contexts), pack_conv2d_inputs(cfg, shape, data, weights), order=order)
    want = conv2d_reference(cfg, shape, data, weights)
    np.testing.assert_array_equal(unpack_conv2d_result(cfg, shape, result.buffers["result"]), want)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_reference_is_a_sum_over_channels_and_kernel(config):
    cfg, shape = NAMED[config], replace(SMALL, stride=2, height=4, width=4, in_channels=2, out_channels=2, shift=3)
    data, weights = random_inputs(cfg, shape, seed=5)
    got = conv2d_reference(cfg, shape, data, weights)
    assert got.shape == (cfg.batch, 2, 2, 2)
    high = (1 << (cfg.out_bits - 1)) - 1
    for n, o, y, x in np.ndindex(got.shape):
        total = sum(
            int(data[n, c, 2 * y + ky - 1, 2 * x + kx - 1]) * int(weights[o, c, ky, kx])
            for c, ky, kx in np.ndindex(2, 3, 3) if 0 <= 2 * y + ky - 1 < 4 and 0 <= 2 * x + kx - 1 < 4
        )
        assert got[n, o, y, x] == min(max(total >> 3, -high - 1), high)


def test_accumulators_wrap_and_a_shift_beyond_their_width_leaves_the_sign():
    cfg = NAMED["tiny_i4w2"]  # 8-bit accumulators
    shape = Conv2d(height=1, width=1, in_channels=24, out_channels=3, kernel=1, stride=1, pad=0, shift=99)
    data = np.full((1, 24, 1, 1), -8)
    weights = np.array([-1, 1, 0]).repeat(24).reshape(3, 24, 1, 1)  # sums 192, -192 and 0 wrap to -64, 64 and 0
    want = conv2d_reference(cfg, shape, data, weights)
    assert want.reshape(3).tolist() == [-1, 0, 0]
    result = run(conv2d_program(cfg, shape), pack_conv2d_inputs(cfg, shape, data, weights))
    np.testing.assert_array_equal(unpack_conv2d_result(cfg, shape, result.buffers["result"]), want)


def tokens(program: Program, queue: Queue, end: str) -> list[tuple[int, str]]:
    """(instruction, flag) of every "push" into or "pop" from a queue, in program order."""
    insns = [decode(program.config, word) for word in program.insns]
    flags = [(index, insn, flag) for index, insn in enumerate(insns) for flag in FLAGS if insn[flag]]
    return [(index, flag) for index, insn, flag in flags if flag.startswith(end) and FLAG_QUEUES[insn.stage, flag] is queue]


def without_token(program: Program, queue: Queue, number: int) -> Program:
    """The program without the `number`-th push into a queue and the pop that takes it: the counts still balance."""
    words = list(program.insns)
    for end in ("push", "pop"):
        index, flag = tokens(program, queue, end)[number]
        insn = decode(program.config, words[index])
        words[index] = encode(program.config, FORMATS[insn.op].name, **{**insn.fields, flag: 0})
    return replace(program, insns=tuple(words))


@pytest.mark.parametrize("queue", Queue, ids=lambda queue: queue.name.lower())
def test_without_a_token_some_interleaving_gives_another_result(queue):
    cfg = NAMED["tiny"]
    data, weights = random_inputs(cfg, SMALL, seed=7)
    want = conv2d_reference(cfg, SMALL, data, weights)
    broken = without_token(conv2d_program(cfg, SMALL), queue, 0)
    right = {order: bool((got == want).all()) for order, got in results(broken, SMALL, data, weights).items()}
    assert right["program"]  # dependences only bind the stages to each other
    assert not all(right.values())


@pytest.mark.parametrize("contexts", [1, 2, 3])
def test_the_static_checker_accepts_the_program_and_finds_a_race_without_any_one_token(contexts):
    shape = replace(SMALL, height=4, width=4, in_channels=4, out_channels=8)
    program = conv2d_program(NAMED["tiny"], shape, contexts)
    assert check_program(program) == []
    for queue in Queue:
        for number in range(len(tokens(program, queue, "push"))):
            faults = check_program(without_token(program, queue, number))
            assert Fault.RACE in {fault.fault for fault in faults}, f"token {number} of {queue.name}"


@pytest.mark.parametrize("contexts", [1, 2, 3, 5])
def test_loads_run_as_many_chunks_ahead_as_there_are_contexts(contexts):
    program = conv2d_program(NAMED["tiny"], replace(SMALL, kernel=1), contexts)
    decoded = Decoded(program.config, to_bytes(program.insns))
    ahead, most = 0, 0
    for index in execution_order(decoded, "eager"):
        ahead += int(decoded.stage[index] == Stage.LOAD and decoded["push_next"][index])
        ahead -= int(decoded.stage[index] == Stage.COMPUTE and decoded["pop_prev"][index])
        most = max(most, ahead)
    assert most == contexts


def test_resnets_convolution_loads_each_weight_once_and_every_step_is_useful():
    shape = Conv2d(height=56, width=56, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)
    program = conv2d_program(DEFAULT, shape)
    data, weights = random_inputs(DEFAULT, shape, seed=0)
    result = run(program, pack_conv2d_inputs(DEFAULT, shape, data, weights))
    want = conv2d_reference(DEFAULT, shape, data, weights)
    np.testing.assert_array_equal(unpack_conv2d_result(DEFAULT, shape, result.buffers["result"]), want)
    assert result.counters["wgt_load_nbytes"] == weights.size
    assert result.counters["gemm_counter"] * DEFAULT.block**2 == shape.macs == 115_605_504
    assert result.counters["out_store_nbytes"] == want.size
    assert Counter(decode(DEFAULT, word).op for word in program.insns)[Opcode.GEMM] == 28 + 14  # two chunks a tile, one reset


def test_micro_ops_are_kept_once_though_a_small_scratchpad_loads_them_again():
    cfg = replace(NAMED["tiny"], log_uop_buff_size=4)  # 4 micro-ops
    program = conv2d_program(cfg, SMALL)
    insns = [decode(cfg, word) for word in program.insns]
    loads = [insn for insn in insns if insn.op is Opcode.LOAD and insn["memory_type"] == MemType.UOP]
    kernels = {(load["dram_base"], load["x_size"]) for load in loads}
    assert len(loads) > len(kernels)
    assert sum(size for _, size in kernels) == len(program.uops)
    data, weights = random_inputs(cfg, SMALL, seed=3)
    want = conv2d_reference(cfg, SMALL, data, weights)
    for order, got in results(program, SMALL, data, weights).items():
        np.testing.assert_array_equal(got, want, err_msg=f"order {order}")


@pytest.mark.parametrize(("change", "message"), [
    ({"height": 0}, "convolution: height is 0 and must be at least 1"),
    ({"stride": 0}, "convolution: stride is 0 and must be at least 1"),
    ({"pad": -1}, "convolution: pad is -1 and must be at least 0"),
    ({"shift": -2}, "convolution: shift is -2 and must be at least 0"),
    ({"kernel": 8}, "convolution: kernel 8 is larger than the padded image, 8 x 7 pixels"),
])
def test_an_impossible_shape_is_refused(change, message):
    with raises(ProgramError, message):
        replace(SMALL, **change)


@pytest.mark.parametrize("contexts", [0, 17])
def test_contexts_that_have_no_room_are_refused(contexts):
    wanted = "must be from 1 to 16, the elements of the smallest scratchpad"
    with raises(ProgramError, f"contexts is {contexts} and {wanted}"):
        conv2d_program(NAMED["tiny"], SMALL, contexts)


def test_a_size_beyond_its_field_is_named():
    with raises(EncodingError, "load.y_pad_0 is 16 and must be from 0 to 15 (4 bits)"):
        conv2d_program(DEFAULT, replace(SMALL, kernel=20, pad=16))


def test_arrays_of_another_shape_are_refused():
    data, weights = random_inputs(DEFAULT, SMALL, seed=0)
    shapes = "(1, 8, 6, 5) and (8, 8, 3, 3)"
    with raises(ProgramError, f"data and weights must have shapes {shapes}, got (1, 8, 5, 6) and (8, 8, 3, 3)"):
        pack_conv2d_inputs(DEFAULT, SMALL, data.transpose(0, 1, 3, 2), weights)
