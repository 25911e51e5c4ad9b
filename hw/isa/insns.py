"""The instruction set: opcodes, memories, stages and every instruction format, as data (ISA.md sections 1 to 4)."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import reduce
from operator import or_

from vtakit.hw.isa.config import INSN_BITS, UOP_BITS, VTAConfig
from vtakit.hw.isa.exhaustive import for_each
from vtakit.hw.isa.formats import Align, Field, Format, Kind

ISA_VERSION = (1, 0)  # (major, minor): a device runs programs of its own major and at most its own minor


class Feature(IntFlag):
    """Abilities beyond the smallest device; a program states those it needs, a device those it has."""

    ALU_MUL = 1 << 0
    ACC_8BIT = 1 << 1
    REQUANT = 1 << 2
    OVERWRITE = 1 << 3
    PAD_VALUE = 1 << 4
    LOOKUP = 1 << 5
    DWCONV = 1 << 6
    POOL = 1 << 7


ALL_FEATURES = reduce(or_, Feature)
NEEDS = {Feature.LOOKUP: Feature.REQUANT, Feature.POOL: Feature.REQUANT}  # feature -> the feature whose instruction it extends


def usable(features: Feature) -> Feature:
    """Return the features without those that extend a missing instruction."""
    for feature, needed in NEEDS.items():
        if needed not in features:
            features &= ~feature
    return features


class Opcode(IntEnum):
    """The first three bits of every instruction."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    REQUANT = 5
    PAD_LOAD = 6
    DWCONV = 7


class MemType(IntEnum):
    """The memory that a LOAD fills, or a STORE or REQUANT empties."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


class AluOp(IntEnum):
    """Operations of an ALU instruction on each lane."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


class Stage(IntEnum):
    """The three stages, in the order in which data pass through them."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


class Queue(IntEnum):
    """The four dependence-token queues, each from one stage to a neighbour."""

    LOAD_TO_COMPUTE = 0
    COMPUTE_TO_LOAD = 1
    COMPUTE_TO_STORE = 2
    STORE_TO_COMPUTE = 3


# Every device has at least these; a program that needs more is refused (ISA reference, "Limits").
TOKEN_QUEUE_DEPTH = 1023  # tokens that wait in one queue
COMMAND_QUEUE_DEPTH = 512  # instructions that are fetched for a stage and not yet retired


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory type: the DRAM element it counts in, the scratchpad it fills and the stage that moves it."""

    kind: MemType
    element_bytes: str  # VTAConfig property
    bits: str | int  # of a value in DRAM: a VTAConfig property, or the same in every configuration
    scratchpad: str  # "uop", "inp", "wgt" or "acc": prefix of the VTAConfig depth properties
    stage: Stage
    opcodes: tuple[Opcode, ...]  # those that move it
    doc: str

    def bytes_in(self, cfg: VTAConfig) -> int:
        """Bytes of one element in DRAM."""
        return int(getattr(cfg, self.element_bytes))

    def value_bits(self, cfg: VTAConfig) -> int:
        """Bits of one value in DRAM."""
        return self.bits if isinstance(self.bits, int) else int(getattr(cfg, self.bits))

    def depth_in(self, cfg: VTAConfig) -> int:
        """Elements that the scratchpad holds."""
        return int(getattr(cfg, f"{self.scratchpad}_depth"))


