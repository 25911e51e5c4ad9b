"""The board's end of the host link: requests come in as bytes, are carried out once and in order, and are answered."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.boards.host_map import HOST_ADDRESS_BITS
from vtakit.boards.link.memory_port import MemoryPort
from vtakit.boards.link.protocol import (
    ABOUT,
    HELLO_BYTES,
    KEPT,
    MOST_PAYLOAD,
    REPLY,
    REPLY_BYTES,
    REQUEST,
    REQUEST_BYTES,
    WORD_BYTES,
    Operation,
    Status,
)
from vtakit.boards.link.receiver import Receiver, crc32
from vtakit.boards.link.register_port import RegisterPort
from vtakit.boards.link.sender import Sender
from vtakit.hw.interfaces import axi_lite, axi_read, axi_write
from vtakit.hw.params import CoreParams

PATIENCE_CYCLES = 1 << 22  # 52 ms at 80 MHz: less than a host waits, more than any self-test of a memory makes it wait
_WRITES = (Operation.WRITE_REGISTER, Operation.WRITE_MEMORY)
_REGISTERS = (Operation.READ_REGISTER, Operation.WRITE_REGISTER)
_MEMORY = (Operation.READ_MEMORY, Operation.WRITE_MEMORY, Operation.CHECK_MEMORY)


class Link(wiring.Component):
    """Serves the frames of `boards.link.protocol`; `boards.link.model` is its definition.

    patience_cycles    that the bus may take for the next transfer, before the host is told that it does not answer

    Members
    -------
    rx : ``In(stream)``                bytes of the transport; always taken
    tx : ``Out(stream)``
    registers : ``Out(axi_lite)``
    read : ``Out(axi_read)``
    write : ``Out(axi_write)``
    """

    def __init__(self, params: CoreParams, *, patience_cycles: int = PATIENCE_CYCLES) -> None:
        self._params, self._patience_cycles = params, patience_cycles
        super().__init__({
            "rx": In(stream.Signature(8)), "tx": Out(stream.Signature(8)), "registers": Out(axi_lite(HOST_ADDRESS_BITS)),
            "read": Out(axi_read(params)), "write": Out(axi_write(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.receiver = receiver = Receiver()
        m.submodules.sender = sender = Sender()
        m.submodules.register_port = registers = RegisterPort()
        m.submodules.memory_port = port = MemoryPort(params)
        m.submodules.check = check = crc32()
        m.submodules.reply = reply = memory.Memory(shape=8, depth=MOST_PAYLOAD, init=[])
        m.d.comb += [receiver.bytes.valid.eq(self.rx.valid), receiver.bytes.payload.eq(self.rx.payload), self.rx.ready.eq(1)]
        connect(m, sender.bytes, flipped(self.tx))
        connect(m, registers.registers, flipped(self.registers))
        connect(m, port.read, flipped(self.read))
        connect(m, port.write, flipped(self.write))

        header = Signal(data.StructLayout({name: 8 * width for name, width in REQUEST.items()}))
        answer = Signal(data.StructLayout({name: 8 * width for name, width in REPLY.items()}))
        session, expected, age = Signal(16), Signal(16), Signal(16)
        carried = Signal(range(KEPT + 1))  # requests of the session, up to as many as are kept
        older = Array(Signal(8, name=f"older{n}") for n in range(KEPT))  # statuses, by number
        status, kept_status = Signal(8), Signal(8)
        length, kept_length = Signal(range(MOST_PAYLOAD + 1)), Signal(range(MOST_PAYLOAD + 1))
        word = Signal(8 * WORD_BYTES)
        n = Signal(range(MOST_PAYLOAD + 1))
        patience = Signal(range(self._patience_cycles))
        legal, opened = Signal(), Signal()
        writes = self._is(header.operation, _WRITES)
        says_hello = header.operation == Operation.HELLO
        opens = header.operation == Operation.OPEN
        written, fetched = reply.write_port(), reply.read_port()
        m.d.comb += [
            registers.writes.eq(writes), registers.address.eq(header.address), registers.value.eq(word),
            port.writes.eq(writes), port.address.eq(header.address), port.size.eq(header.length),
            port.source.payload.eq(receiver.data), check.data.eq(port.sink.payload),
            written.addr.eq(n), fetched.addr.eq(n), fetched.en.eq(1),
        ]
        about, fetched_byte = Signal(8), Signal(8)
        with m.Switch(n):
            for at, byte in enumerate([*ABOUT, session[:8], session[8:]]):
                with m.Case(at):
                    m.d.comb += about.eq(byte)

        def answered(with_status: Status, with_length: object = 0, then: str = "KEEP") -> None:
            m.d.sync += [status.eq(with_status), length.eq(with_length), n.eq(0)]
            m.next = then

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += n.eq(0)
                with m.If(receiver.frame):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += receiver.next.eq(receiver.fresh)
                with m.If(receiver.fresh):
                    m.d.sync += [header.eq(Cat(header.as_value()[8:], receiver.data)), n.eq(n + 1)]
                    with m.If(n == REQUEST_BYTES - 1):
                        m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += [age.eq(expected - header.sequence), legal.eq(self._legal(header, receiver.left)), n.eq(0)]
                m.next = "JUDGE"
            with m.State("JUDGE"):
                with m.If(says_hello):
                    answered(Status.OK, HELLO_BYTES, then="ANSWER")
                with m.Elif(opens & (header.sequence == 0) & (header.session == (session + 1)[: len(session)])):
                    m.d.sync += [session.eq(header.session), opened.eq(1), expected.eq(0), carried.eq(0)]
                    m.next = "LOOK"
                with m.Elif(~opened | (header.session != session)):
                    answered(Status.SESSION, then="ANSWER")
                with m.Elif(age == 0):
                    m.next = "CARRY"
                with m.Elif(age > carried):
                    answered(Status.SEQUENCE, then="ANSWER")
                with m.Elif(age == 1):
                    m.d.sync += [status.eq(kept_status), length.eq(kept_length)]
                    m.next = "ANSWER"
                with m.Else():
                    m.d.sync += [status.eq(older[header.sequence[: (KEPT - 1).bit_length()]]), length.eq(0)]
                    m.next = "ANSWER"

            with m.State("CARRY"):
                m.d.sync += patience.eq(self._patience_cycles - 1)
                with m.If(~legal):
                    answered(Status.REFUSED)
                with m.Elif(opens):
                    answered(Status.OK)
                with m.Elif(self._is(header.operation, _REGISTERS)):
                    with m.If(registers.busy):
                        answered(Status.TIMEOUT)
                    with m.Elif(writes):
                        m.next = "VALUE"
                    with m.Else():
                        m.d.comb += registers.start.eq(1)
                        m.next = "REGISTER"
                with m.Elif(port.busy):
                    answered(Status.TIMEOUT)
                with m.Else():
                    m.d.comb += [port.start.eq(1), check.start.eq(1)]
                    m.next = "MEMORY"
            with m.State("VALUE"):
                m.d.comb += receiver.next.eq(receiver.fresh)
                with m.If(receiver.fresh):
                    m.d.sync += [word.eq(Cat(word[8:], receiver.data)), n.eq(n + 1)]
                with m.If(n == WORD_BYTES):
                    m.d.comb += registers.start.eq(1)
                    m.next = "REGISTER"
            with m.State("REGISTER"):
                m.d.sync += [patience.eq(patience - 1), n.eq(0)]
                with m.If(~registers.busy):
                    with m.If(registers.failed):
                        answered(Status.BUS_ERROR)
                    with m.Elif(writes):
                        answered(Status.OK)
                    with m.Else():
                        m.d.sync += word.eq(registers.found)
                        m.next = "WORD"
                with m.Elif(patience == 0):
                    answered(Status.TIMEOUT)
            with m.State("MEMORY"):
                m.d.comb += [
                    port.source.valid.eq(receiver.fresh & writes), receiver.next.eq(port.source.valid & port.source.ready),
                    port.sink.ready.eq(1), written.data.eq(port.sink.payload),
                ]
                with m.If(port.sink.valid):
                    with m.If(header.operation == Operation.READ_MEMORY):
                        m.d.comb += written.en.eq(1)
                        m.d.sync += n.eq(n + 1)
                    with m.Else():
                        m.d.comb += check.valid.eq(1)
                m.d.sync += patience.eq(Mux(port.moves, self._patience_cycles - 1, patience - 1))
                with m.If(~port.busy):
                    with m.If(port.failed):
                        answered(Status.BUS_ERROR)
                    with m.Elif(header.operation == Operation.CHECK_MEMORY):
                        m.d.sync += word.eq(check.crc)
                        m.next = "WORD"
                    with m.Else():
                        answered(Status.OK, n)
                with m.Elif(patience == 0):
                    m.d.comb += port.abandon.eq(1)
                    answered(Status.TIMEOUT)
            with m.State("WORD"):
                m.d.comb += [written.en.eq(1), written.data.eq(word[:8])]
                m.d.sync += [word.eq(word >> 8), n.eq(n + 1)]
                with m.If(n == WORD_BYTES - 1):
                    answered(Status.OK, WORD_BYTES)
            with m.State("KEEP"):
                gone = (status == Status.OK) & (length != 0)
                m.d.sync += [
                    kept_status.eq(status), kept_length.eq(length), expected.eq(expected + 1),
                    carried.eq(Mux(carried == KEPT, KEPT, carried + 1)),
                    older[header.sequence[: (KEPT - 1).bit_length()]].eq(Mux(gone, Status.GONE, status)),
                ]
                m.next = "ANSWER"

            with m.State("ANSWER"):
                m.d.comb += receiver.drop.eq(1)
                m.d.sync += [
                    answer.session.eq(header.session), answer.sequence.eq(header.sequence),
                    answer.operation.eq(header.operation), answer.status.eq(status), answer.expected.eq(expected),
                    answer.length.eq(length), n.eq(0),
                ]
                m.next = "FRONT"
            with m.State("FRONT"):
                done = n == REPLY_BYTES - 1
                m.d.comb += [
                    sender.content.valid.eq(1), sender.content.payload.byte.eq(answer.as_value()[:8]),
                    sender.content.payload.last.eq(done & (length == 0)),
                ]
                with m.If(sender.content.ready):
                    m.d.sync += [answer.eq(Cat(answer.as_value()[8:], Const(0, 8))), n.eq(Mux(done, 0, n + 1))]
                    with m.If(done):
                        m.next = "FETCH"
                        with m.If(length == 0):
                            m.next = "IDLE"
            with m.State("FETCH"):
                m.next = "TAKE"
            with m.State("TAKE"):  # a block RAM's data come late in a clock, and what is sent decides the next state
                m.d.sync += fetched_byte.eq(Mux(says_hello, about, fetched.data))
                m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                done = n == length - 1
                m.d.comb += [
                    sender.content.valid.eq(1), sender.content.payload.byte.eq(fetched_byte),
                    sender.content.payload.last.eq(done),
                ]
                with m.If(sender.content.ready):
                    m.d.sync += n.eq(n + 1)
                    m.next = "FETCH"
                    with m.If(done):
                        m.next = "IDLE"
        return m

    def _is(self, operation: Signal, ones: tuple[Operation, ...]) -> Signal:
        """True if the operation is one of these."""
        return Cat(operation == one for one in ones).any()

    def _legal(self, header: data.View, payload_bytes: Signal) -> Signal:
        """True if a request can be carried out."""
        whole = payload_bytes == Mux(self._is(header.operation, _WRITES), header.length, 0)
        word = (header.length == WORD_BYTES) & ~header.address[:2].any() & ~header.address[HOST_ADDRESS_BITS:].any()
        last = header.address + header.length - 1
        short = (header.length <= MOST_PAYLOAD) | (header.operation == Operation.CHECK_MEMORY)
        inside = (header.length != 0) & short & ~last[self._params.address_bits :].any()
        return whole & Mux(
            self._is(header.operation, _REGISTERS), word,
            (header.operation == Operation.OPEN) | (self._is(header.operation, _MEMORY) & inside),
        )
