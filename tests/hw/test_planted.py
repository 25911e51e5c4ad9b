"""The defects of planted.py are still defects of the source: each text that one replaces stands there, once."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("planted", HERE / "planted.py")
assert spec is not None
assert spec.loader is not None
planted = importlib.util.module_from_spec(spec)
spec.loader.exec_module(planted)


@pytest.mark.parametrize(("bench", "file", "there", "instead"), planted.DEFECTS, ids=lambda text: text[:30])
def test_a_planted_defect_finds_its_place(bench, file, there, instead):
    assert (HERE.parents[1] / "hw" / file).read_text(encoding="utf-8").count(there) == 1
    assert there != instead
    assert bench in ("core", "core_small") or (HERE / "benches" / f"bench_{bench}.py").exists()
