"""Compiled models kept on disk: what is found again, what is not, and what several processes do at once."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import network

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.cache.place import CacheWarning
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.graph.errors import GraphError
from vtakit.runtime import cli, images, kept_models, module_file, source
from vtakit.runtime.cpu import target

X = np.random.default_rng(6).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder in which everything is kept, and the number of compilations."""
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_models, "WORTH_SECONDS", 0)
    made = []
    compile_graph = target.compile_graph

    def counted(graph, *args, **words):
        made.append(graph.name)
        return compile_graph(graph, *args, **words)
    monkeypatch.setattr(target, "compile_graph", counted)
    return made


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "models").rglob("*.vtak"))


def test_the_same_model_is_compiled_once(kept, tmp_path):
    first = vtakit.compile(network())
    second = vtakit.compile(network())
    assert kept == ["net"]
    assert len(files(tmp_path)) == 1
    np.testing.assert_array_equal(first.run({"x": X})["y"], second.run({"x": X})["y"])
    assert [layer.names for layer in second.image.layers] == [layer.names for layer in first.image.layers]


def test_the_graph_of_a_module_that_was_kept_stays_in_its_file(kept):
    first, second = vtakit.compile(network()), vtakit.compile(network())
    assert kept == ["net"]
    assert first.memory.graph_bytes == first.image.source.blob.size > 1000
    assert second.memory.graph_bytes == 0
    assert module_file.dump(second.image) == module_file.dump(first.image)


def test_a_model_compiles_whose_graph_cannot_be_stored(kept, tmp_path, monkeypatch):
    def refuse(graph: object) -> list[bytes]:
        raise GraphError("attribute 'x' is a dict, which a file does not hold")
    monkeypatch.setattr(source, "graph_pieces", refuse)
    module = vtakit.compile(network())
    assert module.memory.graph_bytes == 0
    module.save(tmp_path / "net.vtak")
    np.testing.assert_array_equal(vtakit.load(tmp_path / "net.vtak").run({"x": X})["y"], module.run({"x": X})["y"])
    with pytest.raises(VtakitError, match="no graph to build the code from"):
        vtakit.load(tmp_path / "net.vtak", recompile=True)


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(kept, tmp_path, monkeypatch):
    onnx.save(network(), tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0, location="net.data")
    read = images.import_model

    def changed(*args: object, **words: object) -> object:
        data = bytearray((tmp_path / "net.data").read_bytes())
        data[3] ^= 1
        (tmp_path / "net.data").write_bytes(data)
        return read(*args, **words)
    monkeypatch.setattr(images, "import_model", changed)
    vtakit.compile(tmp_path / "net.onnx")
    assert files(tmp_path) == []
    monkeypatch.setattr(images, "import_model", read)
    vtakit.compile(tmp_path / "net.onnx")
    assert len(files(tmp_path)) == 1


def test_all_that_decides_a_module_counts(kept, tmp_path):
    onnx.save(network(), tmp_path / "net.onnx")
    onnx.save(network(), tmp_path / "far.onnx", save_as_external_data=True, size_threshold=0, location="far.data")
    calls = [
        (network(), {}), (network(seed=1), {}), (network(), {"batch": 2}), (network(), {"shapes": {"x": (3, 3, 16, 16)}}),
        (network(), {"name": "other"}), (network(), {"fixed": {"x": X}}), (network(), {"fixed": {"x": X + 1}}),
        (tmp_path / "net.onnx", {}), (tmp_path / "far.onnx", {}),
    ]
    for proto, words in calls * 2:
        vtakit.compile(proto, **words)
    assert len(kept) == len(files(tmp_path)) == len(calls)
    data = bytearray((tmp_path / "far.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "far.data").write_bytes(data)
    vtakit.compile(tmp_path / "far.onnx")
    assert len(kept) == len(calls) + 1


def test_a_changed_source_is_another_compiler(kept, monkeypatch):
    vtakit.compile(network())
    monkeypatch.setattr(kept_models, "_compiler", lambda: "another")
    vtakit.compile(network())
    assert len(kept) == 2


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[:200] + b"?" + data[201:], lambda data: b""])
def test_a_damaged_module_is_compiled_again(kept, tmp_path, change):
    wanted = vtakit.compile(network()).run({"x": X})["y"]
    (file,) = files(tmp_path)
    good = file.read_bytes()
    file.write_bytes(change(good))
    np.testing.assert_array_equal(vtakit.compile(network()).run({"x": X})["y"], wanted)
    assert len(kept) == 2
    assert len(file.read_bytes()) == len(good)


