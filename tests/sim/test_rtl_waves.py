"""Waveforms are written whole or not at all, and what keeps one from being written is one sentence."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from sim_support import FINISH, INP, TINY, load
from support import raises

from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl import host
from vtakit.sim.rtl.build import library
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


@pytest.mark.parametrize("kilobytes", [30, 400, 3000])  # in the header, in the run, and close to its end
def test_a_full_disk_ends_the_run_with_a_sentence_and_no_file(tmp_path, kilobytes):
    """A bound on the size of files stands for it: the write fails in the same place, and no privilege is needed to set it."""
    library(CoreParams(cfg=TINY), "vcd")
    (tmp_path / "code.bin").write_bytes(LONG)
    words = ["sim", "--config", "tiny", "--image", "code.bin", "--insn-addr", "0", "--insn-count", "201", "--device", "rtl"]
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "vtakit.runtime", *words, "--wave", "run.vcd"], cwd=tmp_path, capture_output=True, text=True,
        timeout=120, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000 * kilobytes,) * 2),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "vtakit sim: cannot write the waveform 'run.vcd': File too large\n"
    assert sorted(tmp_path.iterdir()) == before


def test_a_waveform_that_nothing_bounds_is_larger_than_that(tmp_path):
    path = tmp_path / "run.vcd"
    run_image(LONG, 0, 201, TINY, "rtl", wave=path)
    assert path.stat().st_size > 3_100_000


def test_a_place_that_cannot_be_written_is_told_before_anything_is_built(tmp_path, monkeypatch):
    def build(*args: object) -> None:
        raise AssertionError("it began to build")

    monkeypatch.setattr(host, "library", build)
    for path, why in (("/nowhere/x.vcd", "No such file or directory"), (tmp_path / "file" / "x.vcd", "Not a directory")):
        (tmp_path / "file").touch()
        with raises(ProgramError, f"cannot write the waveform {str(path)!r}: {why}"):
            run_image(CODE, 0, 1, TINY, "rtl", wave=path)
