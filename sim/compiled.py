"""The compiled path of the functional simulator: the same meaning as `sim.plain`, as machine code through numba.

Held bit-equal to the plain path by random programs over all configurations (tests/sim, `vtakit fuzz`). Inputs and weights are
kept as int16, so every width up to 16 bits runs the same code; accumulators are int32, wrapped after each write when narrower.
"""

import functools
import hashlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa import insns
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MEMORIES, UOP
from vtakit.hw.values import Bytes, Ints
from vtakit.sim.code import MachineCode
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.kernels import Shape, run_slice
from vtakit.sim.plain import index_fault

_STEPS_A_SLICE = 1 << 25
_PATIENCE_SECONDS = 2  # machine code that was kept is there in a tenth, and a slice takes about one
_ALL = 1 << 14  # more outer iterations than an instruction can have


def run(cfg: VTAConfig, decoded: Decoded, dram: Bytes, memories: Memories, order: Ints) -> npt.NDArray[np.int32]:
    """Run a checked program's instructions in `order`, changing `dram`; returns the accumulator [depth, batch, block]."""
    dst, src, wgt = UOP.place(cfg)
    shape = Shape(
        cfg.batch, cfg.block, cfg.acc_bits, cfg.out_bits, cfg.inp_depth, cfg.wgt_depth, cfg.acc_depth,
        dst.offset, dst.width, src.offset, src.width, wgt.offset, wgt.width,
        *(cfg.window if cfg.has_dwconv else (0, 0)),
    )
    # For each memory type, by its number: base register, bytes of an element, bits of a value.
    kinds = [MEMORIES[kind] for kind in sorted(MEMORIES)]
    layout = np.array([[memories.bases[each.kind], each.bytes_in(cfg), each.value_bits(cfg)] for each in kinds], np.int64)
    uop = np.zeros(cfg.uop_depth, np.uint32)
    inp = np.zeros(cfg.inp_depth * cfg.batch * cfg.block, np.int16)
    weights = np.zeros(cfg.wgt_depth * cfg.block * cfg.block, np.int16)
    acc = np.zeros(cfg.acc_depth * cfg.batch * cfg.block, np.int32)
    for part, first, last in _slices(decoded, order):
        failed = _call(decoded.table, part, first, last, dram, layout, shape, uop, inp, weights, acc)
        if failed >= 0:
            detail = index_fault(cfg, decode(cfg, decoded.word(failed)), uop.astype(np.int64))
            raise decoded.fault(Fault.SRAM_RANGE, failed, detail or "an index lies outside its scratchpad")
    return acc.reshape(-1, cfg.batch, cfg.block)


def _slices(decoded: Decoded, order: Ints) -> Iterator[tuple[Ints, int, int]]:
    """The order in pieces of a second or so, with the outer iterations to run, so that Ctrl-C is heard between them."""
    turn = decoded["iter_in"] * np.maximum(decoded["uop_end"] - decoded["uop_bgn"], 0)
    steps = (turn * decoded["iter_out"])[order]
    start = 0
    for at in np.flatnonzero(np.diff(np.cumsum(steps) // _STEPS_A_SLICE, prepend=0)).tolist():
        yield order[start:at], 0, _ALL
        rows = max(1, _STEPS_A_SLICE // max(1, int(turn[order[at]])))
        for first in range(0, max(1, int(decoded["iter_out"][order[at]])), rows):
            yield order[at : at + 1], first, first + rows
        start = at + 1
    yield order[start:], 0, _ALL


def _call(*args: Any) -> int:
    """Run machine code: kept from an earlier process if that can be, else made now."""
    notice = threading.Timer(_PATIENCE_SECONDS, print, ["compiling the simulator (a few seconds, once) …"], {"file": sys.stderr})
    if sys.stderr is not None and sys.stderr.isatty():
        notice.start()
    try:
        return int(_machine_code()(*args))
    finally:
        notice.cancel()


def _fingerprint() -> int:
    """A number that stands for every source that the machine code is made of; numba itself looks at this file only."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(insns.__file__).parent):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")


@functools.cache
def _machine_code() -> MachineCode:
    fingerprint = _fingerprint()

    def run(
        table: Any, order: Any, first: int, last: int, dram: Any, layout: Any, shape: Any, uop: Any, inp: Any, wgt: Any, acc: Any
    ) -> int:
        if fingerprint < 0:  # never: naming it makes numba tell code of different sources apart
            return -1
        return run_slice(table, order, first, last, dram, layout, shape, uop, inp, wgt, acc)

    return MachineCode(run, fingerprint)
