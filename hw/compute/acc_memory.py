"""The accumulator: two banks, so that a LOAD finds a free write port beside arithmetic that writes in every cycle.

Block RAM has one write port and one read port, so that two readers take two copies. With one copy, both readers are served where
they read different banks.
"""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import sram_read, sram_write
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.memory.scratchpad import Scratchpad
from vtakit.hw.timing import BANK_STRIDE


def acc_banks(cfg: VTAConfig) -> int:
    """Return the number of banks of the accumulator."""
    return min(2, cfg.acc_depth)


def bank_of(index: Value) -> Value:
    """Return the bank of an element: the parity of every third bit of its index.

    Elements that follow each other take both banks in turn, but for one of eight; of those 2**n apart at most four take one.
    """
    return index[::BANK_STRIDE].xor()


class AccMemory(wiring.Component):
    """Accumulator memory. Data read in the cycle in which it is written must not be used; arithmetic forwards the newer value.

    Members
    -------
    result : ``In(sram_write)``       an element from arithmetic
    writes : ``In(banks)``            bit n: it is written to bank n, which is that of its index; if none is, loads have both
    load : ``In(sram_write)``         an element from a load; written unless `load_busy`
    load_busy : ``Out(1)``            the bank of the load's index is taken by `result`
    read0, read1 : ``In(sram_read)``  data one cycle after the index
    read1_busy : ``Out(1)``           of one copy: `read0` takes the bank of read1's index, which therefore is not read
    """

    def __init__(self, cfg: VTAConfig, *, copies: int = 2) -> None:
        self._cfg, self._copies, bits = cfg, copies, 8 * cfg.acc_bytes
        super().__init__({
            **{name: In(sram_write(bits, cfg.acc_depth_log2)) for name in ("result", "load")},
            "writes": In(acc_banks(cfg)), "load_busy": Out(1),
            **{name: In(sram_read(bits, cfg.acc_depth_log2)) for name in ("read0", "read1")}, "read1_busy": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        bank_bits = acc_banks(cfg) - 1  # 1 or 0; the other bits of an index are the place in its bank
        banks = []
        load_bank = Signal(bank_bits)
        m.d.comb += [load_bank.eq(bank_of(self.load.index)), self.load_busy.eq(Mux(load_bank, self.writes[-1], self.writes[0]))]
        for number in range(acc_banks(cfg)):
            m.submodules[f"half{number}"] = bank = Scratchpad(
                element_bits=8 * cfg.acc_bytes, depth_log2=cfg.acc_depth_log2 - bank_bits, readers=self._copies,
                registered=False,
            )
            banks.append(bank)
            from_load = self.load.valid & (load_bank == number)
            m.d.comb += [
                bank.write.valid.eq(self.writes[number] | from_load), bank.write.count.eq(1), bank.write.mask.eq(1),
                bank.write.index.eq(Mux(self.writes[number], self.result.index, self.load.index)[bank_bits:]),
                bank.write.data[0].eq(Mux(self.writes[number], self.result.data[0], self.load.data[0])),
            ]
        reads = [self.read0, self.read1]
        asked = [Signal(bank_bits, name=f"read{n}_asks") for n in range(2)]
        m.d.comb += [bank.eq(bank_of(read.index)) for read, bank in zip(reads, asked, strict=True)]
        if self._copies == 1:
            m.d.comb += self.read1_busy.eq(self.read0.enable & (asked[0] == asked[1]))
        for number, bank in enumerate(banks):
            takes = [read.enable & (asks == number) for read, asks in zip(reads, asked, strict=True)]
            if self._copies == 1:
                index = Mux(takes[0], self.read0.index, self.read1.index)
                m.d.comb += [bank.read0.enable.eq(takes[0] | takes[1]), bank.read0.index.eq(index[bank_bits:])]
                continue
            for port, read, taken in zip((bank.read0, bank.read1), reads, takes, strict=True):
                m.d.comb += [port.enable.eq(taken), port.index.eq(read.index[bank_bits:])]
        for n, (read, asks) in enumerate(zip(reads, asked, strict=True)):
            chosen = Signal(bank_bits, name=f"read{n}_bank")
            with m.If(read.enable):
                m.d.sync += chosen.eq(asks)
            found = [getattr(bank, f"read{min(n, self._copies - 1)}").data for bank in banks]
            m.d.comb += read.data.eq(Mux(chosen, found[-1], found[0]))
        return m
