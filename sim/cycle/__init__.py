"""Device "cycle": the cycles of device "rtl" to the last one, without Verilator; results are those of device "fsim".

`advance` in `sim.cycle.simulation` is a cycle-accurate model of the accelerator, of the memory and of the host of
`sim/rtl/harness.cpp`. It has a file for each file of `hw/` that decides a cycle, with the same names. It is plain Python over the
registers' values, and numba compiles the same text.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError, one_of
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE, SystemLike
from vtakit.sim.api import Result, keywords
from vtakit.sim.cycle.timing import Timing, has_machine_code, run_cycles
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.fsim import PATHS, bases_of, execute, window_of
from vtakit.sim.order import execution_order
from vtakit.sim.program import decoded_program, program_bytes
from vtakit.sim.rtl import features
from vtakit.sim.rtl.surroundings import OPTIONS as RTL_AROUND
from vtakit.sim.rtl.surroundings import Surroundings, surrounded

__all__ = ["AROUND", "OPTIONS", "check_options", "features", "run_timed", "simulate"]

AROUND = tuple(name for name in RTL_AROUND if name not in ("read_error", "write_error", "wave"))


def simulate(
    cfg: VTAConfig,
    dram: bytearray,
    insn_addr: int,
    insn_count: int,
    *,
    data: bool = True,
    path: str = "auto",
    bases: Mapping[str, int] | None = None,
    window: tuple[int, int] | None = None,
    system: SystemLike = REFERENCE,
    bus_bits: int | None = None,
    core: Mapping[str, Any] | None = None,
    **around: Any,
) -> Result:
    """Run the instructions at `insn_addr`.

    data            False: only cycles; the result's `dram` and `acc` are then empty
    path            "auto" (compiled where numba is installed), "plain" or "compiled"
    bases, window   as in fsim
    system, bus_bits, core, around   as in device "rtl", but for injected errors and waveforms

    `counters` and `trace` are those of device "rtl". Micro-ops are those that the image holds at the start. Faults are those of
    fsim, with its words.
    """
    check_options(data, path)
    memories = Memories(bases=bases_of(bases or {}), window=window_of(window, len(dram)))
    surroundings, bits = surrounded(system, bus_bits, around)
    surroundings.check_capacity(len(dram))
    params = CoreParams.of(cfg, bits, core)
    decoded = decoded_program(cfg, bytes(program_bytes(dram, insn_addr, insn_count)), params.published)
    found, acc = run_timed(decoded, dram, insn_addr, memories, params, surroundings, data=data, path=path)
    counters = decoded.transfer_counters() | found.counters
    trace = found.trace(decoded.stage) if surroundings.trace else None
    return Result(dram=bytes(dram) if data else b"", acc=acc, counters=counters, trace=trace)


OPTIONS = (*keywords(simulate), *AROUND)


def check_options(data: object, path: object) -> None:
    """Refuse options that are none."""
    if not isinstance(data, bool):
        raise VtakitError(f"data must be True or False, not {data!r:.40}")
    if path not in PATHS:
        raise VtakitError(f"unknown path {path!r}; {one_of(PATHS, str(path))}")


def run_timed(
    decoded: Decoded, dram: bytearray, insn_addr: int, memories: Memories, core: CoreParams, around: Surroundings, *,
    data: bool, path: str, rested: bool = False,
) -> tuple[Timing, npt.NDArray[np.int32]]:
    """Run a program that lies in `dram` at a byte address; returns its cycles and the accumulator, which is empty without `data`.

    rested   as in `vtakit.sim.cycle.parameters.parameters_of`

    `dram` is changed if `data`.
    """
    decoded.check(memories)
    execution_order(decoded)  # raises for tokens that are missing or left
    plain = path == "plain" or not has_machine_code(required=path == "compiled")
    found = run_cycles(decoded, dram, insn_addr, memories, core, around, plain=plain, rested=rested)
    if not data:
        return found, np.empty((0, core.cfg.batch, core.cfg.block), np.int32)
    return found, execute(decoded, dram, memories, path=path)
