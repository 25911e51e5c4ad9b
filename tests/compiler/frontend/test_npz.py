"""Arrays in .npz files from strangers: every fault is one sentence, and nothing is read that was not checked."""

import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.npz import Header, read_npz

X = np.arange(6, dtype="f4").reshape(2, 3)


def every(name: str, header: Header) -> bool:
    return True


def npy(shape: str = "(2, 3)", descr: str = "'<f4'", data: bytes = X.tobytes(), version: bytes = b"\x01\x00") -> bytes:
    """An array's file, whatever its header says."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def write(path: Path, data: bytes = npy(), name: str = "x.npy", **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr(name, data)
    return path


def central(path: Path, offset: int, new: bytes) -> Path:
    """The same with bytes changed in the record of the first file in the archive's directory."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + offset
    data[at:at + len(new)] = new
    path.write_bytes(data)
    return path


def refused(path: Path, *words: str) -> None:
    with pytest.raises(VtakitError) as caught:
        read_npz(path, "--input", every)
    assert "\n" not in str(caught.value)
    assert "--input" in str(caught.value)
    assert "allow_pickle" not in str(caught.value), "advice of NumPy's that nobody should follow"
    for word in words:
        assert word in str(caught.value)


def test_arrays_are_read_by_name(tmp_path):
    given = {"x": X, "y": np.array(3), "z": np.asfortranarray(X.astype("i8")), "empty": np.zeros((0, 4), "u1")}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **given)
        found = read_npz(tmp_path / "a.npz", "--input", every)
        assert found.keys() == given.keys()
        for name, array in given.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_what_is_not_wanted_is_not_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=X, big=np.zeros(50_000_000, "u1"))
    tracemalloc.start()
    found = read_npz(tmp_path / "a.npz", "--input", lambda name, header: name == "x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    assert found["big"].shape == (50_000_000,)
    np.testing.assert_array_equal(found["x"], X)


@pytest.mark.parametrize(("data", "words"), [
    (npy(shape="(2, 4)"), ("float32[2, 4]", "32 bytes", "has 24")),
    (npy(shape="(1000000000000, 3)"), ("dimension", "1,000,000,000,000")),
    (npy(shape="(100000, 100000, 100000)"), ("number of elements",)),
    (npy(shape="(-1, 3)"), ("at least 0",)),
    (npy(shape=f"({'1, ' * 40})"), ("rank", "40", "32")),
    (npy(shape="2"), ()),
    (npy(shape="__import__('os')"), ()),
    (npy(descr="'|O'"), ("object", "not read")),
    (npy(descr="[('a', '<f4')]"), ("records are not read",)),
    (npy(descr="'<f3'"), ()),
    (npy(version=b"\x03\x00"), ("version (3, 0)",)),
    (npy()[:40], ()),
    (npy()[:-1], ("24 bytes", "has 23")),
    (npy(data=X.tobytes() + b"\0"), ("24 bytes", "has 25")),
    (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, ()),
    (npy(shape="(\n1"), ()),
    (npy(shape=f"({'0' * 12000})"), ("the header of an array cannot be read: ",)),
    (b"", ()),
])
def test_headers_are_checked(tmp_path, data, words):
    refused(write(tmp_path / "a.npz", data), ".npz file of numbers", *words)


def test_objects_are_not_unpickled(tmp_path):
    canary = tmp_path / "canary"

    class Canary:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(canary),)
    np.savez(tmp_path / "a.npz", x=np.array([Canary()], object))
    refused(tmp_path / "a.npz", "objects and records are not read")
    assert not canary.exists()


def test_every_fault_of_the_archive_is_one_sentence(tmp_path):
    path = tmp_path / "a.npz"
    refused(central(write(path), 8, b"\x01\0"), "encrypted")
    refused(central(write(path), 10, struct.pack("<H", 12)), "method 12", "stored, deflate")
    refused(central(write(path), 24, struct.pack("<I", 1 << 30)), "stored, with")
    refused(central(write(path, compression=8), 24, struct.pack("<I", 1 << 30)), "limit is", "1,073,741,824 bytes")
    refused(central(write(path), 16, b"\0\0\0\0"), "Bad CRC-32")
    refused(central(write(path), 42, struct.pack("<I", 7)))
    refused(central(write(path), 20, b"\xff" * 8))  # sizes of the ZIP64 record, which is not there
    refused(central(write(path), 6, b"\xff\0"))  # a version of the format that nobody has
    refused(write(path, name="x.txt"), "no array")
    refused(write(path, name="x" * 2000 + ".npy"), "2,004 characters")
    data = write(path).read_bytes()
    for size in (0, 1, 30, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        refused(path)


def test_an_archive_does_not_expand_without_bound(tmp_path):
    """Each file alone expands by less than deflate can."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for at in range(5):
            archive.writestr(f"x{at}.npy", npy("(16777216,)", data=bytes(1 << 26)))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 21
    refused(tmp_path / "a.npz", "what inflating an archive of", "adds is 33", "the limit is 268,435,456")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", npy())
        archive.writestr("x.npy", npy())
    refused(tmp_path / "a.npz", "two files 'x.npy'")


def test_an_archive_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "a.npz")
    refused(tmp_path / "a.npz", "is a pipe")
    refused(Path("/dev/zero"), "is a device")
    refused(tmp_path, "Is a directory")
    stream = io.BytesIO()
    np.save(stream, X)
    (tmp_path / "one.npy").write_bytes(stream.getvalue())
    refused(tmp_path / "one.npy", "one array without a name", "numpy.savez")
