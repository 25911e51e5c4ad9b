"""Names from files never control the terminal: not in results, errors, tables, pages or progress bars."""

import hashlib
import re
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from model_support import network
from module_support import with_header
from quantized_support import quantized, small_classifier

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted, one_line, printable
from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.file import dump
from vtakit.runtime import cli
from vtakit.runtime.grid import Grid
from vtakit.runtime.report.layer import Layer
from vtakit.runtime.report.plot import plot
from vtakit.runtime.report.report import Report
from vtakit.runtime.terminal import complain, console, progress, say

# Retitle the window, clear the screen, ring, go back in the line, forge a line, reverse the text, in C1 too; and markup of rich,
# matplotlib and HTML.
HOSTILE = "a\x1b]0;title\x07\x1b[2J\b\r\nvtakit: forged\u202e\u2066\x9b31m\u2028[/]$x^{$<b>"
ROOT = Path(__file__).parents[2]


def is_safe(text: str) -> bool:
    """Whether text has no control or formatting characters but newlines and tabs, and no line of its own that a name forged."""
    plain = all(char in "\n\t" or unicodedata.category(char)[0] != "C" for char in text)
    return plain and "\u2028" not in text and not any(line.startswith("vtakit: forged") for line in text.splitlines())


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with hostile names everywhere."""
    names: dict[str, str] = {}

    def name(old: str) -> str:
        return names.setdefault(old, f"{HOSTILE}{len(names)}") if old else old

    model.graph.name = HOSTILE
    for each in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        each.name = name(each.name)
    for node in model.graph.node:
        node.name = name(f"node {node.name}")
        node.input[:], node.output[:] = map(name, node.input), map(name, node.output)
    del model.graph.value_info[:]
    return model


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = small_classifier()
    hostile = renamed(net.model())
    onnx.save(hostile, "float.onnx")
    onnx.save(renamed(quantized(net.model(), net.inputs(4))), "q.onnx")
    odd = renamed(network())
    odd.graph.node[0].op_type = HOSTILE
    onnx.save(odd, "odd.onnx")
    (given,) = [each.name for each in hostile.graph.input]
    np.savez("in.npz", **{given: net.inputs(1, 7)})
    np.savez("many.npz", **{given: net.inputs(4)})
    np.savez("wrong.npz", **{HOSTILE: np.zeros(3)})
    Path("bad.vtas").write_text(f".buffer {HOSTILE} input 64\nfinish\n")
    Path("bad.json").write_text('{"LOG_\\u001b[2J\\n": 4}')
    return tmp_path


def tampered(name: str) -> bytes:
    """A program file, whole but for a hostile name of a buffer, part or relocated value in place of `name`."""
    hostile = rb"\u001b[2J\nvtakit: forged\u202e".ljust(len(name), b"$")
    assert len(hostile) == len(name)
    data = dump(asm_program(PROGRAM))
    assert name.encode() in data
    data = data[:-32].replace(name.encode(), hostile)
    return data + hashlib.sha256(data).digest()


BUFFER, PART = "x" * 40, "p" * 40
PROGRAM = f"""
.buffer {BUFFER} scratch 64
.part {PART}
load.inp dram_base=@{BUFFER} y_size=1 x_size=1 x_stride=1
finish
"""


def hostile_header(header: dict[str, Any], where: str) -> None:
    """Put a hostile name at one place of a module's header."""
    if where in ("name", "said"):
        header[where] = HOSTILE
    elif where == "left":
        header["left"] = [[HOSTILE] * 3]
    elif where in ("inputs", "outputs", "between"):
        header[where][0][0] = HOSTILE
    else:
        for part in header["parts"]:
            part |= {"messages": [HOSTILE]} if where == "messages" and "messages" in part else {}
            if where == "layers":
                part["layers"] = [[kernel, [HOSTILE], [HOSTILE], *more] for kernel, _, _, *more in part["layers"]]


@pytest.mark.parametrize("where", ["name", "said", "left", "inputs", "outputs", "between", "layers", "messages"])
def test_no_module_prints_what_controls_a_terminal(files, capsys, where):
    assert cli.main(["compile", "q.onnx", "--target", "vta", "--config", "tiny", "-o", "q.vtak"]) == 0
    data = Path("q.vtak").read_bytes()
    Path("q.vtak").write_bytes(with_header(data, lambda header: hostile_header(header, where)))
    capsys.readouterr()
    for words in (["run", "q.vtak", "--input", "in.npz", "--profile"], ["run", "q.vtak"], ["report", "q.vtak", "-o", "page.html"],
                  ["export", "q.vtak", "-o", "c"]):
        with suppress(SystemExit):
            cli.main(words)
        out, err = capsys.readouterr()
        assert is_safe(out), out
        assert is_safe(err), err
    for page in Path().glob("**/*.[hc]*"):
        text = page.read_text()
        assert is_safe(text), [line for line in text.splitlines() if not is_safe(line)]


