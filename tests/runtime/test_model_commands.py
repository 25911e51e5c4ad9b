"""`vtakit compile` and `vtakit run`."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import network
from quantized_support import small_classifier, write_quantized
from support import says

import vtakit
from vtakit.runtime import cli

X = np.random.default_rng(6).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a model and arrays for it."""
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    np.savez("in.npz", x=X)
    return tmp_path


def fails(capsys, *words: str) -> str:
    """The sentence on standard error of a command that ends with status 2 and prints nothing else."""
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.rstrip("\n")


def test_a_model_is_compiled_once_and_run(files, capsys):
    words = ("compile", "net.onnx", "-o", "net.vtak", "--library", "net.so", "--dump", "passes")
    assert cli.main(words) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["input   x: float32[1, 3, 16, 16]", "output  y: float32[1, 5]"]
    assert all(Path(f"net.{suffix}").stat().st_size for suffix in ("vtak", "so", "h", "params"))
    dumps = sorted(path.name for path in Path("passes").iterdir())
    assert dumps[0] == "00_imported.txt"
    assert dumps[-1] == "14_merge_constants.txt"
    assert "batch_norm" in Path("passes/00_imported.txt").read_text()
    assert "batch_norm" not in Path("passes/07_merge_common.txt").read_text()
    wanted = vtakit.compile("net.onnx").run({"x": X})["y"]
    for name in ("net.vtak", "net.onnx"):
        assert cli.main(["run", name, "--input", "in.npz", "--output", "out.npz", "--json", "report.json", "--profile"]) == 0
        with np.load("out.npz") as made:
            assert made.files == ["y"]
            np.testing.assert_array_equal(made["y"], wanted)
        report = json.loads(Path("report.json").read_text())
        assert [layer["ops"][0] for layer in report["layers"]] == [
            "conv", "max_pool", "conv", "global_average_pool", "gemm", "softmax",
        ]
        assert "conv1 +2" in capsys.readouterr().out


def test_results_on_a_full_disk_are_a_sentence(files, capsys):
    message = "vtakit run: cannot write the results '/dev/full': No space left on device"
    assert fails(capsys, "run", "net.onnx", "--input", "in.npz", "--output", "/dev/full") == message


def test_without_an_output_file_ranges_are_printed(files, capsys):
    assert cli.main(["run", "net.onnx", "--input", "in.npz"]) == 0
    y = vtakit.compile("net.onnx").run({"x": X})["y"]
    assert capsys.readouterr().out == f"y: float32[1, 5] from {y.min()} to {y.max()}\n"


