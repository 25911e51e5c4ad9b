"""Built models in a folder of bounded size: what goes, what stays, and what several processes do at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from vtakit.runtime import cli
from vtakit.sim import kept
from vtakit.sim.verilator import built_once

DAY = 86_400


def model(root: Path, name: str, size: int, age_seconds: float) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "product").write_bytes(bytes(size))
    then = time.time() - age_seconds
    os.utime(folder, (then, then))
    return folder


def names(root: Path) -> list[str]:
    return [found.folder.name for found in kept.models(root)]


def test_the_least_recently_used_go_until_the_others_fit(tmp_path):
    for name, days in (("b", 3), ("d", 1), ("a", 4), ("c", 2)):
        model(tmp_path, name, 100, days * DAY)
    assert names(tmp_path) == ["a", "b", "c", "d"]
    kept.prune(tmp_path, 400)
    assert names(tmp_path) == ["a", "b", "c", "d"]
    kept.prune(tmp_path, 399)
    assert names(tmp_path) == ["b", "c", "d"]
    kept.prune(tmp_path, 150)
    assert names(tmp_path) == ["d"]
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and path.name != "d"]


def test_what_is_in_use_stays(tmp_path):
    """A model that was looked up lately, and one whose lock another holds; a folder half built, and one half deleted."""
    model(tmp_path, "new", 100, 60)
    model(tmp_path, "locked", 100, 2 * DAY)
    model(tmp_path, "old", 100, DAY)
    model(tmp_path, "other.build", 100, 3 * DAY)
    model(tmp_path, "killed.gone", 100, 3 * DAY)
    with FileLock(tmp_path / "locked.lock"):
        kept.prune(tmp_path, 0)
    assert names(tmp_path) == ["locked", "new"]
    assert (tmp_path / "other.build").is_dir()
    assert not (tmp_path / "killed.gone").exists()


def test_a_look_is_a_use_and_a_build_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(kept.prune, "__defaults__", (250,))
    first, second = (model(tmp_path, name, 100, age) for name, age in (("first", 9 * DAY), ("second", 8 * DAY)))

    def never():
        raise AssertionError("it was built twice")

    assert built_once(first, "product", never) == first / "product"
    third = tmp_path / "third"
    built_once(third, "product", lambda: (third.mkdir(), (third / "product").write_bytes(bytes(100))))
    assert names(tmp_path) == ["first", "third"]
    assert not second.exists()


def test_a_folder_that_cannot_be_written_is_used_as_it_is(tmp_path, monkeypatch):
    folder = model(tmp_path, "old", 100, 9 * DAY)

    def refuse(*args: object) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr("vtakit.sim.verilator.os.utime", refuse)
    assert built_once(folder, "product", lambda: None) == folder / "product"


CROWD = """
import os, random, sys
from contextlib import suppress
from pathlib import Path
from filelock import FileLock
from vtakit.sim import kept
from vtakit.sim.verilator import built_once
root, pick = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
kept.prune.__defaults__ = (500,)
for _ in range(100):
    folder = root / pick.choice("abcdefghij")
    def build():
        folder.mkdir(exist_ok=True)
        (folder / "new").write_bytes(bytes(100))
        (folder / "new").replace(folder / "product")
    with FileLock(f"{folder}.reading"):
        assert len(built_once(folder, "product", build).read_bytes()) == 100
    other = root / pick.choice("abcdefghij")
    with FileLock(f"{other}.reading"), suppress(FileNotFoundError):  # nobody is between its look and its read
        os.utime(other, (0, 0))
"""


def test_many_processes_at_once_always_find_a_whole_model(tmp_path):
    crowd = [
        subprocess.Popen([sys.executable, "-c", CROWD, str(tmp_path), str(seed)], stderr=subprocess.PIPE, text=True)
        for seed in range(4)
    ]
    for process in crowd:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said


def test_doctor_says_what_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kept, "cache_folder", lambda kind: tmp_path / kind)
    model(tmp_path / "rtl", "a", 3_000_000, DAY)
    cli.main(["doctor", "sim"])
    said = "".join(capsys.readouterr().out.split())  # a long path is broken anywhere
    assert f"1builtRTLmodelsarekeptin{tmp_path}/rtl:3MBofatmost2,147MB" in said
    cli.main(["doctor", "core"])
    assert "built RTL models" not in capsys.readouterr().out


@pytest.mark.parametrize("age", [0, kept.GRACE_SECONDS / 2 - 60])
def test_a_model_that_was_looked_up_lately_is_found_without_its_lock(tmp_path, age):
    folder = model(tmp_path, "a", 1, age)
    with FileLock(tmp_path / "a.lock"):
        assert built_once(folder, "product", lambda: None) == folder / "product"