MEMORIES: dict[MemType, Memory] = for_each(MemType, {
    memory.kind: memory
    for memory in (
        Memory(kind=MemType.UOP, element_bytes="uop_bytes", bits=UOP_BITS, scratchpad="uop", stage=Stage.COMPUTE,
               opcodes=(Opcode.LOAD,), doc="micro-ops, 32 bits each"),
        Memory(kind=MemType.WGT, element_bytes="wgt_bytes", bits="wgt_bits", scratchpad="wgt", stage=Stage.LOAD,
               opcodes=(Opcode.LOAD,), doc="weight tiles, block_out x block_in"),
        Memory(kind=MemType.INP, element_bytes="inp_bytes", bits="inp_bits", scratchpad="inp", stage=Stage.LOAD,
               opcodes=(Opcode.LOAD, Opcode.PAD_LOAD), doc="input tiles, batch x block_in"),
        Memory(kind=MemType.ACC, element_bytes="acc_bytes", bits="acc_bits", scratchpad="acc", stage=Stage.COMPUTE,
               opcodes=(Opcode.LOAD,), doc="accumulator tiles, batch x block_out, little-endian"),
        Memory(kind=MemType.OUT, element_bytes="out_bytes", bits="out_bits", scratchpad="acc", stage=Stage.STORE,
               opcodes=(Opcode.STORE, Opcode.REQUANT), doc="output tiles: the low output-width bits of each value"),
        Memory(kind=MemType.ACC_8BIT, element_bytes="acc8_bytes", bits=8, scratchpad="acc", stage=Stage.COMPUTE,
               opcodes=(Opcode.LOAD,), doc="accumulator tiles kept as int8 in DRAM and sign-extended"),
    )
}, "hw.isa.insns.MEMORIES")

_HEADER = (
    Field(name="opcode", width=3, kind=Kind.ENUM, members=Opcode, doc="which instruction this is"),
    Field(name="pop_prev", width=1, kind=Kind.FLAG, doc="before running, wait for a token from the stage before"),
    Field(name="pop_next", width=1, kind=Kind.FLAG, doc="before running, wait for a token from the stage after"),
    Field(name="push_prev", width=1, kind=Kind.FLAG, doc="after the writes are done, give a token to the stage before"),
    Field(name="push_next", width=1, kind=Kind.FLAG, doc="after the writes are done, give a token to the stage after"),
)

_TRANSFER = (
    *_HEADER,
    Field(name="memory_type", width=3, kind=Kind.ENUM, members=MemType, doc="the memory that is filled or emptied"),
    Field(name="sram_base", width=16, doc="first scratchpad element"),
    Field(name="dram_base", width=32, doc="first DRAM element: byte address = base register + dram_base x element bytes"),
    Align(64),
    Field(name="y_size", width=16, doc="rows"),
    Field(name="x_size", width=16, doc="elements a row; 0: no data move, pads write nothing"),
    Field(name="x_stride", width=16, doc="DRAM elements from the start of one row to the next"),
)

_SIZES = _TRANSFER[-4:]  # rows and elements, at the begin of the second word

_PADS = (
    Field(name="y_pad_0", width=4, doc="zero rows before"),
    Field(name="y_pad_1", width=4, doc="zero rows after"),
    Field(name="x_pad_0", width=4, doc="zero elements before each row"),
    Field(name="x_pad_1", width=4, doc="zero elements after each row"),
)

_EXTENTS = (
    Field(name="uop_bgn", width="uop_depth_log2", doc="first micro-op"),
    Field(name="uop_end", width="uop_end_bits", doc="micro-op after the last"),
    Field(name="iter_out", width=14, doc="extent of the outer loop"),
    Field(name="iter_in", width=14, doc="extent of the inner loop"),
)

_DST = (
    Align(64),
    Field(name="dst_out", width="acc_depth_log2", doc="added to dst each outer iteration"),
    Field(name="dst_in", width="acc_depth_log2", doc="added to dst each inner iteration"),
)

LOAD = Format(name="load", bits=INSN_BITS, items=(*_TRANSFER, *_PADS), doc=(
    "Fill a scratchpad from DRAM, consecutively from sram_base: with X = x_pad_0 + x_size + x_pad_1, first y_pad_0 rows of "
    "X zeros, then y_size rows of x_pad_0 zeros, x_size elements and x_pad_1 zeros, then y_pad_1 rows of X zeros."))
