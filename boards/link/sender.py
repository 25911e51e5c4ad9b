"""Bytes of the line out of frames: checksum, escapes and flags."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.link.protocol import CRC_BYTES, ESCAPE, FLAG, FLIP
from vtakit.boards.link.receiver import crc32

CONTENT = data.StructLayout({"byte": 8, "last": 1})


class Sender(wiring.Component):
    """Members
    -------
    content : ``In(stream)``    bytes of a frame, the last marked
    bytes : ``Out(stream)``     to the line
    """

    def __init__(self) -> None:
        super().__init__({"content": In(stream.Signature(CONTENT)), "bytes": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.check = check = crc32()
        line, content = self.bytes, self.content
        plain = Signal(8)  # to be sent next
        special, flipped, moves, offered = (Signal(name=name) for name in ("special", "flipped", "moves", "offered"))
        sum_bytes = Signal(range(CRC_BYTES))
        m.d.comb += [
            special.eq((plain == FLAG) | (plain == ESCAPE)), check.data.eq(content.payload.byte),
            moves.eq(line.valid & line.ready),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [line.payload.eq(FLAG), line.valid.eq(content.valid), check.start.eq(1)]
                with m.If(moves):
                    m.next = "CONTENT"
            with m.State("CONTENT"):
                m.d.comb += [
                    plain.eq(content.payload.byte), offered.eq(content.valid), content.ready.eq(moves & (flipped | ~special)),
                ]
                with m.If(content.valid & content.ready):
                    m.d.comb += check.valid.eq(1)
                    m.d.sync += sum_bytes.eq(0)
                    with m.If(content.payload.last):
                        m.next = "SUM"
            with m.State("SUM"):
                m.d.comb += [plain.eq(check.crc.word_select(sum_bytes, 8)), offered.eq(1)]
                with m.If(moves & (flipped | ~special)):
                    m.d.sync += sum_bytes.eq(sum_bytes + 1)
                    with m.If(sum_bytes == CRC_BYTES - 1):
                        m.next = "END"
            with m.State("END"):
                m.d.comb += [line.payload.eq(FLAG), line.valid.eq(1)]
                with m.If(moves):
                    m.next = "IDLE"
        with m.If(offered):
            m.d.comb += [
                line.valid.eq(1), line.payload.eq(Mux(special, Mux(flipped, plain ^ FLIP, ESCAPE), plain)),
            ]
            with m.If(moves):
                m.d.sync += flipped.eq(special & ~flipped)
        return m
