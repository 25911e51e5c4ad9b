"""A short run of a new model, from which the compiler learns which ways through it are the usual ones.

    python -m vtakit.sim.rtl.training PARAMS LIBRARY

A process of its own, because the library writes down what it has counted when its process ends.
"""

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path

from vtakit.hw.isa.program import Image
from vtakit.hw.params import CoreParams
from vtakit.sim.fsim import bases_of
from vtakit.sim.gemm_programs import MatMul, matmul_program
from vtakit.sim.random_programs import RandomProgram, random_program
from vtakit.sim.rtl.host import Surroundings, command, program_settings, session, until_idle

RANDOM_PROGRAMS = 8


def train(params: CoreParams, library: Path) -> None:
    """Run a blocked matrix product, and random programs, so that no kind of instruction is missing."""
    cfg = params.cfg
    shape = MatMul(rows=64 * cfg.batch, inner=8 * cfg.block, columns=8 * cfg.block, shift=4, clip=True)
    product = matmul_program(cfg, shape).link()
    runs: list[tuple[Image | RandomProgram, Mapping[str, int]]] = [(product, {})]
    for seed in range(RANDOM_PROGRAMS):
        program = random_program(cfg, seed)
        runs.append((program, program.bases))
    for run, bases in runs:
        settings = program_settings(run.insn_addr, run.insn_count, bases_of(bases), (0, len(run.dram)))
        session(params, bytearray(run.dram), [*settings, command("start"), until_idle()], Surroundings(), library)


if __name__ == "__main__":
    train(pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]))
