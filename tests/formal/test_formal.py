"""The blocks' properties, proved; and planted defects, found. `docs/formal.md` says what each proof covers."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from formal import prover
from formal.checker import Checker
from formal.defects import DEFECTS, Defect, planted
from formal.proofs import PROOFS, Proof

BY_NAME = {proof.name: proof for proof in PROOFS}
# Proofs that take more than 5 s of processor time, and less than those that run on demand.
SLOW = {
    "SDRAM, MT48LC16M16A2-75 at 80 MHz", "SDRAM, columns",
    "bursts, 1 row of 3 bytes", "loads, a narrow row, any stalls", "requantizer, lanes: 1", "stored bytes",
    "writes, 1 outstanding, beats alike",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of proofs with each proof of its kind, and with the time that is asked for."""
    if "proof" in metafunc.fixturenames:
        patience = metafunc.config.getoption("--proof-patience")
        covers = metafunc.function is test_the_proofs_are_about_something
        patient = [replace(proof, seconds=proof.seconds * patience) for proof in PROOFS if proof.cover_cycles or not covers]
        metafunc.parametrize("proof", [
            pytest.param(proof, id=proof.name, marks=[
                pytest.mark.timeout(max(600, 2 * proof.seconds + 200)), *([pytest.mark.slow] if proof.name in SLOW else []),
            ])
            for proof in patient
        ])


@pytest.fixture(autouse=True)
def _slow_ones_only_on_demand(request: pytest.FixtureRequest) -> None:
    proof = request.node.callspec.params.get("proof") if hasattr(request.node, "callspec") else None
    if proof is not None and proof.deep and not request.config.getoption("--deep-proofs"):
        pytest.skip("takes minutes; runs with --deep-proofs")


def test_the_slow_proofs_are_proofs():
    assert BY_NAME.keys() > SLOW


def test_the_block_keeps_its_properties(proof: Proof):
    if proof.window:
        outcome = prover.induct(proof.checker(), cycles=proof.window, seconds=proof.seconds)
        assert outcome.verdict is prover.Verdict.PROVED, f"{proof.name}: {outcome}"
    elif proof.cycles is None:
        outcome = prover.prove(proof.checker(), seconds=proof.seconds)
        assert outcome.verdict is prover.Verdict.PROVED, f"{proof.name}: {outcome}"
    else:
        outcome = prover.bound(proof.checker(), cycles=proof.cycles, seconds=proof.seconds)
        enough = outcome.verdict is prover.Verdict.PROVED or (
            outcome.verdict is prover.Verdict.BOUNDED and outcome.depth >= proof.cycles
        )
        assert enough, f"{proof.name}: {outcome}"


def test_the_proofs_are_about_something(proof: Proof):
    assert prover.unreached(proof.checker(), cycles=proof.cover_cycles, seconds=proof.seconds) == []


class CountsToFive(Checker):
    """A counter that a free input lets go on."""

    def properties(self, m: Module) -> None:
        count = Signal(3)
        with m.If(self.free("goes") & (count != 5)):
            m.d.sync += count.eq(count + 1)
        for reached in (7, 2, 5, 3):
            self.reach(m, str(reached), count == reached)
        self.prove(m, "not beyond", count <= 5)


@pytest.mark.parametrize(("cycles", "missing"), [(10, ["7"]), (4, ["7", "5"]), (1, ["7", "2", "5", "3"])])
def test_a_situation_that_is_not_reached_is_named(cycles: int, missing: list[str]):
    """Also where the way to one leads past another."""
    assert prover.unreached(CountsToFive(), cycles=cycles, seconds=10) == missing


FIRST = {defect.proof: defect for defect in reversed(DEFECTS)}  # of each proof


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.block.rpartition('.')[2]}: {defect.wrong or 'without'}")
def test_a_planted_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """Quickly, the first of each proof, and that the others can still be planted."""
    wrong = planted(defect)
    if defect is not FIRST[defect.proof] and not request.config.getoption("--deep-proofs"):
        return
    for user in defect.users:
        monkeypatch.setattr(f"{user}.{defect.name}", wrong)
    outcome = prover.bound(BY_NAME[defect.proof].checker(), cycles=defect.cycles, seconds=30)
    assert outcome.verdict is prover.Verdict.REFUTED, f"{defect}: {outcome}"
