"""The cache has a bounded size: what goes, what stays, and what several processes do at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from vtakit.cache import bounds
from vtakit.cache.building import built_once
from vtakit.cache.entry import SUMS, read
from vtakit.runtime import cli

DAY = 86_400


def entry(root: Path, name: str, size: int, age_seconds: float) -> Path:
    """An entry of `size` bytes, its sums included, that was used then."""
    folder = root / name
    root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def build(work):
        (work / "product").write_bytes(b"")
    built_once(folder, ("product",), build)
    (folder / "filling").write_bytes(bytes(size - (folder / SUMS).stat().st_size))
    then = time.time() - age_seconds
    os.utime(folder, (then, then))
    return folder


def names(root: Path) -> list[str]:
    return [found.folder.name for found in bounds.entries(root)]


def test_the_least_recently_used_go_until_the_others_fit(tmp_path):
    for name, days in (("b", 3), ("d", 1), ("a", 4), ("c", 2)):
        entry(tmp_path, name, 1000, days * DAY)
    assert names(tmp_path) == ["a", "b", "c", "d"]
    bounds.prune(tmp_path, 4000)
    assert names(tmp_path) == ["a", "b", "c", "d"]
    bounds.prune(tmp_path, 3999)
    assert names(tmp_path) == ["b", "c", "d"]
    bounds.prune(tmp_path, 1500)
    assert names(tmp_path) == ["d"]
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and path.name != "d"]


def test_what_is_in_use_stays(tmp_path):
    """An entry that was looked up lately, and one whose lock another holds; a folder half built, and one half deleted."""
    entry(tmp_path, "new", 1000, 60)
    entry(tmp_path, "locked", 1000, 2 * DAY)
    entry(tmp_path, "old", 1000, DAY)
    entry(tmp_path, "other", 1000, 3 * DAY).rename(tmp_path / "other.build")
    entry(tmp_path, "killed", 1000, 3 * DAY).rename(tmp_path / "killed.gone")
    with FileLock(tmp_path / "locked.lock"):
        bounds.prune(tmp_path, 0)
    assert names(tmp_path) == ["locked", "new"]
    assert (tmp_path / "other.build").is_dir()
    assert not (tmp_path / "killed.gone").exists()


def test_links_are_no_entries(tmp_path):
    """The target of a link is not deleted."""
    elsewhere = tmp_path / "elsewhere" / "documents"
    elsewhere.mkdir(parents=True)
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "link").symlink_to(elsewhere)
    os.utime(elsewhere, (0, 0))
    bounds.prune(tmp_path / "rtl", 0)
    assert elsewhere.is_dir()


def test_a_look_is_a_use_and_a_build_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds.prune, "__defaults__", (2500,))
    first, second = (entry(tmp_path, name, 1000, age) for name, age in (("first", 9 * DAY), ("second", 8 * DAY)))

    def never(work):
        raise AssertionError("it was built twice")

    assert built_once(first, ("product",), never).path == first / "product"
    built_once(tmp_path / "third", ("product",), lambda work: (work / "product").write_bytes(bytes(1000)))
    assert names(tmp_path) == ["first", "third"]
    assert not second.exists()


CROWD = """
import os, random, sys
from contextlib import suppress
from pathlib import Path
from vtakit.cache import bounds
from vtakit.cache.building import built_once
root, pick = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
bounds.prune.__defaults__ = (1000,)
for turn in range(100):
    folder = root / pick.choice("abcdefghij")
    built = built_once(folder, ("product",), lambda work: (work / "product").write_bytes(bytes(100)))
    assert built.data == bytes(100)
    other = root / pick.choice("abcdefghij")
    with suppress(FileNotFoundError, NotADirectoryError):
        if turn % 3:
            os.utime(other, (0, 0))
        else:
            (other / "product").write_bytes(b"damaged")
"""


def test_many_processes_at_once_always_find_a_whole_entry(tmp_path):
    """They build, delete and damage entries; what each of them gets is whole."""
    call = [sys.executable, "-W", "error", "-c", CROWD, str(tmp_path)]
    crowd = [subprocess.Popen([*call, str(seed)], stderr=subprocess.PIPE, text=True) for seed in range(4)]
    for process in crowd:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said


@pytest.mark.parametrize("age", [0, bounds.GRACE_SECONDS / 2 - 60])
def test_an_entry_that_was_looked_up_lately_is_found_without_its_lock(tmp_path, age):
    folder = entry(tmp_path, "a", 1000, age)
    with FileLock(tmp_path / "a.lock"):
        assert built_once(folder, ("product",), lambda work: None).path == folder / "product"


def test_one_file_is_kept_unless_another_process_writes_it(tmp_path):
    folder = tmp_path / "models" / "a"
    folder.parent.mkdir()
    with FileLock(f"{folder}.lock"):
        bounds.keep(folder, "file", [b"1"])
    assert not folder.exists()
    bounds.keep(folder, "file", [b"2"])
    assert read(folder, "file") == b"2"
    bounds.keep(folder, "file", [b"3"])
    assert read(folder, "file") == b"3"
    bounds.keep(tmp_path / "none" / "a", "file", [b"4"])  # nothing is said where nothing can be kept


def test_doctor_says_what_is_kept(tmp_path, monkeypatch, capsys):
    cache = tmp_path / "cache"
    monkeypatch.setenv("VTAKIT_CACHE", str(cache))
    cli.main(["doctor", "core"])
    assert f"\ncache: {cache}: empty;" in capsys.readouterr().out
    entry(cache / "rtl", "a", 3_000_000, DAY)
    cli.main(["doctor", "core"])
    assert f"\ncache: {cache}: rtl 3 MB; at most 2,147 MB each:" in capsys.readouterr().out
    cache.chmod(0o777)
    cli.main(["doctor", "core"])
    assert f"\ncache: not used: every user can write to '{cache}': chmod go-w '{cache}'; or " in capsys.readouterr().out
