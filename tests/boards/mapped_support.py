"""A board without a board: a tree of /dev and /sys in a folder, and behind its files the RTL in another process."""

import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import tty
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from vtakit.runtime.vta.mapped import dma, uio
from vtakit.runtime.vta.mapped.page import Page

HERE = Path(__file__).parent
PAGE, SECONDS = 4096, 300
START, SIZE = 0x1000_0000, 1 << 18  # of the memory
FPGA = "sys/class/fpga_manager/fpga0/state"
SYNCS = ("sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device")
LINE = 64


@cache
def trap_library() -> ctypes.CDLL:
    """The library that makes accesses to a page trap."""
    path = Path(mkdtemp()) / "trapped.so"
    words = ["gcc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(path)]
    subprocess.run([*words, str(HERE / "trapped_page.c")], check=True, timeout=SECONDS)
    library = ctypes.CDLL(str(path))
    library.trap_page.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.free_page.restype = ctypes.c_uint32
    return library


def make_tree(root: Path, *, start: int = START, size: int = SIZE, coherent: bool = False, registers: int = PAGE) -> None:
    """Write what the kernel would show of a UIO device and a buffer of u-dma-buf."""
    uio0, buffer = root / "sys/class/uio/uio0", root / "sys/class/u-dma-buf/udmabuf0"
    texts = {
        FPGA: "operating\n", "sys/class/uio/uio0/name": "vta\n", "sys/class/uio/uio0/maps/map0/size": f"0x{registers:08x}\n",
        "sys/class/uio/uio0/maps/map0/addr": "0x43c00000\n", "sys/class/u-dma-buf/udmabuf0/phys_addr": f"0x{start:08x}\n",
        "sys/class/u-dma-buf/udmabuf0/size": f"{size}\n", "sys/class/u-dma-buf/udmabuf0/dma_coherent": f"{int(coherent)}\n",
        **{f"sys/class/u-dma-buf/udmabuf0/{name}": "" for name in SYNCS},
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "dev").mkdir()
    (root / "dev/uio0").write_bytes(bytes(max(registers, PAGE)))
    (root / "dev/udmabuf0").write_bytes(bytes(size))
    assert uio0.is_dir()
    assert buffer.is_dir()


class TrappedPage(Page):
    """A `Page` whose accesses go over a socket."""

    line: socket.socket  # set by who makes one
    wrong = 0

    def __init__(self, name: str, file: int, size: int, offset: int = 0) -> None:
        super().__init__(name, file, size, offset)
        self._here: Any = ctypes.c_char.from_buffer(self._map)
        trap_library().trap_page(ctypes.addressof(self._here), size, self.line.fileno())

    def close(self) -> None:
        type(self).wrong = trap_library().free_page()
        del self._here
        super().close()


class Caches:
    """The processor's caches in front of memory that the accelerator reads and writes, for a buffer without coherence.

    The mapped file is what the processor sees. Nothing of it reaches the accelerator's file but by `sync_for_device`, and nothing
    comes back but by `sync_for_cpu`, line by line as the attributes say.
    """

    def __init__(self, cpu: Path, accelerator: Path) -> None:
        self.cpu, self.accelerator = cpu, accelerator
        self.values: dict[str, int] = {}
        self.acts: list[tuple[str, int, int, int]] = []

    def set(self, name: str, value: int) -> None:
        self.values[name] = value
        if name not in ("sync_for_cpu", "sync_for_device"):
            return
        offset, size, direction = (self.values[each] for each in SYNCS[:3])
        assert value == 1
        assert offset % LINE == 0
        self.acts.append((name, offset, size, direction))
        for_cpu = name == "sync_for_cpu"
        if direction == (dma.Direction.TO_DEVICE if for_cpu else dma.Direction.FROM_DEVICE):
            return  # the kernel does nothing then
        source, target = (self.accelerator, self.cpu) if for_cpu else (self.cpu, self.accelerator)
        with source.open("rb") as here, target.open("r+b") as there:
            here.seek(offset)
            there.seek(offset)
            there.write(here.read(size))


class MappedBoard:
    """The RTL of a configuration in another process, behind the files of a folder; several tests may use it, one after the other.

    `place` is the device's name; `patched` puts it in the place of the kernel's.
    """

    def __init__(
        self, root: Path, config: str = "tiny", *, coherent: bool = False, start: int = START, size: int = SIZE,
        core: dict[str, Any] | None = None, around: dict[str, Any] | None = None,
    ) -> None:
        self.root, self.place = root, f"uio:{root}/dev/uio0"
        make_tree(root, start=start, size=size, coherent=coherent)
        memory = root / "dev/udmabuf0"
        self.caches: Caches | None = None
        if not coherent:
            self.caches = Caches(memory, root / "dram")
            memory = self.caches.accelerator
            memory.write_bytes(bytes(size))
        self._line, theirs = socket.socketpair()
        self._control, self._terminal = os.openpty()
        tty.setraw(self._terminal)
        given = {"line": theirs.fileno(), "interrupts": self._control, "memory": str(memory), "start": start, "config": config,
                 "core": core or {}, "around": around or {}}
        self.log = root / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "mapped_rtl.py"), json.dumps(given)], stderr=log,
                pass_fds=(theirs.fileno(), self._control))
        theirs.close()
        ready, _, _ = select.select([self._line], [], [], SECONDS)
        assert ready
        assert self._line.recv(1) == b"!", self.log.read_text()
        self._begun = self.log.stat().st_size  # behind the progress of a build, if there was one

    def patched(self, monkeypatch: Any) -> None:
        """Let the driver find this board."""
        TrappedPage.line, TrappedPage.wrong = self._line, 0
        monkeypatch.setattr(uio, "Page", TrappedPage)
        monkeypatch.setattr(uio, "open_events", lambda path: os.dup(self._terminal))
        if self.caches is not None:
            caches = self.caches
            caches.acts.clear()
            monkeypatch.setattr(dma.UDmaBuf, "_set", lambda _, name, value: caches.set(name, value))

    def check(self) -> None:
        """Whatever the process has refused is an error."""
        assert self.log.read_bytes()[self._begun:] == b"", self.log.read_text()
        assert TrappedPage.wrong == 0, "accesses that were refused, or not of one word"

    def close(self) -> None:
        """End the process."""
        self._line.close()
        for file in (self._control, self._terminal):
            os.close(file)
        assert self.process.wait(SECONDS) == 0, self.log.read_text()
