"""Frames out of the bytes of a line: unescaped, checked, and kept until they are served."""

from amaranth.hdl import Module, Signal
from amaranth.lib import crc, fifo, memory, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from vtakit.boards.link.protocol import (
    BUFFER_BYTES,
    BUFFER_FRAMES,
    CRC_BYTES,
    ESCAPE,
    FLAG,
    FLIP,
    MOST_PAYLOAD,
    REQUEST_BYTES,
)

LENGTH_BITS = (REQUEST_BYTES + MOST_PAYLOAD).bit_length()
_MOST = REQUEST_BYTES + MOST_PAYLOAD + CRC_BYTES


def crc32() -> crc.Processor:
    """Computes `zlib.crc32`, a byte a cycle."""
    return catalog.CRC32_ISO_HDLC(data_width=8).create()


class Receiver(wiring.Component):
    """Takes every byte at once. A frame that is damaged, too long, or finds no room is dropped.

    Members
    -------
    bytes : ``In(stream)``      from the line; always taken
    frame : ``Out(1)``          a frame is there: its first byte is `data`
    left : ``Out``              bytes of it from `data` on
    data : ``Out(8)``
    next : ``In(1)``            go on to the next byte; `data` follows two cycles later, and `fresh` says so
    fresh : ``Out(1)``          `data` is the first of the bytes left
    drop : ``In(1)``            done with the frame
    """

    def __init__(self) -> None:
        super().__init__({
            "bytes": In(stream.Signature(8, always_ready=True)), "frame": Out(1), "left": Out(LENGTH_BITS), "data": Out(8),
            "next": In(1), "fresh": Out(1), "drop": In(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=8, depth=BUFFER_BYTES, init=[])
        m.submodules.lengths = lengths = fifo.SyncFIFO(width=LENGTH_BITS, depth=BUFFER_FRAMES)
        m.submodules.check = check = crc32()
        start, end, first = (Signal(range(BUFFER_BYTES), name=name) for name in ("start", "end", "first"))
        room = Signal(range(BUFFER_BYTES))  # less one byte, so that a full buffer is no empty one
        count = Signal(range(_MOST + 2))
        escaped, bad = Signal(), Signal()
        byte = Signal(8)
        write, read = storage.write_port(), storage.read_port()
        m.d.comb += [
            byte.eq(self.bytes.payload ^ escaped * FLIP), room.eq(first - end - 1),
            write.addr.eq(end), write.data.eq(byte), check.data.eq(byte),
        ]
        with m.If(self.bytes.valid):
            with m.If(self.bytes.payload == FLAG):
                good = check.match_detected & ~bad & ~escaped & (count >= REQUEST_BYTES + CRC_BYTES) & lengths.w_rdy
                m.d.comb += check.start.eq(1)
                m.d.sync += [count.eq(0), bad.eq(0), escaped.eq(0), end.eq(start)]
                with m.If(good):
                    m.d.comb += [lengths.w_en.eq(1), lengths.w_data.eq(count - CRC_BYTES)]
                    m.d.sync += [start.eq(end - CRC_BYTES), end.eq(end - CRC_BYTES)]
            with m.Elif(~escaped & (self.bytes.payload == ESCAPE)):
                m.d.sync += escaped.eq(1)
            with m.Else():
                m.d.sync += escaped.eq(0)
                with m.If((room == 0) | (count == _MOST)):
                    m.d.sync += bad.eq(1)
                with m.Else():
                    m.d.comb += [write.en.eq(1), check.valid.eq(1)]
                    m.d.sync += [count.eq(count + 1), end.eq(end + 1)]

        left = Signal(LENGTH_BITS)
        there, stale = Signal(), Signal()
        m.d.comb += [
            read.addr.eq(first), read.en.eq(1), self.data.eq(read.data), self.frame.eq(there), self.left.eq(left),
            self.fresh.eq(there & ~stale & (left != 0)),
        ]
        m.d.sync += stale.eq(0)
        with m.If(there):
            with m.If(self.drop):
                m.d.sync += [first.eq(first + left), there.eq(0)]
            with m.Elif(self.next & self.fresh):
                m.d.sync += [first.eq(first + 1), left.eq(left - 1), stale.eq(1)]
        with m.Else():
            m.d.comb += lengths.r_en.eq(lengths.r_rdy)
            m.d.sync += [there.eq(lengths.r_rdy), left.eq(lengths.r_data), stale.eq(1)]
        return m
