"""The meaning of the instruction set: one function an instruction, in plain NumPy (ISA.md sections 3 to 5).

Every other simulator, the RTL and the compiler are tested against this; it is written to be read, not to be fast.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.codec import Insn, decode, decode_uop
from vtakit.hw.isa.config import UOP_BYTES, VTAConfig
from vtakit.hw.isa.exhaustive import for_each
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MEMORIES, REQUANT_PARAMS, REQUANT_WORD_BITS, REQUANT_WORDS, TABLE_BYTES, AluOp, MemType, Opcode
from vtakit.hw.isa.pools import pooled_extents
from vtakit.hw.isa.requant import rescaled
from vtakit.hw.values import Bytes, Ints, pack, unpack, wrap
from vtakit.sim.decode import Decoded, Memories


class Machine:
    """The scratchpads, all zero at first, and DRAM.

    uop   int64  [uop_depth]                   32-bit micro-op words
    inp   int64  [inp_depth, batch, block]
    wgt   int64  [wgt_depth, block, block]     [.., out, in]
    acc   int64  [acc_depth, batch, block]
    dram  uint8  [bytes]                       changed in place
    """

    def __init__(self, cfg: VTAConfig, dram: Bytes, memories: Memories) -> None:
        self.cfg, self.dram, self.memories = cfg, dram, memories
        self.uop: Ints = np.zeros(cfg.uop_depth, np.int64)
        self.inp: Ints = np.zeros((cfg.inp_depth, cfg.batch, cfg.block), np.int64)
        self.wgt: Ints = np.zeros((cfg.wgt_depth, cfg.block, cfg.block), np.int64)
        self.acc: Ints = np.zeros((cfg.acc_depth, cfg.batch, cfg.block), np.int64)

    def dram_at(self, insn: Insn, row: int) -> int:
        """Byte address of the first element of a transfer's row."""
        kind = MemType(insn["memory_type"])
        element = insn["dram_base"] + row * insn["x_stride"]
        return self.memories.bases[kind] + element * MEMORIES[kind].bytes_in(self.cfg)


def run(cfg: VTAConfig, decoded: Decoded, dram: Bytes, memories: Memories, order: Iterable[int]) -> npt.NDArray[np.int32]:
    """Run a checked program's instructions in `order`, changing `dram`; returns the accumulator [depth, batch, block]."""
    machine = Machine(cfg, dram, memories)
    for index in order:
        insn = decode(cfg, decoded.word(int(index)))
        if insn.op in (Opcode.GEMM, Opcode.ALU):
            detail = index_fault(cfg, insn, machine.uop)
            if detail is not None:
                raise decoded.fault(Fault.SRAM_RANGE, int(index), detail)
        STEPS[insn.op](machine, insn)
    return machine.acc.astype(np.int32)


def load(m: Machine, insn: Insn) -> None:
    """Fill a scratchpad from DRAM, with rows and columns of zeros, or of a PAD_LOAD's value, around what is read."""
    if not insn["x_size"]:
        return
    kind = MemType(insn["memory_type"])
    element_bytes = MEMORIES[kind].bytes_in(m.cfg)
    scratchpad: Ints = getattr(m, MEMORIES[kind].scratchpad)
    at, across = insn["sram_base"], insn["x_pad_0"] + insn["x_size"] + insn["x_pad_1"]
    value = wrap(np.array(insn.fields.get("pad_value", 0)), m.cfg.inp_bits)  # 0 but of a PAD_LOAD

    def pads(count: int) -> None:
        nonlocal at
        scratchpad[at : at + count] = value
        at += count

    pads(insn["y_pad_0"] * across)
    for row in range(insn["y_size"]):
        pads(insn["x_pad_0"])
        start = m.dram_at(insn, row)
        data = m.dram[start : start + insn["x_size"] * element_bytes]
        scratchpad[at : at + insn["x_size"]] = _elements(m.cfg, kind, data).reshape(-1, *scratchpad.shape[1:])
        at += insn["x_size"]
        pads(insn["x_pad_1"])
    pads(insn["y_pad_1"] * across)


def _elements(cfg: VTAConfig, kind: MemType, data: Bytes) -> Ints:
    if kind is MemType.UOP:
        return data.view(f"<u{UOP_BYTES}").astype(np.int64)
    return unpack(data, MEMORIES[kind].value_bits(cfg))


