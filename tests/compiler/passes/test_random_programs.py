"""A sample of the random programs; ``python tests/compiler/passes_fuzz.py`` runs more."""

import pytest
from passes_fuzz import Generator, check_one, fuzz

from vtakit.compiler.ir.stmt import Allocate
from vtakit.compiler.ir.walk import statements


@pytest.mark.parametrize("seed", range(0, 30, 6))
def test_passes_keep_the_meaning_of_random_programs(seed):
    assert sum(fuzz(seed, 6).values()) == 6


def test_a_seed_gives_one_program():
    assert str(Generator(7).function()) == str(Generator(7).function())
    assert check_one(7) in ("cpu", "gpu")


def test_the_sample_holds_every_kind_of_stage():
    functions = [Generator(seed).function() for seed in range(60)]
    names = {s.buffer.name for f in functions for s in statements(f.body) if isinstance(s, Allocate)}
    assert {"Row", "Sum", "Shared", "Second", "Result"} <= names
