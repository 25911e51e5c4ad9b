"""Functions of the compiled simulator, which numba compiles: one for each instruction, as in `sim.plain`."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.exhaustive import covers
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORD_BITS, REQUANT_WORDS, AluOp, MemType, Opcode
from vtakit.hw.isa.pools import POOL_FIELDS
from vtakit.hw.isa.requant import BYTE_BITS, rescaled, table_place
from vtakit.sim.columns import COLUMNS
from vtakit.sim.tiles import VECTOR_BLOCKS, multiply_any, multiply_tile

_OPCODE, _MEMORY, _SRAM, _DRAM = (COLUMNS[n] for n in ("opcode", "memory_type", "sram_base", "dram_base"))
_Y, _X, _STRIDE = (COLUMNS[n] for n in ("y_size", "x_size", "x_stride"))
_Y0, _Y1, _X0, _X1 = (COLUMNS[n] for n in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"))
_RESET, _BGN, _END, _OUTER, _INNER = (COLUMNS[n] for n in ("reset", "uop_bgn", "uop_end", "iter_out", "iter_in"))
_DST_O, _DST_I, _SRC_O, _SRC_I = (COLUMNS[n] for n in ("dst_out", "dst_in", "src_out", "src_in"))
_WGT_O, _WGT_I, _ALU, _USE_IMM, _IMM = (COLUMNS[n] for n in ("wgt_out", "wgt_in", "alu_opcode", "use_imm", "imm"))
_OVERWRITE, _PARAMS, _PAD_VALUE = (COLUMNS[n] for n in ("overwrite", "params", "pad_value"))
_LOOKUP = COLUMNS["lookup"]
_POOL, _POOL_STEP, _POOL_ABOVE, _POOL_LEFT = (COLUMNS[n] for n in POOL_FIELDS)
_DST, _SRC, _WGT_AT, _ROWS, _COLUMNS = (COLUMNS[n] for n in ("dst", "src", "wgt", "rows", "columns"))
_Y_FIRST, _X_FIRST, _Y_STEP, _X_STEP = (COLUMNS[n] for n in ("y_first", "x_first", "y_step", "x_step"))
_SRC_ROW, _SRC_COLUMN, _DST_ROW, _DST_COLUMN = (COLUMNS[n] for n in ("src_row", "src_column", "dst_row", "dst_column"))
# What has a branch in `run_slice`, `_load` and `_alu` below; numba compiles no table of functions.
_OPCODES = Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.FINISH, Opcode.ALU, Opcode.REQUANT, Opcode.PAD_LOAD, Opcode.DWCONV
_KINDS = MemType.UOP, MemType.WGT, MemType.INP, MemType.ACC, MemType.OUT, MemType.ACC_8BIT
_ALU_OPS = AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR, AluOp.MUL
for _enumeration, _members in ((Opcode, _OPCODES), (MemType, _KINDS), (AluOp, _ALU_OPS)):
    covers(_enumeration, _members, __name__)
_LOAD, _STORE, _GEMM, _, _ALU_INSN, _REQUANT, _PAD_LOAD, _DWCONV = map(int, _OPCODES)
_UOP, _WGT, _INP = map(int, _KINDS[:3])
_MIN, _MAX, _ADD, _SHR, _MUL = map(int, _ALU_OPS)

# (word, shift to the left that puts the field on top, to the right that leaves it) of each of a lane's parameters.
_BIAS, _MULTIPLIER, _SHIFT, _ZERO_POINT, _LOW, _HIGH = (
    (p.offset // REQUANT_WORD_BITS, 64 - p.offset % REQUANT_WORD_BITS - p.width, 64 - p.width)
    for p in REQUANT_PARAMS.place(DEFAULT))
_rescaled, _table_place = (njit(error_model="numpy")(each) for each in (rescaled, table_place))


class Shape(NamedTuple):
    """Sizes of a configuration."""

    batch: int
    block: int
    acc_bits: int
    out_bits: int
    inp_depth: int
    wgt_depth: int
    acc_depth: int
    dst_at: int
    dst_bits: int
    src_at: int
    src_bits: int
    wgt_at: int
    wgt_bits: int
    window_rows: int
    window_columns: int


@njit(error_model="numpy")
def run_slice(
    table: Any, order: Any, first: int, last: int, dram: Any, layout: Any, shape: Any, uop: Any, inp: Any, wgt: Any, acc: Any
) -> Any:
    """Run instructions in `order`, of loops the outer iterations from `first` up to `last`.

    Returns the number of the instruction whose indices leave a scratchpad, or -1.
    """
    for index in order:
        insn = table[index]
        op = insn[_OPCODE]
        if op == _LOAD or op == _PAD_LOAD:
            _load(insn, dram, layout, shape, uop, inp, wgt, acc)
        elif op == _STORE:
            _store(insn, dram, layout, shape, acc, insn[_SRAM] * shape.batch * shape.block)
        elif op == _REQUANT:
            _store(insn, dram, layout, shape, _requantized(insn, shape, acc), 0)
        elif op == _DWCONV:
            _dwconv(insn, shape, inp, wgt, acc)
        elif op == _GEMM or op == _ALU_INSN:
            if insn[_OUTER] == 0 or insn[_INNER] == 0 or insn[_END] <= insn[_BGN]:
                continue
            if not _inside(insn, shape, uop):
                return index
            if op == _GEMM:
                _gemm(insn, first, min(last, insn[_OUTER]), shape, uop, inp, wgt, acc)
            else:
                _alu(insn, first, min(last, insn[_OUTER]), shape, uop, acc)
    return -1


@njit(error_model="numpy")
def _field(word: Any, at: Any, bits: Any) -> Any:
    return (np.int64(word) >> at) & ((np.int64(1) << bits) - 1)


@njit(error_model="numpy")
def _inside(insn: Any, shape: Any, uop: Any) -> bool:
    """Return whether every index that a GEMM or ALU instruction uses lies in its scratchpad."""
    dst: Any = 0
    src: Any = 0
    wgt: Any = 0
    for at in range(insn[_BGN], insn[_END]):
        word = uop[at]
        dst = max(dst, _field(word, shape.dst_at, shape.dst_bits))
        src = max(src, _field(word, shape.src_at, shape.src_bits))
        wgt = max(wgt, _field(word, shape.wgt_at, shape.wgt_bits))
    outer, inner = insn[_OUTER] - 1, insn[_INNER] - 1
    if dst + outer * insn[_DST_O] + inner * insn[_DST_I] >= shape.acc_depth:
        return False
    src += outer * insn[_SRC_O] + inner * insn[_SRC_I]
    if insn[_OPCODE] == _ALU_INSN:
        return insn[_USE_IMM] == 1 or src < shape.acc_depth
    wgt += outer * insn[_WGT_O] + inner * insn[_WGT_I]
    return insn[_RESET] == 1 or (src < shape.inp_depth and wgt < shape.wgt_depth)


@njit(error_model="numpy")
def _value(dram: Any, start: Any, number: Any, bits: Any) -> Any:
    """Signed value `number` of `bits` bits each, from byte `start` on."""
    if bits == 8:
        return np.int64(np.int8(dram[start + number]))
    raw: Any = 0
    if bits < 8:
        at = number * bits
        raw = (np.int64(dram[start + (at >> 3)]) >> (at & 7)) & ((1 << bits) - 1)
    else:
        size = bits >> 3
        for byte in range(size):
            raw |= np.int64(dram[start + number * size + byte]) << (8 * byte)
    return raw - ((raw >> (bits - 1)) << bits)


@njit(error_model="numpy")
def _load(insn: Any, dram: Any, layout: Any, shape: Any, uop: Any, inp: Any, wgt: Any, acc: Any) -> None:
    if insn[_X] == 0:
        return
    kind = insn[_MEMORY]
    base, element, bits = layout[kind, 0], layout[kind, 1], layout[kind, 2]
    across = insn[_X0] + insn[_X] + insn[_X1]
    size = element * 8 // bits  # values in one scratchpad element
    pad = (insn[_PAD_VALUE] << (64 - bits)) >> (64 - bits)  # 0 but of a PAD_LOAD
    at = insn[_SRAM]
    for row in range(-insn[_Y0], insn[_Y] + insn[_Y1]):
        start = base + (insn[_DRAM] + row * insn[_STRIDE]) * element
        padding = row < 0 or row >= insn[_Y]
        for column in range(-insn[_X0], across - insn[_X0]):
            zero = padding or column < 0 or column >= insn[_X]
            from_byte = start + column * element
            if kind == _INP:
                _load_values(dram, from_byte, bits, zero, pad, inp[at * size : (at + 1) * size])
            elif kind == _WGT:
                if zero:
                    wgt[at * size : (at + 1) * size] = 0
                else:
                    _load_weights(dram, from_byte, bits, shape.block, wgt, at * size)
            elif kind == _UOP:
                uop[at] = 0 if zero else np.uint32(_value(dram, from_byte, 0, 32))
            else:
                _load_values(dram, from_byte, bits, zero, pad, acc[at * size : (at + 1) * size])
            at += 1


@njit(error_model="numpy")
def _load_values(dram: Any, start: int, bits: int, pads: bool, pad: Any, into: Any) -> None:
    """One INP or ACC element."""
    if pads:
        into[:] = pad
    elif bits == 8:  # by far the most frequent width: a loop that LLVM turns into vector loads
        values = dram[start : start + len(into)]
        for n in range(len(into)):
            into[n] = np.int8(values[n])
    else:
        for n in range(len(into)):
            into[n] = _value(dram, start, n, bits)


@njit(error_model="numpy")
def _load_weights(dram: Any, start: int, bits: int, block: int, wgt: Any, at: int) -> None:
    """One weight tile, turned into the pairs that `sim.tiles` multiplies."""
    for out in range(block):
        for into in range(block):
            pair = (into >> 1) * 2 * block + min(block, 2) * out + (into & 1)
            wgt[at + pair] = _value(dram, start, out * block + into, bits)


@njit(error_model="numpy")
def _signed(words: Any, lane: int, size: int, place: Any) -> Any:
    """A parameter of a lane, with its sign."""
    return (np.int64(words[place[0] * size + lane]) << place[1]) >> place[2]


@njit(error_model="numpy")
def _unsigned(words: Any, lane: int, size: int, place: Any) -> Any:
    return np.int64(np.uint64(np.int64(words[place[0] * size + lane]) << place[1]) >> np.uint64(place[2]))


@njit(error_model="numpy")
def _greatest(insn: Any, size: Any, acc: Any, first: Any, n: Any) -> Any:
    """The greatest value of window `n`; `first` is the lane's value in the first element."""
    if insn[_POOL] == 0 and insn[_POOL_STEP] == 0:
        return acc[first + n * size]
    edge, step = insn[_POOL] + 1, insn[_POOL_STEP] + 1
    pitch = (insn[_X] - 1) * step + edge
    row, column = n // insn[_X] * step, n % insn[_X] * step
    found = np.int32(-(1 << 31))
    for r in range(max(row, insn[_POOL_ABOVE]), row + edge):
        for c in range(max(column, insn[_POOL_LEFT]), column + edge):
            found = max(found, acc[first + (r * pitch + c) * size])
    return found


