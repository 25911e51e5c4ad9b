"""Numbers of a core and its memory that the cycle model reads: nothing is rebuilt for another configuration."""

from collections.abc import Sequence
from typing import Any

from vtakit.hw.isa.insns import UOP, Feature
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import (
    Target,
    compute_targets,
    element_parts,
    factors_at,
    load_targets,
    mac_latency,
    part_lanes,
    storage,
    table_rows,
)
from vtakit.sim.cycle.simulation import PARAMETERS
from vtakit.sim.cycle.state import as_array, zeros
from vtakit.sim.decode import Memories
from vtakit.sim.rtl.surroundings import Surroundings

_GOLDEN, _M64, _M32 = 0x9E3779B97F4A7C15, (1 << 64) - 1, (1 << 32) - 1  # of the harness's generator


def parameters_of(
    core: CoreParams, around: Surroundings, memories: Memories, insn_addr: int, insn_count: int, *,
    skips: bool, rested: bool, plain: bool,
) -> Any:
    """Return a `PARAMETERS` record in an array or, if `plain`, in a list. `skips`: blocks that wait are not evaluated.

    rested : the memory has been idle for long before the host begins; otherwise it is reset with the accelerator
    """
    found = zeros(PARAMETERS, plain=True)
    _set(found[0], core, around, memories, insn_addr, insn_count)
    found[0].skips, found[0].rested = int(skips), int(rested)
    return found if plain else as_array(PARAMETERS, found[0])


def _set(p: Any, core: CoreParams, around: Surroundings, memories: Memories, insn_addr: int, insn_count: int) -> None:
    cfg = core.cfg
    dst, src, wgt = UOP.place(cfg)
    state = (around.seed * _GOLDEN + 1) & _M64
    values = {
        "bus_bits": core.bus_bits, "bus_bytes": core.bus_bytes, "bus_bytes_log2": core.bus_bytes_log2,
        "outstanding": core.outstanding, "burst_beats": core.burst_beats, "buffer_beats": core.buffer_beats,
        "requantizes": Feature.REQUANT in core.features,
        "last": factors_at(windows=Feature.DWCONV in core.features, gemm_passes=core.gemm_passes) + mac_latency(cfg),
        "gemm_passes": core.gemm_passes, "mul_passes": core.mul_passes, "one_copy": core.acc_copies == 1,
        "inp_depth": cfg.inp_depth, "wgt_depth": cfg.wgt_depth, "acc_depth": cfg.acc_depth,
        "dst_at": dst.offset, "dst_mask": (1 << dst.width) - 1, "src_at": src.offset, "src_mask": (1 << src.width) - 1,
        "wgt_at": wgt.offset, "wgt_mask": (1 << wgt.width) - 1,
        "out_bytes": cfg.out_bytes, "out_bytes_log2": cfg.out_bytes.bit_length() - 1, "out_parts": element_parts(core),
        "out_lanes": max(1, core.bus_bytes // cfg.out_bytes), "table_rows": table_rows(part_lanes(core)),
        "insn_addr": insn_addr, "insn_count": insn_count,
        "latency": around.latency, "memory_outstanding": around.outstanding, "bandwidth": around.bandwidth, "stall": around.stall,
        "patience": around.seed % 3 if around.stall else 0, "seed_high": state >> 32, "seed_low": state & _M32,
        "max_cycles": around.max_cycles, "trace": around.trace,
    }
    for name, value in values.items():
        setattr(p, name, int(value))
    for name, value in (around.chip.controller if around.chip else {}).items():
        setattr(p.dram, name, value)
    for kind, base in memories.bases.items():
        p.bases[kind] = base
    _set_targets(p.load, core, load_targets(core))
    _set_targets(p.compute, core, compute_targets(core))


def _set_targets(record: Any, core: CoreParams, targets: Sequence[Target]) -> None:
    for n, each in enumerate(targets):
        record.number[each.kind] = n
        record.element_log2[n] = each.element_bytes.bit_length() - 1
        record.lanes[n], record.a_beat[n], record.last_beat[n] = each.lanes, each.a_beat(core), each.beats(core) - 1
        record.pad_turns[n] = storage(core, each.kind).turns
