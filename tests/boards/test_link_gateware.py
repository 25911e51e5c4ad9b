"""The gateware of the link: its UART, its pins, and its answers, which are those of its model."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator
from link_fuzz import session
from link_support import (
    ADDER,
    CYCLE_S,
    MEMORY_BYTES,
    POPPED,
    REFUSED,
    FakeBus,
    ModelLine,
    RtlBoard,
    ask,
    board_model,
    replies,
)
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.boards.link.protocol import Operation, Request, Status
from vtakit.boards.link.uart import Uart, divisor_of
from vtakit.runtime.vta.link.port import LinkPort
from vtakit.runtime.vta.link.session import Refused


@pytest.mark.parametrize(("clock", "divisor"), [(80e6, 27), (75e6, 25), (60e6, 20), (100e6, 33)])
def test_a_divisor_is_the_nearest(clock, divisor):
    assert divisor_of(clock) == divisor


def test_a_clock_that_makes_no_such_rate_is_refused():
    with raises(VtakitError, "a clock of 25 MHz makes no 3000000 baud: a bit takes 8.33 cycles … a whole number … within 2%"):
        divisor_of(25e6)


def sent_over(far: int, near: int, line: Callable[[int], int], data: bytes, cycles: int) -> bytes:
    """Return what a UART of divisor `near` receives from one of divisor `far`; `line` is 1 in cycles that invert the level."""
    m = Module()
    m.submodules.far = sender = Uart(far)
    m.submodules.near = receiver = Uart(near)
    came = []

    async def wire(ctx: Any) -> None:
        todo = list(data)
        for cycle in range(cycles):
            ctx.set(sender.send.valid, bool(todo))
            ctx.set(sender.send.payload, todo[0] if todo else 0)
            if ctx.get(sender.send.ready) and todo:
                todo.pop(0)
            ctx.set(receiver.rx_pin, ctx.get(sender.tx_pin) ^ line(cycle))
            await ctx.tick()
            if ctx.get(receiver.received.valid):
                came.append(ctx.get(receiver.received.payload))

    simulator = Simulator(m)
    simulator.add_clock(CYCLE_S)
    simulator.add_testbench(wire)
    simulator.run()
    return bytes(came)


@pytest.mark.parametrize(("far", "near"), [(4, 4), (5, 5), (27, 27), (50, 51), (51, 50), (27, 28)])
def test_a_uart_hears_another_one_whose_clock_is_a_little_off(far, near):
    data = bytes([0, 255, 0x55, 0xAA, 0x7E, 1, 128, 3])
    assert sent_over(far, near, lambda cycle: 0, data, (10 * far + 2) * len(data) + 20) == data


def test_a_glitch_is_no_byte_and_a_byte_without_its_stop_bit_is_dropped():
    assert sent_over(16, 16, lambda cycle: 5 <= cycle < 9, b"", 400) == b""
    assert sent_over(16, 16, lambda cycle: 5 < cycle < 400, b"", 600) == b""  # the line is low for long


@pytest.mark.slow
def test_the_gateware_answers_through_its_pins():
    bus = FakeBus()
    port = LinkPort(RtlBoard(bus, divisor=4, stall=40), "x")
    port.write_register(ADDER, 5)
    assert port.read_register(ADDER) == 5
    data = random.Random(3).randbytes(150)
    port.write_memory(1003, data)
    assert bus.memory[1003:1153] == data
    assert port.read_memory(1000, 40) == bytes(bus.memory[1000:1040])


def test_a_memory_that_does_not_answer_is_told_and_the_registers_go_on():
    bus = FakeBus()
    board = RtlBoard(bus, patience_cycles=64)
    port = LinkPort(board, "x")
    board.dead = True
    with raises(Refused, "device 'x' answered the read memory at 0x8: the board's bus did not answer in time …"):
        port.read_memory(8, 4)
    with raises(Refused, "device 'x' answered the write memory at 0x8: the board's bus did not answer in time …"):
        port.write_memory(8, b"abc")
    assert port.read_register(POPPED) == 1
    board.dead = False  # it answers late; what was given up is dropped
    board.advance(200)
    port.write_memory(8, b"abc")
    assert port.read_memory(7, 5) == b"\0abc\0"


@pytest.mark.rtl
@pytest.mark.xdist_group("rtl link")
class TestInVerilator:
    """The gateware in Verilator."""

    @pytest.mark.parametrize("seed", range(6))
    def test_it_answers_any_frames_as_its_model_does(self, seed):
        from link_rtl import VerilatedBoard

        pick = random.Random(seed)
        mine, its = FakeBus(), FakeBus()
        mine.memory[:] = its.memory[:] = pick.randbytes(MEMORY_BYTES)
        board = VerilatedBoard(its, stall=pick.choice([0, 30, 80]), pace=pick.choice([1, 5]), seed=seed)
        definition = board_model(mine)
        sent: list[bytes] = []
        sequence, number = 0, 0
        statuses = set()
        for step in range(400):
            frame, sequence, number = _frame(pick, sent, sequence, number)
            want, got = definition.feed(frame), board.feed(frame)
            assert got == want, f"frame {step} {frame.hex()}: got {replies(got)}, want {replies(want)}"
            statuses |= {reply.status for reply in replies(want)}
        assert mine.memory == its.memory
        assert (mine.sum, mine.pops) == (its.sum, its.pops)
        assert statuses == set(Status) - {Status.TIMEOUT}
        board.close()

    def test_sessions_over_a_bad_line_have_no_wrong_result(self):
        outcomes = [session(each, rtl=True) for each in range(60)]
        assert sum(outcome.done for outcome in outcomes) > 8 * sum(outcome.errors for outcome in outcomes)

    def test_a_flood_of_bytes_without_pause_leaves_it_in_order(self):
        from link_rtl import VerilatedBoard

        bus = FakeBus()
        board = VerilatedBoard(bus)
        pick = random.Random(5)
        board.feed(ask(Operation.OPEN, 0))
        frames = [ask(Operation.WRITE_MEMORY, 1, address=0, length=1000, payload=pick.randbytes(1000)) for _ in range(30)]
        board.feed(b"".join(frames) + pick.randbytes(20_000))
        port = LinkPort(ModelLine(board), "x")
        port.write_memory(5, b"in order")
        assert bus.memory[5:13] == b"in order"
        board.close()


def _frame(pick: random.Random, sent: list[bytes], sequence: int, number: int) -> tuple[bytes, int, int]:
    """Return bytes for the board: a next request, an old one, one that is wrong in some way, or garbage."""
    kind = pick.choices(["next", "again", "wrong", "garbage", "hello", "open"], [60, 15, 15, 4, 3, 3])[0]
    if kind == "open" or not sent:
        frame = ask(Operation.OPEN, 0, session=number + 1)
        sent.append(frame)
        return frame, 1, number + 1
    if kind == "again":
        return sent[-min(len(sent), pick.choice([1, 1, 2, 3, 10, 17, 20, 40]))], sequence, number
    if kind == "hello":
        return ask(Operation.HELLO, pick.randrange(1 << 16), session=0), sequence, number
    if kind == "garbage":
        return pick.randbytes(pick.randrange(60)) + b"\x7e", sequence, number
    operation = pick.choice([*Operation][2:])
    if operation in (Operation.READ_REGISTER, Operation.WRITE_REGISTER):
        length, address = 4, pick.choice([ADDER, POPPED, REFUSED, 0x1000])
    else:
        length = pick.choice([1, 7, 100, pick.randrange(1, 1025)])
        address = pick.randrange(MEMORY_BYTES - pick.choice([0, 1000, 1000]))
    data = pick.randbytes(length) if operation in (Operation.WRITE_REGISTER, Operation.WRITE_MEMORY) else b""
    fields = {"operation": int(operation), "address": address, "length": length, "payload": data, "session": number,
              "sequence": sequence}
    if kind == "wrong":
        name = pick.choice(["operation", "address", "length", "payload", "session", "sequence"])
        fields[name] = {"operation": pick.randrange(8, 256), "address": pick.randrange(1 << 40), "length": pick.randrange(2000),
                        "payload": pick.randbytes(9), "session": (number - 1) % 65536, "sequence": (sequence + 3) % 65536}[name]
        if name == "length" and operation == Operation.CHECK_MEMORY:
            fields["length"] = 0
    frame = Request(**fields).to_bytes()
    if (fields["session"], fields["sequence"]) != (number, sequence):
        return frame, sequence, number
    sent.append(frame)
    return frame, sequence + 1, number
