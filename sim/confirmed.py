"""A program's cycles by the cycle model, and the same program on the RTL to confirm them."""

from collections.abc import Mapping
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.hw.isa.program import Program
from vtakit.sim.api import Result, run
from vtakit.sim.differences import first_difference

DEVICES = "cycle", "rtl"
SAMPLE_CYCLES = 70_000  # half a second of the RTL


def measured(program: Program, inputs: Mapping[str, bytes], device: str = "cycle", **options: Any) -> Result:
    """Run a program on device "cycle", and return its cycles with the functional simulator's results.

    device    "rtl": the RTL runs it too and must have the same; "cycle": only if it takes at most `SAMPLE_CYCLES`
    options   of both devices

    Raises `VtakitError` if the RTL has another counter, or leaves another byte in DRAM or in the accumulator.
    """
    if device not in DEVICES:
        raise VtakitError(f"cycles are measured on no device {device!r:.40}; {one_of(DEVICES, str(device))}")
    found = run(program, inputs, device="cycle", **options)
    if device == "rtl" or found.counters["cycles"] <= SAMPLE_CYCLES:
        difference = difference_on_rtl(program, inputs, found, **options)
        if difference is not None:
            raise VtakitError(f"the RTL differs from the cycle model or the functional simulator: {difference}")
    return found


def difference_on_rtl(program: Program, inputs: Mapping[str, bytes], found: Result, **options: Any) -> str | None:
    """Run a program on the RTL, and return its first difference from the result of device "cycle"; None if there is none."""
    return first_difference(run(program, inputs, device="rtl", **options), found)
