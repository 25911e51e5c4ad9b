"""`vtakit export`: models and modules, for this machine and others, and a sentence for what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from crt_support import run
from model_support import network
from module_support import with_header
from quantized_support import Layers, quantized

import vtakit
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.runtime import cli
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.crt.export import export_c

X = np.random.default_rng(6).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net():
    """A float network for this processor."""
    return vtakit.compile(network(), name="net")


def said(capsys, *words: str) -> tuple[str, str]:
    """Standard output and error of a command that ends well, or the error of one that does not."""
    status = cli.main(words)
    out, err = capsys.readouterr()
    assert (status == 0) is (err == "")
    return out, err


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    return tmp_path


def test_the_command_exports_models_and_modules(files, net, capsys):
    out, _ = said(capsys, "export", "net.onnx", "-o", "one", "--name", "other")
    assert out.startswith("other: 11 files, ")
    assert "bytes, in one; README.txt there describes" in out
    assert (files / "one" / "other.h").exists()
    net.save("net.vtak")
    said(capsys, "export", "net.vtak", "-o", "two")
    assert (files / "two" / "net.c").exists()


def test_the_command_exports_modules_for_other_machines(files, capsys):
    """Which this machine cannot run, and so `vtakit.load` refuses."""
    said(capsys, "compile", "net.onnx", "--target", "aarch64-linux-gnu", "--cpu", "cortex-a72", "-o", "there.vtak")
    said(capsys, "export", "there.vtak", "-o", "there")
    assert "machine code for aarch64-linux-gnu cortex-a72" in (files / "there" / "net.h").read_text()


@pytest.mark.parametrize(("words", "says"), [
    (["net.vtak", "-o", "out", "--name", "x"], "'net.vtak' is compiled already: --name goes with an ONNX model"),
    (["none.vtak", "-o", "out"], "cannot read module file 'none.vtak': No such file or directory"),
    (["net.onnx", "-o", "net.onnx"], "cannot export to 'net.onnx': Not a directory; name a folder"),
    (["net.onnx", "-o", "out", "--embed", "hex"], "embed='hex' is no way to embed weights; known: c, incbin"),
    (["net.onnx", "-o", "out", "--rtl"], "model 'net' has no part for the accelerator, so there is no RTL to export"),
    (["net.onnx", "-o", "out", "--host", "aarch64-linux-gnu"], "--host goes with --target vta; this is --target llvm"),
    (["net.onnx", "-o", "out", "--target", "vta", "--host", "arm"], "--host 'arm' is no machine: give LLVM's name of one"),
    (["net.onnx", "-o", "out", "--recompile"], "--recompile goes with a module file (.vtak), which has machine code"),
    (["net.onnx", "-o", "out", "--trusted", "k.pem"], "--trusted goes with a module file (.vtak), which has machine code"),
    (["net.onnx", "-o", "out", "--name", "main"], "'main' cannot name a network's functions in C"),
])
def test_what_is_wrong_with_a_command_is_a_sentence(files, net, capsys, words, says):
    net.save("net.vtak")
    _, err = said(capsys, "export", *words)
    assert err.startswith(f"vtakit export: {says}")
    assert err.count("\n") == 1
    assert not Path("out").exists()


def test_the_processor_beside_the_accelerator_is_an_option(files, capsys):
    """A quantized model: its parts on the processor are for another machine."""
    layers = Layers(3, channels=3, size=6)
    layers.relu(layers.conv("x", 6))
    layers.classifier(layers.last, 4)
    onnx.save(quantized(layers.model(), layers.inputs(4)), "q.onnx")
    out, _ = said(capsys, "export", "q.onnx", "--target", "vta", "--config", "tiny", "--host", "aarch64-linux-gnu", "--cpu",
                  "cortex-a53", "-o", "q", "--name", "q")
    assert " in 1 launch, " in out
    assert "machine code for aarch64-linux-gnu cortex-a53" in (files / "q" / "q.h").read_text()
    assert (files / "q" / "q_part0.o").read_bytes().startswith(b"\x7fELF")


def test_a_module_of_somebody_else(files, net, capsys):
    """Its signature is verified, or its code built anew, as `run` does."""
    net.save("net.vtak")
    said(capsys, "sign", "--new-key", "me")
    _, err = said(capsys, "export", "net.vtak", "-o", "out", "--trusted", "me.pub.pem")
    assert err.startswith("vtakit export: module file 'net.vtak' is not signed")
    assert not Path("out").exists()
    said(capsys, "sign", "net.vtak", "--key", "me.pem")
    said(capsys, "export", "net.vtak", "-o", "out", "--trusted", "me.pub.pem")
    assert (files / "out" / "net_part0.o").read_bytes() == net.image.parts_of(CpuPart)[0].code
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    assert "machine code, which becomes part of the export" in " ".join(capsys.readouterr().out.split())


def test_the_code_of_a_module_built_anew(files, capsys):
    """From the graph in the file, for this machine."""
    said(capsys, "compile", "net.onnx", "--target", "aarch64-linux-gnu", "-o", "there.vtak")
    said(capsys, "export", "there.vtak", "-o", "here", "--recompile")
    X.tofile("x.raw")
    run(["make", "-s", "-C", "here"], files)
    run(["here/build/net", "x.raw", "y.raw"], files)
    np.testing.assert_array_equal(np.fromfile("y.raw", "f4"), vtakit.compile("net.onnx").run({"x": X})["y"].ravel())


@pytest.mark.parametrize("triple", ["", "aarch64-linux-gnu", "arm-linux-gnueabi"])
@pytest.mark.parametrize(("change", "says"), [
    (lambda part: part.update(arena=64), "net: the machine code is not made for the arrays, memory or processor"),
    (lambda part: part.update(messages=["one"]), "net: the machine code is not made for the arrays, memory or processor"),
])
def test_a_module_whose_header_is_not_that_of_its_code(files, capsys, triple, change, says):
    """For any processor: the code of others is not loaded."""
    module = vtakit.compile("net.onnx", Target(triple) if triple else "llvm")
    module.save("net.vtak")
    Path("net.vtak").write_bytes(with_header(Path("net.vtak").read_bytes(), lambda header: change(header["parts"][0])))
    _, err = said(capsys, "export", "net.vtak", "-o", "out")
    assert err.startswith(f"vtakit export: {says}")
    assert not Path("out").exists()


@pytest.mark.parametrize("name", ["net(void); int evil", "net_0(", "other", "net\n"])
def test_a_module_with_functions_that_are_no_names(files, net, capsys, name):
    """Names that would be text of C."""
    part = replace(net.image.parts_of(CpuPart)[0], symbols=(name, *net.image.parts_of(CpuPart)[0].symbols[1:]))
    with pytest.raises(CodegenError, match="cannot be a function of the model 'net'"):
        export_c(replace(net.image, parts=(part,)), files / "out")
    assert not Path("out").exists()
