"""The command line: what each command does, and one sentence with exit status 2 for whatever is wrong."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support import interruptible, wait_for

from vtakit.hw.isa.asm import asm_program, disasm_program
from vtakit.hw.isa.config import DEFAULT, NAMED
from vtakit.hw.isa.docs import reference
from vtakit.hw.isa.file import dump, load
from vtakit.runtime import cli
from vtakit.runtime.commands import isa as isa_command
from vtakit.sim import run_image
from vtakit.sim.random_programs import random_program

ADD = """\
.config default
.buffer x input 64
.buffer y output 16
.uop dst=0 src=0 wgt=0
load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1
load.acc dram_base=@x y_size=1 x_size=1 x_stride=1
alu.add use_imm imm=3 uop_end=1 iter_out=1 iter_in=1 push_next
store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev
finish
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a program that adds 3, its input, and a raw image."""
    monkeypatch.chdir(tmp_path)
    Path("add.vtas").write_text(ADD)
    Path("add.vta").write_bytes(dump(asm_program(ADD)))
    Path("x.bin").write_bytes(np.arange(16, dtype="<i4").tobytes())
    images = (random_program(NAMED["blk8"], seed) for seed in range(100))
    image = next(image for image in images if not any(image.bases.values()) and image.insn_count > 10)
    Path("image.bin").write_bytes(image.dram)
    Path("where.txt").write_text(f"{image.insn_addr} {image.insn_count}")
    return tmp_path


def raw(config: str = "blk8") -> list[str]:
    addr, count = Path("where.txt").read_text().split()
    return ["--config", config, "--image", "image.bin", "--insn-addr", hex(int(addr)), "--insn-count", count]


def fails(capsys, *words: str) -> str:
    """The sentence on standard error of a command that ends with status 2 and prints nothing else."""
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.rstrip("\n")


def test_help_lists_every_command_with_its_first_line(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    width = max(map(len, cli.summaries()))
    for name, summary in cli.summaries().items():
        assert f"  {name:{width}}  {summary}\n" in text
        assert summary.endswith(".")
    assert {"compile", "decisions", "doctor", "run", "sim", "synth"} <= cli.summaries().keys()


@pytest.mark.parametrize("name", cli.summaries())
def test_every_command_explains_itself(capsys, name):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"usage: vtakit {name}" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == "vtakit 0.1.0\n"


def test_sim_runs_a_program_file(files, capsys):
    words = ["sim", "add.vta", "--input", "x=x.bin", "--output", "y=y.bin", "--json", "stats.json"]
    assert cli.main(words) == 0
    assert np.frombuffer(Path("y.bin").read_bytes(), np.int8).tolist() == [n + 3 for n in range(16)]
    stats = json.loads(Path("stats.json").read_text())
    assert stats["counters"]["alu_counter"] == 1
    assert stats["config"] == DEFAULT.to_dict()
    assert stats["insn_count"] == 5
    assert "alu_counter                    1\n" in capsys.readouterr().out


@pytest.mark.parametrize("extra", [[], ["--path", "plain"], ["--order", "lazy"], ["--order", "12"]])
def test_sim_runs_a_raw_image(files, extra):
    assert cli.main(["sim", *raw(), "--out", "out.bin", "--json", "stats.json", *extra]) == 0
    addr, count = map(int, Path("where.txt").read_text().split())
    want = run_image(Path("image.bin").read_bytes(), addr, count, "blk8", path="plain")
    assert Path("out.bin").read_bytes() == want.dram
    stats = json.loads(Path("stats.json").read_text())
    assert stats["counters"] == want.counters
    assert stats["dram_crc32"] == zlib.crc32(want.dram)
    assert stats["acc_crc32"] == zlib.crc32(want.acc.astype("<i4").tobytes())


def test_sim_takes_a_configuration_file(files):
    Path("blk8.json").write_text(NAMED["blk8"].to_json())
    assert cli.main(["sim", *raw("blk8.json"), "--out", "a.bin"]) == 0
    assert cli.main(["sim", *raw(), "--out", "b.bin"]) == 0
    assert Path("a.bin").read_bytes() == Path("b.bin").read_bytes()


def test_asm_and_disasm_are_each_others_inverse(files, capsys):
    assert cli.main(["asm", "add.vtas", "-o", "made.vta"]) == 0
    assert capsys.readouterr().out == "made.vta: 5 instructions, 1 micro-op, 2 buffers\n"
    assert Path("made.vta").read_bytes() == Path("add.vta").read_bytes()
    assert cli.main(["disasm", "made.vta"]) == 0
    text = capsys.readouterr().out
    assert text == disasm_program(load("made.vta"))
    assert asm_program(text) == load("made.vta")
    assert "store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev  ; store: 1 x 1 elements from acc[0:1]\n" in text


def test_disasm_reads_a_raw_image(files, capsys):
    assert cli.main(["disasm", *raw(), "--no-comments"]) == 0
    text = capsys.readouterr().out
    addr, count = map(int, Path("where.txt").read_text().split())
    from_image = asm_program(text)
    assert from_image.config == NAMED["blk8"]
    code = Path("image.bin").read_bytes()[addr : addr + 16 * count]
    assert b"".join(word.to_bytes(16, "little") for word in from_image.insns) == code


def test_check_passes_what_is_right(files, capsys):
    assert cli.main(["check", "add.vta"]) == 0
    assert capsys.readouterr().out == "5 instructions: no fault, no deadlock, no race, no value lost\n"
    assert cli.main(["check", *raw()]) == 0


def test_check_prints_what_is_wrong_and_ends_with_1(files, capsys):
    Path("race.vtas").write_text(ADD.replace(" push_next", "").replace(" pop_prev", ""))
    assert cli.main(["asm", "race.vtas"]) == 0
    capsys.readouterr()
    assert cli.main(["check", "race.vta"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("instruction 3 (store.out dram_base=")
    assert "it reads acc[0], which instruction 2 (alu.add" in out
    assert out.endswith("of the compute stage writes, and no token orders the two [RACE]\n")


def test_isa_prints_the_reference(capsys):
    assert cli.main(["isa", "--config", "blk8"]) == 0
    assert capsys.readouterr().out == reference(NAMED["blk8"])
    assert cli.main(["isa", "--list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(NAMED)


def test_fuzz_runs_and_reports(capsys):
    assert cli.main(["fuzz", "--programs", "20", "--jobs", "1", "--config", "tiny", "--seed", "5"]) == 0
    assert capsys.readouterr().out == "20 random programs, seeds 5 to 24, 1 configuration: no difference\n"


def test_doctor_knows_what_is_here(capsys):
    assert cli.main(["doctor", "core"]) == 0
    out = capsys.readouterr().out
    assert np.__version__ in out
    assert "core: ready (models on this CPU, quantization, assembler, checker, functional simulator)\n" in out


WRONG = {
    ("smi",): (
        "vtakit smi: unknown command 'smi'; did you mean 'sim'? "
        f"Known: {', '.join(cli.summaries())}"
    ),
    ("sim",): "vtakit sim: give either a program file or --image with --insn-addr and --insn-count",
    ("sim", "none.vta"): "vtakit sim: cannot read program file 'none.vta': No such file or directory",
    ("sim", "."): "vtakit sim: cannot read program file '.': Is a directory",
    ("sim", "x.bin"): (
        "vtakit sim: 'x.bin' is not a vtakit program file; for a raw DRAM image use --image, --insn-addr and --insn-count"
    ),
    ("sim", "add.vta", "--insn-addr", "0"): (
        "vtakit sim: --insn-addr and --insn-count go with --image; a program file says where its instructions are"
    ),
    ("sim", "--image", "x.bin"): "vtakit sim: --image needs --insn-addr and --insn-count, to say where its instructions are",
    ("sim", "add.vta"): "vtakit sim: input buffer 'x' (64 bytes) is not given",
    ("sim", "add.vta", "--input", "x"): "vtakit sim: --input takes NAME=FILE, got 'x'",
    ("sim", "add.vta", "--input", "z=x.bin"): "vtakit sim: the program has no buffer 'z'; known: x, y",
    ("sim", "add.vta", "--input", "x=add.vtas"): "vtakit sim: buffer 'x' holds 64 bytes, got 314",
    ("sim", "add.vta", "--output", "q=q.bin"): "vtakit sim: the program has no buffer 'q'; known: x, y",
    ("sim", "add.vta", "--input", "x=x.bin", "--device", "fpga"): "vtakit sim: unknown device 'fpga'; known: cycle, fsim, rtl",
    ("sim", "add.vta", "--input", "x=x.bin", "--order", "fast"): (
        "vtakit sim: unknown order 'fast'; known: eager, lazy, program, or an integer seed"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--path", "quick"): (
        "vtakit sim: unknown path 'quick'; known: auto, compiled, plain"
    ),
    ("sim", "add.vta", "--config", "b2x16"): (
        "vtakit sim: the program is for another configuration than the device: LOG_BATCH 0 (device 1)"
    ),
    ("sim", "add.vta", "--config", "defualt"): (
        "vtakit sim: unknown configuration 'defualt'; did you mean 'default'? Known: b2x16, b4x8, blk32, blk8, compact, default, "
        "i4w4, tiny, tiny_acc16, tiny_b2, tiny_i16, tiny_i4w2, w2, w4, or the path of a .json file"
    ),
    ("sim", "--image", "x.bin", "--insn-addr", "0", "--insn-count", "1", "--config", "bad.json"): (
        "vtakit sim: configuration file 'bad.json': illegal configuration: LOG_BLOCK must be from 0 to 7, got 40"
    ),
    ("sim", "--image", "x.bin", "--insn-addr", "0", "--insn-count", "5"): (
        "vtakit sim: 5 instructions at byte 0 end at byte 80, and the DRAM image has 64 bytes [DRAM_RANGE]"
    ),
    ("disasm", "--image", "x.bin", "--insn-addr", "16", "--insn-count", "4"): (
        "vtakit disasm: 4 instructions at byte 16 end at byte 80, and the DRAM image has 64 bytes"
    ),
    ("sim", "--image", "x.bin", "--insn-addr", "0", "--insn-count", "1", "--input", "x=x.bin"): (
        "vtakit sim: --input and --output name a program file's buffers; a raw image has --out"
    ),
    ("sim", "cut.vta"): "vtakit sim: program file 'cut.vta' is truncated: it has 300 bytes and says that it has 488",
    ("check", "flipped.vta"): (
        "vtakit check: program file 'flipped.vta' is damaged: its SHA-256 does not match its contents"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--out", "no/such/out.bin"): (
        "vtakit sim: cannot write DRAM image 'no/such/out.bin': No such file or directory"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--json", "/dev/full"): (
        "vtakit sim: cannot write statistics '/dev/full': No space left on device"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--input", "x=y.bin"): "vtakit sim: --input names 'x' twice",
    ("sim", "--image", "x.bin", "--insn-addr", "0", "--insn-count", "1", "--config", ""): (
        "vtakit sim: unknown configuration ''; known: b2x16, b4x8, blk32, blk8, compact, default, i4w4, "
        "tiny, tiny_acc16, tiny_b2, tiny_i16, tiny_i4w2, w2, w4, or the path of a .json file"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--order", "9" * 5000): (
        f"vtakit sim: unknown order '{'9' * 40}'; known: eager, lazy, program, or an integer seed"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--out", "a.bin", "--json", "./a.bin"): (
        "vtakit sim: --out and --json both name the file 'a.bin'; each needs one of its own"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--output", "y=run.vcd", "--wave", "run.vcd", "--device", "rtl"): (
        "vtakit sim: --output y and --wave both name the file 'run.vcd'; each needs one of its own"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--trace", "add.vta/t.json", "--device", "rtl"): (
        "vtakit sim: cannot write timeline 'add.vta/t.json': Not a directory"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--json", ".", "--device", "rtl"): (
        "vtakit sim: cannot write statistics '.': Is a directory"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--wave", "run.vcd"): (
        "vtakit sim: --wave is an option of device rtl, and the device is fsim"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--device", "rtl", "--order", "lazy"): (
        "vtakit sim: --order is an option of device fsim, and the device is rtl"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--latency", "9"): (
        "vtakit sim: --latency describes the accelerator's memory, which devices cycle and rtl simulate: add --device cycle"
    ),
    ("sim", "add.vta", "--input", "x=x.bin", "--device", "cycle", "--system", "ulx3"): (
        "vtakit sim: unknown memory system 'ulx3'; did you mean 'ulx3s'? Known: ideal, pynq, reference, ultra96, ulx3s, or the "
        "path of a .json file"
    ),
    ("run", "add.vta"): "vtakit run: 'add.vta' is a program of the accelerator; `vtakit sim` runs it",
    ("compile", "add.vtas", "-o", "a.vtak"): (
        "vtakit compile: 'add.vtas' is a program's text; `vtakit asm` assembles it, and `vtakit sim` runs the result"
    ),
    ("compile", "m.vtak", "-o", "a.vtak"): (
        "vtakit compile: 'm.vtak' is a compiled model already; `vtakit run` and `vtakit report` take it"
    ),
    ("report", "add.vta", "-o", "page.txt"): (
        "vtakit report: --output 'page.txt' is a page in HTML: give it a name that ends in .html"
    ),
    ("asm", "bad.vtas"): (
        "vtakit asm: bad.vtas: line 2: unknown instruction 'laod'; did you mean 'load'? "
        "Known: alu, dwconv, finish, gemm, load, pad_load, requant, store"
    ),
    ("asm", "x.bin", "-o", "x.bin"): "vtakit asm: the program file would replace its text 'x.bin'; name another with -o",
    ("asm", "latin.vtas"): "vtakit asm: 'latin.vtas' is not UTF-8 text: byte 2 is 0xe9",
    ("fuzz", "--programs", "0"): "vtakit fuzz: --programs is 0 and must be from 1 to 1000000",
    ("fuzz", "--programs", "1000001"): "vtakit fuzz: --programs is 1000001 and must be from 1 to 1000000",
    ("fuzz", "--jobs", "0"): f"vtakit fuzz: --jobs is 0 and must be from 1 to {4 * (os.cpu_count() or 1)}",
    ("fuzz", "--jobs", "100000"): f"vtakit fuzz: --jobs is 100000 and must be from 1 to {4 * (os.cpu_count() or 1)}",
    ("fuzz", "--length", "100001"): "vtakit fuzz: --length is 100001 and must be from 0 to 100000",
    ("fuzz", "--seed", str(2**62 + 1)): f"vtakit fuzz: --seed is {2**62 + 1} and must be from 0 to {2**62}",
    ("fuzz", "--device", "rlt"): "vtakit fuzz: unknown device 'rlt'; did you mean 'rtl'? Known: cycle, fsim, rtl",
    ("fuzz", "--system", "ideal"): (
        "vtakit fuzz: --system is of hardware and its cycle model: --device rtl or cycle; fsim has no cycles"
    ),
    ("fuzz", "--device", "cycle", "--system", "fast"): (
        "vtakit fuzz: unknown memory system 'fast'; known: ideal, pynq, reference, ultra96, ulx3s, or the path of a .json file"
    ),
    ("fuzz", "--config", "nope.json"): (
        "vtakit fuzz: cannot read configuration file 'nope.json': No such file or directory"
    ),
    ("doctor", "simm"): (
        "vtakit doctor: unknown job 'simm'; did you mean 'sim'? "
        "Known: board, core, demo, dev, fpga, gpu, opencl, plot, sign, sim, torch, tune"
    ),
}


@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words)[:80])
def test_wrong_input_is_one_sentence(files, capsys, words):
    good = Path("add.vta").read_bytes()
    Path("cut.vta").write_bytes(good[:300])
    Path("flipped.vta").write_bytes(good[:300] + bytes([good[300] ^ 1]) + good[301:])
    Path("bad.json").write_text('{"LOG_BLOCK": 40}')
    Path("bad.vtas").write_text("finish\nlaod.inp\n")
    Path("latin.vtas").write_bytes(b"; \xe9\n")
    before = {path: path.read_bytes() for path in files.iterdir()}
    message = fails(capsys, *words)
    assert message == WRONG[words].replace("says that it has 488", f"says that it has {len(good)}")
    assert {path: path.read_bytes() for path in files.iterdir()} == before  # nothing is lost or half-written


def test_a_program_that_faults_is_named(files, capsys):
    Path("late.vtas").write_text("load.inp sram_base=2000 y_size=1 x_size=100 x_stride=100\nfinish\n")
    assert cli.main(["asm", "late.vtas"]) == 0
    capsys.readouterr()
    assert fails(capsys, "sim", "late.vta") == (
        "vtakit sim: instruction 0 (load.inp sram_base=2000 y_size=1 x_size=100 x_stride=100): "
        "sram_base 2000 + 100 elements = 2100 exceeds the 2048 of the inp scratchpad [SRAM_RANGE]"
    )


def test_two_outputs_may_share_a_device(files):
    assert cli.main(["sim", "add.vta", "--input", "x=x.bin", "--out", "/dev/null", "--json", "/dev/null"]) == 0


MISSING = [  # the package, the call, what is said first, and which extra brings it
    ("amaranth", ["sim", "add.vta", "--input", "x=x.bin", "--device", "rtl"], "vtakit sim: device 'rtl' needs", "sim"),
    ("amaranth", ["synth", "--config", "tiny"], "vtakit synth: synthesis needs", "fpga"),
    ("amaranth", ["verilog", "tiny", "-o", "core"], "vtakit verilog: writing Verilog needs", "sim"),
    ("pyosys", ["synth", "--config", "tiny"], "vtakit synth: synthesis needs", "fpga"),
]


@pytest.mark.parametrize(("package", "words", "said", "extra"), MISSING, ids=lambda value: str(value)[:30])
def test_a_missing_package_is_a_sentence(files, package, words, said, extra):
    program = f"import sys; sys.modules[{package!r}] = None; from vtakit.runtime.cli import main; sys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{said} the package {package}: pip install 'vtakit[{extra}]'\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_without_numba_the_fuzzer_says_so(jobs, tmp_path):
    (tmp_path / "numba.py").write_text("raise ModuleNotFoundError(\"No module named 'numba'\", name='numba')\n")
    around = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    call = [sys.executable, "-m", "vtakit.runtime", "fuzz", "--programs", "60", "--config", "tiny", "--jobs", jobs]
    done = subprocess.run(call, env=around, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "vtakit fuzz: fuzzing fsim, whose compiled path is compared with its definition, needs the package numba: "
        "pip install 'vtakit[sim]'\n")


def test_bad_arguments_end_with_2(capsys):
    for words in (["sim", "--insn-addr", "x"], ["sim", "--insn-addr", "-1"], ["sim", "--nonsense"], ["asm"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(words)
        assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "argument --insn-addr: 'x' is not a number from 0 up (decimal, or hexadecimal after 0x)" in err
    assert err.count("\n") == 4  # a sentence each, without the usage
    assert "`vtakit asm --help` explains the arguments" in err


def test_interrupt_is_a_sentence(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(isa_command, "run", interrupted)
    assert fails(capsys, "isa") == "vtakit isa: interrupted; nothing was left half-written"


def workers_of(pid):
    """The processes that a run has started for its work; Python starts one for itself besides."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in started if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize("later", [0, 0.2, 0.5, 4])  # while the workers start, import, or work: all must end alike
