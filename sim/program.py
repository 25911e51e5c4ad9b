"""Programs in a DRAM image: their bytes, and what these decode to."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vtakit.base.text import counted
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FORMATS, MemType, Opcode
from vtakit.hw.isa.published import EXTENSIONS, overwrite_bit
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
    return Decoded(cfg, _understood(cfg, code) if published else code, published=published)


def _understood(cfg: VTAConfig, code: bytes) -> bytes:
    """The instructions without what a device of the published set ignores: bits of no field, and the memory type of a STORE of no
    elements.
    """
    words: npt.NDArray[np.uint64] = np.frombuffer(code, "<u8").reshape(-1, 2)
    known = words.copy()
    opcode_bits = np.uint64((1 << FORMATS[Opcode.LOAD].place(cfg)[0].width) - 1)
    for opcode, fmt in FORMATS.items():
        if not EXTENSIONS[opcode]:
            rows = np.flatnonzero(words[:, 0] & opcode_bits == np.uint64(opcode))
            ignored = fmt.reserved_bits(cfg) | (overwrite_bit(cfg) if opcode is Opcode.GEMM else 0)
            known[rows, 0] &= np.uint64(~ignored & (2**64 - 1))
            known[rows, 1] &= np.uint64(~(ignored >> 64) & (2**64 - 1))
    places = {place.field.name: place for place in FORMATS[Opcode.STORE].place(cfg)}
    kind, size = places["memory_type"], places["x_size"]
    nothing = (words[:, 0] & opcode_bits == np.uint64(Opcode.STORE)) & (
        words[:, 1] >> np.uint64(size.offset - 64) & np.uint64((1 << size.width) - 1) == 0)
    known[nothing, 0] &= np.uint64(~((1 << kind.width) - 1 << kind.offset) & (2**64 - 1))
    known[nothing, 0] |= np.uint64(MemType.OUT << kind.offset)
    return known.tobytes()
