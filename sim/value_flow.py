"""The value-flow rule of the static checker: what is read from scratch memory is what was stored there for it.

Several values may share a scratch buffer when they are not live at the same time; relocations say which value each transfer
moves. Each unit of scratch memory has a tag, the last value stored to it. The tag is negative until the value is read. A LOAD of
a value must find its own tag everywhere. A STORE of a value must not find a part of the same value that nothing has read yet.
The rule walks one order that the tokens allow. The race rule proves that all orders are equivalent.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOADS, MEMORIES, MemType
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.hw.values import Ints
from vtakit.sim.access import granule_bytes
from vtakit.sim.decode import Decoded
from vtakit.sim.faults import ProgramFault

_NOTHING = 0  # tag of memory that nothing was stored to; such memory takes none of this machine's


def lost_values(program: Program, decoded: Decoded, order: Sequence[int] | Ints) -> Iterator[ProgramFault]:
    """Yield a fault for each LOAD that does not find the value that it reads, and each STORE that overwrites its own.

    decoded : the program's own instructions, not relocated, so that addresses count from the start of their buffers
    order   : numbers of all instructions in an order that tokens allow
    """
    unit = granule_bytes(program.config)
    tags = {
        buffer.name: np.zeros(-(-buffer.size_bytes // unit), np.int32) for buffer in program.buffers
        if buffer.kind is BufferKind.SCRATCH and buffer.data is None
    }
    moved = {entry.insn: entry for entry in program.relocations if entry.symbol in tags}
    if not moved:
        return
    names = list(dict.fromkeys(entry.value for entry in moved.values()))
    number = {name: at for at, name in enumerate(names, 1)}
    rows = {name: decoded[name].tolist() for name in ("memory_type", "dram_base", "y_size", "x_size", "x_stride")}
    loads = decoded.is_op(*LOADS).tolist()
    units = _units(program.config, unit)
    for index in order.tolist() if isinstance(order, np.ndarray) else order:
        entry = moved.get(index)
        if entry is None:
            continue
        base, down, across, stride = [rows[name][index] for name in ("dram_base", "y_size", "x_size", "x_stride")]
        if not down or not across:
            continue
        size, tag = units[rows["memory_type"][index]], tags[entry.symbol]
        first, width = base * size, across * size
        if down == 1 or stride == across:
            found = tag[first:first + down * width]
        elif first + (down - 1) * stride * size + width <= len(tag):
            found = np.lib.stride_tricks.as_strided(tag[first:], (down, width), (stride * size * tag.itemsize, tag.itemsize))
        else:
            continue  # beyond the buffer, which is another rule's
        own, detail = number[entry.value], ""
        if not loads[index]:
            if entry.value and (found == -own).any():
                detail = f"it stores value {entry.value!r} in scratch buffer {entry.symbol!r} onto a part of it that is unread"
            found[...] = -own
        elif (lost := (found != own) & (found != -own)).any():
            detail = _detail(entry.value, entry.symbol, abs(int(found[lost][0])), names)
        else:
            found[...] = own
        if detail:
            yield ProgramFault(
                Fault.VALUE_LOST, index, disasm(program.insns[index], program.config, symbol=str(entry)), detail)


def _units(cfg: VTAConfig, unit: int) -> dict[int, int]:
    """Units of one element of each memory type."""
    return {int(kind): MEMORIES[kind].bytes_in(cfg) // unit for kind in MemType if kind in MEMORIES}


def _detail(value: str, symbol: str, other: int, names: Sequence[str]) -> str:
    what = f"value {value!r}" if value else "what was stored there"
    if other == _NOTHING:
        return f"it reads {what} from scratch buffer {symbol!r}, where nothing has been stored"
    return f"it reads {what} from scratch buffer {symbol!r}, where value {names[other - 1]!r} has been stored since"