def store(m: Machine, insn: Insn) -> None:
    """Write the low output-width bits of consecutive accumulator elements to rows in DRAM."""
    first, count = insn["sram_base"], insn["y_size"] * insn["x_size"]
    _store_values(m, insn, m.acc[first : first + count])


def _store_values(m: Machine, insn: Insn, values: Ints) -> None:
    for row in range(insn["y_size"] if insn["x_size"] else 0):
        data = pack(values[row * insn["x_size"] : (row + 1) * insn["x_size"]], m.cfg.out_bits)
        start = m.dram_at(insn, row)
        m.dram[start : start + data.size] = data


def requant(m: Machine, insn: Insn) -> None:
    """Store accumulator elements, or the greatest of windows of them, requantized by their lanes' parameters, maybe looked up."""
    if insn["y_size"] * insn["x_size"]:
        words = m.acc[insn["params"] : insn["params"] + REQUANT_WORDS]
        values = requantized(m.cfg, greatest(m.acc, insn), words)
        if insn["lookup"]:
            held = m.acc[insn["params"] + REQUANT_WORDS : insn["params"] + REQUANT_WORDS + m.cfg.table_elements]
            table = held.astype("<i4").reshape(-1).view(np.int8)[:TABLE_BYTES].astype(np.int64)
            values = table[values + TABLE_BYTES // 2]
        _store_values(m, insn, values)


def greatest(acc: Ints, insn: Insn) -> Ints:
    """Return the greatest accumulators of each window of a REQUANT, row by row: [y_size * x_size, batch, block]."""
    rows, columns = pooled_extents(insn)
    lanes = acc.shape[1:]
    image = acc[insn["sram_base"] : insn["sram_base"] + rows * columns].reshape(rows, columns, *lanes).copy()
    image[: insn["pool_above"]] = image[:, : insn["pool_left"]] = np.iinfo(image.dtype).min
    size, step = insn["pool"] + 1, insn["pool_step"] + 1
    down, across = (insn["y_size"] - 1) * step + 1, (insn["x_size"] - 1) * step + 1
    taps = [image[r : r + down : step, c : c + across : step] for r in range(size) for c in range(size)]
    found: Ints = np.maximum.reduce(taps).reshape(-1, *lanes)
    return found


def requantized(cfg: VTAConfig, values: Ints, words: Ints) -> Ints:
    """Values [.., batch, block] after bias, scale, rounding shift, zero point and clip; `words` [3, batch, block] hold how."""
    def parameter(name: str) -> Ints:
        place = next(p for p in REQUANT_PARAMS.place(cfg) if p.field.name == name)
        word, at = divmod(place.offset, REQUANT_WORD_BITS)
        bits = words[word] >> at & (1 << place.width) - 1
        return wrap(bits, place.width) if place.low < 0 else bits

    scaled = rescaled(values, *map(parameter, ("bias", "multiplier", "shift", "zero_point")))
    clipped: Ints = np.minimum(np.maximum(scaled, parameter("low")), parameter("high"))
    return clipped


def steps(m: Machine, insn: Insn) -> Iterable[tuple[int, int, int]]:
    """The (dst, src, wgt) indices of a GEMM or ALU instruction, in order."""
    uops = [decode_uop(m.cfg, int(word)) for word in m.uop[insn["uop_bgn"] : insn["uop_end"]]]
    for outer in range(insn["iter_out"]):
        for inner in range(insn["iter_in"]):
            for uop in uops:
                yield (
                    uop["dst"] + outer * insn["dst_out"] + inner * insn["dst_in"],
                    uop["src"] + outer * insn["src_out"] + inner * insn["src_in"],
                    uop["wgt"] + outer * insn.fields.get("wgt_out", 0) + inner * insn.fields.get("wgt_in", 0),
                )


def gemm(m: Machine, insn: Insn) -> None:
    """Multiply input tiles with transposed weight tiles into the accumulator, adding or not, or reset it."""
    for dst, src, wgt in steps(m, insn):
        before = 0 if insn["overwrite"] else m.acc[dst]
        m.acc[dst] = 0 if insn["reset"] else wrap(before + m.inp[src] @ m.wgt[wgt].T, m.cfg.acc_bits)


def dwconv(m: Machine, insn: Insn) -> None:
    """Convolve each lane by itself: a window over what the last steps took."""
    (rows, columns), across = m.cfg.window, insn["columns"] + 1
    weights = m.wgt[insn["wgt"]][:, : rows * columns].T  # [taps, lanes]
    taken: list[Ints] = []
    for y in range(insn["rows"]):
        for x in range(across):
            taken.append(m.inp[insn["src"] + y * insn["src_row"] + x * insn["src_column"]].astype(np.int64))
            i, off_row = divmod(y - insn["y_first"], insn["y_step"] + 1)
            j, off_column = divmod(x - insn["x_first"], insn["x_step"] + 1)
            if i < 0 or j < 0 or off_row or off_column:
                continue
            dst = insn["dst"] + i * insn["dst_row"] + j * insn["dst_column"]
            total = 0 * m.acc[dst] if insn["overwrite"] else m.acc[dst]
            for tap, weight in enumerate(weights):
                back = (rows - 1 - tap // columns) * across + columns - 1 - tap % columns
                if back < len(taken):
                    total = total + taken[-1 - back] * weight
            m.acc[dst] = wrap(total, m.cfg.acc_bits)


def alu(m: Machine, insn: Insn) -> None:
    """Combine accumulator elements lane by lane, with another element or the immediate."""
    operation = ALU[AluOp(insn["alu_opcode"])]
    for dst, src, _ in steps(m, insn):
        operand = np.full_like(m.acc[dst], insn["imm"]) if insn["use_imm"] else m.acc[src]
        m.acc[dst] = wrap(operation(m.acc[dst], operand, m.cfg.acc_bits), m.cfg.acc_bits)


def shift_right(value: Ints, amount: Ints, bits: int) -> Ints:
    """Arithmetic shift right, or left where `amount` is negative; every amount is defined."""
    right = value >> np.minimum(np.maximum(amount, 0), bits - 1)
    left = np.where(amount <= -bits, 0, value << np.minimum(np.maximum(-amount, 0), bits - 1))
    return np.where(amount >= 0, right, left)


ALU: dict[AluOp, Callable[[Ints, Ints, int], Ints]] = for_each(AluOp, {
    AluOp.MIN: lambda a, b, bits: np.minimum(a, b),
    AluOp.MAX: lambda a, b, bits: np.maximum(a, b),
    AluOp.ADD: lambda a, b, bits: a + b,
    AluOp.SHR: shift_right,
    AluOp.MUL: lambda a, b, bits: a * b,
}, "sim.plain")


def finish(m: Machine, insn: Insn) -> None:
    """End the program; the order of execution already put it last."""


STEPS: dict[Opcode, Callable[[Machine, Insn], None]] = for_each(Opcode, {
    Opcode.LOAD: load, Opcode.STORE: store, Opcode.GEMM: gemm, Opcode.ALU: alu, Opcode.FINISH: finish,
    Opcode.REQUANT: requant, Opcode.PAD_LOAD: load, Opcode.DWCONV: dwconv,
}, "sim.plain")


def index_fault(cfg: VTAConfig, insn: Insn, uop_words: Ints) -> str | None:
    """Return a description of the index of a GEMM or ALU instruction that leaves its scratchpad; None if none does.

    Only indices that the instruction uses count: a reset has no src and wgt, an ALU operation with an immediate no src.
    """
    uops = [decode_uop(cfg, int(word)) for word in uop_words[insn["uop_bgn"] : insn["uop_end"]]]
    if not insn["iter_out"] * insn["iter_in"] or not uops:
        return None
    used = {"dst": ("acc", cfg.acc_depth)}
    if insn.op is Opcode.GEMM and not insn["reset"]:
        used |= {"src": ("inp", cfg.inp_depth), "wgt": ("wgt", cfg.wgt_depth)}
    if insn.op is Opcode.ALU and not insn["use_imm"]:
        used |= {"src": ("acc", cfg.acc_depth)}
    for name, (scratchpad, depth) in used.items():
        largest = max(uop[name] for uop in uops)
        reach = largest + (insn["iter_out"] - 1) * insn[f"{name}_out"] + (insn["iter_in"] - 1) * insn[f"{name}_in"]
        if reach >= depth:
            return f"its largest {name} index is {reach}, beyond the {depth} elements of the {scratchpad} scratchpad"
    return None