@njit(error_model="numpy")
def _requantized(insn: Any, shape: Any, acc: Any) -> Any:
    """The elements that a REQUANT stores."""
    size = shape.batch * shape.block
    count = insn[_X] * insn[_Y]
    values = np.empty(count * size, np.int32)
    if count:
        words = acc[insn[_PARAMS] * size : (insn[_PARAMS] + REQUANT_WORDS) * size]
        first = insn[_SRAM] * size
        for lane in range(size):
            bias, multiplier = _signed(words, lane, size, _BIAS), _unsigned(words, lane, size, _MULTIPLIER)
            shift, zero_point = _unsigned(words, lane, size, _SHIFT), _signed(words, lane, size, _ZERO_POINT)
            low, high = _signed(words, lane, size, _LOW), _signed(words, lane, size, _HIGH)
            for n in range(count):
                greatest = _greatest(insn, size, acc, first + lane, n)
                scaled = _rescaled(np.int64(greatest), bias, multiplier, shift, zero_point)
                values[n * size + lane] = min(max(scaled, low), high)
        if insn[_LOOKUP] == 1:
            table = (insn[_PARAMS] + REQUANT_WORDS) * size
            for at in range(count * size):
                word, byte = _table_place(values[at])
                values[at] = np.int8(acc[table + word] >> BYTE_BITS * byte)
    return values


