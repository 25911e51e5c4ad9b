"""The accumulator: two banks, so that a load finds a free write port beside arithmetic that writes in every cycle."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import sram_read, sram_write
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.memory.scratchpad import Scratchpad


def acc_banks(cfg: VTAConfig) -> int:
    """Banks of the accumulator; element i lies in bank i modulo this."""
    return min(2, cfg.acc_depth)


class AccMemory(wiring.Component):
    """Accumulator memory. Data read in the cycle in which it is written must not be used; arithmetic forwards the newer value.

    Members
    -------
    result : ``In(sram_write)``       an element from arithmetic; always written
    load : ``In(sram_write)``         an element from a load; written unless `load_busy`
    load_busy : ``Out(1)``            the bank of the load's index is taken by `result`
    read0, read1 : ``In(sram_read)``  data one cycle after the index
    """

    def __init__(self, cfg: VTAConfig) -> None:
        self._cfg, bits = cfg, 8 * cfg.acc_bytes
        super().__init__({
            **{name: In(sram_write(bits, cfg.acc_depth_log2)) for name in ("result", "load")}, "load_busy": Out(1),
            **{name: In(sram_read(bits, cfg.acc_depth_log2)) for name in ("read0", "read1")},
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        bank_bits = acc_banks(cfg) - 1  # low bits of an index that name the bank: 1 or 0
        banks = []
        for number in range(acc_banks(cfg)):
            m.submodules[f"half{number}"] = bank = Scratchpad(
                element_bits=8 * cfg.acc_bytes, depth_log2=cfg.acc_depth_log2 - bank_bits, readers=2, registered=False,
            )
            banks.append(bank)
            from_result = self.result.valid & (self.result.index[:bank_bits] == number)
            from_load = self.load.valid & (self.load.index[:bank_bits] == number)
            m.d.comb += [
                bank.write.valid.eq(from_result | from_load), bank.write.count.eq(1), bank.write.mask.eq(1),
                bank.write.index.eq(Mux(from_result, self.result.index, self.load.index)[bank_bits:]),
                bank.write.data[0].eq(Mux(from_result, self.result.data[0], self.load.data[0])),
            ]
        m.d.comb += self.load_busy.eq(self.result.valid & (self.result.index[:bank_bits] == self.load.index[:bank_bits]))
        for name in ("read0", "read1"):
            read, chosen = getattr(self, name), Signal(bank_bits, name=f"{name}_bank")
            with m.If(read.enable):
                m.d.sync += chosen.eq(read.index[:bank_bits])
            for number, bank in enumerate(banks):
                port = getattr(bank, name)
                mine = read.index[:bank_bits] == number
                m.d.comb += [port.enable.eq(read.enable & mine), port.index.eq(read.index[bank_bits:])]
            found = [getattr(bank, name).data for bank in banks]
            m.d.comb += read.data.eq(Mux(chosen, found[-1], found[0]))
        return m
