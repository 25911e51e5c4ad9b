"""A netlist of the accelerator in Verilator, with the memory and the host of device "rtl" at its pins."""

from vtakit.hw.interfaces import INDEX_BITS
from vtakit.hw.params import CoreParams
from vtakit.sim.board import build
from vtakit.sim.rtl.build import DRAM, HARNESS, INTERFACE
from vtakit.sim.rtl.library import Library, opened

_PREFIX = "Vvta"


def netlist_library(params: CoreParams, verilog: str, *, optimize: str = "-O1") -> Library:
    """Return the library of a netlist of `params`, built now if it is not kept. It has no trace, and its accumulator is not read.

    Raises `VtakitError` naming the missing tool, or the step that failed and where its output is.
    """
    defines = {"PINS_ONLY": 1, "BUS_BYTES": params.bus_bytes, "INDEX_BITS": INDEX_BITS}
    product = build.library(
        verilog, HARNESS, what="the model of a netlist", defines=defines, headers=(INTERFACE, DRAM), optimize=optimize,
        prefix=_PREFIX)
    return opened(product.path, product.data)
