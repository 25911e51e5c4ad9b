"""The AXI4 read port: bursts of several readers in turn, their data back in the same order."""

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import axi_read, burst, read_beat
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Slice


class ReadMaster(wiring.Component):
    """Shares the read channels among `readers`, in turn: first the one after the reader that had the last burst.

    So a reader waits for at most one burst of each other.

    Members
    -------
    requests0 … : ``In(stream)``        bursts; the reader has room for all their beats
    returned0 … : ``Out(stream)``       their beats, those that the memory answered with an error marked
    axi : ``Out(axi_read)``
    stop : ``In(1)``                    start no further burst, from the next cycle on
    idle : ``Out(1)``                   stopped, and no burst is in flight
    """

    def __init__(self, params: CoreParams, readers: int) -> None:
        self._params, self._readers = params, readers
        members: dict[str, wiring.Member] = {"axi": Out(axi_read(params)), "stop": In(1), "idle": Out(1)}
        for n in range(readers):
            members[f"requests{n}"] = In(stream.Signature(burst(params)))
            members[f"returned{n}"] = Out(stream.Signature(read_beat(params), always_ready=True))
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m, params, readers = Module(), self._params, self._readers
        requests = [getattr(self, f"requests{n}") for n in range(readers)]
        returned = [getattr(self, f"returned{n}") for n in range(readers)]
        # One entry more: a queue of two refuses the second of two bursts in a row.
        m.submodules.owners = owners = fifo.SyncFIFOBuffered(
            width=range(readers).stop.bit_length(), depth=params.outstanding + 1,
        )
        in_flight = Signal(range(params.outstanding + 1))

        # A burst is chosen among the readers when the slice before the address channel has room.
        m.submodules.address = address = Slice(self.axi.ar.payload.shape())
        connect(m, address.o, flipped(self.axi.ar))
        choice = Signal(range(readers))
        latest = Signal(range(readers))
        is_open = Signal()
        start = Signal()
        finished = Signal()
        with m.Switch(latest):
            for owner in range(readers):
                with m.Case(owner):
                    for away in reversed(range(1, readers + 1)):  # what is written last counts: the nearest that asks
                        n = (owner + away) % readers
                        with m.If(requests[n].valid):
                            m.d.comb += choice.eq(n)
        any_valid = Signal()
        m.d.comb += [
            any_valid.eq(sum((request.valid for request in requests), start=0) != 0),
            start.eq(is_open & address.i.ready & any_valid), address.i.valid.eq(start),
            owners.w_en.eq(start), owners.w_data.eq(choice),
        ]
        m.d.sync += is_open.eq(~self.stop & (in_flight + start < params.outstanding))
        for n, request in enumerate(requests):
            with m.If(choice == n):
                m.d.comb += [
                    request.ready.eq(is_open & address.i.ready), address.i.payload.addr.eq(request.payload.address),
                    address.i.payload.len.eq(request.payload.last),
                ]
            with m.If(start & (choice == n)):
                m.d.sync += latest.eq(n)

        r = self.axi.r
        m.d.comb += [
            r.ready.eq(owners.r_rdy & ~ResetSignal(allow_reset_less=True)), finished.eq(r.valid & r.ready & r.payload.last),
            owners.r_en.eq(finished), self.idle.eq((in_flight == 0) & ~is_open),
        ]
        for n, stream_back in enumerate(returned):
            m.d.comb += [
                stream_back.valid.eq(r.valid & r.ready & (owners.r_data == n)), stream_back.payload.data.eq(r.payload.data),
                stream_back.payload.error.eq(r.payload.resp[1]),
            ]
        m.d.sync += in_flight.eq(in_flight + start - finished)
        return m
