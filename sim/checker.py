"""The static checker: prove that every interleaving of a program's stages gives the same bytes, or say why not.

It finds what the instruction set forbids, deadlock, tokens left over or too many in a queue, and races: two accesses to one
element of a scratchpad or of DRAM by different stages, at least one a write, that no token orders. In programs whose scratch
values share memory it finds values that are overwritten while they are still to be read (`value_flow`). Micro-ops are taken from
the DRAM image, so the program must not compute them.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vtakit.base.reading import check_memory
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.codec import Insn, decode, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES, VTAConfig, load_config
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FLAG_QUEUES, FLAGS, MEMORIES, TOKEN_QUEUE_DEPTH, MemType, Opcode, Queue, Stage
from vtakit.hw.isa.program import UOPS, BufferKind, Program
from vtakit.hw.isa.published import VTAKIT, Isa
from vtakit.hw.values import Ints
from vtakit.sim.access import (
    DRAM,
    Access,
    Clock,
    Conflict,
    Shadow,
    granule_bytes,
    loop_accesses,
    transfer_accesses,
    window_accesses,
)
from vtakit.sim.api import ConfigLike
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.faults import ProgramFault
from vtakit.sim.order import execution_order, queue_name, token_queues
from vtakit.sim.plain import index_fault
from vtakit.sim.program import decoded_program, program_bytes
from vtakit.sim.published import PublishedRules
from vtakit.sim.value_flow import lost_values

_NOTED_BYTES = 16  # of each granule of DRAM: who last wrote and read it, and which value it holds
LOOPS = (Opcode.GEMM, Opcode.ALU)  # what runs micro-ops
REMEMBERED = 1024  # GEMM and ALU instructions whose accesses are kept for those that are equal


@dataclass(frozen=True, slots=True)
class Known:
    """Byte ranges of DRAM with known contents; micro-ops may come only from them."""

    ranges: tuple[tuple[int, int], ...]

    def holds(self, first: int, last: int) -> bool:
        """Return true if one range holds all bytes from `first` up to `last`."""
        return any(low <= first and last <= high for low, high in self.ranges)


def check_image(
    dram: bytes | bytearray | memoryview,
    insn_addr: int,
    insn_count: int,
    config: ConfigLike = "default",
    *,
    memories: Memories | None = None,
    known: Known | None = None,
    isa: Isa = VTAKIT,
) -> list[ProgramFault]:
    """Return the faults of the program in a DRAM image, in program order; empty if it is right.

    A program that does not decode, does not end or deadlocks has that one fault: later rules need an order of execution.

    memories  base registers and DRAM window; bases 0 and the whole image if absent
    known     ranges that micro-ops may come from; the whole image if absent
    isa       instructions that it may use: of the published set, its rules are checked too

    Raises ConfigError for a configuration that the published instruction set does not place in words.
    """
    cfg = load_config(config)
    memories = memories or Memories(bases=dict.fromkeys(MEMORIES, 0), window=(0, len(dram)))
    return _check(dram, insn_addr, insn_count, cfg, memories, known or Known(((0, len(dram)),)), isa)[0]


def _check(
    dram: bytes | bytearray | memoryview, insn_addr: int, insn_count: int, cfg: VTAConfig, memories: Memories, known: Known,
    isa: Isa,
) -> tuple[list[ProgramFault], Ints | None]:
    """Return the faults, and an order that tokens allow; None for a program that does not decode, end or come by its tokens."""
    isa.check_config(cfg)
    try:
        code = program_bytes(dram, insn_addr, insn_count)
        decoded = decoded_program(cfg, bytes(code), isa.published)
        decoded.check(memories)
        order = execution_order(decoded)
    except ProgramFault as fault:
        return [fault], None  # what follows would build on a program that does not decode or end
    walk = _Walk(cfg, decoded, dram, memories, known, (insn_addr, insn_addr + insn_count * INSN_BYTES), isa)
    for index in order:
        walk.step(int(index))
    return sorted([*walk.found, *_overflows(decoded, walk.clocks)], key=lambda fault: fault.index), order


def check_program(program: Program, isa: Isa = VTAKIT) -> list[ProgramFault]:
    """Return the faults of a program, whatever its inputs, in program order; empty if it is right.

    isa : instructions that it may use: of the published set, its rules are checked too

    Raises ConfigError for a configuration that the published instruction set does not place in words, ProgramError if the
    program's DRAM, or what is noted of it, does not fit this machine's memory.
    """
    image = program.link()
    needed = len(image.dram) // granule_bytes(program.config) * _NOTED_BYTES
    try:
        check_memory(needed)
    except MemoryError:
        raise ProgramError(f"checking the program takes {needed} bytes of memory, more than this machine has") from None
    decoded = Decoded(program.config, to_bytes(program.insns))
    sizes = {buffer.name: buffer.size_bytes for buffer in program.buffers} | {UOPS: len(program.uops) * UOP_BYTES}
    given = [UOPS, *(buffer.name for buffer in program.buffers if buffer.data is not None)]
    known = Known(tuple((image.addresses[name], image.addresses[name] + sizes[name]) for name in given))
    memories = Memories(bases=dict.fromkeys(MEMORIES, 0), window=(0, len(image.dram)))
    faults, order = _check(image.dram, image.insn_addr, image.insn_count, program.config, memories, known, isa)
    faults = [*faults, *_leave_buffer(program, decoded, sizes), *_reach_scratch(program, decoded, image.addresses)]
    if order is not None:
        faults += lost_values(program, decoded, order)
    return sorted(faults, key=lambda fault: fault.index)


def _leave_buffer(program: Program, decoded: Decoded, sizes: dict[str, int]) -> Iterable[ProgramFault]:
    """Yield a fault for each transfer that reaches outside the buffer that it is relocated to.

    decoded   the instructions before relocation: addresses count from the start of the buffer
    """
    spans = {kind: decoded.dram_span(kind, 0) for kind in MEMORIES}
    for entry in program.relocations:
        kind = MemType(int(decoded["memory_type"][entry.insn]))
        first, last = (int(ends[entry.insn]) for ends in spans[kind])
        if last > first and not 0 <= first <= last <= sizes[entry.symbol]:
            text = disasm(program.insns[entry.insn], program.config, symbol=str(entry))
            yield ProgramFault(
                Fault.DRAM_RANGE, entry.insn, text,
                f"it reaches bytes {first} to {last} of buffer {entry.symbol!r}, which has {sizes[entry.symbol]}",
            )


def _reach_scratch(program: Program, decoded: Decoded, addresses: Mapping[str, int]) -> Iterable[ProgramFault]:
    """Yield a fault for each transfer that is not relocated and reaches a scratch buffer: nothing says which value it moves."""
    relocated = [entry.insn for entry in program.relocations]
    scratch = [buffer for buffer in program.buffers if buffer.kind is BufferKind.SCRATCH and buffer.data is None]
    for kind in MEMORIES if scratch else ():
        first, last = decoded.dram_span(kind, 0)
        moves = decoded.of_memory(kind) & (last > first)
        moves[relocated] = False
        for buffer in scratch:
            begin = addresses[buffer.name]
            for index in np.flatnonzero(moves & (first < begin + buffer.size_bytes) & (last > begin)).tolist():
                yield decoded.fault(
                    Fault.DRAM_RANGE, index,
                    f"it reaches bytes {first[index]} to {last[index]}, where scratch buffer {buffer.name!r} lies, and is not "
                    f"relocated to it: write dram_base=@{buffer.name}")


class _Walk:
    """Walk a program once, in an order that its tokens allow, with vector clocks."""

    def __init__(
        self, cfg: VTAConfig, decoded: Decoded, dram: bytes | bytearray | memoryview, memories: Memories, known: Known,
        code: tuple[int, int], isa: Isa,
    ) -> None:
        self.cfg, self.decoded, self.memories, self.known, self.code = cfg, decoded, memories, known, code
        self.found: list[ProgramFault] = []
        self._published = PublishedRules(cfg, isa, bytes(dram[slice(*code)])) if isa.published else None
        self.clocks: list[Clock] = [[] for _ in range(decoded.count)]  # last retired of each stage, as each starts
        self._dram = np.frombuffer(dram, np.uint8)
        self._uop: Ints = np.zeros(cfg.uop_depth, np.int64)
        self._shadow = Shadow(cfg, len(dram))
        self._loops: dict[tuple[int, bytes], list[Access] | str] = {}  # accesses by instruction and micro-ops, or the fault
        self._now: list[Clock] = [[-1, -1, -1] for _ in Stage]
        self._tokens: list[deque[int]] = [deque() for _ in Queue]
        self._pops, self._pushes = token_queues(decoded, FLAGS[:2]), token_queues(decoded, FLAGS[2:])

    def step(self, index: int) -> None:
        """Run the next instruction: merge the clocks of its tokens, report conflicts, record its accesses."""
        insn = decode(self.cfg, self.decoded.word(index))
        stage = insn.stage
        clock = self._now[stage]
        for queue in self._pops[index]:
            giver = self._tokens[queue].popleft()
            given = self.clocks[giver].copy()
            given[self.decoded.stage[giver]] = giver
            clock[:] = map(max, clock, given)
        self.clocks[index] = clock.copy()
        accesses = self._accesses(index, insn)
        for conflict in self._shadow.conflicts(stage, accesses, clock):
            self._report(Fault.RACE, index, self._race(conflict, accesses))
        self._shadow.record(index, stage, accesses)
        if self._published is not None:
            uops = self._uop[insn["uop_bgn"] : insn["uop_end"]] if insn.op in LOOPS else self._uop[:0]
            for detail in self._published.step(index, insn, accesses, uops, clock):
                self._report(Fault.UNPUBLISHED, index, detail)
        clock[stage] = index
        for queue in self._pushes[index]:
            self._tokens[queue].append(index)

    def _report(self, fault: Fault, index: int, detail: str) -> None:
        self.found.append(self.decoded.fault(fault, index, detail))

    def _accesses(self, index: int, insn: Insn) -> list[Access]:
        if insn.op in LOOPS:
            words = self._uop[insn["uop_bgn"] : insn["uop_end"]]
            known = self.decoded.word(index), words.tobytes()
            if known not in self._loops:
                detail = index_fault(self.cfg, insn, self._uop)
                self._loops[known] = detail or loop_accesses(self.cfg, insn, words)
                while len(self._loops) > REMEMBERED:
                    del self._loops[next(iter(self._loops))]
            found = self._loops[known]
            if isinstance(found, str):
                self._report(Fault.SRAM_RANGE, index, found)
                return []
            return found
        if insn.op is Opcode.FINISH:
            return []
        if insn.op is Opcode.DWCONV:
            return window_accesses(insn)
        kind = MemType(insn["memory_type"])
        base = self.memories.bases[kind]
        accesses = transfer_accesses(self.cfg, insn, base)
        if kind is MemType.OUT and accesses and insn["y_size"]:
            first, last = self._reach(insn)
            if first < self.code[1] and self.code[0] < last and any(
                    low < self.code[1] and self.code[0] < high for low, high in self._rows(insn)):
                self._report(Fault.CODE_WRITTEN, index,
                             f"it writes bytes {first} to {last}, where the program's instructions lie")
        if kind is MemType.UOP and accesses:
            self._load_uops(index, insn, accesses)
        return accesses

    def _reach(self, insn: Insn) -> tuple[int, int]:
        """Return the first byte that a transfer moves and the byte after its last."""
        kind = MemType(insn["memory_type"])
        size = MEMORIES[kind].bytes_in(self.cfg)
        first = self.memories.bases[kind] + insn["dram_base"] * size
        return first, first + ((insn["y_size"] - 1) * insn["x_stride"] + insn["x_size"]) * size

    def _rows(self, insn: Insn) -> Iterator[tuple[int, int]]:
        """Yield the byte range of each row that a transfer moves."""
        kind = MemType(insn["memory_type"])
        size = MEMORIES[kind].bytes_in(self.cfg)
        for row in range(insn["y_size"] if insn["x_size"] else 0):
            start = self.memories.bases[kind] + (insn["dram_base"] + row * insn["x_stride"]) * size
            yield start, start + insn["x_size"] * size

    def _load_uops(self, index: int, insn: Insn, accesses: list[Access]) -> None:
        for access in accesses:
            if access.memory == DRAM:
                writers = self._shadow.writers(access)
                if writers:
                    self._report(Fault.CODE_WRITTEN, index, f"it loads micro-ops that instruction {writers[0]} has written")
                if not all(self.known.holds(low, high) for low, high in self._rows(insn)):
                    self._report(Fault.CODE_WRITTEN, index, "it loads micro-ops whose contents the program does not give")
        across = insn["x_pad_0"] + insn["x_size"] + insn["x_pad_1"]
        rows = np.zeros((insn["y_pad_0"] + insn["y_size"] + insn["y_pad_1"], across), np.int64)
        for row, (start, end) in enumerate(self._rows(insn)):
            words = self._dram[start:end].view("<u4")
            rows[insn["y_pad_0"] + row, insn["x_pad_0"] : insn["x_pad_0"] + insn["x_size"]] = words
        self._uop[insn["sram_base"] : insn["sram_base"] + rows.size] = rows.reshape(-1)

    def _race(self, conflict: Conflict, accesses: list[Access]) -> str:
        if conflict.memory == DRAM:
            granule = granule_bytes(self.cfg)
            where = f"DRAM bytes {conflict.element * granule} to {(conflict.element + 1) * granule}"
        else:
            where = f"{conflict.memory}[{conflict.element}]"
        writes = any(access.memory == conflict.memory and access.write for access in accesses)
        other = disasm(self.decoded.word(conflict.index), self.cfg)
        return (
            f"it {'writes' if writes else 'reads'} {where}, which instruction {conflict.index} ({other}) of the "
            f"{conflict.stage.name.lower()} stage {'writes' if conflict.write else 'reads'}, and no token orders the two"
        )


def _overflows(decoded: Decoded, clocks: list[Clock]) -> Iterable[ProgramFault]:
    """Yield the first push of each queue that overflows it in some interleaving."""
    pops, pushes = token_queues(decoded, FLAGS[:2]), token_queues(decoded, FLAGS[2:])
    takers = {queue: stage for (stage, flag), queue in FLAG_QUEUES.items() if flag.startswith("pop")}
    for queue in Queue:
        taken = [index for index in range(decoded.count) if queue in pops[index]]
        given = [index for index in range(decoded.count) if queue in pushes[index]]
        for count, index in enumerate(given, 1):
            waiting = count - bisect_right(taken, clocks[index][takers[queue]])
            if waiting > TOKEN_QUEUE_DEPTH:
                detail = f"{waiting} tokens can wait in the {queue_name(queue)} queue, which holds {TOKEN_QUEUE_DEPTH}"
                yield decoded.fault(Fault.TOKEN_OVERFLOW, index, detail)
                break
