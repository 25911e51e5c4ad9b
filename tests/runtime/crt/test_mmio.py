"""The driver for mapped registers, on files that stand in for /dev/uio0 and /dev/udmabuf0 with the RTL behind them.

Each access to the registers traps and is made on the RTL (trapped.c), whose DRAM is the mapped memory: registers, polls, errors
and bytes are those of the hardware, and only the kernel's two drivers are not there.
"""

import itertools
import platform
import re
from pathlib import Path

import numpy as np
import pytest
from crt_support import GIVEN, HERE, STRICT, build, rtl_library, run, shared_module, write_inputs

from vtakit.compiler.graph.ir import Array
from vtakit.runtime.crt.layout import Layout, layout_of
from vtakit.runtime.module import Module

pytestmark = [
    pytest.mark.xdist_group("rtl"),  # one process builds each model
    pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="trapped.c is for x86-64"),
]
PHYSICAL, SIZE = 0x30000, 1 << 18
NEVER = str(2**64 - 1)
ATTRIBUTES = ("sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device")


@pytest.fixture(scope="module")
def module() -> Module:
    return shared_module()


@pytest.fixture(scope="module")
def wanted(module) -> dict[str, Array]:
    return module.run(GIVEN)


@pytest.fixture(scope="module")
def program(tmp_path_factory, module) -> Path:
    folder = tmp_path_factory.mktemp("mmio")
    module.export_c(folder)
    write_inputs(folder, GIVEN)
    run(["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Dpwrite=recorded_pwrite", "-c", "driver_mmio.c",
         "-o", "recorded.o"], folder)  # is among the folder's objects
    return build(folder, HERE / "trapped.c")


class Files:
    """What stands in for the kernel's: a page of registers, memory, and u-dma-buf's attributes."""

    def __init__(self, folder: Path, *, coherent: bool = False) -> None:
        self.uio, self.memory, self.attributes = folder / "uio0", folder / "udmabuf0", folder / "attributes"
        self.uio.write_bytes(bytes(4096))
        self.memory.write_bytes(bytes(SIZE))
        self.attributes.mkdir()
        for name, value in (("phys_addr", f"0x{PHYSICAL:08x}\n"), ("size", f"{SIZE}\n"), ("dma_coherent", f"{int(coherent)}\n")):
            (self.attributes / name).write_text(value)
        if not coherent:
            for name in ATTRIBUTES:
                (self.attributes / name).write_text("")

    def words(self, program: Path, rtl: str | Path, *, read_error: str = NEVER, timeout_us: int = 10**7) -> list[str | Path]:
        return [program, self.uio, self.memory, self.attributes, rtl, read_error, timeout_us, "x.raw", "outputs"]


def check(program: Path, wanted: dict[str, Array]) -> None:
    file = program.parent / "outputs"
    np.testing.assert_array_equal(np.fromfile(file, np.float32), np.concatenate([array.ravel() for array in wanted.values()]))
    file.unlink()


def transfers(layout: Layout) -> list[tuple[int, int, bool]]:
    """(offset in the model's memory, bytes, whether it is for the device) of each copy, up to the end of the first run."""
    assert layout.device is not None
    found = [(each.to, each.size, True) for each in layout.device.uploads]
    for launch in layout.device.launches:
        sizes = {buffer.name: buffer.size_bytes for buffer in launch.part.program.buffers}
        found += [(launch.addresses[name], sizes[name], True) for name in launch.part.inputs]
        found += [(launch.addresses[name], sizes[name], False) for name in launch.part.outputs]
    return found


