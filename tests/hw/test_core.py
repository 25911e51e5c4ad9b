"""The whole core in cocotb: `benches/core_bench.py`, built and run for several configurations and bus widths."""

import pytest

from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.hw.top import Top
from vtakit.sim.bench.model import build, missing, simulate

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("cocotb"),  # one process builds each model
    pytest.mark.timeout(900),  # the first run builds it
]


SMALL = {"gemm_passes": 2, "mul_passes": 2, "acc_copies": 1}


@pytest.mark.parametrize(("config", "bus_bits", "core"), [("tiny", 64, {}), ("tiny_i4w2", 256, SMALL)], ids=["tiny", "small"])
def test_core(config, bus_bits, core, tmp_path):
    model = build(Top(CoreParams.of(NAMED[config], bus_bits, core)))
    found = simulate(model, ["core_bench"], tmp_path, {"config": config, "bus_bits": bus_bits})
    assert {test: failure for test, failure in found.items() if failure} == {}, f"see {tmp_path / 'simulation.log'}"
    assert found
