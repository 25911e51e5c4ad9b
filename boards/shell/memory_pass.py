"""One pass over memory: write words that are known, or read and compare them."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams

ERROR_BITS = 32


class MemoryPass(wiring.Component):
    """Writes or compares the beats `first` to `last`, a burst at a time.

    images    beats of two ROMs, from address 0 on

    Members
    -------
    go : ``In(1)``                     begin, for one cycle
    compares : ``In(1)``               compare, or else write
    from_rom, second : ``In(1)``       words of a ROM, the first or the second; or else ones made of the address
    inverts : ``In(1)``                those with all bits inverted
    first, last : ``In``               beats
    read, write : ``Out``              AXI4
    done : ``Out(1)``                  for one cycle
    good : ``Out(1)``                  no beat was wrong since the reset
    errors, address, want, got : ``Out``   wrong beats, and the first of them
    """

    def __init__(self, params: CoreParams, images: tuple[list[int], list[int]], beat_bits: int) -> None:
        self._params, self._images, self._beat_bits = params, images, beat_bits
        super().__init__({
            "go": In(1), "compares": In(1), "inverts": In(1), "from_rom": In(1), "second": In(1),
            "first": In(beat_bits), "last": In(beat_bits),
            "read": Out(axi_read(params)), "write": Out(axi_write(params)), "done": Out(1), "errors": Out(ERROR_BITS),
            "address": Out(32), "want": Out(32), "got": Out(32), "good": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        low = params.bus_bytes_log2
        place_bits = (max(map(len, self._images)) - 1).bit_length()
        first, second = ([*image, *[0] * ((1 << place_bits) - len(image))] for image in self._images)
        m.submodules.rom = rom = memory.Memory(shape=params.bus_bits, depth=2 << place_bits, init=first + second)
        port = rom.read_port()
        beat = Signal(self._beat_bits)  # the next one
        size = params.burst_beats.bit_length() - 1
        to_border = ~beat[:size]
        length = Signal(size)  # beats of the burst, less one
        left = Signal(self._beat_bits)
        sent = Signal(size)
        word, made = Signal(params.bus_bits), Signal(params.bus_bits)
        m.d.comb += [
            port.addr.eq(Cat(beat[:place_bits], self.second)), port.en.eq(1),
        ]
        m.d.sync += left.eq(self.last - beat)
        m.d.sync += made.eq(self._made(beat) ^ self.inverts.replicate(params.bus_bits))
        ar, r, aw, w, b = self.read.ar, self.read.r, self.write.aw, self.write.w, self.write.b
        m.d.comb += [
            ar.payload.addr.eq(beat << low), aw.payload.addr.eq(beat << low), w.payload.data.eq(word),
            w.payload.strb.eq((1 << params.bus_bytes) - 1),
        ]
        m.d.comb += [ar.payload.len.eq(length), aw.payload.len.eq(length), w.payload.last.eq(sent == length)]
        ends = Signal()  # with this beat, the pass
        got, failed, differs, any_error = Signal(params.bus_bits), Signal(), Signal(), Signal()
        m.d.comb += self.good.eq(~any_error)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += beat.eq(self.first)
                with m.If(self.go):
                    m.next = "LEFT"
            # What is slow has a state of its own: what is left, the length; the ROM, its output, transfer, comparison, count.
            with m.State("LEFT"):
                m.next = "LENGTH"
            with m.State("LENGTH"):
                m.d.sync += [sent.eq(0), length.eq(Mux(left < to_border, left, to_border))]
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [ar.valid.eq(self.compares), aw.valid.eq(~self.compares)]
                with m.If(Mux(self.compares, ar.ready, aw.ready)):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += ends.eq(beat == self.last)
                m.next = "WORD"
            with m.State("WORD"):
                m.d.sync += word.eq(Mux(self.from_rom, port.data, made))
                m.next = "BEAT"
            with m.State("BEAT"):
                m.d.comb += [w.valid.eq(~self.compares), r.ready.eq(self.compares)]
                m.d.sync += [got.eq(r.payload.data), failed.eq(r.payload.resp.any())]
                with m.If(Mux(self.compares, r.valid, w.ready)):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.sync += differs.eq(self.compares & (failed | (got != word)))
                m.next = "COUNT"
            with m.State("COUNT"):
                m.d.sync += [beat.eq(beat + 1), sent.eq(sent + 1)]
                m.next = "FETCH"
                with m.If(sent == length):
                    m.next = "ANSWER"
                with m.If(differs):
                    m.d.sync += [self.errors.eq(self.errors + 1), any_error.eq(1)]
                    with m.If(~any_error):
                        m.d.sync += [self.address.eq(beat << low), self.want.eq(word), self.got.eq(got)]
            with m.State("ANSWER"):
                m.d.comb += b.ready.eq(~self.compares)
                with m.If(self.compares | b.valid):
                    m.next = "LEFT"
                    with m.If(ends):
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
        return m

    def _made(self, beat: Signal) -> Value:
        """Return a word that no other beat has: its number, the complement, and both again with their bits turned round."""
        half = Cat(beat, ~beat)
        return Cat(half, half[::-1]).replicate(-(-self._params.bus_bits // (2 * len(half))))[: self._params.bus_bits]
