"""A short run of a new model, from which the compiler learns which ways through it are the usual ones.

    python -m vtakit.sim.rtl.training PARAMS LIBRARY

A process of its own, because the library writes down what it has counted when its process ends.
"""

import pickle
import sys
from itertools import islice
from pathlib import Path

from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.program import Image, Program
from vtakit.hw.params import CoreParams
from vtakit.sim.decode import Decoded
from vtakit.sim.fsim import bases_of
from vtakit.sim.gemm_programs import MatMul, matmul_program
from vtakit.sim.random_programs import RandomProgram, random_program
from vtakit.sim.rtl.host import command, program_settings, session, until_idle
from vtakit.sim.rtl.library import Library, opened
from vtakit.sim.rtl.surroundings import Surroundings

RANDOM_PROGRAMS, MOST_TRIED = 8, 32  # with large elements some move more than the product
MOST_CYCLES = 100_000  # of the product, about: large models run ten thousand cycles a second
_BLOCKS = ((64, 8, 8), (16, 8, 8), (8, 4, 4), (2, 2, 2), (1, 1, 1))  # rows, inner and columns of products to try


def product(params: CoreParams) -> Program:
    """A blocked matrix product: the largest that takes not too long, in two contexts where the scratchpads have room for them."""
    cfg = params.cfg
    for rows, inner, columns in _BLOCKS:
        shape = MatMul(rows=rows * cfg.batch, inner=inner * cfg.block, columns=columns * cfg.block, shift=4, clip=True)
        program = _in_contexts(cfg, shape)
        if (rows, inner, columns) == _BLOCKS[-1] or _cycles(params, program.link()) <= MOST_CYCLES:
            return program
    raise AssertionError("the last of the products is taken")


def _in_contexts(cfg: VTAConfig, shape: MatMul) -> Program:
    try:
        return matmul_program(cfg, shape, contexts=2)
    except ProgramError:
        return matmul_program(cfg, shape, contexts=1)


def _cycles(params: CoreParams, image: Image | RandomProgram) -> int:
    """Return a lower bound of a program's cycles: steps of the matrix core, or beats of the bus."""
    code = image.dram[image.insn_addr : image.insn_addr + INSN_BYTES * image.insn_count]
    counters = Decoded(params.cfg, code).transfer_counters()
    moved = sum(value for name, value in counters.items() if name.endswith("nbytes"))
    return max(counters["gemm_counter"] + counters["alu_counter"], moved // params.bus_bytes)


def training_programs(params: CoreParams) -> list[Image | RandomProgram]:
    """Return a blocked matrix product, and short random programs, so that no kind of instruction is missing."""
    some = (random_program(params.cfg, seed, features=params.features) for seed in range(MOST_TRIED))
    short = (program for program in some if _cycles(params, program) <= MOST_CYCLES)
    return [product(params).link(), *islice(short, RANDOM_PROGRAMS)]


def train(params: CoreParams, library: Library) -> None:
    """Run the training programs on a library."""
    for run in training_programs(params):
        bases = bases_of(run.bases if isinstance(run, RandomProgram) else {})
        settings = program_settings(run.insn_addr, run.insn_count, bases, (0, len(run.dram)))
        session(params, bytearray(run.dram), [*settings, command("start"), until_idle()], Surroundings(), library)


if __name__ == "__main__":
    built = Path(sys.argv[2])
    train(pickle.loads(Path(sys.argv[1]).read_bytes()), opened(built, built.read_bytes()))
