"""A report as text, JSON and picture."""

import io
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from driver_support import COUNTERS, PRODUCT, TINY
from rich.console import Console
from support import raises

from vtakit.base.errors import FileError, VtakitError
from vtakit.hw.isa.file import save
from vtakit.runtime import cli
from vtakit.runtime.report import Layer, Report

TEXT = """\
device rtl: at most 16 MACs a cycle, 8 bytes a cycle each way
work

 layer         cycles   MACs   of peak   GEMM steps   other steps   MACs/byte   roof     side   of roof   bound by   of bound
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 a [product]      200     16      0.5%            1             0        0.13   1.07   memory      7.5%      reads       7.5%
 again            400     16      0.2%            1             0        0.13   1.07   memory      3.8%      reads       3.8%
 all              600     32      0.3%            2             0        0.13   1.07   memory      5.0%      reads       5.0%

bytes of DRAM

 layer         uop read   wgt read   inp read   acc read   acc_8bit read   insn read   out written   read bus   write bus
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 a [product]          4         16          4          0               0          96             4       8.0%        0.5%
 again                4         16          4          0               0          96             4       4.0%        0.2%
 all                  8         32          8          0               0         192             8       5.3%        0.3%

cycles of each stage

 layer         stage      busy   token from before   token from after   memory   no instruction
 ──────────────────────────────────────────────────────────────────────────────────────────────
"""


@pytest.fixture
def report():
    layer = Layer.of("a [product]", TINY, PRODUCT.insns, COUNTERS, bus_bytes=8)
    return Report("rtl", (layer, replace(layer, name="again", cycles=400)))


@pytest.mark.parametrize("width", [60, 80, 100, 130])
def test_a_narrow_terminal_breaks_no_number(width):
    layer = Layer.of("stage2_block1_convolution_a", TINY, PRODUCT.insns, COUNTERS, bus_bytes=8, macs=123_456_789)
    layers = [replace(layer, cycles=98_765_432), replace(layer, name="b", gemm_steps=87_654_321)]
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(Report("rtl", layers).tables())
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = set(text.getvalue().split())
    assert {"98,765,432", "123,456,789", "87,654,321", "246,913,578"} <= words
    assert not [word for word in words if word.endswith(",") and word[0].isdigit()]



def test_the_tables(report):
    text = str(report)
    assert text.startswith(TEXT)
    assert " a [product]   load       5.0%                0.0%               0.0%    45.0%            50.0%\n" in text
    assert "               compute   10.0%               50.0%               0.0%    20.0%            20.0%\n" in text


def test_what_a_device_does_not_tell_is_left_out():
    text = str(Report("fsim", (Layer.of("product", TINY, PRODUCT.insns, {}),)))
    row = "product        –     16         –            1             0        0.13      –      –         –          –          –"
    assert f" {row}\n" in text
    assert "cycles of each stage" not in text
    assert "\n all " not in text


def test_json_holds_everything(report):
    found = json.loads(report.to_json())
    assert (found["device"], found["peak_macs_a_cycle"], found["bus_bytes_a_cycle"]) == ("rtl", 16, 8)
    first, again = found["layers"]
    assert (first["name"], first["cycles"], again["cycles"], found["total"]["cycles"]) == ("a [product]", 200, 400, 600)
    assert first["read_bytes"] == {"uop": 4, "wgt": 16, "inp": 4, "acc": 0, "acc_8bit": 0, "insn": 96}
    assert first["stages"]["load"] == {"busy": 10, "wait_prev": 0, "wait_next": 0, "wait_memory": 90, "idle": 100}
    assert first["share_of_peak"] == 0.005
    assert (first["least_cycles"], first["bound_by"]) == ({"steps": 1, "reads": 15, "writes": 1}, "reads")
    bare = json.loads(Report("fsim", (Layer.of("product", TINY, PRODUCT.insns, {}),)).to_json())["layers"][0]
    assert {name for name, value in bare.items() if value is None} == {
        "cycles", "read_beats", "write_beats", "stages", "macs_a_cycle", "share_of_peak", "roof_macs_a_cycle", "roofline_side",
        "share_of_roof", "bound_by", "share_of_bound",
    }


def save_apart(report: Report, *paths: Path) -> None:
    """Save files in a process of its own: matplotlib's extension does not load beside everything that other tests have loaded."""
    code = "import pickle, sys; report = pickle.load(sys.stdin.buffer)\nfor path in sys.argv[1:]: report.save(path)"
    subprocess.run([sys.executable, "-c", code, *map(str, paths)], input=pickle.dumps(report), check=True, timeout=120)


