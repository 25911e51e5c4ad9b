"""From LOADs of ACC and ACC_8BIT to whole accumulator elements."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import sram_write
from vtakit.hw.load.writer import load_write
from vtakit.hw.params import CoreParams


class AccWriter(wiring.Component):
    """Gathers the beats of an element, widens 8-bit values, and writes the element when the scratchpad is free.

    Members
    -------
    acc : ``In(stream)``         writes of memory type ACC
    acc8 : ``In(stream)``        writes of memory type ACC_8BIT; only where the configuration has it
    write : ``Out(sram_write)``  one element
    busy : ``In(1)``             the element that is offered cannot be written in this cycle
    blocked : ``Out(1)``         an element is complete, and waits because of `busy`
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, cfg = params, params.cfg
        kinds = ["acc", "acc8"] if cfg.has_acc8 else ["acc"]
        super().__init__({
            **{kind: In(stream.Signature(load_write(params))) for kind in kinds},
            "write": Out(sram_write(8 * cfg.acc_bytes, cfg.acc_depth_log2)), "busy": In(1), "blocked": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._params.cfg
        gathered = Signal(8 * cfg.acc_bytes, reset_less=True)
        sources = [(self.acc, self._params.bus_bits)]
        if cfg.has_acc8:
            sources.append((self.acc8, 4 * self._params.bus_bits))
        valid = Signal()
        m.d.comb += [
            self.write.index.eq(self.acc.payload.index), self.write.count.eq(1), self.write.mask.eq(1),
            self.write.valid.eq(valid & ~self.busy), self.blocked.eq(valid & self.busy),
        ]
        for source, piece_bits in sources:
            write = source.payload
            piece: Value = write.data
            if piece_bits != self._params.bus_bits:
                bytes_in = [write.data[at : at + 8].as_signed() for at in range(0, self._params.bus_bits, 8)]
                piece = Cat(Signal(32, name=f"widened{n}") for n in range(len(bytes_in)))
                for n, value in enumerate(bytes_in):
                    m.d.comb += piece[32 * n : 32 * n + 32].eq(value)
            pieces = max(1, len(gathered) // piece_bits)
            whole = Signal.like(gathered, name=f"whole_{piece_bits}")
            if pieces == 1:
                m.d.comb += whole.eq(Mux(write.pad, 0, piece[: len(gathered)]))
            else:
                m.d.comb += whole.eq(Mux(write.pad, 0, Cat(gathered[: len(gathered) - piece_bits], piece)))
            m.d.comb += source.ready.eq(~write.last | ~self.busy)
            # `valid` is late in a cycle: it does not choose among so many bits.
            with m.If(write.meant):
                m.d.comb += [valid.eq(source.valid & write.last), self.write.index.eq(write.index), self.write.data[0].eq(whole)]
            with m.If(source.valid & ~write.last):
                for n in range(pieces - 1):
                    with m.If(write.beat == n):
                        m.d.sync += gathered[n * piece_bits : (n + 1) * piece_bits].eq(piece)
        return m