STORE = Format(name="store", bits=INSN_BITS, items=(*_TRANSFER, *_PADS), doc=(
    "Write y_size x x_size consecutive accumulator elements from sram_base to DRAM, the low output-width bits of each value, "
    "rows x_stride elements apart. Pads must be 0."))
GEMM = Format(name="gemm", bits=INSN_BITS, items=(
    *_HEADER,
    Field(name="reset", width=1, kind=Kind.FLAG, doc="set acc[dst] to 0 instead of multiplying"),
    *_EXTENTS,
    Align(63),
    Field(name="overwrite", width=1, kind=Kind.FLAG, doc="acc[dst] becomes the product, not a sum with it; no effect with reset"),
    *_DST,
    Field(name="src_out", width="inp_depth_log2", doc="added to src each outer iteration"),
    Field(name="src_in", width="inp_depth_log2", doc="added to src each inner iteration"),
    Field(name="wgt_out", width="wgt_depth_log2", doc="added to wgt each outer iteration"),
    Field(name="wgt_in", width="wgt_depth_log2", doc="added to wgt each inner iteration"),
), doc=(
    "For o < iter_out, i < iter_in, u in uop_bgn..uop_end: acc[dst] += inp[src] x transpose(wgt[wgt]), wrapping at the "
    "accumulator width, where dst = uop[u].dst + o*dst_out + i*dst_in and src and wgt likewise. With overwrite, each step "
    "replaces acc[dst] by its product, wrapped likewise."))
ALU = Format(name="alu", bits=INSN_BITS, items=(
    *_HEADER,
    Align(8),
    *_EXTENTS,
    *_DST,
    Field(name="src_out", width="acc_depth_log2", doc="added to src each outer iteration"),
    Field(name="src_in", width="acc_depth_log2", doc="added to src each inner iteration"),
    Field(name="alu_opcode", width=3, kind=Kind.ENUM, members=AluOp, doc="the operation"),
    Field(name="use_imm", width=1, kind=Kind.FLAG, doc="second operand is imm instead of acc[src]"),
    Field(name="imm", width=16, kind=Kind.INT, doc="immediate operand"),
), doc=(
    "For o < iter_out, i < iter_in, u in uop_bgn..uop_end: acc[dst] = op(acc[dst], use_imm ? imm : acc[src]) on every lane. "
    "MIN and MAX compare signed; ADD and MUL wrap; SHR shifts right arithmetically, left for negative amounts; right by the "
    "accumulator width or more gives the sign, left by as much gives 0. An immediate is used whole, also where it is wider than "
    "the accumulator; only the result wraps."))
REQUANT = Format(name="requant", bits=INSN_BITS, items=(
    *_TRANSFER[:-4],
    Field(name="lookup", width=1, kind=Kind.FLAG, doc="a table follows the parameters, and results are looked up in it"),
    Field(name="pool", width=2, doc="rows and columns of the windows of which the greatest values are stored, less one"),
    Field(name="pool_step", width=1, doc="rows and columns from one window to the next, less one"),
    Field(name="pool_above", width=1, kind=Kind.FLAG, doc="the first row of accumulators counts for nothing"),
    Field(name="pool_left", width=1, kind=Kind.FLAG, doc="the first column of accumulators counts for nothing"),
    *_SIZES,
    Field(name="params", width=16, doc="first of the three accumulator elements that hold every lane's parameters"),
), doc=(
    "A STORE that requantizes: each value x of a lane becomes min(max((((x + bias) * multiplier + half) >> shift) + zero_point, "
    "low), high), with half = 1 << shift >> 1 and an arithmetic shift, all exact in integers; its low output-width bits are "
    "stored. The lane's parameters are that lane's words in the elements params, params + 1 and params + 2, as they are when the "
    "instruction runs. One that moves nothing reads no parameters. With lookup, the 256 bytes from element params + 3 on, each "
    "element's words in the order of their lanes, are a table: in the place of a result r, its byte r + 128 is stored. "
    "With K = pool + 1, S = pool_step + 1 and W = (x_size-1)*S + K, accumulators are an image whose rows have W elements, from "
    "sram_base on, and x is the greatest of a window: for element j of row i that is stored, those in rows i*S to i*S + K-1 and "
    "columns j*S to j*S + K-1. So pool = pool_step = 0 stores consecutive elements. pool_above takes row 0 of the image out of "
    "all windows, and pool_left column 0, where a convolution has pads; both need pool > 0. All of the image lies within ACC."))