def test_a_module_of_another_key_is_not_taken(kept, tmp_path):
    """Be it whole: it would be another model."""
    first = vtakit.compile(network()).run({"x": X})["y"]
    vtakit.compile(network(seed=1))
    one, other = (file.parent for file in files(tmp_path))
    for name in ("module.vtak", "SHA256SUMS"):
        (one / name).rename(tmp_path / name)
        (other / name).rename(one / name)
        (tmp_path / name).rename(other / name)
    np.testing.assert_array_equal(vtakit.compile(network()).run({"x": X})["y"], first)
    assert len(kept) == 3


def test_a_folder_that_others_can_write_keeps_nothing(kept, tmp_path):
    vtakit.compile(network())
    (tmp_path / "cache").chmod(0o777)
    with pytest.warns(CacheWarning, match=r"^compiled models are not kept: every user can write to '.*/cache': chmod go-w "):
        vtakit.compile(network())
    assert kept == ["net", "net"]


def test_nothing_is_kept_where_that_is_not_wanted(kept, tmp_path, monkeypatch):
    vtakit.compile(network(), cache=False)
    vtakit.compile(network(), after=lambda *_: None)
    monkeypatch.setattr(kept_models, "WORTH_SECONDS", 1000)
    vtakit.compile(network())
    monkeypatch.setattr(kept_models, "WORTH_SECONDS", 0)
    monkeypatch.setenv("VTAKIT_CACHE", "off")
    vtakit.compile(network())
    assert files(tmp_path) == []
    assert len(kept) == 4


def test_a_folder_that_cannot_be_written_is_none(kept, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "file"))
    assert vtakit.compile(network()).run({"x": X})["y"].shape == (1, 5)


def test_what_is_no_model_is_told_here_too(kept):
    with pytest.raises(ModelError) as raised:
        vtakit.compile({"a": 1})
    assert str(raised.value) == "a model is a path or an onnx.ModelProto, got dict"


def test_the_command_has_an_option(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    for words in ([], [], ["--no-cache"]):
        assert cli.main(["compile", "net.onnx", "-o", "net.vtak", *words]) == 0
    assert kept == ["net", "net"]


def test_two_processes_at_once(kept, tmp_path):
    """Both get a module, and one whole file is left."""
    onnx.save(network(), tmp_path / "net.onnx")
    program = (
        "import sys, vtakit\nfrom vtakit.runtime import kept_models\nkept_models.WORTH_SECONDS = 0\n"
        "print(vtakit.compile(sys.argv[1]).outputs)"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "net.onnx")], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [run.communicate()[0] for run in runs] == ["{'y': 'float32[1, 5]'}\n"] * 2
    assert len(files(tmp_path)) == 1
    vtakit.compile(tmp_path / "net.onnx")
    assert kept == []


def test_the_digest_of_a_file_is_that_of_its_bytes_wherever_the_word_lies(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_models, "_PIECE_BYTES", 64)
    rng, path = np.random.default_rng(0), tmp_path / "file"
    for case in range(200):
        data = bytearray(rng.integers(128, 256, int(rng.integers(0, 400)), np.uint8).tobytes())
        if refers := case % 2 == 0:
            at = int(rng.integers(0, len(data) + 1))
            data[at:at] = b"location"
        path.write_bytes(data)
        assert kept_models._digest(path, "the file") == (hashlib.sha256(data).digest(), refers)


def test_a_file_is_read_anew_unless_it_has_been_left_alone_for_a_while(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = kept_models._digest(path, "the file")
    state = path.stat()
    path.write_bytes(b"two")  # as many bytes, within one tick of the clock
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    second = kept_models._digest(path, "the file")
    assert second != first
    monkeypatch.setattr(kept_models, "_TICK_SECONDS", -1.0)
    monkeypatch.setattr(kept_models, "_DIGESTS", {})
    assert kept_models._digest(path, "the file") == second
    (key,) = kept_models._DIGESTS
    kept_models._DIGESTS[key] = b"known", True
    assert kept_models._digest(path, "the file") == (b"known", True)  # and nothing is read
