"""Programs made by hand that keep one part of the hardware busy and measure its rate: loads, ALU passes, short instructions."""

from vtakit.hw.isa.codec import encode, encode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import MEMORIES, AluOp, MemType
from vtakit.hw.isa.program import UOPS, Buffer, Program, Relocation


def load_rows_program(cfg: VTAConfig, kind: MemType, row_bytes: int) -> Program:
    """One LOAD that fills the whole scratchpad of INP or WGT from rows of `row_bytes` that do not touch one another.

    source    INPUT   the rows, a row and a half apart

    Raises `ProgramError` if a row is not a whole number of elements, or the scratchpad not of rows.
    """
    memory = MEMORIES[kind]
    size, depth = memory.bytes_in(cfg), memory.depth_in(cfg)
    if row_bytes < size or row_bytes % size or depth * size % row_bytes:
        raise ProgramError(f"rows of {row_bytes} bytes do not fill {depth} elements of {size} bytes evenly")
    elements = row_bytes // size
    rows, pitch = depth // elements, elements + (elements + 1) // 2
    insns = (
        encode(cfg, "load", memory_type=kind, y_size=rows, x_size=elements, x_stride=pitch),
        encode(cfg, "finish"),
    )
    source = Buffer(name="source", size_bytes=((rows - 1) * pitch + elements) * size)
    return Program(config=cfg, insns=insns, uops=(), buffers=(source,), relocations=(Relocation(0, "source"),))


def _with_one_uop(cfg: VTAConfig, uop: int, insns: list[int]) -> Program:
    """The instructions between the LOAD of their one micro-op and FINISH."""
    load = encode(cfg, "load", memory_type=MemType.UOP, y_size=1, x_size=1)
    return Program(config=cfg, insns=(load, *insns, encode(cfg, "finish")), uops=(uop,), buffers=(),
                   relocations=(Relocation(0, UOPS),))


def alu_program(cfg: VTAConfig, count: int, *, use_imm: bool) -> Program:
    """`count` ALU instructions, each over half of ACC: plus 3, or plus the other half."""
    half = cfg.acc_depth // 2
    insn = encode(cfg, "alu", uop_end=1, iter_out=1, iter_in=half, dst_in=1, src_in=1, alu_opcode=AluOp.ADD, use_imm=use_imm,
                  imm=3 if use_imm else 0)
    return _with_one_uop(cfg, encode_uop(cfg, 0, half, 0), [insn] * count)


def short_gemms_program(cfg: VTAConfig, count: int) -> Program:
    """`count` GEMM instructions of one step each, all on one accumulator element."""
    return _with_one_uop(cfg, encode_uop(cfg, 0, 0, 0), [encode(cfg, "gemm", uop_end=1, iter_out=1, iter_in=1)] * count)
