"""The functional simulator's machine code is kept, and made anew when it is not as it was written."""

import os
import stat
from pathlib import Path

import numba
import pytest

from vtakit.cache.place import CacheWarning
from vtakit.sim import code
from vtakit.sim.code import MachineCode


def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fsim"


def made(monkeypatch) -> bool:
    """Whether a new process would make the code; False if it finds it."""
    written = []
    monkeypatch.setattr(code, "keep", lambda *args: written.append(args) or keep(*args))
    fresh = MachineCode(add, 1)
    assert (fresh(2, 3), fresh(4, 5)) == (5, 9)
    return bool(written)


keep = code.keep


def entry(kept: Path) -> Path:
    (folder,) = [path for path in kept.iterdir() if path.is_dir()]
    return folder


def test_it_is_made_once(kept, monkeypatch):
    before = numba.config.CACHE_DIR
    assert made(monkeypatch)
    assert not made(monkeypatch)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert before == numba.config.CACHE_DIR


def test_other_sources_and_other_arguments_are_other_code(kept):
    assert MachineCode(add, 1)(2, 3) == 5
    assert MachineCode(add, 2)(2, 3) == 5
    both = MachineCode(add, 1)
    assert both(2, 3) == 5
    assert both(2.5, 3) == 5.5
    assert len([path for path in kept.iterdir() if path.is_dir()]) == 3


@pytest.mark.parametrize("damage", ["truncated", "flipped", "writable"])
def test_what_is_damaged_is_made_anew(kept, monkeypatch, damage):
    assert made(monkeypatch)
    file = entry(kept) / "code.zip"
    good = file.read_bytes()
    if damage == "truncated":
        os.truncate(file, len(good) // 2)
    elif damage == "flipped":
        file.write_bytes(good[:2000] + bytes([good[2000] ^ 1]) + good[2001:])
    else:
        file.chmod(0o666)
    assert made(monkeypatch)
    assert not made(monkeypatch)


def test_where_nothing_can_be_kept_it_is_made_each_time(kept, monkeypatch, tmp_path):
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("")
    assert not made(monkeypatch)
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(CacheWarning, match="machine code is not kept: every user can write to"):
        assert not made(monkeypatch)
    assert not [path for path in tmp_path.rglob("*") if path.name == "code.zip"]