def test_files_by_their_ending(report, tmp_path):
    save_apart(report, *(tmp_path / name for name in ("r.txt", "r.json", "r.svg", "r.png", "again.svg", "again.PNG")))
    assert (tmp_path / "r.txt").read_text() == f"{report}\n"
    assert (tmp_path / "r.json").read_text() == report.to_json()
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "r.svg").read_text()
    for text in ("MACs a cycle", "1  a [product]", "2  again", "token from load", "roofline: 16 MACs, 8 bytes each way a cycle"):
        assert f">{text}</text>" in svg
    assert (tmp_path / "again.svg").read_text() == svg
    assert (tmp_path / "again.PNG").read_bytes() == (tmp_path / "r.png").read_bytes()


def test_a_picture_of_layers_that_multiply_or_last_nothing(report, tmp_path):
    idle = replace(report.layers[0], macs=0, cycles=0, read=dict.fromkeys(report.layers[0].read, 0), written={"out": 0})
    save_apart(Report("rtl", (idle,)), tmp_path / "r.svg")
    assert "a [product]" in (tmp_path / "r.svg").read_text()
    assert " a [product]        0      0         – " in str(Report("rtl", (idle,)))


def test_what_cannot_be_saved(report, tmp_path, monkeypatch):
    with raises(VtakitError, "a report is a .html, .json, .png, .svg or .txt file, not 'r.pdf'"):
        report.save("r.pdf")
    bare = Report("fsim", (Layer.of("product", TINY, PRODUCT.insns, {}),))
    with raises(VtakitError, "a plot needs cycles, which device 'fsim' does not have: use device 'cycle'"):
        bare.save(tmp_path / "r.svg")
    with raises(FileError, "cannot write the report '/nowhere/r.json': No such file or directory"):
        report.save("/nowhere/r.json")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with raises(VtakitError, "a plot needs the package matplotlib: pip install 'vtakit[plot]'"):
        report.save(tmp_path / "r.png")
    assert list(tmp_path.iterdir()) == []


def test_reports_that_cannot_be(report):
    with raises(VtakitError, "a report needs at least one layer"):
        Report("rtl", ())
    with raises(VtakitError, "the layers of a report must be of one device: their peaks or buses differ"):
        Report("rtl", (report.layers[0], replace(report.layers[1], bus_bytes=16)))


def test_tables_and_json_need_no_matplotlib():
    code = "import sys; sys.modules['matplotlib'] = None; from vtakit.runtime.report import Report"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(PRODUCT, "product.vta")
    Path("x.bin").write_bytes(bytes(4))
    Path("w.bin").write_bytes(bytes(16))
    return ["sim", "product.vta", "--input", "x=x.bin", "--input", "w=w.bin"]


def test_the_command_prints_the_tables_in_place_of_the_counters(files, capsys):
    assert cli.main([*files, "--report", "table", "--report", "r.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("device fsim: at most 16 MACs a cycle\n")
    assert "insn_counter" not in out
    assert json.loads(Path("r.json").read_text())["layers"][0]["name"] == "product.vta"


@pytest.mark.xdist_group("rtl")
def test_the_command_on_the_hardware(files):
    words = [*files, "--device", "rtl", "--bandwidth", "50", "--report", "r.json", "--report", "r.svg"]
    done = subprocess.run([sys.executable, "-m", "vtakit.runtime", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "compute_wait_memory" in done.stdout
    found = json.loads(Path("r.json").read_text())
    assert (found["bus_bytes_a_cycle"], found["device"]) == (4, "rtl")
    assert sum(found["layers"][0]["stages"]["store"].values()) == found["layers"][0]["cycles"]
    assert "<svg" in Path("r.svg").read_text()


@pytest.mark.parametrize(("path", "message"), [
    ("r.pdf", "a report is a .html, .json, .png, .svg or .txt file, not 'r.pdf'"),
    ("r.svg", "a plot needs cycles, which device 'fsim' does not have: use device 'cycle'"),
    ("no/r.json", "cannot write the report 'no/r.json': No such file or directory"),
])
def test_a_report_that_cannot_be_written_is_told_before_the_run(files, capsys, path, message):
    Path("x.bin").unlink()  # a run would miss it
    assert cli.main([*files, "--report", path]) == 2
    assert capsys.readouterr().err == f"vtakit sim: {message}\n"


def test_layers_that_overlap_may_exceed_a_bound_and_the_table_says_why(report):
    note = "Layers overlap: a layer's cycles count from the last instruction of the layer before"
    assert note not in str(report)
    short = replace(report.layers[0], cycles=10)
    assert short.share_of_bound > 1
    text = str(Report("rtl", (short, report.layers[1])))
    assert note in text
    assert "all" in text.partition(note)[0]
