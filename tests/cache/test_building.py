"""Entries are built once, and anew when they are not as they were written; where none can be kept, for one process."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.cache import building
from vtakit.cache.building import built_once, telling
from vtakit.cache.entry import SUMS, read
from vtakit.cache.place import CacheWarning, temporary_root

OTHER = 65_533
CONTENT = bytes(range(256)) * 40
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


class Maker:
    """Builds an entry of two files, and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.times = folder, 0

    def __call__(self, work: Path) -> None:
        self.times += 1
        for name in ("product", "more"):
            (work / name).write_bytes(CONTENT)

    def get(self) -> bytes:
        return built_once(self.folder, ("product", "more"), self).data


@pytest.fixture
def maker(tmp_path) -> Maker:
    """An entry that is built."""
    made = Maker(tmp_path / "cache" / "rtl" / "0123abcd")
    assert made.get() == made.get() == CONTENT
    assert made.times == 1
    return made


def test_an_entry_is_for_this_user_alone(maker):
    for path in (maker.folder.parents[1], maker.folder.parent, maker.folder, *maker.folder.iterdir()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_an_entry_is_found_whatever_the_umask(tmp_path):
    made, before = Maker(tmp_path / "cache" / "rtl" / "0123abcd"), os.umask(0)
    try:
        assert made.get() == made.get() == CONTENT
    finally:
        os.umask(before)
    assert made.times == 1


def test_the_sums_can_be_checked_by_hand(maker):
    call = ["sha256sum", "--check", "--strict", SUMS]
    done = subprocess.run(call, cwd=maker.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "product: OK\nmore: OK\n")


def truncated(folder: Path) -> None:
    os.truncate(folder / "product", 100)


def emptied(folder: Path) -> None:
    os.truncate(folder / "product", 0)


def flipped(folder: Path) -> None:
    data = bytearray((folder / "product").read_bytes())
    data[5000] ^= 1
    (folder / "product").write_bytes(data)


def planted(folder: Path) -> None:
    """Another file, of the same size and newer."""
    (folder / "other").write_bytes(CONTENT[::-1])
    (folder / "other").replace(folder / "product")


def of_another_entry(folder: Path) -> None:
    """A whole entry, with sums that are right, made for another key."""
    other = Maker(folder.with_name("ffff"))
    assert other.get() == CONTENT
    shutil.rmtree(folder)
    other.folder.rename(folder)


def without_sums(folder: Path) -> None:
    (folder / SUMS).unlink()


def without_product(folder: Path) -> None:
    (folder / "product").unlink()


def no_sums(folder: Path) -> None:
    (folder / SUMS).write_bytes(b"\xff\x00")


def a_link(folder: Path) -> None:
    """The product's content, behind a link."""
    (folder / "product").rename(folder.parent / "outside")
    (folder / "product").symlink_to(folder.parent / "outside")


def a_linked_entry(folder: Path) -> None:
    folder.rename(folder.parent / "outside")
    folder.symlink_to(folder.parent / "outside")


def a_pipe(folder: Path) -> None:
    (folder / "product").unlink()
    os.mkfifo(folder / "product")


def writable_file(folder: Path) -> None:
    (folder / "product").chmod(0o666)


def writable_entry(folder: Path) -> None:
    folder.chmod(0o777)


def group_writable_entry(folder: Path) -> None:
    os.chown(folder, -1, OTHER)
    folder.chmod(0o770)


def foreign_product(folder: Path) -> None:
    os.chown(folder / "product", OTHER, -1)


def foreign_sums(folder: Path) -> None:
    os.chown(folder / SUMS, OTHER, -1)


def foreign_entry(folder: Path) -> None:
    os.chown(folder, OTHER, -1)


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


DAMAGE = [
    truncated, emptied, flipped, planted, of_another_entry, without_sums, without_product, no_sums, a_link, a_linked_entry,
    a_pipe, writable_file, writable_entry, a_file,
]
OWNERS = [group_writable_entry, foreign_product, foreign_sums, foreign_entry]


ALL_DAMAGE = [*DAMAGE, *(pytest.param(each, marks=as_root) for each in OWNERS)]


@pytest.mark.parametrize("old", [False, True], ids=["lately used", "old"])
@pytest.mark.parametrize("damage", ALL_DAMAGE, ids=lambda damage: damage.__name__)
def test_what_is_not_as_it_was_written_is_built_anew(maker, damage: Callable[[Path], None], old):
    damage(maker.folder)
    assert read(maker.folder, "product") is None
    os.utime(maker.folder, (0, 0) if old else None)
    assert maker.get() == CONTENT
    assert maker.times == 2
    assert maker.get() == CONTENT
    assert maker.times == 2
    left = {path.suffix for path in maker.folder.parent.iterdir() if path.name not in ("ffff", "outside")}
    assert left <= {"", ".lock"}


def test_a_folder_that_others_can_write_is_not_used(maker):
    """Neither is anything taken from it nor put there; the sentence says why and what would cure that."""
    maker.folder.parent.chmod(0o777)
    before = sorted(maker.folder.parent.rglob("*"))
    with pytest.warns(CacheWarning) as said:
        assert maker.get() == CONTENT
    assert maker.times == 2
    assert sorted(maker.folder.parent.rglob("*")) == before
    assert str(said[0].message) == (
        f"the RTL model is built for this process only: every user can write to '{maker.folder.parent}': "
        f"chmod go-w '{maker.folder.parent}'; or name a folder of your own in VTAKIT_CACHE"
    )
    with pytest.warns(CacheWarning):
        maker.get()
    assert maker.times == 2  # this process has it


@as_root
def test_a_folder_of_somebody_else_is_not_used(maker):
    os.chown(maker.folder.parents[1], OTHER, -1)
    with pytest.warns(CacheWarning, match=f"belongs to user {OTHER} and this process runs as root"):
        maker.get()
    shutil.rmtree(temporary_root() / "rtl")


def test_a_folder_that_cannot_be_made_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    maker = Maker(tmp_path / "file" / "rtl" / "0123")
    with pytest.warns(CacheWarning, match=r"for this process only: it cannot be kept in .*/file/rtl: Not a directory"):
        assert maker.get() == CONTENT


def test_a_full_disk_is_none(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)

    def full(path):
        return usage._replace(free=1000) if tmp_path in Path(path).parents else usage

    monkeypatch.setattr(building.shutil, "disk_usage", full)
    maker = Maker(tmp_path / "cache" / "rtl" / "4567")
    with pytest.warns(CacheWarning, match="No space left on device"):
        assert maker.get() == CONTENT


def test_an_entry_in_a_folder_that_cannot_be_written_is_used_as_it_is(maker, monkeypatch):
    def refuse(*args: object) -> None:
        raise PermissionError(1, "no")

    os.utime(maker.folder, (0, 0))
    monkeypatch.setattr(building.os, "utime", refuse)
    assert maker.get() == CONTENT
    assert maker.times == 1


def test_what_is_built_for_one_process_goes_with_it(tmp_path):
    program = (
        "import sys, warnings\nfrom pathlib import Path\nfrom vtakit.cache.building import built_once\n"
        "warnings.simplefilter('ignore')\n"
        "made = built_once(Path(sys.argv[1]) / 'rtl' / 'a', ('product',), lambda work: (work / 'product').write_text('x'))\n"
        "print(made.path)\nassert made.path.exists()\n"
    )
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cache")], env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=True, timeout=60,
    )
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_build_that_fails_leaves_nothing(tmp_path):
    def build(work):
        (work / "half").write_text("")
        raise VtakitError("it fails")

    with raises(VtakitError, "it fails"):
        built_once(tmp_path / "rtl" / "a", ("product",), build)
    assert {path.suffix for path in (tmp_path / "rtl").iterdir()} <= {".lock"}


