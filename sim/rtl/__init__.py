"""The RTL in Verilator: device "rtl". The library is built when a configuration is first run, and kept."""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MEMORIES, Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.hw.params import CoreParams
from vtakit.sim.api import Result
from vtakit.sim.decode import Decoded, Memories, program_bytes
from vtakit.sim.faults import ProgramFault
from vtakit.sim.fsim import bases_of, window_of
from vtakit.sim.rtl.build import library

_ENDINGS = (
    "", "", "an AXI burst crosses 4 KiB", "write data come before their address", "WLAST is wrong", "a write leaves the memory",
)
_TIMEOUT = 1


class _Settings(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("insn_addr", "insn_count", "window_low", "window_high")),
        ("bases", ctypes.c_uint64 * len(MEMORIES)),
        *((name, ctypes.c_uint64) for name in ("latency", "outstanding", "stall", "seed", "max_cycles")),
    ]


class _Report(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("ending", "cycles", "done", "fault", "fault_index", "fault_stage")),
        ("causes", ctypes.c_uint64 * len(CYCLE_CAUSES) * len(Stage)),
        *((name, ctypes.c_uint64) for name in ("read_beats", "write_beats")),
    ]


def simulate(
    cfg: VTAConfig,
    dram: bytearray,
    insn_addr: int,
    insn_count: int,
    *,
    bases: Mapping[str, int] | None = None,
    window: tuple[int, int] | None = None,
    bus_bits: int = 64,
    latency: int = 40,
    outstanding: int = 16,
    stall: int = 0,
    seed: int = 0,
    max_cycles: int = 1_000_000_000,
) -> Result:
    """Run the instructions at `insn_addr` on the RTL; the default is the reference system of docs/simulators.md.

    bases, window   as in fsim
    bus_bits        width of the AXI4 bus: 64, 128, 256 or 512
    latency         cycles from a read's address to its first beat, and from a write's last beat to its answer
    outstanding     bursts that the memory accepts at once, of each direction
    stall, seed     percent of the cycles in which each channel refuses or withholds a transfer, and the seed of which
    max_cycles      a longer run is an error

    `counters` hold, besides those of fsim, `cycles`, the beats moved, and for each stage what its cycles were spent on.
    """
    for name, value, low, high in (
        ("latency", latency, 0, 100_000), ("outstanding", outstanding, 1, 256), ("stall", stall, 0, 99), ("seed", seed, 0, 2**63),
        ("max_cycles", max_cycles, 1, 2**62),
    ):
        if not low <= value <= high:
            raise VtakitError(f"{name} is {value} and must be from {low} to {high}")
    memories = Memories(bases=bases_of(bases or {}), window=window_of(window, len(dram)))
    code = bytes(program_bytes(dram, insn_addr, insn_count))
    if not insn_count:
        raise ProgramFault(Fault.NO_FINISH, -1, "", "the program has no instructions; it must end with FINISH")
    settings = _Settings(
        insn_addr=insn_addr, insn_count=insn_count, window_low=memories.window[0], window_high=memories.window[1],
        bases=(ctypes.c_uint64 * len(MEMORIES))(*(memories.bases[kind] for kind in sorted(MEMORIES))),
        latency=latency, outstanding=outstanding, stall=stall, seed=seed, max_cycles=max_cycles,
    )
    acc = np.zeros(cfg.acc_depth * cfg.acc_bytes, np.uint8)
    report = _Report()
    memory = (ctypes.c_char * len(dram)).from_buffer(dram)
    _function(CoreParams(cfg=cfg, bus_bits=bus_bits))(
        ctypes.byref(settings), memory, len(dram), acc.ctypes.data_as(ctypes.c_void_p), acc.nbytes, ctypes.byref(report)
    )
    if report.ending == _TIMEOUT:
        raise VtakitError(f"the RTL has not finished within {max_cycles} cycles")
    if report.ending:
        raise VtakitError(f"the RTL broke the AXI protocol in cycle {report.cycles}: {_ENDINGS[report.ending]}")
    if report.fault:
        index = int(report.fault_index)
        word = int.from_bytes(code[index * INSN_BYTES : (index + 1) * INSN_BYTES], "little")
        fault = next(fault for fault in Fault if fault == report.fault)
        raise ProgramFault.at(cfg, fault, index, word, f"the hardware stopped in cycle {report.cycles}: {fault.doc}")
    counters = Decoded(cfg, code).transfer_counters() | {
        "cycles": int(report.cycles), "read_beats": int(report.read_beats), "write_beats": int(report.write_beats),
        **{
            f"{stage.name.lower()}_{cause}": int(report.causes[stage][n])
            for stage in Stage for n, cause in enumerate(CYCLE_CAUSES)
        },
    }
    values = acc.view(f"<i{cfg.acc_bits // 8}").astype(np.int32).reshape(-1, cfg.batch, cfg.block)
    return Result(dram=bytes(dram), acc=values, counters=counters)


def _function(params: CoreParams) -> Any:
    try:
        function = ctypes.CDLL(str(library(params))).run
    except OSError as error:
        raise VtakitError(f"cannot load the RTL model: {error}") from None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    function.restype = None
    return function
