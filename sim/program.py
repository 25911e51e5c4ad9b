"""Programs in a DRAM image: their bytes, and what these decode to."""

from functools import lru_cache

from vtakit.base.text import counted
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.sim.decode import Decoded
from vtakit.sim.faults import ProgramFault


def program_bytes(dram: bytes | bytearray | memoryview, insn_addr: int, insn_count: int) -> memoryview:
    """The instructions' bytes in a DRAM image; raises `ProgramFault` if they lie outside it."""
    end = insn_addr + insn_count * INSN_BYTES
    if insn_addr % INSN_BYTES:
        raise ProgramFault(Fault.DRAM_RANGE, -1, "", f"insn_addr {insn_addr} is not a multiple of {INSN_BYTES}")
    if insn_addr < 0 or insn_count < 0 or end > len(dram):
        raise ProgramFault(
            Fault.DRAM_RANGE, -1, "",
            f"{counted(insn_count, 'instruction')} at byte {insn_addr} end at byte {end}, and the DRAM image has {len(dram)} "
            "bytes",
        )
    return memoryview(dram)[insn_addr:end]


@lru_cache(maxsize=4)  # a driver runs one program many times; a fuzzer checks it, and runs it on two devices
def decoded_program(cfg: VTAConfig, code: bytes, published: bool = False) -> Decoded:
    """Decode a program, or return what it was decoded to a short time ago.

    published   as a device of the published instruction set alone does it
    """
    return Decoded(cfg, code, published=published)