@pytest.fixture
def another_builds(tmp_path, monkeypatch):
    """Another process holds the lock of an entry, and ends when ours says that it waits; what ours said, and its call."""
    said, folder = [], tmp_path / "rtl" / "model"
    made = Maker(folder)
    made.get()
    folder.rename(tmp_path / "made")
    lock = FileLock(f"{folder}.lock")

    @contextmanager
    def told(what):
        said.append(what)
        (tmp_path / "made").rename(folder)
        lock.release()
        yield

    monkeypatch.setattr(building, "telling", told)
    with lock:
        yield said, made


def test_a_process_that_waits_for_anothers_entry_says_so(another_builds):
    said, made = another_builds
    assert made.get() == CONTENT
    assert made.times == 1
    assert said == ["waiting for another process that builds the same RTL model"]


def test_a_worker_waits_in_silence_and_not_for_ever(another_builds, monkeypatch):
    said, made = another_builds
    monkeypatch.setattr(building, "parent_process", lambda: "a pool")
    monkeypatch.setattr(building, "LOCK_SECONDS", 0.1)
    with raises(VtakitError, f"another process has built this RTL model for 0.1 s: see what holds {made.folder}.lock"):
        made.get()
    assert said == []


def test_what_is_going_on_is_one_line_where_there_is_no_terminal(capsys):
    what = "building a model whose name is longer than a line of eighty letters, as of a file in a deep folder"
    with telling(what) as status:
        status.update("a step")
    said = capsys.readouterr()
    assert said.err == f"{what}\n"
    assert said.out == ""