def lines_of(size: int) -> int:
    return -(-size // 64) * 64


def test_a_run_is_that_of_the_python_driver_and_keeps_caches_coherent(program, module, wanted, tmp_path):
    files = Files(tmp_path)
    (program.parent / "log").unlink(missing_ok=True)
    with Module(module.image, "rtl") as on_rtl:
        on_rtl.run(GIVEN)
        cycles = [counters["cycles"] for counters in on_rtl.counters]
    script = ["bash", "-c", '"$@" > log', "bash", *files.words(program, rtl_library())]
    assert run(script, program.parent) == f"{cycles[0]} {cycles[1]}\n"
    check(program, wanted)
    told = [line.split() for line in (program.parent / "log").read_text().splitlines()]
    acts = [dict(told[at:at + 3]) | {"act": told[at + 3][0]} for at in range(0, len(told), 4)]
    assert acts.pop(0) == {"sync_offset": "0", "sync_size": str(SIZE), "sync_direction": "0", "act": "sync_for_device"}
    assert acts == [
        {"sync_offset": str(offset), "sync_size": str(lines_of(size)), "sync_direction": "1" if to_device else "2",
         "act": "sync_for_device" if to_device else "sync_for_cpu"}
        for offset, size, to_device in transfers(layout_of(module.image))
    ]
    for (first, size, _), (second, _, _) in itertools.pairwise(sorted(transfers(layout_of(module.image)))):
        assert first + lines_of(size) <= second  # no two buffers share a cache line


PORT = """\
#include <stdio.h>

static unsigned char *memory;
#define TELL(what, at, bytes) (void)printf("%s %d %d\\n", what, (int)((unsigned char *)(at) - memory), (int)(bytes))
#define VTAKIT_CACHE_CLEAN(at, bytes) TELL("clean", at, bytes)
#define VTAKIT_CACHE_INVALIDATE(at, bytes) TELL("invalidate", at, bytes)
#define VTAKIT_PAUSE_US(microseconds) ((void)(microseconds))
"""
BARE = """\
#include "driver_mmio.c"

int main(void)
{
    static unsigned char bytes[4096], data[100] = {7};
    struct vtakit_mmio mmio = {0};
    struct vtakit_driver driver;

    memory = mmio.memory = bytes;
    mmio.memory_address = 0x10000000;
    mmio.memory_bytes = sizeof bytes;
    vtakit_mmio_driver(&mmio, &driver);
    return driver.write_memory(driver.context, 0x10000040, data, 1) || driver.read_memory(driver.context, 0x10000040, data, 65)
        || data[0] != 7;
}
"""


def test_caches_without_an_operating_system(program):
    """All of the memory is cleaned before the accelerator writes to it: a line that is dirty from before could go over that."""
    folder = program.parent
    for name, text in (("port.h", PORT), ("bare.c", BARE)):
        (folder / name).write_text(text)
    run(["gcc", *STRICT, "-DVTAKIT_BARE_METAL", "-DVTAKIT_PORT=\"port.h\"", "bare.c", "-o", "bare"], folder)
    run(["bash", "-c", "./bare > bare.log"], folder)
    assert (folder / "bare.log").read_text() == "clean 0 4096\nclean 64 64\ninvalidate 64 128\n"


def test_memory_that_is_coherent_needs_no_attributes(program, wanted, tmp_path):
    files = Files(tmp_path, coherent=True)
    run(["bash", "-c", '"$@" > log', "bash", *files.words(program, rtl_library())], program.parent)
    check(program, wanted)
    assert (program.parent / "log").read_text() == ""


def test_an_error_on_the_bus_and_a_time_limit(program, tmp_path):
    files = Files(tmp_path, coherent=True)
    says = run(files.words(program, rtl_library(), read_error=str(PHYSICAL + 5000)), program.parent, status=1)
    assert re.fullmatch(r"the accelerator stopped launch 0 at instruction \d+ of the load stage: the memory answered a read with "
                        r"an error \[BUS_READ\]\n", says)
    says = run(files.words(program, rtl_library(), timeout_us=3), program.parent, status=1)
    assert says == ("launch 0 has not ended within 3 microseconds and was stopped: device.timeout_us says how long it may take\n")


def test_registers_behind_which_is_nothing(program, tmp_path):
    says = run(Files(tmp_path).words(program, ""), program.parent, status=1)
    assert says == ("there is no VTA accelerator: the register identity reads 0x00000000, not 0x56544131; check the address of "
                    "its registers, and that its bitstream is loaded\n")


@pytest.mark.parametrize(("name", "says"), [
    ("uio0", "cannot map the registers {}: No such file or directory\n"),
    ("udmabuf0", "cannot map the memory {}: No such file or directory\n"),
    ("attributes/size", "cannot read {}: No such file or directory\n"),
    ("attributes/sync_for_cpu", "cannot open {}: No such file or directory\n"),
])
def test_a_file_that_is_not_there(program, tmp_path, name, says):
    files = Files(tmp_path)
    (tmp_path / name).unlink()
    got = run(files.words(program, ""), program.parent, status=1)
    assert got == says.format(tmp_path / name)


def test_an_attribute_that_is_no_number(program, tmp_path):
    files = Files(tmp_path)
    (files.attributes / "phys_addr").write_text("none\n")
    got = run(files.words(program, ""), program.parent, status=1)
    assert got == f"cannot read {files.attributes / 'phys_addr'}: Invalid argument\n"
