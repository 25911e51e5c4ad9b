"""The original's programs on the hardware, with a good and a bad memory: DRAM and accumulator as its models gave them.

Every counter is that of the cycle model.
"""

import zlib

import pytest
from test_golden import CONFIGS, PROGRAMS, programs

from vtakit.sim import run_image

pytestmark = [pytest.mark.xdist_group("rtl-default"), pytest.mark.timeout(900)]  # one process builds each model
IN_CI = ("default", "blk8")  # the other models take minutes to build; --all-models runs them too


@pytest.mark.parametrize("config", CONFIGS)
def test_every_program_gives_the_originals_results_on_the_hardware(config, pytestconfig):
    if config not in IN_CI and not pytestconfig.getoption("--all-models"):
        pytest.skip("builds a large model; runs with --all-models")
    count = 0
    for golden in programs(config):
        for memory in ({}, {"stall": 40, "seed": golden.number, "latency": 5 * (golden.number % 20), "outstanding": 3}):
            given = golden.dram, golden.insn_addr, golden.insn_count, config
            result = run_image(*given, "rtl", max_cycles=5_000_000, **memory)
            where = f"{config} program {golden.number} kind {golden.kind} {memory}"
            assert result.dram == golden.want_dram, where
            assert zlib.crc32(result.acc.astype("<i4").tobytes()) == golden.want_acc_crc32, where
            assert run_image(*given, "cycle", data=False, **memory).counters == result.counters, where
        count += 1
    assert count == PROGRAMS[config]