def test_open_sizes_are_options(files, capsys):
    assert cli.main(["compile", "net.onnx", "-o", "net.vtak", "--batch", "2"]) == 0
    assert "x: float32[2, 3, 16, 16]" in capsys.readouterr().out
    assert cli.main(["compile", "net.onnx", "-o", "net.vtak", "--shape", "x=4,3,16,16"]) == 0
    assert "x: float32[4, 3, 16, 16]" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "sentence"), [
    (["compile", "net.onnx"], "vtakit compile: give -o FILE.vtak, --library FILE.so, or both"),
    (["compile", "net.onnx", "-o", "no/net.vtak"],
     "vtakit compile: cannot write the module 'no/net.vtak': No such file or directory"),
    (["compile", "net.onnx", "-o", "a.vtak", "--dump", "net.onnx/passes"],
     "vtakit compile: cannot make the folder 'net.onnx/passes': Not a directory"),
    (["compile", "net.onnx", "-o", "a.vtak", "--target", "vta2"],
     "vtakit compile: --target 'vta2' is unknown; did you mean 'vta'? Known: aarch64-linux-gnu, cuda, llvm, opencl, vta"),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", "x"],
     "vtakit compile: --shape takes NAME=N,N,…, in which a word as n, or n:1..512, is a size that stays open; got 'x'"),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", "x=1,n:5..2,3"],
     "vtakit compile: vtakit.dim('n', 5, 2): no size is from 5 to 2"),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", "x=1,3,h,w", "--ahead", "z=1"],
     "vtakit compile: --ahead names 'z', which --shape does not: give --shape NAME=…,z,…"),
    (["compile", "net.onnx", "--target", "vta", "-o", "a.vtak", "--batch", "1..8", "--dump-images", "images"],
     ("vtakit compile: model 'net' is compiled for the sizes that its runs have, and has no one image: for export, C, decisions, "
      "engines, images of memory and tuning compile it with shapes= (--shape) for one set of sizes")),
    (["compile", "net.onnx", "-o", "a.vtak", "--ahead", "batch=2,4"],
     ("vtakit compile: --ahead names 'batch', which neither --shape nor --batch leaves open: give --batch 1..64, or --shape "
      "NAME=batch,…")),
    (["compile", "net.onnx", "-o", "a.vtak", "--batch", "4", "--ahead", "batch=4"],
     ("vtakit compile: --ahead names 'batch', which neither --shape nor --batch leaves open: give --batch 1..64, or --shape "
      "NAME=batch,…")),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", "x=n,3,h,16", "--ahead", "n=1", "--ahead", "n=2"],
     "vtakit compile: --ahead names 'n' twice: give all its values at once, as n=16,128"),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", "x=n:²..3,3,16,16"],
     ("vtakit compile: --shape takes NAME=N,N,…, in which a word as n, or n:1..512, is a size that stays open; got "
      "'x=n:²..3,3,16,16'")),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", f"x={'9' * 5000}"],
     ("vtakit compile: --shape takes NAME=N,N,…, in which a word as n, or n:1..512, is a size that stays open; got "
      f"'x={'9' * 5000}'")),
    (["decisions", "net.onnx", "--shape", "x=n:1..4,3,16,16"],
     ("vtakit decisions: 'n' is a size that stays open, and decisions are made for one set of sizes: give a number for it, with "
      "shapes= or batch= (--shape, --batch)")),
    (["tune", "net.onnx", "--target", "llvm", "--records", "r.jsonl", "--search", "grid", "--batch", "1..4"],
     ("vtakit tune: 'batch' is a size that stays open, and a model is tuned for one set of sizes: give a number for it, with "
      "shapes= or batch= (--shape, --batch)")),
    *[(["export", "net.vtak", "-o", "c", option, value],
       f"vtakit export: 'net.vtak' is compiled already: {option} goes with an ONNX model")
      for option, value in (("--ahead", "n=2"), ("--tuned", "shipped"), ("--isa", "original"))],
    (["compile", "net.onnx", "-o", "a.vtak", "--ahead", "n"], "vtakit compile: --ahead takes WORD=N,N,…, got 'n'"),
    (["compile", "net.onnx", "-o", "a.vtak", "--shape", "x=1", "--shape", "x=2"], "vtakit compile: --shape names 'x' twice"),
    (["compile", "none.onnx", "-o", "a.vtak"], "vtakit compile: cannot read the model 'none.onnx': No such file or directory"),
    (["run", "net.onnx"], ("vtakit run: the model needs 'x' (float32[1, 3, 16, 16]), and --input is not given: write the arrays "
                           "with numpy.savez('IN.npz', x=…) and give --input IN.npz")),
    (["run", "net.onnx", "--device", "gpu"],
     ("vtakit run: unknown device 'gpu'; did you mean 'cpu'? Known: board, cpu, cuda, cycle, emulator, fsim, opencl, original, "
      "pynq, rtl, sim, uio")),
    (["run", "net.onnx", "--input", "none.npz"], "vtakit run: cannot read --input 'none.npz': No such file or directory"),
    (["run", "none.vtak", "--input", "in.npz"], "vtakit run: cannot read module file 'none.vtak': No such file or directory"),
    (["run", "none.vtak", "--batch", "2"],
     ("vtakit run: 'none.vtak' is compiled already: --shape, --batch, --ahead, --config, --isa, --machine, --arch, "
      "--precision, --decisions, --tuned and options of a smaller core go with a model that is not")),
    (["run", "net.onnx", "--input", "in.npz", "--output", "o", "--json", "o"],
     "vtakit run: --output and --json both name the file 'o'; each needs one of its own"),
])
def test_what_is_wrong_is_one_sentence(files, capsys, words, sentence):
    assert fails(capsys, *words) == sentence


