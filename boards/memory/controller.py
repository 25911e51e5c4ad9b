"""An SDRAM controller: bursts of an AXI4 port to commands of a chip, whose rows stay open."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.base.errors import VtakitError
from vtakit.boards.memory.chips import LEAST_CLOCKS
from vtakit.boards.memory.data_path import ReadPath, WritePath
from vtakit.boards.memory.initialisation import Initialisation
from vtakit.boards.memory.requests import Requests
from vtakit.boards.memory.scheduler import Scheduler
from vtakit.boards.memory.signals import Kind, chip_pins
from vtakit.hw.dram import Dram
from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams

OUTSTANDING = 8  # bursts of each direction


class SdramController(wiring.Component):
    """Serves the port of a core of `params` with a chip of `dram`.

    Bursts are incrementing, of whole beats and at most `params.burst_beats` of them. Those of one direction are served in order.
    A read that is asked for before a write was answered may come before it. All answers are OKAY; address bits beyond the chip's
    size do not count.

    outstanding      bursts of each direction that are accepted at once
    power_up_clocks  from reset to the first command

    Members
    -------
    read, write : ``In``     AXI4
    chip : ``Out``           pins, one register away: `vtakit.boards.memory.pins`
    ready : ``Out(1)``       the chip is initialised

    Raises VtakitError for a chip that it cannot serve.
    """

    def __init__(
        self, params: CoreParams, dram: Dram, *, outstanding: int = OUTSTANDING, power_up_clocks: int = 16_000,
    ) -> None:
        check(params, dram)
        self._params, self._dram, self._outstanding, self._power_up_clocks = params, dram, outstanding, power_up_clocks
        super().__init__({
            "read": In(axi_read(params)), "write": In(axi_write(params)), "chip": Out(chip_pins(dram)), "ready": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, dram, most = Module(), self._params, self._dram, self._outstanding
        m.submodules.initialisation = initialisation = Initialisation(dram, self._power_up_clocks)
        m.submodules.scheduler = scheduler = Scheduler(params, dram)
        m.submodules.reading = reading = ReadPath(params, dram, most)
        m.submodules.writing = writing = WritePath(params, dram, most)
        ar, r, aw, b = self.read.ar, self.read.r, self.write.aw, self.write.b

        # Reads: as many as there is room for their beats.
        connect(m, reading.r, flipped(r))
        reads = self._queue(m, "reads", ar, r.valid & r.ready & r.payload.last)
        connect(m, reads, scheduler.reads)

        # Writes: a request begins when all of its data are here, and is answered behind its last word.
        connect(m, flipped(self.write.w), writing.w)
        answers, complete = Signal(range(most + 1)), Signal(range(most * params.burst_beats + 1))
        answered, begins = b.valid & b.ready, Signal()
        writes = self._queue(m, "writes", aw, answered)
        m.d.comb += [
            begins.eq(writes.valid & (complete != 0)), scheduler.writes.valid.eq(begins),
            scheduler.writes.payload.eq(writes.payload), writes.ready.eq(scheduler.writes.ready & (complete != 0)),
            b.valid.eq(answers != 0),
        ]
        m.d.sync += [
            complete.eq(complete + writing.arrived - (begins & scheduler.writes.ready)),
            answers.eq(answers + writing.written - answered),
        ]

        # Pins, before their registers. The initialisation's command is NOP once the scheduler's may be another.
        m.d.comb += [scheduler.enable.eq(initialisation.done), self.ready.eq(initialisation.done)]
        first, then, pins = initialisation.command, scheduler.command, self.chip
        kind = first.kind | then.kind
        is_read, is_write = Signal(), Signal()
        m.d.comb += [
            is_read.eq(then.kind == Kind.READ), is_write.eq(then.kind == Kind.WRITE),
            reading.start.eq(is_read), reading.column.eq(scheduler.column),
            writing.start.eq(is_write), writing.column.eq(scheduler.column),
        ]
        m.d.comb += [
            pins.cke.eq(1), pins.cs_n.eq(0), Cat(pins.we_n, pins.cas_n, pins.ras_n).eq(~kind),
            pins.ba.eq(then.bank), pins.a.eq(first.address | then.address),
            pins.dqm.eq(writing.mask | (~initialisation.done).replicate(len(pins.dqm))),
            pins.dq_o.eq(writing.words), pins.dq_oe.eq(writing.drives), reading.words.eq(pins.dq_i),
        ]
        return m

    def _queue(self, m: Module, name: str, bursts: stream.Interface, ends: Value) -> stream.Interface:
        """Take bursts of the port while fewer than `outstanding` are under way; return their requests."""
        m.submodules[f"{name}_split"] = split = Requests(self._params, self._dram)
        shape = split.requests.payload.shape()
        m.submodules[name] = queue = fifo.SyncFIFO(width=len(Value.cast(split.requests.payload)), depth=self._outstanding)
        under_way = Signal(range(self._outstanding + 1), name=f"{name}_under_way")
        has_room = Signal(name=f"{name}_room", init=1)
        taken, after = bursts.valid & bursts.ready, Signal.like(under_way)
        m.d.comb += [
            split.bursts.payload.eq(bursts.payload), split.bursts.valid.eq(bursts.valid & has_room), bursts.ready.eq(has_room),
            queue.w_en.eq(split.requests.valid), queue.w_data.eq(split.requests.payload), split.requests.ready.eq(1),
            after.eq(under_way + taken - ends),
        ]
        m.d.sync += [under_way.eq(after), has_room.eq(after != self._outstanding)]
        out = stream.Signature(shape).create()
        m.d.comb += [out.valid.eq(queue.r_rdy), out.payload.eq(queue.r_data), queue.r_en.eq(out.ready)]
        return out


def check(params: CoreParams, dram: Dram) -> None:
    """Raise VtakitError for a chip that the controller cannot serve."""
    unlike = {
        "kind": dram.kind == "sdram", "clock": dram.clock == 1, "policy": dram.policy == "open", "tcwl": dram.tcwl == 0,
        "tfaw": dram.tfaw == 0, "tcmd": dram.tcmd == 1, "trcd": dram.trcd >= LEAST_CLOCKS,
        "trp": dram.trp >= LEAST_CLOCKS,
        "ahead": dram.ahead in (1, 2), "burst": 2 <= dram.burst <= 8, "banks": dram.banks >= 2,
        "width": dram.width <= params.bus_bits // 2,
    }
    wrong = [f"{name} {getattr(dram, name)}" for name, fits in unlike.items() if not fits]
    if wrong:
        raise VtakitError(
            f"the SDRAM controller cannot serve a chip with {', '.join(wrong)}: kind is 'sdram', clock 1, policy 'open', tcwl "
            "and tfaw 0, tcmd 1, trcd and trp at least 2, ahead 1 or 2, burst 2 to 8, banks at least 2, width at most half of "
            f"the bus of {params.bus_bits} bits")
