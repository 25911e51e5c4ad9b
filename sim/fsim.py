"""The functional simulator: what a program does, without time.

Two paths give the same bytes: the plain definition (`sim.plain`) and compiled code (`sim.compiled`), the default.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError, one_of
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import MEMORIES, Feature, MemType
from vtakit.hw.isa.regs import BASE_ALIGN_BYTES, DRAM_ADDRESS_BITS, device_features
from vtakit.sim import plain
from vtakit.sim.api import Result, integer, keywords
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.order import execution_order
from vtakit.sim.program import decoded_program, program_bytes

PATHS = ("auto", "plain", "compiled")


def features(cfg: VTAConfig) -> Feature:
    """The abilities beyond the smallest device: all that the configuration allows."""
    return device_features(cfg)


def simulate(
    cfg: VTAConfig,
    dram: bytearray,
    insn_addr: int,
    insn_count: int,
    *,
    order: str | int = "program",
    path: str = "auto",
    bases: Mapping[str, int] | None = None,
    window: tuple[int, int] | None = None,
    published: bool = False,
) -> Result:
    """Run the instructions at `insn_addr`.

    order   how the three stages interleave: "program", "eager" (producers run ahead), "lazy" (consumers first), or the
            seed of random choices; a program whose dependences are complete gives the same bytes in each
    path    "auto" (compiled where numba is installed), "plain" or "compiled"
    bases   base registers in bytes by memory type ("inp", "acc_8bit", …), multiples of 64, added to every address; 0 if absent
    window  the DRAM bytes (first, after the last) that instructions may touch; all of the image if absent
    published   the device has the published instruction set alone, as `core={"published": True}` of device "rtl"
    """
    memories = Memories(bases=bases_of(bases or {}), window=window_of(window, len(dram)))
    check_published(published)
    decoded = decoded_program(cfg, bytes(program_bytes(dram, insn_addr, insn_count)), published)
    acc = execute(decoded, dram, memories, order=order, path=path)
    return Result(dram=bytes(dram), acc=acc, counters=decoded.transfer_counters())


OPTIONS = keywords(simulate)


def check_published(published: object) -> None:
    """Refuse an option `published` that is no truth value."""
    if not isinstance(published, bool):
        raise VtakitError(f"published must be True or False, not {published!r:.40}")


def execute(
    decoded: Decoded, dram: bytearray, memories: Memories, *, order: str | int = "program", path: str = "auto"
) -> npt.NDArray[np.int32]:
    """Run a program that lies in `dram` or anywhere else, changing `dram`; returns the accumulator [acc_depth, batch, block]."""
    if path not in PATHS:
        raise VtakitError(f"unknown path {path!r}; {one_of(PATHS, str(path))}")
    decoded.check(memories)
    sequence = execution_order(decoded, order)
    machine_code = None if path == "plain" else _machine_code(required=path == "compiled")
    acc: npt.NDArray[np.int32] = (machine_code or plain).run(
        decoded.cfg, decoded, np.frombuffer(dram, np.uint8), memories, sequence
    )
    return acc


def _machine_code(*, required: bool) -> ModuleType | None:
    """The compiled path, or None where numba is missing or broken and the path is not `required`."""
    try:  # here, since numba takes a third of a second to import and may be absent
        return import_module("vtakit.sim.compiled")
    except ImportError as error:
        if required:
            cure = "pip install 'vtakit[sim]', or use path 'plain'"
            raise VtakitError(f"the compiled path needs numba ({cure}): {error}") from None
        return None


def bases_of(given: Mapping[str, int]) -> dict[MemType, int]:
    names = {kind.name.lower(): kind for kind in MEMORIES}
    bases = dict.fromkeys(MEMORIES, 0)
    if not isinstance(given, Mapping):
        raise VtakitError(f"bases must map memory types to byte addresses, not {given!r:.40}")
    for name, base in given.items():
        if name not in names:
            raise VtakitError(f"unknown memory {name!r} among the base registers; {one_of(names, str(name))}")
        value = integer(f"base register {name!r}", base)
        if not 0 <= value < 1 << DRAM_ADDRESS_BITS or value % BASE_ALIGN_BYTES:
            bounds = f"a multiple of {BASE_ALIGN_BYTES} below 2**{DRAM_ADDRESS_BITS}"
            raise VtakitError(f"base register {name!r} is {value} and must be {bounds}")
        bases[names[name]] = value
    return bases


def window_of(given: tuple[int, int] | None, size: int) -> tuple[int, int]:
    if given is None:
        return 0, size
    if not isinstance(given, tuple) or len(given) != 2:
        raise VtakitError(f"window must be (first byte, byte after the last), not {given!r:.40}")
    low, high = (integer("window", end) for end in given)
    if not 0 <= low <= high <= size:
        raise VtakitError(f"the DRAM window {low} to {high} does not lie in the image of {size} bytes")
    return low, high
