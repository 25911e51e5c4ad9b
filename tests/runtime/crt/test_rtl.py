"""Exported C on the RTL: the bytes and the cycles of the Python driver, and a sentence for everything that is wrong."""

import re
import shutil
from pathlib import Path

import pytest
from crt_support import GIVEN, STRICT, build, check_outputs, rtl_library, run, shared_module, split_module, write_inputs

from vtakit.compiler.graph.ir import Array
from vtakit.hw.isa.config import INSN_BYTES
from vtakit.runtime.crt.layout import layout_of
from vtakit.runtime.vta.part import VtaPart

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    shared_module().export_c(folder)
    write_inputs(folder, GIVEN)
    return folder


def example(export: Path) -> list[Path]:
    return [export / file for file in ("main.c", "driver_sim.c", "driver_mmio.c")]


@pytest.fixture(scope="module")
def program(export) -> Path:
    """The example of main.c, with the driver for the RTL and that for registers in memory."""
    return build(export, *example(export))


@pytest.fixture(scope="module")
def wanted() -> tuple[dict[str, Array], list[int]]:
    """Outputs, and the cycles of each launch, by the Python driver on the RTL."""
    with split_module("rtl") as module:
        outputs = module.run(GIVEN)
        return outputs, [counters["cycles"] for counters in module.counters]


FILES = ("x.raw", "y0.raw", "y1.raw")


def cycles_of(stderr: str) -> list[int]:
    """The cycles of each launch that the example prints."""
    return [int(line.split()[2]) for line in stderr.splitlines() if line.startswith("launch")]


def test_bytes_and_cycles_are_those_of_the_python_driver(export, program, wanted):
    outputs, cycles = wanted
    stderr = run([program, "--rtl", rtl_library(), *FILES], export)
    check_outputs([export / name for name in FILES[1:]], outputs)
    assert cycles_of(stderr) == cycles
    assert len(cycles) == 2


@pytest.mark.parametrize("address", [64, 8192 + 192])
def test_a_model_runs_the_same_wherever_its_memory_is(export, program, wanted, address):
    """Programs are linked from 0 on: base registers add the address. A second run finds what the first left."""
    outputs, cycles = wanted
    stderr = run([program, "--rtl", rtl_library(), "--memory-address", address, "--repeat", 2, "--counters", *FILES], export)
    check_outputs([export / name for name in FILES[1:]], outputs)
    assert cycles_of(stderr) == cycles
    assert f"cycles: {sum(cycles)}\n" in stderr  # of all launches of the last run


@pytest.mark.parametrize(("words", "says"), [
    (["--read-error", "5000"],
     r"the accelerator stopped launch 0 at instruction \d+ of the load stage: the memory answered a read with an error"),
    (["--memory-bytes", "5000"], r"the model needs \d+ bytes of the accelerator's memory, and 5000 are free from 0x0 on"),
    (["--timeout-us", "20"], "launch 0 has not ended within 20 microseconds and was stopped: device.timeout_us says how long"),
    (["--memory-address", "7"], "cannot simulate: memory_address is a multiple of 64"),
])
def test_what_is_wrong_is_a_sentence(export, program, words, says):
    stderr = run([program, "--rtl", rtl_library(), *words, *FILES], export, status=1)
    assert re.match(f"split: {says}", stderr)
    assert stderr.count("\n") == 1
    assert not (export / "y0.raw").exists()


def test_a_failed_fetch_belongs_to_no_stage(export, program):
    device = layout_of(shared_module().image).device
    assert device is not None
    at = device.launches[1].insns + 3 * INSN_BYTES
    stderr = run([program, "--rtl", rtl_library(), "--read-error", at, *FILES], export, status=1)
    assert stderr == ("split: the accelerator stopped launch 1 at instruction 3: the memory answered the fetch of an instruction "
                      "with an error [BUS_FETCH]\n")


@pytest.mark.parametrize(("words", "says"), [
    (["--rtl", "none.so"], "cannot load the RTL: none.so: cannot open shared object file"),
    (["--rtl", "libm.so.6"], "cannot use the RTL: it is no library that vtakit export --rtl writes"),
    (["--uio", "/dev/none", "--dma", "/dev/none"], "cannot read /sys/class/u-dma-buf/none/phys_addr: No such file or directory"),
    ([], "give either --rtl, or --uio and --dma"),
])
def test_a_device_that_is_not_there(export, program, words, says):
    stderr = run([program, *words, *FILES], export, status=1)
    assert stderr.startswith(f"split: {says}")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(("words", "says"), [
    (["--rlt", "x", *FILES], "unknown option: --rlt"),
    (["--rtl"], "an option lacks its value: --rtl"),
    (["--repeat", "many", *FILES], "no number: many"),
    (["--repeat", "2", "x.raw"], "the number of files is 1 and must be 3, inputs before outputs"),
])
def test_wrong_words_of_the_example(export, program, words, says):
    assert run([program, *words], export, status=2).startswith(f"split: {says}")


