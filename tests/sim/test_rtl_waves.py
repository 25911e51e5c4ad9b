"""Waveforms are written whole or not at all, and what keeps one from being written is one sentence."""

import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sim_support import FINISH, INP, TINY, load
from support import interruptible, raises

from vtakit.base.errors import FileError, VtakitError
from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl import host
from vtakit.sim.rtl.build import check_fst, library
from vtakit.sim.rtl.model import Model

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

CODE = to_bytes([FINISH])
LONG = to_bytes([load(INP, x_size=32)] * 200 + [FINISH])


def ticks(path: Path) -> int:
    return path.read_text().count("\n#")


def test_a_waveform_holds_the_clock_and_the_pins_of_the_whole_run(tmp_path):
    path = tmp_path / "run.vcd"
    result = run_image(CODE, 0, 1, TINY, "rtl", wave=path)
    text = path.read_text()
    for name in ("insn_addr", "m_axi_araddr", "m_axi_rdata", "s_axil_awaddr"):
        assert f" {name} " in text
    assert ticks(path) > 2 * result.counters["cycles"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_waveform_replaces_the_one_before(tmp_path):
    path = tmp_path / "run.vcd"
    path.write_text("what was there")
    run_image(CODE, 0, 1, TINY, "rtl", wave=path)
    assert "what was there" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_of_a_run_that_hangs_there_is_a_waveform_up_to_then(tmp_path):
    path = tmp_path / "run.vcd"
    with raises(DeviceError, "the RTL has not finished within 40 cycles"):
        run_image(CODE, 0, 1, TINY, "rtl", wave=path, max_cycles=40)
    assert ticks(path) > 2 * 40


def test_an_interrupted_run_leaves_the_waveform_of_before(tmp_path, monkeypatch):
    path = tmp_path / "run.vcd"
    path.write_text("what was there")

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "trace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_image(CODE, 0, 1, TINY, "rtl", wave=path, trace=True)
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]


COMMAND = [
    sys.executable, "-m", "vtakit.runtime", "sim", "--config", "tiny", "--image", "code.bin", "--insn-addr", "0",
    "--insn-count", "201", "--device", "rtl", "--wave",
]


def need(name: str) -> None:
    """Leave a test of an .fst out where its libraries are not installed. CI installs them."""
    if name.endswith(".fst"):
        try:
            check_fst()
        except VtakitError as missing:
            pytest.skip(str(missing))


@pytest.mark.parametrize("name", ["run.vcd", "run.fst"])
def test_a_full_disk_ends_the_run_with_a_sentence_and_no_file(tmp_path, name):
    """A bound on the size of files stands for it: the write fails in the same place, and no privilege is needed to set it."""
    need(name)
    whole = tmp_path / name
    run_image(LONG, 0, 201, TINY, "rtl", wave=whole)
    size = whole.stat().st_size
    whole.unlink()
    (tmp_path / "code.bin").write_bytes(LONG)
    before = sorted(tmp_path.iterdir())
    for most in (30_000, size // 2, size - 1):
        done = subprocess.run(
            [*COMMAND, name], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
            preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"vtakit sim: cannot write the waveform '{name}': File too large\n"
        assert sorted(tmp_path.iterdir()) == before


def test_an_fst_waveform_is_whole_blocks_with_the_time_of_the_run_in_its_header(tmp_path):
    path = tmp_path / "run.fst"
    need(path.name)
    counters = run_image(LONG, 0, 201, TINY, "rtl", wave=path).counters
    data, at, blocks = path.read_bytes(), 0, []
    while at < len(data):
        kind, length = struct.unpack_from(">BQ", data, at)
        blocks.append(kind)
        at += 1 + length
    assert at == len(data)
    assert blocks == [0, 8, 3, 6]  # header, values, geometry, hierarchy
    begin, end = struct.unpack_from(">QQ", data, 9)
    assert begin == 0
    assert end > 2 * counters["cycles"]


@pytest.mark.parametrize("name", ["run.vcd", "run.fst"])
def test_ctrl_c_while_a_waveform_is_written_leaves_the_one_before(tmp_path, name):
    need(name)
    library(CoreParams(cfg=TINY), name[-3:])
    (tmp_path / "code.bin").write_bytes(LONG)
    (tmp_path / name).write_text("what was there")
    before = sorted(tmp_path.iterdir())
    run = interruptible(
        *COMMAND[1:], name, "--latency", "100000", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    while sorted(tmp_path.iterdir()) == before:
        assert run.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert (run.returncode, out, err) == (2, "", "vtakit sim: interrupted; nothing was left half-written\n")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / name).read_text() == "what was there"


def test_a_place_that_cannot_be_written_is_told_before_anything_is_built(tmp_path, monkeypatch):
    def build(*args: object) -> None:
        raise AssertionError("it began to build")

    monkeypatch.setattr(host, "library", build)
    for path, why in (("/nowhere/x.vcd", "No such file or directory"), (tmp_path / "file" / "x.vcd", "Not a directory")):
        (tmp_path / "file").touch()
        with raises(FileError, f"cannot write the waveform {str(path)!r}: {why}"):
            run_image(CODE, 0, 1, TINY, "rtl", wave=path)