@pytest.mark.parametrize("name", [BUFFER, PART])
@pytest.mark.parametrize("words", [
    ["check"], ["disasm"], ["sim"], ["sim", "--report", "table"], ["report", "-o", "p.html", "--device", "fsim"],
])
def test_no_program_prints_what_controls_a_terminal(tmp_path, monkeypatch, capsys, name, words):
    monkeypatch.chdir(tmp_path)
    Path("p.vta").write_bytes(tampered(name))
    assert cli.main([words[0], "p.vta", *words[1:]]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert is_safe(err), err
    assert "the name" in err or "buffer name" in err


COMMANDS = [
    ["run", "float.onnx", "--input", "in.npz", "--profile", "--json", "out.json"], ["run", "float.onnx", "--input", "in.npz"],
    ["run", "float.onnx"], ["run", "float.onnx", "--input", "wrong.npz"], ["run", "odd.onnx", "--input", "in.npz"],
    ["run", "float.onnx", "--target", "vta", "--input", "in.npz"],
    ["run", "q.onnx", "--target", "vta", "--config", "tiny", "--input", "in.npz", "--profile"],
    ["compile", "float.onnx", "-o", "a.vtak", "--shape", f"{HOSTILE}=3"], ["compile", "float.onnx", "-o", "a.vtak"],
    ["compile", "float.onnx", "--target", HOSTILE, "-o", "a.vtak"], ["compile", "q.onnx", "--target", "vta", "-o", "a.vtak"],
    ["compile", "float.onnx", "-o", f"{HOSTILE}/a.vtak"], ["quantize", "float.onnx", "--calibration", "many.npz", "-o", "i.onnx"],
    ["quantize", "float.onnx", "--calibration", "wrong.npz", "-o", "i.onnx"], ["report", "float.onnx", "-o", "page.html"],
    ["report", "q.onnx", "--target", "vta", "--config", "tiny", "--device", "rtl", "-o", "page.html"],
    ["asm", "bad.vtas"], ["check", HOSTILE], ["disasm", HOSTILE], ["sim", HOSTILE, "--device", HOSTILE],
    ["isa", "--config", HOSTILE], ["isa", "--config", "bad.json"], ["fuzz", "--device", HOSTILE], ["synth", "--device", HOSTILE],
    ["doctor", HOSTILE], [HOSTILE], ["export", "q.onnx", "--target", "vta", "-o", HOSTILE],
    ["export", "q.onnx", "--name", HOSTILE], ["sign", "--new-key", f"{HOSTILE}/k"], ["sign", HOSTILE, "--key", HOSTILE],
    ["run", "x.onnx", f"--{HOSTILE}"], ["run", HOSTILE + ".onnx"], ["run", HOSTILE + ".pt2"], ["run", HOSTILE + ".vtak"],
]


@pytest.mark.xdist_group("rtl")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).encode("unicode_escape").decode()[:60])
def test_no_command_prints_what_controls_a_terminal(files, capsys, words):
    with suppress(SystemExit):
        cli.main(words)
    out, err = capsys.readouterr()
    assert is_safe(out), out
    assert is_safe(err), err
    assert out or err
    if Path("page.html").exists():
        page = Path("page.html").read_text()
        assert "$x^{$<b>" not in page
        assert is_safe(page)


def test_the_model_that_the_commands_get_is_hostile(files):
    model = onnx.load("float.onnx")
    assert not is_safe(f"{model.graph.input[0].name}{model.graph.node[0].name}")


def test_text_that_is_harmless_stays_as_it_is():
    assert printable("résumé …\n\tüber 漢字") == "résumé …\n\tüber 漢字"
    assert printable("\x1b[0m\x7f\udcff") == r"\x1b[0m\x7f\udcff"
    assert one_line("a\n\tb") == r"a\n\tb"
    assert [counted(n, "launch", "launches") for n in (0, 1, 2000)] == ["0 launches", "1 launch", "2000 launches"]


def test_an_error_as_text_is_printable():
    assert is_safe(str(VtakitError(f"no {HOSTILE!r} and no \x1b[2J\x07")))


def test_everything_that_prints_is_printable(capsys):
    say("\x1b[2J")
    complain("\x9b2J")
    console().print(Grid("[/]\x1b[2J", ("a", "b"), ((HOSTILE, "1"),)))
    console().print("\x1b[2J\u202e", markup=False)
    out, err = capsys.readouterr()
    assert is_safe(out)
    assert is_safe(err)
    assert r"\x1b[2J" in out


def test_a_progress_bar_has_no_markup_and_no_escapes_of_names(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress() as bar:
        bar.add_task("[/]\x1b]0;[red]x", total=1)
    err = capsys.readouterr().err
    assert r"[/]\x1b]0;" in err
    assert "\x1b]0" not in err


def test_only_one_module_of_the_command_line_prints():
    """So that nothing goes round it."""
    for path in [ROOT / "runtime" / "cli.py", *(ROOT / "runtime" / "commands").glob("*.py")]:
        assert not re.search(r"(?<!\.)\bprint\(|\bConsole\(|\bProgress\(|sys\.std(out|err)\.write", path.read_text()), path


def test_names_in_pictures_are_no_formulas():
    layer = Layer(
        name=HOSTILE, peak=1, bus_bytes=8.0, insn_count=1, macs=1, gemm_steps=1, reset_steps=0, alu_steps=0,
        read=dict.fromkeys(("uop", "wgt", "inp", "acc", "acc_8bit", "insn"), 1), written={"out": 1}, cycles=9,
        stages={stage: dict.fromkeys(("busy", "wait_prev", "wait_next", "wait_memory", "idle"), 1)
                for stage in ("load", "compute", "store")})
    picture = plot(Report("rtl", (layer,)), "svg").decode()
    assert is_safe(picture)
    assert "x^{" in picture
