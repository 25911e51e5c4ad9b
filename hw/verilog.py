"""Verilog of the accelerator, the same text for the same parameters and source."""

import gc
import hashlib
from importlib.metadata import version
from pathlib import Path

from amaranth.back import verilog

from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top


def to_verilog(params: CoreParams) -> str:
    """The whole accelerator as one Verilog text; its top module is `TOP_NAME`."""
    # Millions of small objects live until the end, and looking among them for garbage would take half of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return str(verilog.convert(Top(params), name=TOP_NAME, emit_src=False))
    finally:
        if collecting:
            gc.enable()


def source_hash(params: CoreParams) -> str:
    """What decides the text of `to_verilog`, as a hash: parameters, the source of hw/, and Amaranth's version."""
    digest = hashlib.sha256(f"{params} amaranth {version('amaranth')}".encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
