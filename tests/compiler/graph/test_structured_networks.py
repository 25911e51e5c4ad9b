"""Networks that are no classifiers on the accelerator: the CPU's bytes, and what is kept in tests/data/vta_structures.json."""

import json
from pathlib import Path

import numpy as np
import pytest
import vta_structures
from structured_nets import NETWORKS, build, samples

import vtakit

ROOT = Path(__file__).parents[3]
COMMAND = "python benchmarks/vta_structures.py --write"
KEPT = json.loads((ROOT / "tests" / "data" / "vta_structures.json").read_text())
LEAST_SHARE = 0.95


@pytest.mark.parametrize("name", [each for each in vta_structures.NETWORKS if "BERT" not in each])
def test_a_network_has_the_cpus_bytes_and_the_cycles_that_are_kept(name: str) -> None:
    """The command measures all networks."""
    exact, _ = vta_structures.measure(name)
    assert exact == KEPT[name], f"if that is meant: {COMMAND}"


def test_nearly_all_is_on_the_accelerator_and_nothing_differs() -> None:
    assert list(KEPT) == list(vta_structures.NETWORKS), f"rewrite tests/data/vta_structures.json: {COMMAND}"
    assert all(kept["share"] >= LEAST_SHARE and kept["differ"] == 0 for kept in KEPT.values())


def test_the_page_has_what_is_kept() -> None:
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    for name, kept in KEPT.items():
        assert vta_structures.line(name, kept) in page


@pytest.mark.parametrize("name", NETWORKS)
def test_the_float_networks_compute_what_they_were_made_with(name: str) -> None:
    model, wanted = build(name)
    found = vtakit.compile(model, batch=2).run({"image": samples(name, 2, 0)})
    for output, array in wanted.items():
        np.testing.assert_allclose(found[output], array, rtol=0, atol=2e-3 * np.abs(array).max())
