"""On-chip memory of elements: one write port for several neighbours at once, and read ports for one element each."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from vtakit.hw.interfaces import sram_read, sram_write


class Scratchpad(wiring.Component):
    """`depth` elements, spread over `lanes` banks so that as many neighbours are written in one cycle, or cut into `slices`.

    Members
    -------
    write : ``In(sram_write)``     elements to store
    read0 … : ``In(sram_read)``    one port for each of `readers`; data one cycle after index, two if `registered`

    What is read in the cycle in which it is written is not to be used: here it is the old value, in block RAM anything.
    """

    def __init__(
        self, *, element_bits: int, depth_log2: int, lanes: int = 1, slices: int = 1, readers: int = 1, registered: bool = True
    ) -> None:
        if lanes & (lanes - 1) or lanes > 1 << depth_log2:
            raise ValueError(f"lanes must be a power of two up to the depth {1 << depth_log2}, got {lanes}")
        if element_bits % slices or (slices > 1 and lanes > 1):
            raise ValueError(f"slices must divide the element's {element_bits} bits, and lanes be 1, got {slices} and {lanes}")
        self._element_bits, self._depth_log2, self._lanes, self._slices = element_bits, depth_log2, lanes, slices
        self._readers, self._registered = readers, registered
        ports = {f"read{n}": In(sram_read(element_bits, depth_log2)) for n in range(readers)}
        super().__init__({"write": In(sram_write(element_bits, depth_log2, lanes=lanes, slices=slices)), **ports})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, lane_bits = self._lanes, self._lanes.bit_length() - 1
        row_bits = self._depth_log2 - lane_bits
        banks = []
        for lane in range(lanes):
            m.submodules[f"bank{lane}"] = bank = memory.Memory(shape=self._element_bits, depth=1 << row_bits, init=[])
            banks.append(bank)
        first_lane, first_row = self.write.index[:lane_bits], self.write.index[lane_bits:]
        for lane, bank in enumerate(banks):
            port = bank.write_port(granularity=self._element_bits // self._slices)
            # Which of the written elements lands in this bank, and does the run wrap into the next row before it?
            number = Signal(lane_bits, name=f"number{lane}")
            m.d.comb += [
                number.eq(lane - first_lane),
                port.addr.eq(first_row + (lane < first_lane) if lane_bits else self.write.index),
                port.en.eq(Mux(self.write.valid & (number < self.write.count), self.write.mask, 0)),
                port.data.eq(self.write.data[number] if lane_bits else self.write.data[0]),
            ]
        for n in range(self._readers):
            self._reader(m, getattr(self, f"read{n}"), banks, lane_bits)
        return m

    def _reader(self, m: Module, read: wiring.PureInterface, banks: list[memory.Memory], lane_bits: int) -> None:
        outputs = []
        for bank in banks:
            port = bank.read_port(domain="sync")
            m.d.comb += [port.en.eq(read.enable), port.addr.eq(read.index[lane_bits:])]
            outputs.append(port.data)
        found = outputs[0]
        if lane_bits:
            lane = Signal(lane_bits)
            with m.If(read.enable):
                m.d.sync += lane.eq(read.index[:lane_bits])
            found = Array(outputs)[lane]
        if self._registered:
            data = Signal(self._element_bits, name="data", reset_less=True)
            m.d.sync += data.eq(found)
            m.d.comb += read.data.eq(data)
        else:
            m.d.comb += read.data.eq(found)
