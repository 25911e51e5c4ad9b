"""Tiny programs for the simulator tests: instructions by name, run behind some bytes of DRAM on either path."""


from support import raises

from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MemType
from vtakit.sim import Result, run_image
from vtakit.sim.faults import ProgramFault

TINY = NAMED["tiny"]  # 32 micro-ops, 32 inputs, 16 weights, 32 accumulators; elements of 4, 4, 16 and 16 bytes
SMALL_CORE = {"gemm_passes": 2, "mul_passes": 4, "acc_copies": 1, "windows": False}
CODE_AT = 1024
UOP, WGT, INP, ACC, OUT, ACC_8BIT = MemType

def insn(op: str, **fields: int) -> int:
    return encode(TINY, op, **fields)


def load(kind: MemType, x_size: int = 1, **fields: int) -> int:
    return insn("load", memory_type=kind, **{"y_size": 1, "x_size": x_size} | fields)


def store(x_size: int = 1, **fields: int) -> int:
    return insn("store", memory_type=OUT, **{"y_size": 1, "x_size": x_size} | fields)


def steps(op: str = "gemm", **fields: int) -> int:
    """One step on micro-op 0, unless `fields` say more; it is all zero unless it is loaded."""
    return insn(op, **{"uop_end": 1, "iter_out": 1, "iter_in": 1} | fields)


FINISH = insn("finish")
# Instructions that only carry tokens, on each stage.
LOAD, COMPUTE, STORE = {"memory_type": INP}, {"memory_type": UOP}, {"memory_type": OUT}


def tokens(op: str, stage: dict[str, MemType], *flags: str) -> int:
    return insn(op, **stage, **dict.fromkeys(flags, 1))


def execute(words: tuple[int, ...], path: str, *, dram: bytes = b"", cfg: VTAConfig = TINY, **options: object) -> Result:
    """Run instructions that lie at CODE_AT behind `dram`."""
    image = dram.ljust(CODE_AT, b"\0") + to_bytes(list(words))
    return run_image(image, CODE_AT, len(words), cfg, path=path, **options)


def refused(words: tuple[int, ...], path: str, fault: Fault, index: int, message: str, **options: object) -> None:
    """The program stops with this fault at this instruction, and the message is `message` and the fault's name."""
    with raises(ProgramFault, f"{message} [{fault.name}]") as caught:
        execute(words, path, **options)
    assert (caught.value.fault, caught.value.index) == (fault, index)