@pytest.mark.parametrize("words", [["decisions", "net.onnx"], ["tune", "net.onnx", "--records", "r.jsonl"]])
def test_commands_of_one_set_of_sizes_do_not_take_ahead(files, capsys, words):
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--ahead", "n=2"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --ahead n=2" in capsys.readouterr().err


def test_an_optional_input_needs_no_array(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tensor = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ["n"])
    given = onnx.helper.make_value_info("x", onnx.helper.make_optional_type_proto(tensor))
    made = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [])
    graph = onnx.helper.make_graph([onnx.helper.make_node("OptionalHasElement", ["x"], ["y"])], "net", [given], [made])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), "net.onnx")
    np.savez("in.npz", x=np.zeros(3, np.float32))
    for words, value in (([], False), (["--input", "in.npz"], True)):
        assert cli.main(["run", "net.onnx", *words]) == 0
        assert capsys.readouterr().out == f"y: bool[] from {value} to {value}\n"


@pytest.mark.parametrize(("words", "sentence"), [
    (["run", "net.onnx", "--input", "in.npz", "--output", "net.onnx"], "--output 'net.onnx' would replace the model 'net.onnx'"),
    (["run", "net.onnx", "--input", "in.npz", "--output", "./in.npz"], "--output 'in.npz' would replace the input 'in.npz'"),
    (["run", "net.onnx", "--input", "in.npz", "--json", "link"], "--json 'link' would replace the model 'net.onnx'"),
    (["run", "net.vtak", "--input", "in.npz", "--output", "net.vtak"], "--output 'net.vtak' would replace the model 'net.vtak'"),
    (["compile", "net.onnx", "-o", "net.onnx"], "--output 'net.onnx' would replace the model 'net.onnx'"),
    (["compile", "far.onnx", "-o", "far.data"], "--output 'far.data' would replace the model's data 'far.data'"),
    (["compile", "net.params", "--library", "net.so"], "--library 'net.params' would replace the model 'net.params'"),
])
def test_nothing_replaces_what_is_read(files, capsys, words, sentence):
    onnx.save(network(), "far.onnx", save_as_external_data=True, size_threshold=0, location="far.data")
    Path("link").symlink_to("net.onnx")
    for name in ("net.vtak", "net.params"):
        Path(name).write_bytes(Path("net.onnx").read_bytes())
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert fails(capsys, *words) == f"vtakit {words[0]}: {sentence}; name another file"
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(("batch", "begin", "end"), [
    ("100000000", "network 'net' ", ": give smaller shapes or a smaller batch"),
    ("9" * 18, "a dimension of input 'x' is 999,999,", "the limit is 2,147,483,647 (docs/files.md)"),
])
def test_a_batch_that_no_memory_holds_is_one_sentence(files, capsys, batch, begin, end):
    sentence = fails(capsys, "compile", "net.onnx", "-o", "net.vtak", "--batch", batch)
    assert sentence.startswith(f"vtakit compile: {begin}")
    assert sentence.endswith(end)
    assert not Path("net.vtak").exists()


def test_arrays_that_cannot_be_read_are_one_sentence(files, capsys):
    Path("bad.npz").write_bytes(Path("in.npz").read_bytes()[:100])
    assert fails(capsys, "run", "net.onnx", "--input", "bad.npz").startswith(
        "vtakit run: --input 'bad.npz' is not an .npz file of numbers, or it is damaged ("
    )
    np.save("one.npy", X)
    assert fails(capsys, "run", "net.onnx", "--input", "one.npy") == (
        "vtakit run: --input 'one.npy' has one array without a name: write it with numpy.savez"
    )