PAD_LOAD = Format(name="pad_load", bits=INSN_BITS, items=(
    *_HEADER,
    *_TRANSFER[len(_HEADER):-5],  # memory_type and sram_base
    Field(name="dram_base", width=30, doc="as of a LOAD, with two bits less"),
    Field(name="pad_value", width=8, kind=Kind.INT, doc="each value of the pads; its low input-width bits"),
    *_SIZES, *_PADS,
), doc=(
    "A LOAD of INP whose pads are not zeros: each of their values is pad_value, as an asymmetrically quantized network pads with "
    "its zero point."))
DWCONV = Format(name="dwconv", bits=INSN_BITS, items=(
    *_HEADER,
    Field(name="dst", width="acc_depth_log2", doc="accumulator element of the first output"),
    Field(name="src", width="inp_depth_log2", doc="input element of the first step"),
    Field(name="wgt", width="wgt_depth_log2", doc="weight element: for each output lane, one weight for each tap"),
    Field(name="rows", width=10, doc="rows of steps; 0: nothing is computed"),
    Field(name="columns", width=4, doc="steps of a row less one"),
    Field(name="y_first", width=3, doc="rows before the first one with outputs"),
    Field(name="x_first", width=3, doc="steps of a row before its first output"),
    Field(name="y_step", width=2, doc="rows from one with outputs to the next, less one"),
    Field(name="x_step", width=2, doc="steps from one output of a row to the next, less one"),
    Align(64),
    Field(name="src_row", width="inp_depth_log2", doc="added to src each row"),
    Field(name="src_column", width="inp_depth_log2", doc="added to src each step of a row"),
    Field(name="dst_row", width="acc_depth_log2", doc="added to dst each row of outputs"),
    Field(name="dst_column", width="acc_depth_log2", doc="added to dst each output of a row"),
    Field(name="overwrite", width=1, kind=Kind.FLAG, doc="acc[dst] becomes the sum of products, not a sum with it"),
), doc=(
    "Depthwise convolution by a window of R x C taps, which the block decides. Step n = y*(columns+1) + x, for y < rows and "
    "x <= columns, takes T(n) = inp[src + y*src_row + x*src_column]. It has an output if y - y_first is a multiple of y_step+1, "
    "not below 0, and x - x_first likewise of x_step+1. Output (i, j), counted in rows and columns of outputs: "
    "acc[dst + i*dst_row + j*dst_column][b, o] += sum over r < R, c < C of T(n - (R-1-r)*(columns+1) - (C-1-c))[b, o] * "
    "wgt[wgt][o, r*C + c], wrapping at the accumulator width; T of a step before the first is 0. Lanes of a weight beyond the "
    "taps are not looked at."))
FINISH = Format(name="finish", bits=INSN_BITS, items=_HEADER, doc=(
    "The last instruction: raise done once every stage is idle. Its dependence bits must be 0."))
UOP = Format(name="uop", bits=UOP_BITS, doc="A micro-op: the indices of one step of a GEMM or ALU instruction.", items=(
    Field(name="dst", width="acc_depth_log2", doc="accumulator element"),
    Field(name="src", width="src_depth_log2", doc="input element for a GEMM, accumulator element for an ALU instruction"),
    Field(name="wgt", width="wgt_depth_log2", doc="weight element; not used by ALU instructions"),
))

