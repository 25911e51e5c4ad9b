"""Exact cycles: what each stage's cycles were spent on in random programs, with and without memory latency.

The figures are reviewed: `python -m pytest tests/sim/test_random_cycles.py --update-cycles` rewrites them.
"""

import json
from pathlib import Path

import pytest
from sim_support import TINY

from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.sim import run_image
from vtakit.sim.random_programs import random_program

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

GOLDEN = Path(__file__).parents[1] / "data" / "random_cycles.json"
SEEDS, LATENCIES = range(20), (0, 40)


@pytest.fixture(scope="module", autouse=True)
def _update(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-cycles"):
        found = {f"seed {seed}, latency {latency}": spent(seed, latency) for latency in LATENCIES for seed in SEEDS}
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(line)}" for name, line in found.items())
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")


def spent(seed: int, latency: int) -> str:
    """A random program's cycles, in all and by stage and cause."""
    p = random_program(TINY, seed)
    counters = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, latency=latency).counters
    stages = (
        f"{stage.name.lower()} " + " ".join(str(counters[f"{stage.name.lower()}_{cause}"]) for cause in CYCLE_CAUSES)
        for stage in Stage
    )
    return "; ".join([f"{counters['cycles']} cycles", *stages, f"{counters['read_beats']} beats"])


@pytest.mark.parametrize("latency", LATENCIES)
def test_every_program_takes_the_cycles_that_were_reviewed(latency):
    """If a change is intended, say so in the commit, and by how much."""
    golden = json.loads(GOLDEN.read_text())
    for seed in SEEDS:
        name = f"seed {seed}, latency {latency}"
        assert spent(seed, latency) == golden[name], name
