"""Device "fsim": the functional simulator, which has no time."""

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.runtime.vta.device import Device, Ending
from vtakit.runtime.vta.simulated import Simulated, simulated_memory
from vtakit.sim.api import integer, keywords
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.faults import DeviceError
from vtakit.sim.fsim import check_published, execute


class Fsim(Simulated):
    """A `Device` that works out what a program does."""

    name = "fsim"

    def __init__(
        self, config: VTAConfig, dram: bytearray, order: str | int, path: str, max_steps: int, published: bool
    ) -> None:
        super().__init__(config, CoreParams(cfg=config, published=published).features, dram)
        self.published = published
        self._order, self._path, self._max_steps = order, path, max_steps

    def _run(self, decoded: Decoded, insn_addr: int, memories: Memories) -> Ending:
        counters = decoded.transfer_counters()
        steps = sum(counters[name] for name in ("gemm_counter", "gemm_reset_counter", "alu_counter"))
        if steps > self._max_steps:
            raise DeviceError(f"the program has {steps} steps, and device 'fsim' runs at most {self._max_steps}: raise max_steps")
        execute(decoded, self._dram, memories, order=self._order, path=self._path)
        return Ending()


def open_device(
    config: VTAConfig, *, memory_bytes: int = 1 << 26, order: str | int = "program", path: str = "auto", max_steps: int = 10**10,
    published: bool = False,
) -> Device:
    """The functional simulator of a configuration; its options are those after `config`.

    memory_bytes   of its DRAM
    order, path    as in `vtakit.sim.fsim.simulate`
    published      as in `vtakit.sim.fsim.simulate`
    max_steps      micro-op steps of a program: one that has more is refused; a processor runs some ten million a second
    """
    if integer("max_steps", max_steps) < 1:
        raise VtakitError(f"max_steps must be at least 1, not {max_steps}")
    check_published(published)
    return Fsim(config, simulated_memory(memory_bytes), order, path, max_steps, published)


OPTIONS = keywords(open_device)
