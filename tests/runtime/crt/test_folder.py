"""The folder of an export: all files of one export or none, and none over what somebody else wrote or changed."""

import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from crt_support import STRICT, run
from model_support import network
from support import raises

import vtakit
from vtakit.base import folder
from vtakit.base.errors import FileError, VtakitError
from vtakit.runtime.crt.export import export_c

X = np.random.default_rng(6).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net():
    """A float network for this processor."""
    return vtakit.compile(network(), name="net")


@pytest.fixture(scope="module")
def other():
    """The same with other weights."""
    return vtakit.compile(network(seed=1), name="net")


def contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_an_export_replaces_an_earlier_one_and_nothing_else(net, tmp_path):
    net.export_c(tmp_path)
    manifest = json.loads((tmp_path / "vtakit.json").read_text())
    assert manifest["files"] == {name: digest for name, digest in contents(tmp_path).items() if name != "vtakit.json"}
    assert (manifest["model"], manifest["inputs"]) == ("net", {"x": "float32[1, 3, 16, 16]"})
    (tmp_path / "mine.c").write_text("int mine;\n")
    (tmp_path / "build").mkdir()
    before = {file.name for file in tmp_path.iterdir()}
    net.export_c(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == before
    assert (tmp_path / "mine.c").read_text() == "int mine;\n"
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    changed = "its 'main.c' was changed since the last export; move it away, or name another folder"
    with raises(VtakitError, f"cannot export to {str(tmp_path)!r}: {changed}"):
        net.export_c(tmp_path)
    assert (tmp_path / "main.c").read_text() == "int main(void) { return 0; }\n"


def test_files_that_no_export_wrote_stay(net, tmp_path):
    (tmp_path / "net.h").write_text("mine")
    before = contents(tmp_path)
    with raises(VtakitError, f"cannot export to {str(tmp_path)!r}: it has a 'net.h' that no export wrote; name another folder"):
        net.export_c(tmp_path)
    assert contents(tmp_path) == before
    (tmp_path / "vtakit.json").write_text('{"files": [1]}')  # of somebody else
    with pytest.raises(VtakitError, match="that no export wrote"):
        net.export_c(tmp_path)
    with pytest.raises(VtakitError, match="name a folder"):
        net.export_c(tmp_path / "net.h")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(net, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(VtakitError, match="Permission denied"):
        net.export_c(tmp_path)
    tmp_path.chmod(0o700)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("first", "second"), [("incbin", "c"), ("c", "incbin")])
def test_weights_that_are_embedded_in_another_way(net, other, tmp_path, first, second):
    """What is built over an earlier build has the new weights."""
    export_c(net.image, tmp_path, embed=first)
    run(["make", "-s"], tmp_path)
    names = export_c(other.image, tmp_path, embed=second)
    assert {path.name for path in tmp_path.iterdir()} == {*names, folder.MANIFEST, "build"}
    X.tofile(tmp_path / "x.raw")
    run(["make", "-s", f"CFLAGS={' '.join(STRICT)}"], tmp_path)
    run(["build/net", "x.raw", "y.raw"], tmp_path)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.raw", "f4"), other.run({"x": X})["y"].ravel())


@pytest.mark.parametrize("embed", ["incbin", "c"])
def test_the_data_are_built_from_their_own_file(net, tmp_path, embed):
    """Not from a file of the same stem that somebody else put there."""
    export_c(net.image, tmp_path, embed=embed)
    (tmp_path / f"net_data.{'c' if embed == 'incbin' else 'S'}").write_text("#error\n")
    run(["make", "-s"], tmp_path)


def test_a_model_of_another_name_takes_the_place_of_the_first(net, tmp_path):
    net.export_c(tmp_path)
    (tmp_path / "mine.c").write_text("int mine;\n")
    names = vtakit.compile(network(), name="renamed").export_c(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names, folder.MANIFEST, "mine.c"}


def test_a_file_that_only_the_last_export_has_was_changed(net, tmp_path):
    net.export_c(tmp_path)
    (tmp_path / "net_data.S").write_text("/* mine */\n")
    before = contents(tmp_path)
    with pytest.raises(VtakitError, match=r"its 'net_data\.S' was changed since the last export"):
        export_c(net.image, tmp_path, embed="c")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["../mine", "sub/mine", "{}/mine"])
def test_a_manifest_deletes_nothing_outside_the_folder(net, tmp_path, name):
    to = tmp_path / "out"
    (to / "sub").mkdir(parents=True)
    path = to / name.format(tmp_path)
    path.write_text("mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    (to / "net.h").write_text("mine")  # of the last export, as the manifest says
    (to / folder.MANIFEST).write_text(json.dumps({"files": {name.format(tmp_path): digest, "net.h": digest}}))
    net.export_c(to)
    assert path.read_text() == "mine"


def tree(root: Path) -> dict[str, str]:
    """Digest of each file below a folder, and "" for each folder."""
    return {str(path.relative_to(root)): "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*")}


@pytest.mark.parametrize("early", [False, True], ids=["late", "early"])
@pytest.mark.parametrize("again", [False, True], ids=["new", "again"])
def test_an_interrupt_leaves_the_folder_as_it_was(net, other, tmp_path, monkeypatch, again, early):
    """Before each of the renames that put the files in their places, and after it."""
    to = tmp_path / "above" / "out"
    if again:
        net.export_c(to)
        (to / "mine.c").write_text("int mine;\n")
    before = tree(tmp_path)
    rename, left = Path.replace, 0  # renames until the interrupt, which comes before the last of them or after it

    def interrupted(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left == 0 and early:
            raise KeyboardInterrupt
        done = rename(self, target)
        if left == 0:
            raise KeyboardInterrupt
        return done
    monkeypatch.setattr(Path, "replace", interrupted)
    renames = 12 + (12 if again else 0)
    for number in range(1, renames + 1):
        left = number
        with pytest.raises(KeyboardInterrupt):
            other.export_c(to)
        assert tree(tmp_path) == before
    left = renames + 1
    other.export_c(to)
    assert left == 1


def test_a_disk_that_is_full(net, other, tmp_path, monkeypatch):
    """Nothing is left of a new export, and all of an earlier one."""
    net.export_c(tmp_path / "old")
    before = tree(tmp_path)
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "net.bin":
            write(self, data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, data)
    monkeypatch.setattr(Path, "write_bytes", full)
    for to in (tmp_path / "old", tmp_path / "above" / "new"):
        with raises(FileError, f"cannot write the export's file {str(to / 'net.bin')!r}: No space left on device"):
            other.export_c(to)
        assert tree(tmp_path) == before
