"""A configuration and a path of the functional simulator, with instructions by name, for cases worked out by hand."""

from collections.abc import Sequence

import numpy as np

from vtakit.hw.isa.codec import encode, encode_uop, to_bytes
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.insns import AluOp, MemType
from vtakit.sim import Result, run_image

TINY = NAMED["tiny"]  # one row of 4 columns, int8, int8, int32; elements of 4 (inp, out), 16 (wgt) and 16 (acc) bytes
ACC16 = NAMED["tiny_acc16"]  # the same with int16 accumulators; acc elements of 8 bytes
ACC8 = NAMED["tiny_i4w2"]  # one row of 8 columns, int4, int2, int8; elements of 4 (inp, out), 16 (wgt) and 8 (acc) bytes
ROWS2 = NAMED["tiny_b2"]  # two rows of 4 columns, int8, int8, int32; elements of 8, 16 and 32 bytes
WIDE = NAMED["tiny_i16"]  # one row of 4 columns, int16, int16, int32; elements of 8, 32 and 16 bytes
OF_BITS = {8: ACC8, 16: ACC16, 32: TINY}
UOP, WGT, INP, ACC, OUT, ACC_8BIT = MemType
MIN, MAX, ADD, SHR, MUL = AluOp
CODE_AT = 1024
ONES, IDENTITY = bytes([1] * 16), bytes([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])

class Machine:
    """A configuration and a path: instructions by name, and running them behind some bytes of DRAM."""

    def __init__(self, path: str, cfg: VTAConfig = TINY) -> None:
        self.path, self.cfg = path, cfg

    def insn(self, op: str, **fields: int) -> int:
        return encode(self.cfg, op, **fields)

    def load(self, kind: MemType, x_size: int = 1, **fields: int) -> int:
        return self.insn("load", memory_type=kind, **{"y_size": 1, "x_size": x_size} | fields)

    def store(self, x_size: int = 1, **fields: int) -> int:
        return self.insn("store", memory_type=OUT, **{"y_size": 1, "x_size": x_size} | fields)

    def gemm(self, **fields: int) -> int:
        return self.insn("gemm", **{"uop_end": 1, "iter_out": 1, "iter_in": 1} | fields)

    def alu(self, op: AluOp, **fields: int) -> int:
        return self.insn("alu", alu_opcode=op, **{"uop_end": 1, "iter_out": 1, "iter_in": 1} | fields)

    def run(self, dram: bytes, *words: int, **options: object) -> Result:
        """Run the words and FINISH behind `dram`."""
        assert len(dram) <= CODE_AT
        image = dram.ljust(CODE_AT, b"\0") + to_bytes([*words, self.insn("finish")])
        return run_image(image, CODE_AT, len(words) + 1, self.cfg, path=self.path, **options)

    def uops(self, *indices: tuple[int, int, int]) -> bytes:
        return b"".join(encode_uop(self.cfg, *each).to_bytes(4, "little") for each in indices)

    def acc(self, values: Sequence[int]) -> bytes:
        """Accumulator values as they lie in DRAM."""
        return np.array(values).astype(f"<i{self.cfg.acc_bits // 8}").tobytes()


def elements(result: Result, count: int) -> list[list[int]]:
    """The first accumulator elements, each as its values row by row."""
    return result.acc[:count].reshape(count, -1).tolist()


def tile(*first: int) -> list[int]:
    return [*first, *[0] * (4 - len(first))]