@pytest.fixture
def quantized_files(tmp_path, monkeypatch):
    """A folder with a quantized model and an input for it."""
    monkeypatch.chdir(tmp_path)
    write_quantized(small_classifier(), tmp_path)
    return tmp_path


def test_a_quantized_model_runs_on_the_accelerator_as_on_the_cpu(quantized_files, capsys):
    words = ["compile", "q.onnx", "--target", "vta", "--config", "tiny", "-o", "q.vtak", "--dump-images", "images"]
    assert cli.main(words) == 0
    assert "accelerator: 3 of 5 layers in 1 launch, 100.0% of the multiply-accumulates\n" in capsys.readouterr().out
    assert sorted(path.name for path in Path("images").iterdir()) == ["000.bin", "000.json"]
    about = json.loads(Path("images/000.json").read_text())
    where = ["--insn-addr", str(about["insn_addr"]), "--insn-count", str(about["insn_count"])]
    assert cli.main(["sim", "--config", "tiny", "--image", "images/000.bin", *where, "--out", "out.bin"]) == 0
    found = {}
    for name, options in {
        "cpu": ["q.onnx"], "fsim": ["q.onnx", "--target", "vta"], "file": ["q.vtak"],
        "rtl": ["q.vtak", "--device", "rtl", "--json", "report.json", "--profile"],
    }.items():
        assert cli.main(["run", *options, "--input", "in.npz", "--output", f"{name}.npz"]) == 0
        with np.load(f"{name}.npz") as made:
            found[name] = made["y"]
    assert all(np.array_equal(each, found["cpu"]) for each in found.values())
    report = json.loads(Path("report.json").read_text())
    (launch,) = report["launches"]
    assert [layer["name"] for layer in launch["layers"]] == ["conv0", "globalaveragepool3", "gemm5"]
    assert launch["total"]["cycles"] == report["cycles"] > 0
    assert (report["device"], report["placement"]["share_of_macs_on_accelerator"]) == ("rtl", 1.0)
    assert "seconds" not in report  # the CPU's time is not that of the run
    out = capsys.readouterr().out
    assert f"q: {report['cycles']:,} cycles in 1 launch on the accelerator (device rtl); " in out


@pytest.mark.parametrize(("words", "sentence"), [
    (["run", "q.onnx", "--device", "rtl"],
     "device 'rtl' runs models for target 'vta' (--target vta); this one is for 'llvm', which runs on cpu"),
    (["run", "q.onnx", "--target", "vta", "--device", "cpu"],
     "device 'cpu' runs models for target 'llvm' … this one is for 'vta', which runs on fsim or cycle or rtl or … original"),
    (["run", "q.onnx", "--config", "tiny"], "--config goes with --target vta; this is --target llvm"),
    (["run", "q.onnx", "--target", "vta", "--config", "huge"], None),
    (["run", "q.onnx", "--target", "vta", "--device", "gpu"],
     "unknown device 'gpu'; did you mean 'cpu'? Known: board, cpu, cuda, cycle, … rtl, sim, uio"),
])
def test_devices_that_do_not_go_with_a_target_are_told(quantized_files, capsys, words, sentence):
    told = fails(capsys, *words)
    assert sentence is None or says(told, f"vtakit run: {sentence}")


def test_a_damaged_program_of_pytorch_is_refused_without_torch(tmp_path, monkeypatch, capsys):
    """Its import takes seconds, and is not needed to see that a file is no archive."""
    monkeypatch.setattr("vtakit.runtime.torch_program.find_spec", lambda name: name)  # it is there, and cannot be imported
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "net.pt2").write_bytes(b"no archive")
    assert cli.main(["run", str(tmp_path / "net.pt2")]) == 2
    assert "is no program of torch.export, or a damaged one: " in capsys.readouterr().err