def test_files_of_the_wrong_size(export, program):
    for data, says in ((b"few", "fewer"), (GIVEN["x"].tobytes() + b"!", "more")):
        (export / "bad.raw").write_bytes(data)
        stderr = run([program, "--rtl", rtl_library(), "bad.raw", *FILES[1:]], export, status=1)
        assert stderr == f"split: the input bad.raw has {says} bytes than the 1344 that the model reads\n"


def test_without_undefined_behaviour_and_leaks(export, wanted):
    """The whole example under the sanitizers, with a second model on the device, an error, and use after it."""
    words = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = build(export, *words, *example(export), name="sanitized")
    run([program, "--rtl", rtl_library(), "--repeat", 2, *FILES], export)
    check_outputs([export / name for name in FILES[1:]], wanted[0])
    run([program, "--rtl", rtl_library(), "--read-error", "5000", *FILES], export, status=1)
    run([program, "--uio", "/dev/none", "--dma", "/dev/none", *FILES], export, status=1)


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang: apt install clang")
def test_with_clang(export, wanted):
    program = build(export, *example(export), compiler=("clang",), name="clang")
    run([program, "--rtl", rtl_library(), *FILES], export)
    check_outputs([export / name for name in FILES[1:]], wanted[0])


def test_the_headers_are_cpp_too(export):
    """All of them in one unit; driver_mmio.c alone compiles for bare metal too."""
    headers = sorted(file.name for file in export.glob("*.h"))
    assert {"split.h", "vtakit_driver.h", "driver_sim.h", "driver_mmio.h", "vtakit_rtl.h"} <= {*headers}
    (export / "all.cpp").write_text("".join(f'#include "{name}"\n' for name in headers))
    run(["g++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "all.cpp", "-o", "/dev/null"], export)
    run(["gcc", *STRICT, "-D_GNU_SOURCE", "-c", "driver_sim.c", "-o", "/dev/null"], export)
    run(["gcc", *STRICT, "-D_GNU_SOURCE", "-c", "driver_mmio.c", "-o", "/dev/null"], export)
    run(["gcc", *STRICT, "-DVTAKIT_BARE_METAL", "-ffreestanding", "-c", "driver_mmio.c", "-o", "/dev/null"], export)


FAKE = """\
#include <stdlib.h>

#include "vtakit_rtl.h"

static int given;

struct vta_model *vta_open(const struct vta_settings *settings) { return (struct vta_model *)settings; }
uint64_t vta_advance(struct vta_model *model, uint64_t cycles) { return model && cycles ? VTA_RUNNING : VTA_TIMEOUT; }
void vta_give(struct vta_model *model, struct vta_op *ops, uint64_t count) { if (!model || !ops || !count || given++) abort(); }
int vta_close(struct vta_model *model) { return model == 0; }
"""
TWICE = """\
#include "driver_sim.h"

int main(void)
{
    struct vtakit_sim_options options;
    struct vtakit_sim sim;
    struct vtakit_driver driver;
    uint32_t value;

    vtakit_sim_defaults(&options);
    return vtakit_sim_open(&sim, "./fake.so", &options, &driver) || driver.read_register(driver.context, 0, &value) != -1
        || driver.write_register(driver.context, 0, 0) != -1;
}
"""


def test_an_access_that_never_ends(export):
    """The model is given no other: it still works on the first."""
    (export / "fake.c").write_text(FAKE)
    (export / "twice.c").write_text(TWICE)
    run(["gcc", "-shared", "-fPIC", "fake.c", "-o", "fake.so"], export)
    run(["gcc", *STRICT, "twice.c", "driver_sim.c", "-ldl", "-o", "twice"], export)
    run(["./twice"], export)


def test_the_makefile_builds_the_example_and_a_library(export, wanted):
    run(["make", "-s", "CFLAGS=-O1 -Werror"], export)
    run(["build/split", "--rtl", rtl_library(), *FILES], export)
    check_outputs([export / name for name in FILES[1:]], wanted[0])
    assert (export / "build" / "libsplit.a").stat().st_size
    run(["make", "-s", "clean"], export)
    assert not (export / "build").exists()


def test_programs_lie_where_the_python_driver_puts_them():
    """Or cycles would differ where a transfer crosses a page."""
    with split_module() as module:
        module.run(GIVEN)
        layout = layout_of(module.image)
        assert layout.device is not None
        sessions = [engine._sessions[part] for part, engine in module._steps if isinstance(part, VtaPart)]
        for launch, session in zip(layout.device.launches, sessions, strict=True):
            buffers = {**session._loaded._symbols, **session.buffers}
            assert launch.addresses == {name: buffer.address for name, buffer in buffers.items()}
            assert launch.insns == session._loaded._code.address
