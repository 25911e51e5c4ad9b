"""From bursts of the port to requests: column commands of a row."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.memory.signals import beats_a_column, bits, columns_a_beat, request
from vtakit.hw.dram import Dram
from vtakit.hw.params import CoreParams


class Requests(wiring.Component):
    """Members
    -------
    bursts : ``In(stream)``       of the port: byte address, a multiple of the bus, and beats less one
    requests : ``Out(stream)``    the same in the chip's terms; address bits beyond the chip's size do not count
    """

    def __init__(self, params: CoreParams, dram: Dram) -> None:
        self._params, self._dram = params, dram
        burst = data.StructLayout({"addr": params.address_bits, "len": 8})
        super().__init__({"bursts": In(stream.Signature(burst)), "requests": Out(stream.Signature(request(params, dram)))})

    def elaborate(self, platform: object) -> Module:
        m, params, dram = Module(), self._params, self._dram
        i, o = self.bursts, self.requests.payload
        beats, parts = bits(beats_a_column(params, dram)), bits(columns_a_beat(params, dram))
        place = i.payload.addr[bits(dram.burst_bytes) :]
        columns, banks = bits(dram.columns // dram.burst), bits(dram.banks)
        first = i.payload.addr[params.bus_bytes_log2 :][:beats]
        end = Signal(9)  # last beat, counted from the begin of the first command
        m.d.comb += [
            self.requests.valid.eq(i.valid), i.ready.eq(self.requests.ready),
            o.column.eq(place[:columns]), o.bank.eq(place[columns:][:banks]), o.row.eq(place[columns + banks :]),
            end.eq(first + i.payload.len), o.first_beat.eq(first), o.last_beat.eq(end[:beats]),
            o.last.eq(Cat(Const((1 << parts) - 1, parts), end[beats:])),
        ]
        return m
