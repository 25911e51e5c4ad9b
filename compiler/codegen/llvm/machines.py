"""The records of targets: by LLVM's name of the processor, and for this machine with the caches that its system states.

Code for a named processor is the same wherever it is made: only a target that is this machine, feature by feature, has the sizes
of this machine's caches.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vtakit.compiler.codegen.llvm.kernels import amx
from vtakit.compiler.codegen.llvm.kernels.bit_dots import counts_words
from vtakit.compiler.codegen.llvm.kernels.channel_dots import has_dots
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.target import Target

_SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")  # of Linux
_KIB, _MIB = 1 << 10, 1 << 20
_FULL_BYTES = 64  # of the vectors that `_HALF` is about


def _caches(l1_kib: int, l2_kib: int) -> dict[str, int]:
    return {"l1_bytes": l1_kib * _KIB, "l2_bytes": l2_kib * _KIB}


# Fields that differ from the defaults, by LLVM's name. Sizes of caches: Intel's optimization reference manual (248966), AMD's
# optimization guides for families 17h, 19h and 1Ah, Arm's technical reference manuals; of several sizes of a core the smallest.
BY_PROCESSOR: Mapping[str, Mapping[str, float]] = {
    # To count bits by tables takes eight instructions, and two ports have 512 bits.
    **dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), _caches(32, 1024) | {"count_cycles": 4.0}),
    **dict.fromkeys(("icelake-client", "rocketlake"), _caches(48, 512)),
    **dict.fromkeys(("icelake-server", "tigerlake", "alderlake"), _caches(48, 1280)),
    **dict.fromkeys(("sapphirerapids", "graniterapids"), _caches(48, 2048)),
    "arrowlake": _caches(48, 3072),
    **dict.fromkeys(("znver1", "znver2", "znver3"), _caches(32, 512)),
    "znver4": _caches(32, 1024) | {"l3_bytes_per_cycle": 20},  # measured, 2026-11-23
    "znver5": _caches(48, 1024) | {"count_cycles": 0.8},  # measured, 2026-11-26
    **dict.fromkeys(("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "grace"), _caches(64, 1024)),
}
# Processors on which one multiply-add of 512 bits begins in a cycle, and two of narrower vectors. Zen 4: measured, 2026-11-23;
# Intel's clients: the company's optimization reference manual (248966).
_HALF = frozenset(("znver4", "icelake-client", "tigerlake", "rocketlake"))
# Cycles of a vector without an instruction that counts the bits of words (2.1 to 2.7 for 16, 32 and 64 bytes), and without one
# that multiplies bytes (1.2 to 1.6): measured on a Zen 5, 2026-11-26.
_BYTES_COUNTED, _BYTES_IN_HALVES = 2.4, 1.4
_TILE_STEPS = 256  # of a vector of 16 sums, in one product of tile registers


def machine_of(target: Target | None) -> Machine:
    """Return the record of a target, or of this machine: the one that was given for it, or that of its processor."""
    chosen = target or Target.host()
    return chosen.machine or _by_processor(chosen)


@cache
def _by_processor(target: Target) -> Machine:
    found = Machine(vector_bytes=target.vector_bytes, vector_registers=target.vector_registers)
    if not counts_words(target, target.vector_bytes // 4):
        found = found.changed({"count_cycles": _BYTES_COUNTED})
    found = found.changed(BY_PROCESSOR.get(target.cpu, {}))
    if target.cpu in _HALF and target.vector_bytes == _FULL_BYTES:
        found = found.changed({"fmas_per_cycle": 1})
    if amx.has(target, "gemm_u8s8s32"):
        found = found.changed({"byte_step_cycles": found.tile_product_cycles / _TILE_STEPS})
    else:
        found = found.changed({"byte_step_cycles": 1 / found.fmas_per_cycle if has_dots(target, "uint8") else _BYTES_IN_HALVES})
    host = Target.host()
    if (target.triple, target.cpu, target.features) == (host.triple, host.cpu, host.features):
        found = found.changed(_caches_of_system(_SYSTEM))
    return found


def _caches_of_system(folder: Path) -> dict[str, int]:
    """Return the sizes of the first core's L1 and L2 as Linux states them; nothing if it does not state both."""
    found: dict[str, int] = {}
    try:
        for item in sorted(folder.glob("index*")):
            kind, level, size = ((item / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                found[level] = int(size.removesuffix("K"))
    except (OSError, ValueError):
        return {}
    return _caches(found["1"], found["2"]) if {"1", "2"} <= found.keys() and min(found.values()) > 0 else {}
