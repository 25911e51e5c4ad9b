"""Every block in cocotb against a plain model: `benches/` holds one file a block; here they are built and run.

One model holds all blocks of a configuration, and one simulation runs the benches of all blocks that are asked for: it takes a
second to start. A failure names the cocotb test, whose parameters are its stalls and seeds.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from board import board, params_of

from vtakit.sim.bench.model import Blocks, build, missing, simulate

BENCHES = Path(__file__).parent / "benches"

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("cocotb"),  # one process builds each model
    pytest.mark.timeout(900),  # the first test of a model builds it
]

NAMES = sorted(path.stem.removeprefix("bench_") for path in BENCHES.glob("bench_*.py"))
MODELS = [("tiny", 64), ("tiny_i4w2", 512)]
SAME = {  # whatever the configuration
    "token_queue", "scratchpad", "retire", "pipeline", "counters", "supervisor", "requantizer", "window",
}
CASES = [(*model, name) for model in MODELS for name in NAMES if model == MODELS[0] or name not in SAME]


@cache
def model(config: str, bus_bits: int) -> Path:
    """The model of all blocks, built by whichever test comes first."""
    return build(Blocks(board(params_of(config, bus_bits))))


class Counter(wiring.Component):
    """As small as a model can be."""

    def __init__(self, bits: int) -> None:
        super().__init__({"goes": In(1), "count": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.count.eq(self.count + self.goes)
        return m


def test_verilators_own_code_is_compiled_for_the_first_model_only():
    """Of cocotb's there is a `main` that makes the model: it needs to know its size."""
    build(Counter(5))
    log = Path(f"{build(Counter(6))}.log").read_text()
    assert sorted(re.findall(r" -o (\S+\.o) ", log)) == ["Vtop__ALL.o", "verilator.o"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Give the folder of a model's simulation, and what each cocotb test of the blocks that this run asks for says."""
    asked = [item.callspec.params for item in request.session.items if getattr(item, "originalname", "") == "test_block"]

    @cache
    def of(config: str, bus_bits: int) -> tuple[Path, dict[str, str]]:
        modules = [f"bench_{each['name']}" for each in asked if (each["config"], each["bus_bits"]) == (config, bus_bits)]
        folder = tmp_path_factory.mktemp(f"{config}-{bus_bits}")
        return folder, simulate(model(config, bus_bits), modules, folder, {"config": config, "bus_bits": bus_bits})

    return of


@pytest.mark.parametrize(("config", "bus_bits", "name"), CASES)
def test_block(config, bus_bits, name, results):
    folder, every = results(config, bus_bits)
    found = {test: failure for test, failure in every.items() if test.startswith(f"bench_{name}.")}
    assert found, f"no test of bench_{name} ran: see {folder / 'simulation.log'}"
    assert {test: failure for test, failure in found.items() if failure} == {}, f"see {folder / 'simulation.log'}"
    assert found