def test_a_real_interrupt_stops_a_long_run_at_once(later):
    words = ["fuzz", "--programs", "1000000", "--jobs", "2"]
    process = interruptible("-m", "vtakit.runtime", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: len(workers_of(process.pid)) == 2, 120)
        time.sleep(later)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=20)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 2
    assert "Traceback" not in out + err
    assert err.rstrip().endswith("vtakit fuzz: interrupted; nothing was left half-written")


def test_a_full_disk_under_standard_output_is_a_sentence():
    with Path("/dev/full").open("w") as full:
        call = [sys.executable, "-m", "vtakit.runtime", "isa"]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "vtakit isa: standard output: No space left on device\n"


def test_a_full_disk_is_a_sentence_where_standard_output_is_closed(monkeypatch, capsys):
    def failing(args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(isa_command, "run", failing)
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["isa"]) == 2
    assert capsys.readouterr().err == "vtakit isa: standard output: No space left on device\n"


def test_a_reader_that_leaves_early_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m vtakit.runtime isa | head -n 1", shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "<!-- Written by `vtakit isa`; do not edit. -->\n"
    assert done.stderr == ""


def test_closed_standard_output_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m vtakit.runtime isa >&-", shell=True, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_unicode_gets_numbers():
    done = subprocess.run(
        [sys.executable, "-m", "vtakit.runtime", "asm", "--help"], env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True, timeout=60, check=False,
    )
    assert done.returncode == 0
    assert b"\\u2026" in done.stdout


def test_the_command_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "vtakit.runtime", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "vtakit 0.1.0\n")


def test_ctrl_c_while_the_command_is_still_loading_is_one_line():
    """Python's own start, before any of ours runs, stays Python's."""
    program = """
import sys
from vtakit.runtime.__main__ import main
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "vtakit.runtime.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "vtakit: interrupted; nothing was left half-written\n")


def test_a_warning_is_a_line_without_its_place_in_the_source(files, tmp_path):
    """As one of a cache that others can write; the command goes on."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    code = "import sys, vtakit, onnx; onnx.save(vtakit.models.build('dqn'), sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, "dqn.onnx"], check=True, timeout=60)
    call = [sys.executable, "-m", "vtakit.runtime", "compile", "dqn.onnx", "-o", "dqn.vtak"]
    around = os.environ | {"VTAKIT_CACHE": str(tmp_path / "open")}
    done = subprocess.run(call, env=around, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("vtakit compile: warning: compiled models are not kept: every user can write to ")
    assert not list((tmp_path / "open").rglob("*.vtak"))
