"""The RTL in Verilator: device "rtl". The library is built when a configuration is first run, and kept."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.regs import COUNTERS, mask_of
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE, SystemLike
from vtakit.sim.api import Result, keywords
from vtakit.sim.decode import Memories
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.fsim import bases_of, window_of
from vtakit.sim.program import decoded_program, program_bytes
from vtakit.sim.rtl.host import command, program_settings, read_register, session, until_idle
from vtakit.sim.rtl.surroundings import OPTIONS as AROUND
from vtakit.sim.rtl.surroundings import surrounded


def features(cfg: VTAConfig) -> Feature:
    """The abilities beyond the smallest device that the hardware has."""
    return CoreParams(cfg=cfg).features


def simulate(
    cfg: VTAConfig,
    dram: bytearray,
    insn_addr: int,
    insn_count: int,
    *,
    bases: Mapping[str, int] | None = None,
    window: tuple[int, int] | None = None,
    system: SystemLike = REFERENCE,
    bus_bits: int | None = None,
    core: Mapping[str, Any] | None = None,
    **around: Any,
) -> Result:
    """Run the instructions at `insn_addr` on the RTL; the default is the reference system of docs/simulators.md.

    bases, window   as in fsim
    system          its memory: a `vtakit.hw.system.System`, a name, a mapping of fields, or the path of a JSON file
    bus_bits        width of the AXI4 bus: 64, 128, 256 or 512; that of the system if None
    core            fields of `vtakit.hw.params.CoreParams`: {"mul_passes": 4, "windows": False}; the defaults if absent
    around          the fields of `vtakit.sim.rtl.surroundings.Surroundings`, on top of the system

    `counters` hold, besides those of fsim, `cycles`, the beats moved, and for each stage what its cycles were spent on.
    """
    memories = Memories(bases=bases_of(bases or {}), window=window_of(window, len(dram)))
    code = bytes(program_bytes(dram, insn_addr, insn_count))
    surroundings, bits = surrounded(system, bus_bits, around)
    surroundings.check_capacity(len(dram))
    params = CoreParams.of(cfg, bits, core)
    if not insn_count:
        raise ProgramFault(Fault.NO_FINISH, -1, "", "the program has no instructions; it must end with FINISH")
    ops = [
        *program_settings(insn_addr, insn_count, memories.bases, memories.window), command("start"), until_idle(),
        *(op for name in ("status", "error", "error_insn", *COUNTERS) for op in read_register(name)),
    ]
    done = session(params, dram, ops, surroundings)
    refused = next((op for op in done.answers if op.response), None)
    if refused is not None:
        raise DeviceError(f"the device refuses {refused.value} in its register at 0x{refused.address:x}")
    registers = done.registers()
    if registers["status"] & mask_of("status", "error"):
        index = registers["error_insn"]
        word = int.from_bytes(code[index * INSN_BYTES : (index + 1) * INSN_BYTES], "little")
        fault = next(f for f in Fault if f == registers["error"] & mask_of("error", "fault"))
        stopped = f"the hardware stopped in cycle {registers['cycles']}: {fault.doc}"
        error = ProgramFault.at(cfg, fault, index, word, stopped)
        error.trace = done.trace
        raise error
    if not registers["status"] & mask_of("status", "done"):
        raise DeviceError(f"the hardware neither finished nor found a fault: status is {registers['status']}")
    counters = decoded_program(cfg, code, params.published).transfer_counters() | {name: registers[name] for name in COUNTERS}
    counters |= {"read_beats": done.read_beats, "write_beats": done.write_beats}
    values = done.acc.view(f"<i{cfg.acc_bits // 8}").astype(np.int32).reshape(-1, cfg.batch, cfg.block)
    return Result(dram=bytes(dram), acc=values, counters=counters, trace=done.trace)


OPTIONS = (*keywords(simulate), *AROUND)
