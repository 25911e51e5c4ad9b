"""A GEMM with a known answer, as an image of the memory: what the self-test runs."""

from dataclasses import dataclass

from vtakit.hw.isa.codec import encode, encode_uop, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.insns import MEMORIES, MemType

ALIGN_BYTES = 64
INSNS = 7
_SEED, _STEP = 12345, 1103515245


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAnswer:
    """Image from address 0 on: `insn_count` instructions first. The result is written to `result`, bytes of the image.

    data      before the run, with zeros at the result
    wanted    bytes of `result` after it
    """

    data: bytes
    insn_count: int
    result: range
    wanted: bytes


def known_answer(cfg: VTAConfig) -> KnownAnswer:
    """Return the program of a configuration: one tile of inputs times one of weights, and the low bits of the sums stored."""
    state = _SEED

    def number(bits: int) -> int:
        nonlocal state
        state = (state * _STEP + 12345) & 0x7FFF_FFFF
        return (state >> 12) % (1 << bits) - (1 << bits - 1)

    inputs = [[number(cfg.inp_bits) for _ in range(cfg.block)] for _ in range(cfg.batch)]
    weights = [[number(cfg.wgt_bits) for _ in range(cfg.block)] for _ in range(cfg.block)]
    sums = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in weights] for row in inputs]
    pieces = {
        MemType.UOP: encode_uop(cfg, 0, 0, 0).to_bytes(MEMORIES[MemType.UOP].bytes_in(cfg), "little"),
        MemType.INP: _packed(inputs, cfg.inp_bits), MemType.WGT: _packed(weights, cfg.wgt_bits),
        MemType.OUT: bytes(len(_packed(sums, cfg.out_bits))),
    }
    at: dict[MemType, int] = {}
    end = _aligned(INSNS * INSN_BYTES)
    for kind, piece in pieces.items():
        size = MEMORIES[kind].bytes_in(cfg)
        at[kind] = -(-end // size) * size
        end = _aligned(at[kind] + len(piece))
    base = {kind: place // MEMORIES[kind].bytes_in(cfg) for kind, place in at.items()}
    one = {"y_size": 1, "x_size": 1, "x_stride": 1}
    step = {"uop_end": 1, "iter_out": 1, "iter_in": 1}
    words = [
        encode(cfg, "load", memory_type=MemType.UOP, dram_base=base[MemType.UOP], **one),
        encode(cfg, "gemm", reset=1, **step),
        encode(cfg, "load", memory_type=MemType.INP, dram_base=base[MemType.INP], **one),
        encode(cfg, "load", memory_type=MemType.WGT, dram_base=base[MemType.WGT], push_next=1, **one),
        encode(cfg, "gemm", pop_prev=1, push_next=1, **step),
        encode(cfg, "store", memory_type=MemType.OUT, dram_base=base[MemType.OUT], pop_prev=1, **one),
        encode(cfg, "finish"),
    ]
    image = bytearray(end)
    code = to_bytes(words)
    assert len(words) == INSNS
    image[: len(code)] = code
    for kind, piece in pieces.items():
        image[at[kind] : at[kind] + len(piece)] = piece
    out = at[MemType.OUT]
    result = range(out, out + len(pieces[MemType.OUT]))
    return KnownAnswer(data=bytes(image), insn_count=len(words), result=result, wanted=_packed(sums, cfg.out_bits))


def _packed(rows: list[list[int]], bits: int) -> bytes:
    """Return numbers of so many bits, the first one lowest."""
    word = 0
    for place, number in enumerate(number for row in rows for number in row):
        word |= (number & (1 << bits) - 1) << place * bits
    return word.to_bytes(len(rows) * len(rows[0]) * bits // 8, "little")


def _aligned(at: int) -> int:
    return -(-at // ALIGN_BYTES) * ALIGN_BYTES
