"""Module files that are built anew from their graph, and signed module files."""

import errno
import json
import os
import stat
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from model_support import network
from module_support import with_header
from quantized_support import Layers, quantized

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.stored import dump_graph, load_graph
from vtakit.runtime import cli, module_file, source
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.module import Module
from vtakit.runtime.module_file import PackageError
from vtakit.runtime.signing import SignatureError, new_key, sign
from vtakit.runtime.vta.part import VtaPart

X = np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net() -> Module:
    return vtakit.compile(network())


def with_code(image: Any, code: bytes) -> Any:
    (part,) = image.parts_of(CpuPart)
    return replace(image, parts=(replace(part, code=code),))


def test_code_is_built_anew_and_none_of_the_file_is_taken(net, tmp_path):
    path = tmp_path / "net.vtak"
    module_file.save(with_code(net.image, b"no code"), path)
    with pytest.raises(VtakitError, match="damaged object"):
        vtakit.load(path)
    again = vtakit.load(path, recompile=True)
    np.testing.assert_array_equal(again.run({"x": X})["y"], net.run({"x": X})["y"])
    assert module_file.dump(again.image) == module_file.dump(net.image)


def test_an_error_while_code_is_built_anew_is_not_one_of_the_file(net, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x")
    net.save(tmp_path / "net.vtak")
    monkeypatch.setattr("vtakit.runtime.cpu.target.compile_graph", full)
    with pytest.raises(OSError, match="No space left") as caught:
        vtakit.load(tmp_path / "net.vtak", recompile=True)
    assert "module file" not in str(caught.value)


def test_a_module_of_another_machine_or_version_is_built_anew(net, tmp_path, monkeypatch):
    path = tmp_path / "net.vtak"
    vtakit.compile(network(), Target("aarch64-unknown-linux-gnu"), cache=False).save(path)
    with pytest.raises(VtakitError, match="--recompile"):
        vtakit.load(path)
    np.testing.assert_array_equal(vtakit.load(path, recompile=True).run({"x": X})["y"], net.run({"x": X})["y"])
    monkeypatch.setattr(vtakit, "__version__", "0.0.1")
    net.save(path)
    monkeypatch.undo()
    with pytest.raises(PackageError, match="--recompile"):
        vtakit.load(path)
    vtakit.load(path, recompile=True)


def test_programs_of_the_accelerator_are_built_anew(tmp_path):
    layers = Layers(3, channels=3, size=6)
    layers.relu(layers.conv("x", 6))
    module = vtakit.compile(quantized(layers.model(), layers.inputs(4)), "vta", config="tiny")
    assert module.image.parts_of(VtaPart)
    module.save(tmp_path / "net.vtak")
    again = vtakit.load(tmp_path / "net.vtak", recompile=True)
    assert again.image.parts_of(VtaPart)[0].program == module.image.parts_of(VtaPart)[0].program
    given = {port.name: np.ones(port.shape, "f4") for port in module.image.inputs}
    for name, made in module.run(given).items():
        np.testing.assert_array_equal(again.run(given)[name], made)


def test_options_of_the_compilation_are_kept(tmp_path):
    module = vtakit.compile(network(), precision="float16", winograd=False, integer=False)
    module.save(tmp_path / "net.vtak")
    again = vtakit.load(tmp_path / "net.vtak", recompile=True)
    assert again.image.said == module.image.said != ""
    assert again.image.source.options == module.image.source.options
    assert again.image.source.options.winograd is False


def test_a_loaded_module_is_saved_with_its_graph(net, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_IN_MEMORY_BYTES", 0)
    made = vtakit.compile(network(), cache=False)
    made.save(tmp_path / "a.vtak")
    loaded = vtakit.load(tmp_path / "a.vtak")
    loaded.save(tmp_path / "b.vtak")
    assert (tmp_path / "a.vtak").read_bytes() == (tmp_path / "b.vtak").read_bytes()
    loaded.save(tmp_path / "a.vtak")  # the file that it reads the graph from
    assert (tmp_path / "a.vtak").read_bytes() == (tmp_path / "b.vtak").read_bytes()
    with (tmp_path / "a.vtak").open("r+b") as file:
        data = file.read()
        file.seek(len(data) - 60)
        file.write(b"changed")
    kept = vtakit.load(tmp_path / "b.vtak")
    with (tmp_path / "b.vtak").open("r+b") as file:
        file.seek(len(data) - 60)
        file.write(b"changed")
    with pytest.raises(VtakitError, match="its file has changed since it was loaded"):
        kept.save(tmp_path / "c.vtak")
    kept.save(tmp_path / "c.vtak", graph=False)


def test_the_graph_can_be_left_out(net, tmp_path):
    net.save(tmp_path / "net.vtak", graph=False)
    assert (tmp_path / "net.vtak").stat().st_size < len(module_file.dump(net.image)) - 3000
    vtakit.load(tmp_path / "net.vtak").run({"x": X})
    with pytest.raises(PackageError, match=r"no graph .*graph=False \(--no-graph\)"):
        vtakit.load(tmp_path / "net.vtak", recompile=True)


def test_a_stored_graph_is_the_same_graph(net):
    graph = net.image.source.graph
    assert isinstance(graph, Graph)
    assert dump_graph(graph) == net.image.source.blob.read()
    assert str(load_graph(dump_graph(graph))) == str(graph)


def _node(at: int, to: Any) -> Callable[[Any], None]:
    return lambda head: head["nodes"][0].__setitem__(at, to)


@pytest.mark.parametrize("change", [
    lambda head: head.update(version=2), lambda head: head.pop("nodes"), _node(0, "os.system"), _node(0, 3), _node(2, [99]),
    _node(2, [-1, 0]), _node(2, []), _node(3, ["a", "b", "c"]), _node(4, {"nonsense": 1}), _node(4, {"strides": {"a": 1}}),
    _node(4, []), lambda head: head["inputs"][0].__setitem__(1, "object"), lambda head: head["outputs"][0].__setitem__(1, 10_000),
    lambda head: head["inputs"][0].__setitem__(2, [1] * 2000), lambda head: head["inputs"][0].__setitem__(0, "x" * 2000),
    lambda head: head["constants"][0].__setitem__(2, [1 << 30, 1 << 30]), lambda head: head["constants"].pop(),
    lambda head: head.update(name=3), lambda head: head.update(deep=json.loads("[" * 90 + "]" * 90)),
])
def test_a_stored_graph_is_checked_as_a_model_is(net, change):
    data = net.image.source.blob.read()
    size = int.from_bytes(data[:4], "little")
    head = json.loads(data[4:4 + size])
    change(head)
    text = json.dumps(head).encode()
    with pytest.raises(GraphError, match=r"^the stored graph is damaged: ") as caught:
        load_graph(struct.pack("<I", len(text)) + text + data[4 + size:])
    assert "\n" not in str(caught.value)


def test_a_damaged_source_is_told(net, tmp_path):
    path = tmp_path / "net.vtak"
    for change in (
        lambda header: header["source"].update(size=1 << 50), lambda header: header["source"].update(sha256="0"),
        lambda header: header["source"].update(precision="float8"), lambda header: header["source"].update(integer=3),
        lambda header: header["target"].update(triple=7), lambda header: header.update(source=7),
    ):
        path.write_bytes(with_header(module_file.dump(net.image), change))
        with pytest.raises(VtakitError) as caught:
            vtakit.load(path, recompile=True)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


# Signatures.

@pytest.fixture
def keys(tmp_path) -> tuple[Path, Path]:
    return new_key(tmp_path / "me")


def test_a_signed_module_loads_with_the_key_only(net, tmp_path, keys):
    path, (private, public) = tmp_path / "net.vtak", keys
    _, other = new_key(tmp_path / "other")
    net.save(path)
    with pytest.raises(SignatureError, match=r"is not signed.*vtakit sign.*recompile"):
        vtakit.load(path, trusted=public)
    sign(path, private)
    for trusted in (public, str(public), public.read_text(), [other, public],
                    serialization.load_pem_public_key(public.read_bytes())):
        np.testing.assert_array_equal(vtakit.load(path, trusted=trusted).run({"x": X})["y"], net.run({"x": X})["y"])
    vtakit.load(path)
    vtakit.load(path, trusted=public, recompile=True)
    with pytest.raises(SignatureError, match="none of the trusted ones"):
        vtakit.load(path, trusted=[other])
    size = path.stat().st_size
    sign(path, tmp_path / "other.pem")
    assert path.stat().st_size == size  # in place of the other signature
    vtakit.load(path, trusted=other)


def test_a_private_key_that_others_may_read_is_a_warning(net, tmp_path, keys):
    private, _ = keys
    net.save(tmp_path / "net.vtak")
    private.chmod(0o644)
    with pytest.warns(UserWarning, match=r"^others may read the private key '.*me\.pem', and then sign as you: chmod 600 it$"):
        sign(tmp_path / "net.vtak", private)


def test_every_byte_is_signed(net, tmp_path, keys):
    path, (private, public) = tmp_path / "net.vtak", keys
    net.save(path)
    sign(path, private)
    data = path.read_bytes()
    for at in (0, 9, 100, len(data) // 2, len(data) - 140, len(data) - 104, len(data) - 90, len(data) - 64, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(SignatureError) as caught:
            vtakit.load(path, trusted=public)
        assert "\n" not in str(caught.value)
    body = with_header(data[:-104], lambda header: header["parts"][0].update(arena=64))
    path.write_bytes(body + data[-104:])  # its checksum is right
    with pytest.raises(SignatureError, match="changed after it was signed"):
        vtakit.load(path, trusted=public)


def test_a_private_key_is_readable_by_its_owner_only(tmp_path):
    before = os.umask(0)
    try:
        private, public = new_key(tmp_path / "me")
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert b"PRIVATE" not in public.read_bytes()
    with pytest.raises(SignatureError, match="is there already"):
        new_key(tmp_path / "me")


def test_no_key_file_is_replaced(tmp_path, monkeypatch):
    """Nor one that appears after the look, and then neither file is left behind."""
    (tmp_path / "me.pub.pem").write_text("theirs")
    monkeypatch.setattr(Path, "exists", lambda path: False)
    with pytest.raises(VtakitError, match=r"cannot write the public key .*me.pub.pem.*File exists"):
        new_key(tmp_path / "me")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("me.pub.pem", "theirs")]


def test_a_signature_over_the_bytes_alone_is_none_of_a_module(net, tmp_path, keys):
    """A key may sign other things; what it signs for vtakit begins with a context."""
    path, (private, public) = tmp_path / "net.vtak", keys
    net.save(path)
    sign(path, private)
    data = path.read_bytes()
    body, named = data[:-104], data[-96:-64]
    key = serialization.load_pem_private_key(private.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    path.write_bytes(data[:-64] + key.sign(body + named))
    with pytest.raises(SignatureError, match="changed after it was signed"):
        vtakit.load(path, trusted=public)


def test_keys_that_cannot_be_used_are_told(net, tmp_path, keys):
    path, (private, public) = tmp_path / "net.vtak", keys
    net.save(path)
    other = rsa.generate_private_key(65537, 2048)
    form = serialization
    (tmp_path / "rsa.pem").write_bytes(other.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    locked = form.load_pem_private_key(private.read_bytes(), None).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"word"))
    (tmp_path / "locked.pem").write_bytes(locked)
    os.mkfifo(tmp_path / "pipe.pem")
    for key, words in [(public, "no private key"), (tmp_path / "rsa.pem", "Ed25519"), (tmp_path / "locked.pem", "password"),
                       (tmp_path / "pipe.pem", "pipe"), (tmp_path / "none.pem", "No such file")]:
        with pytest.raises(SignatureError, match=words):
            sign(path, key)
    for key, words in [(private, "give NAME.pub.pem"), (3, "trusted has 3"), ([], "no key"), ("-----BEGIN", "no public key")]:
        with pytest.raises(SignatureError, match=words):
            vtakit.load(path, trusted=key)
    with pytest.raises(PackageError, match="not a vtakit module file"):
        sign(private, private)


@pytest.mark.parametrize(("words", "said"), [
    (["sign", "--new-key", "me"], "making a key"), (["sign", "net.vtak", "--key", "me.pem"], "signing a module"),
])
def test_without_cryptography_the_cure_is_said(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"vtakit sign: {said} needs the package cryptography: pip install 'vtakit[sign]'\n"
    assert list(tmp_path.iterdir()) == []


def test_the_commands_sign_and_verify(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    np.savez("in.npz", x=X)
    assert cli.main(["compile", "net.onnx", "-o", "net.vtak"]) == 0
    assert cli.main(["sign", "--new-key", "me"]) == 0
    assert cli.main(["run", "net.vtak", "--input", "in.npz", "--trusted", "me.pub.pem"]) == 2
    assert cli.main(["sign", "net.vtak", "--key", "me.pem", "-o", "signed.vtak"]) == 0
    assert cli.main(["run", "signed.vtak", "--input", "in.npz", "--trusted", "me.pub.pem"]) == 0
    assert cli.main(["run", "net.vtak", "--input", "in.npz", "--recompile"]) == 0
    capsys.readouterr()
    assert cli.main(["run", "net.onnx", "--input", "in.npz", "--recompile"]) == 2
    assert "--recompile goes with a module file" in capsys.readouterr().err
    for words in ([], ["net.vtak"], ["--key", "me.pem"], ["net.vtak", "--new-key", "x"]):
        assert cli.main(["sign", *words]) == 2
        assert "\n" not in capsys.readouterr().err.strip()
    assert cli.main(["compile", "net.onnx", "-o", "small.vtak", "--no-graph"]) == 0
    assert Path("small.vtak").stat().st_size < Path("net.vtak").stat().st_size