@njit(error_model="numpy")
def _store(insn: Any, dram: Any, layout: Any, shape: Any, acc: Any, at: Any) -> None:
    """Consecutive values from `acc[at]` on."""
    kind = insn[_MEMORY]
    base, element, bits = layout[kind, 0], layout[kind, 1], layout[kind, 2]
    count = insn[_X] * shape.batch * shape.block
    for row in range(insn[_Y]):
        start = base + (insn[_DRAM] + row * insn[_STRIDE]) * element
        if bits == 8:
            for n in range(count):
                dram[start + n] = np.uint8(acc[at + n])
        elif bits > 8:
            for n in range(count):
                for byte in range(bits >> 3):
                    dram[start + n * (bits >> 3) + byte] = np.uint8(acc[at + n] >> (8 * byte))
        else:
            per_byte = 8 // bits
            for byte in range(count // per_byte):
                packed = 0
                for n in range(per_byte):
                    packed |= (acc[at + byte * per_byte + n] & ((1 << bits) - 1)) << (n * bits)
                dram[start + byte] = np.uint8(packed)
        at += count


@njit(error_model="numpy")
def _gemm(insn: Any, first: int, last: int, shape: Any, uop: Any, inp: Any, wgt: Any, acc: Any) -> None:
    batch, block, reset, overwrite = shape.batch, shape.block, insn[_RESET] == 1, insn[_OVERWRITE] == 1
    size, weights, shift, vector = batch * block, block * block, 32 - shape.acc_bits, block in VECTOR_BLOCKS
    acc_at, inp_at, wgt_at = acc.ctypes.data, inp.ctypes.data, wgt.ctypes.data  # once: taking an address costs more than a tile
    dst_out, dst_in, src_out, src_in = insn[_DST_O], insn[_DST_I], insn[_SRC_O], insn[_SRC_I]
    wgt_out, wgt_in, begin, end, turns = insn[_WGT_O], insn[_WGT_I], insn[_BGN], insn[_END], insn[_INNER]
    words = uop[begin:end].astype(np.int64)
    dsts = (words >> shape.dst_at) & ((1 << shape.dst_bits) - 1)
    srcs = (words >> shape.src_at) & ((1 << shape.src_bits) - 1)
    tiles = (words >> shape.wgt_at) & ((1 << shape.wgt_bits) - 1)
    for outer in range(first, last):
        for inner in range(turns):
            for at in range(end - begin):
                dst = dsts[at] + outer * dst_out + inner * dst_in
                if reset:
                    acc[dst * size : (dst + 1) * size] = 0
                    continue
                src = srcs[at] + outer * src_out + inner * src_in
                tile = tiles[at] + outer * wgt_out + inner * wgt_in
                if overwrite:
                    acc[dst * size : (dst + 1) * size] = 0
                if vector:
                    multiply_tile(acc_at + 4 * size * dst, inp_at + 2 * size * src, wgt_at + 2 * weights * tile, batch, block)
                else:
                    sums, values = acc[dst * size : (dst + 1) * size], inp[src * size : (src + 1) * size]
                    multiply_any(sums, values, wgt[tile * weights : (tile + 1) * weights], batch, block)
                if shift:
                    for lane in range(dst * size, (dst + 1) * size):
                        acc[lane] = np.int32(np.int32(acc[lane] << shift) >> shift)


@njit(error_model="numpy")
def _dwconv(insn: Any, shape: Any, inp: Any, wgt: Any, acc: Any) -> None:
    block, size, shift = shape.block, shape.batch * shape.block, 32 - shape.acc_bits
    rows, columns, across = shape.window_rows, shape.window_columns, insn[_COLUMNS] + 1
    tile = insn[_WGT_AT] * block * block
    weights = np.zeros((rows * columns, block), np.int32)
    for tap in range(rows * columns):
        for lane in range(block):
            weights[tap, lane] = wgt[tile + (tap >> 1) * 2 * block + 2 * lane + (tap & 1)]
    y_step, x_step = insn[_Y_STEP] + 1, insn[_X_STEP] + 1
    for y in range(insn[_Y_FIRST], insn[_ROWS], y_step):
        for x in range(insn[_X_FIRST], across, x_step):
            dst = insn[_DST] + (y - insn[_Y_FIRST]) // y_step * insn[_DST_ROW]
            dst = (dst + (x - insn[_X_FIRST]) // x_step * insn[_DST_COLUMN]) * size
            if insn[_OVERWRITE] == 1:
                acc[dst : dst + size] = 0
            for tap in range(rows * columns):
                step = (y - (rows - 1 - tap // columns)) * across + x - (columns - 1 - tap % columns)
                if step < 0:
                    continue
                src = (insn[_SRC] + step // across * insn[_SRC_ROW] + step % across * insn[_SRC_COLUMN]) * size
                for lane in range(size):
                    acc[dst + lane] += np.int32(inp[src + lane]) * weights[tap, lane % block]
            if shift:
                for lane in range(dst, dst + size):
                    acc[lane] = np.int32(np.int32(acc[lane] << shift) >> shift)


@njit(error_model="numpy")
def _shift_right(value: Any, amount: Any, bits: Any) -> Any:
    if amount >= 0:
        return value >> min(amount, bits - 1)
    return np.int64(0) if amount <= -bits else value << -amount


@njit(error_model="numpy")
def _alu(insn: Any, first: int, last: int, shape: Any, uop: Any, acc: Any) -> None:
    size, shift, op, immediate = shape.batch * shape.block, 64 - shape.acc_bits, insn[_ALU], insn[_USE_IMM] == 1
    for outer in range(first, last):
        for inner in range(insn[_INNER]):
            dst0 = outer * insn[_DST_O] + inner * insn[_DST_I]
            src0 = outer * insn[_SRC_O] + inner * insn[_SRC_I]
            for at in range(insn[_BGN], insn[_END]):
                word = uop[at]
                dst = (dst0 + _field(word, shape.dst_at, shape.dst_bits)) * size
                src = dst if immediate else (src0 + _field(word, shape.src_at, shape.src_bits)) * size
                for lane in range(size):
                    a: Any = np.int64(acc[dst + lane])
                    b: Any = insn[_IMM] if immediate else np.int64(acc[src + lane])
                    if op == _MIN:
                        a = min(a, b)
                    elif op == _MAX:
                        a = max(a, b)
                    elif op == _ADD:
                        a += b
                    elif op == _SHR:
                        a = _shift_right(a, b, shape.acc_bits)
                    elif op == _MUL:
                        a *= b
                    else:
                        raise NotImplementedError("an ALU operation of _ALU_OPS has no branch in _alu")
                    acc[dst + lane] = np.int32((a << shift) >> shift)