REQUANT_WORDS = 3  # accumulator elements that a REQUANT reads its parameters from
REQUANT_WORD_BITS = 32  # of each lane
TABLE_BYTES = 256  # of a REQUANT's lookup, behind its parameters
REQUANT_PARAMS = Format(name="requant parameters", bits=REQUANT_WORDS * REQUANT_WORD_BITS, items=(
    Field(name="bias", width=32, kind=Kind.INT, doc="added to the value"),
    Field(name="multiplier", width=16, doc="the sum is multiplied by it"),
    Align(64),
    Field(name="shift", width=6, doc="bits that the product is shifted right by, half of the last one rounded up"),
    Align(72),
    Field(name="zero_point", width=8, kind=Kind.INT, doc="added to what is left"),
    Field(name="low", width=8, kind=Kind.INT, doc="the least result, unless high is less"),
    Field(name="high", width=8, kind=Kind.INT, doc="the largest result"),
), doc=(
    "One lane's parameters: word n of 32 bits is the lane's value in accumulator element params + n. Bits that belong to no "
    "field are not looked at."))

# Which token queue a dependence flag takes from or gives to; a pair that is absent is illegal.
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
FLAG_QUEUES: dict[tuple[Stage, str], Queue] = {
    (Stage.LOAD, "pop_next"): Queue.COMPUTE_TO_LOAD,
    (Stage.LOAD, "push_next"): Queue.LOAD_TO_COMPUTE,
    (Stage.COMPUTE, "pop_prev"): Queue.LOAD_TO_COMPUTE,
    (Stage.COMPUTE, "pop_next"): Queue.STORE_TO_COMPUTE,
    (Stage.COMPUTE, "push_prev"): Queue.COMPUTE_TO_LOAD,
    (Stage.COMPUTE, "push_next"): Queue.COMPUTE_TO_STORE,
    (Stage.STORE, "pop_prev"): Queue.COMPUTE_TO_STORE,
    (Stage.STORE, "push_prev"): Queue.STORE_TO_COMPUTE,
}

FORMATS: dict[Opcode, Format] = for_each(Opcode, {
    Opcode.LOAD: LOAD, Opcode.STORE: STORE, Opcode.GEMM: GEMM, Opcode.FINISH: FINISH, Opcode.ALU: ALU,
    Opcode.REQUANT: REQUANT, Opcode.PAD_LOAD: PAD_LOAD, Opcode.DWCONV: DWCONV,
}, "hw.isa.insns.FORMATS")
# The stage that runs an opcode; None where the memory that is filled decides.
STAGES: dict[Opcode, Stage | None] = for_each(Opcode, {
    Opcode.LOAD: None, Opcode.STORE: Stage.STORE, Opcode.GEMM: Stage.COMPUTE, Opcode.FINISH: Stage.COMPUTE,
    Opcode.ALU: Stage.COMPUTE, Opcode.REQUANT: Stage.STORE, Opcode.PAD_LOAD: Stage.LOAD, Opcode.DWCONV: Stage.COMPUTE,
}, "hw.isa.insns.STAGES")
# The feature that a device needs for an ALU operation.
ALU_FEATURES: dict[AluOp, Feature] = for_each(AluOp, {
    AluOp.MIN: Feature(0), AluOp.MAX: Feature(0), AluOp.ADD: Feature(0), AluOp.SHR: Feature(0), AluOp.MUL: Feature.ALU_MUL,
}, "hw.isa.insns.ALU_FEATURES")
LOADS = (Opcode.LOAD, Opcode.PAD_LOAD)  # what moves elements from DRAM to a scratchpad
TRANSFERS = (*LOADS, Opcode.STORE, Opcode.REQUANT)  # what moves elements either way
BY_NAME: dict[str, Opcode] = {fmt.name: op for op, fmt in FORMATS.items()}
OPCODE = _HEADER[0]
