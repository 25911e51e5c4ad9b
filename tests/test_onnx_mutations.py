"""A batch of random mutations of models; `python tests/onnx_mutations.py` runs thousands."""

import onnx_mutations
from onnx_mutations import RAN, TOLD, in_process, models, mutation


def test_mutated_models_run_or_are_told():
    found = in_process(0, 12)
    assert [seed for seed, *_ in found] == [*range(12)]
    assert [each for each in found if each[1] not in (RAN, TOLD)] == []
    assert {state for _, state, _ in found} == {RAN, TOLD}


def test_a_mutation_is_that_of_its_seed():
    known = models()
    assert [mutation(seed, known) for seed in range(40)] == [mutation(seed, known) for seed in range(40)]
    assert sum(mutation(seed, known) not in known for seed in range(40)) > 30


def test_a_process_that_ends_early_is_named_by_its_seed(monkeypatch):
    monkeypatch.setattr(onnx_mutations, "__file__", "/nowhere/at/all.py")
    assert [(seed, state) for seed, state, _ in in_process(5, 2)] == [(5, "crash or hang"), (6, "crash or hang")]
