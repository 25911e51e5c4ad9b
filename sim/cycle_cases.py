"""The programs whose exact cycles are kept (tests/data/cycles.json), and how to measure one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import MEMORIES, MemType
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.sim.blocking import BUS_BYTES
from vtakit.sim.confirmed import measured
from vtakit.sim.gemm_programs import MatMul, matmul_program
from vtakit.sim.micro_programs import alu_program, load_rows_program, short_gemms_program
from vtakit.sim.workloads import Conv2d, conv2d_program

SYSTEMS: dict[str, dict[str, Any]] = {"reference": {}, "ideal": {"latency": 0}}  # options of device "rtl"
STEPS = ("gemm_counter", "gemm_reset_counter", "alu_counter")
# The convolutions of ResNet-18: height, in and out channels, kernel, stride, pad. The last one is its first layer.
RESNET18 = (
    (56, 64, 64, 3, 1, 1), (56, 64, 128, 3, 2, 1), (56, 64, 128, 1, 2, 0), (28, 128, 128, 3, 1, 1), (28, 128, 256, 3, 2, 1),
    (28, 128, 256, 1, 2, 0), (14, 256, 256, 3, 1, 1), (14, 256, 512, 3, 2, 1), (14, 256, 512, 1, 2, 0), (7, 512, 512, 3, 1, 1),
    (224, 3, 64, 7, 2, 3),
)
ALU_INSNS, SHORT_GEMMS = 8, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program for the default configuration.

    macs    multiplications that it is for, those with padding to whole blocks not included; 0: it multiplies nothing
    work    what `least` counts, if not GEMM steps
    least   work a cycle that is promised, by system
    """

    name: str
    program: Program = field(repr=False)
    macs: int = 0
    work: int | None = None
    least: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Measurements of a case; all but the cycles of the ideal system are of the reference system.

    work            as in `Case`
    gemm, steps     steps that multiply; all steps
    read, written   beats
    lost            cycles of the compute stage that ran no step, by what they were spent on
    """

    cycles: Mapping[str, int]
    work: int
    gemm: int
    steps: int
    read: int
    written: int
    lost: Mapping[str, int]


def cases() -> Iterator[Case]:
    """Every case; names are unique."""
    cfg = DEFAULT
    for how, shape, least in (
        ("low bits stored", MatMul(rows=512, inner=512, columns=512), {"reference": 0.95, "ideal": 0.98}),
        ("shifted", MatMul(rows=512, inner=512, columns=512, shift=16), {}),
        ("shifted and clipped", MatMul(rows=512, inner=512, columns=512, shift=11, clip=True), {}),
    ):
        yield Case(name=f"matrix product 512x512x512, {how}", program=matmul_program(cfg, shape), macs=shape.macs, least=least)
    for height, in_channels, out_channels, kernel, stride, pad in RESNET18:
        name = f"convolution {height}x{height}, {in_channels}->{out_channels}, {kernel}x{kernel}, stride {stride}"
        for how, requant in ("", False), (", by REQUANT", True):
            conv = Conv2d(height=height, width=height, in_channels=in_channels, out_channels=out_channels, kernel=kernel,
                          stride=stride, pad=pad, requant=requant)
            yield Case(name=f"{name}{how}", program=conv2d_program(cfg, conv), macs=conv.macs)
    for kind, row_bytes in (
        (MemType.INP, 16), (MemType.INP, 64), (MemType.INP, 256), (MemType.INP, 1024), (MemType.WGT, 256),
    ):
        beats = MEMORIES[kind].bytes_in(cfg) * MEMORIES[kind].depth_in(cfg) // BUS_BYTES
        least = dict.fromkeys(SYSTEMS, 0.95) if row_bytes >= 256 else {}
        yield Case(name=f"LOAD {kind.name}, {beats} beats in rows of {row_bytes} bytes", work=beats,
                   program=load_rows_program(cfg, kind, row_bytes), least=least)
    vectors = ALU_INSNS * cfg.acc_depth // 2
    for operand, use_imm in (("an immediate", True), ("two operands", False)):
        yield Case(name=f"ALU with {operand}, {ALU_INSNS} instructions, {vectors} vectors", work=vectors,
                   program=alu_program(cfg, ALU_INSNS, use_imm=use_imm), least=dict.fromkeys(SYSTEMS, 0.98))
    yield Case(name=f"GEMM of one step, {SHORT_GEMMS} instructions", work=SHORT_GEMMS,
               program=short_gemms_program(cfg, SHORT_GEMMS), least=dict.fromkeys(SYSTEMS, 1 / 3))


def measure(case: Case, device: str = "cycle") -> Figures:
    """Return the figures of a case with random inputs on both systems; `device` as in `vtakit.sim.confirmed.measured`.

    Raises `VtakitError` if the RTL has other cycles or results.
    """
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.bytes(b.size_bytes) for b in case.program.buffers if b.kind is BufferKind.INPUT}
    results = {}
    for system, options in SYSTEMS.items():
        try:
            results[system] = measured(case.program, inputs, device, **options)
        except VtakitError as error:
            raise VtakitError(f"{case.name}, {system} system: {error}") from None
    counters = results["reference"].counters
    steps = sum(counters[name] for name in STEPS)
    lost = {cause: counters[f"compute_{cause}"] - (steps if cause == "busy" else 0) for cause in CYCLE_CAUSES}
    return Figures(
        cycles={system: result.counters["cycles"] for system, result in results.items()},
        work=counters["gemm_counter"] if case.work is None else case.work, gemm=counters["gemm_counter"], steps=steps,
        read=counters["read_beats"], written=counters["write_beats"], lost=lost,
    )
