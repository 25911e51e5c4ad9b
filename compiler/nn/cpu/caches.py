"""How large the caches are that a core has to itself: read from the system for this machine, from a table for others.

What is made for a named processor is the same wherever it is made. Sizes only order loops; results do not depend on them.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.target import Target

_SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")  # of Linux
_KIB = 1 << 10
_MIB = 1 << 20


class Caches(NamedTuple):
    """Bytes of the first level for data, and of the second."""

    first: int
    second: int


SMALLEST = Caches(32 * _KIB, 256 * _KIB)  # of what is not known: at most what every processor with vectors has

# By LLVM's name of the processor. Sources: Intel's optimization reference manual (248966), AMD's optimization guides for families
# 17h, 19h and 1Ah, Arm's technical reference manuals; where a core is sold with several sizes, the smallest.
BY_PROCESSOR = {
    **dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), Caches(32 * _KIB, _MIB)),
    **dict.fromkeys(("icelake-client", "rocketlake"), Caches(48 * _KIB, 512 * _KIB)),
    **dict.fromkeys(("icelake-server", "tigerlake", "alderlake"), Caches(48 * _KIB, 1280 * _KIB)),
    **dict.fromkeys(("sapphirerapids", "graniterapids"), Caches(48 * _KIB, 2 * _MIB)),
    "arrowlake": Caches(48 * _KIB, 3 * _MIB),
    **dict.fromkeys(("znver1", "znver2", "znver3"), Caches(32 * _KIB, 512 * _KIB)),
    "znver4": Caches(32 * _KIB, _MIB),
    "znver5": Caches(48 * _KIB, _MIB),
    **dict.fromkeys(("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "grace"), Caches(64 * _KIB, _MIB)),
}


@cache
def caches(target: Target) -> Caches:
    """Of a target; what this machine's system tells if that is the target."""
    host = Target.host()
    same = (target.triple, target.cpu, target.features) == (host.triple, host.cpu, host.features)
    own = _of_system(_SYSTEM) if same else None
    return own or BY_PROCESSOR.get(target.cpu, SMALLEST)


def _of_system(folder: Path) -> Caches | None:
    """What Linux tells of the first core's caches; None if it does not."""
    found: dict[str, int] = {}
    try:
        for item in sorted(folder.glob("index*")):
            kind, level, size = ((item / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                found[level] = int(size.removesuffix("K")) * _KIB
    except (OSError, ValueError):
        return None
    return Caches(found["1"], found["2"]) if {"1", "2"} <= found.keys() and min(found.values()) > 0 else None
