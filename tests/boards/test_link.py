"""The host link: frames, the board's end in Python and as gateware, and the host's end over lines that are good, bad or gone."""

import random
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from link_fuzz import Mismatch, session
from link_support import ADDER, MEMORY_BYTES, PARAMS, POPPED, REFUSED, FakeBus, ModelLine, ask, board_model, replies
from support import raises

from vtakit.boards.host_map import BOARD_REGISTERS
from vtakit.boards.link import model, protocol
from vtakit.boards.link.protocol import (
    KEPT,
    MOST_PAYLOAD,
    REQUEST_BYTES,
    Deframer,
    Operation,
    Request,
    Status,
    enframed,
    unescaped,
)
from vtakit.runtime.vta.link.port import CHECK_BYTES, LinkPort, pieces
from vtakit.runtime.vta.link.progress import shown
from vtakit.runtime.vta.link.session import Refused
from vtakit.sim.faults import DeviceError


@pytest.mark.parametrize("seed", range(4))
def test_a_frame_comes_back_whole_from_any_pieces_between_garbage(seed):
    pick = random.Random(seed)
    contents = [bytes(pick.choices(b"\x7e\x7d\x5e\x5d\x00\xff", k=pick.randrange(1, 90))) for _ in range(50)]
    line = b"".join(bytes(pick.choices(b"\x7d\x01\xff", k=pick.randrange(4))) + enframed(content) for content in contents)
    deframer, found = Deframer(90), []
    while line:
        size = pick.randrange(1, 40)
        found += deframer.feed(line[:size])
        line = line[size:]
    assert found == contents


def test_no_flag_stands_inside_a_frame():
    assert enframed(bytes(range(256)))[1:-1].count(protocol.FLAG) == 0


@pytest.mark.parametrize("cut", [b"\x7d", b"a\x7d", b"\x7d\x7d\x7d"])
def test_bytes_that_end_within_an_escape_are_no_frame(cut):
    assert unescaped(cut) is None


def test_every_frame_with_a_damaged_bit_is_dropped():
    frame = ask(Operation.WRITE_MEMORY, 1, address=64, length=3, payload=b"\x7e\x01\x02")
    for bit in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        found = Deframer(REQUEST_BYTES + MOST_PAYLOAD).feed(bytes(damaged) + b"\x7e")
        assert frame[1:-1] in [enframed(each)[1:-1] for each in found] or found == [], f"bit {bit}"


def test_a_frame_that_is_too_long_is_dropped_and_the_next_one_is_not():
    deframer = Deframer(20)
    assert deframer.feed(enframed(bytes(21 + 30)) + enframed(bytes(20))) == [bytes(20)]


@pytest.mark.parametrize(("address", "size"), [(0, 0), (5, 1), (1000, 5000), (1024, 1024)])
def test_pieces_cover_a_range_and_end_at_multiples(address, size):
    found = list(pieces(address, size, MOST_PAYLOAD))
    covered = [at for start, length in found for at in range(start, start + length)]
    assert covered == list(range(address, address + size))
    assert all((start + length) % MOST_PAYLOAD == 0 for start, length in found[:-1])


def opened(bus: FakeBus) -> model.BoardModel:
    board = board_model(bus)
    (reply,) = replies(board.feed(ask(Operation.OPEN, 0)))
    assert (reply.status, reply.expected) == (Status.OK, 1)
    return board


def test_a_request_is_carried_out_once_and_its_answer_is_kept():
    bus = FakeBus()
    board = opened(bus)
    once = ask(Operation.READ_REGISTER, 1, address=POPPED, length=4)
    first, again = board.feed(once), board.feed(once + once)
    assert again == first + first
    assert bus.pops == 1


def test_an_older_request_is_told_its_status_and_one_that_comes_too_early_the_number_that_is_missing():
    board = opened(FakeBus())
    writes = [ask(Operation.WRITE_MEMORY, n, address=n, length=1, payload=b"x") for n in range(1, KEPT + 3)]
    early = replies(board.feed(writes[1]))
    assert [(reply.status, reply.expected) for reply in early] == [(Status.SEQUENCE, 1)]
    board.feed(b"".join(writes))
    told = [replies(board.feed(write))[0].status for write in writes]
    assert told == [Status.SEQUENCE] * 2 + [Status.OK] * KEPT
    read = ask(Operation.READ_MEMORY, KEPT + 3, address=0, length=8)
    board.feed(read + ask(Operation.READ_REGISTER, KEPT + 4, address=ADDER, length=4))
    (gone,) = replies(board.feed(read))
    assert (gone.status, gone.payload) == (Status.GONE, b"")


def test_nothing_is_carried_out_before_a_session_nor_for_an_old_one():
    bus = FakeBus()
    board = board_model(bus)
    write = ask(Operation.WRITE_REGISTER, 0, session=0, address=ADDER, length=4, payload=b"\1\0\0\0")
    assert [reply.status for reply in replies(board.feed(write))] == [Status.SESSION]
    old = ask(Operation.OPEN, 0, session=1) + ask(Operation.WRITE_REGISTER, 1, address=ADDER, length=4, payload=b"\1\0\0\0")
    board.feed(old + ask(Operation.OPEN, 0, session=2) + old)
    assert bus.sum == 1


@pytest.mark.parametrize("request_", [
    {"operation": 99}, {"operation": Operation.READ_REGISTER, "length": 8},
    {"operation": Operation.READ_REGISTER, "length": 4, "address": 2},
    {"operation": Operation.READ_REGISTER, "length": 4, "address": 1 << 13},
    {"operation": Operation.READ_MEMORY}, {"operation": Operation.READ_MEMORY, "length": MOST_PAYLOAD + 1},
    {"operation": Operation.READ_MEMORY, "length": 2, "address": (1 << PARAMS.address_bits) - 1},
    {"operation": Operation.READ_MEMORY, "length": 1, "payload": b"x"}, {"operation": Operation.CHECK_MEMORY},
    {"operation": Operation.WRITE_MEMORY, "length": 2, "payload": b"x"},
], ids=str)
def test_a_request_that_cannot_be_is_refused(request_):
    board = opened(FakeBus())
    (reply,) = replies(board.feed(Request(session=1, sequence=1, **request_).to_bytes()))
    assert (reply.status, reply.expected) == (Status.REFUSED, 2)


def port_of(bus: FakeBus) -> LinkPort:
    return LinkPort(ModelLine(board_model(bus)), "board:x")


def test_a_port_reads_and_writes_registers_and_memory():
    bus = FakeBus()
    port = port_of(bus)
    assert port.memory == range(MEMORY_BYTES)
    port.write_register(ADDER, 7)
    port.write_register(ADDER, 0xFFFF_FFFF)
    assert port.read_register(ADDER) == 6
    data = random.Random(1).randbytes(40_000)
    port.write_memory(1234, data)
    assert bus.memory[1234 : 1234 + len(data)] == data
    assert port.read_memory(1233, 9) == b"\0" + data[:8]
    assert port.read_memory(0, 0) == b""


def test_what_the_memory_holds_is_not_sent_again_not_even_by_another_process():
    bus = FakeBus()
    data = random.Random(2).randbytes(50_000)
    port_of(bus).write_memory(512, data)
    port = port_of(bus)
    port.write_memory(512, data)
    assert (port.sent_bytes, port.kept_bytes) == (0, len(data))
    bus.memory[512 + 20_000] ^= 1
    port.write_memory(512, data)
    assert (port.sent_bytes, bytes(bus.memory[512 : 512 + len(data)])) == (CHECK_BYTES, data)


def test_a_memory_that_does_not_keep_what_is_written_is_an_error():
    class Forgetful(FakeBus):
        def write_memory(self, address: int, data: bytes) -> bool:
            return super().write_memory(address, data.replace(b"a", b"b"))

    with raises(DeviceError, "device 'board:x' does not keep what is written to its memory: the bytes from 0x100 on …"):
        port_of(Forgetful()).write_memory(0x100, b"ca" * 500)


def test_a_refused_access_is_an_error_and_the_port_goes_on():
    port = port_of(FakeBus())
    with raises(Refused, "device 'board:x' answered the read register at 0x18: … the bus answered with an error"):
        port.read_register(REFUSED)
    with raises(Refused, "device 'board:x' answered the read memory at 0x10000: … the bus answered with an error"):
        port.read_memory(MEMORY_BYTES - 8, 16)
    assert port.read_register(POPPED) == 1


@pytest.mark.parametrize(("board", "message"), [
    ({"board_identity": 1}, "device 'board:x' is no board of vtakit: its identity is 0x00000001, not 0x42524431"),
    ({"selftest": 0b00010, "selftest_address": 64, "selftest_want": 5, "selftest_got": 4, "selftest_errors": 9},
     "device 'board:x' has bad memory … 9 wrong words, the first at 0x40, 0x00000004 instead of 0x00000005"),
    ({"selftest": 0b01110, "selftest_core": 0x30001}, "device 'board:x' computes wrongly … 0x00030001 … a slower clock"),
    ({"selftest": 1}, "device 'board:x' has not ended its self-test within 60 s: reset the board"),
])
def test_a_board_that_is_none_or_not_well_is_refused(board, message):
    bus = FakeBus()
    bus.board |= {BOARD_REGISTERS[name]: value for name, value in board.items()}
    with raises(DeviceError, message):
        port_of(bus)


@pytest.mark.parametrize(("answer", "message"), [
    (b"", "device 'x' does not answer: the hello was sent 8 times in 2 s; is it plugged in, programmed, and at this port?"),
    (b"\xff" * 5, "device 'x' does not answer: … 40 bytes came back and no whole frame: …"),
    (enframed(b"something else"), "device 'x' does not answer: … 8 frames came back, and none answers it: …"),
])
def test_a_port_without_a_board_behind_it_is_one_sentence_in_bounded_time(answer, message):
    class Other(ModelLine):
        def send(self, data: bytes) -> None:
            self._back += answer

    line = Other(board_model(FakeBus()))
    with raises(DeviceError, message):
        LinkPort(line, "x")
    assert line.clock() <= 2.5


@pytest.mark.parametrize(("field", "value", "message"), [
    ("VERSION", 2, "device 'x' has version 2 of the link, and this vtakit knows 1: …"),
    ("MOST_PAYLOAD", 512, "device 'x' takes 512 bytes in a request … sends 1024 …"),
])
def test_a_link_of_another_version_is_refused(monkeypatch, field, value, message):
    about = {"VERSION": 1, "MOST_PAYLOAD": MOST_PAYLOAD, field: value}
    halves = b"".join([each.to_bytes(2, "little") for each in about.values()])
    monkeypatch.setattr(model, "ABOUT", b"VTAL" + halves + (4096).to_bytes(4, "little"))
    with raises(DeviceError, message):
        LinkPort(ModelLine(board_model(FakeBus())), "x")


def test_a_board_that_was_reset_or_opened_by_another_is_an_error_once():
    bus = FakeBus()
    board = board_model(bus)
    port, other = LinkPort(ModelLine(board), "x"), LinkPort(ModelLine(board), "y")
    with raises(DeviceError, "device 'x' has forgotten this program: it was reset, or another program has opened it"):
        port.read_register(ADDER)
    assert port.read_register(POPPED) == 1
    with raises(DeviceError, "device 'y' has forgotten …"):
        other.read_register(ADDER)


def test_an_interrupted_transfer_leaves_the_port_in_order():
    class Interrupted(ModelLine):
        count = 0

        def receive(self, most: int, timeout_s: float) -> bytes:
            self.count += 1
            if self.count == 30:
                raise KeyboardInterrupt
            return super().receive(min(most, 900), timeout_s)

    bus = FakeBus()
    port = LinkPort(Interrupted(board_model(bus)), "x")
    bus.memory[:] = random.Random(6).randbytes(MEMORY_BYTES)
    with pytest.raises(KeyboardInterrupt):
        port.read_memory(0, 60_000)
    assert port.read_memory(7, 3000) == bus.memory[7:3007]
    assert port.read_register(POPPED) == 1


def test_progress_tells_the_bytes_of_large_transfers():
    told = []

    @contextmanager
    def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
        told.append((what, total))
        yield told.append

    bus = FakeBus()
    data = random.Random(7).randbytes(3 * CHECK_BYTES)
    bus.memory[: len(data)] = data[: 2 * CHECK_BYTES] + bytes(CHECK_BYTES)
    LinkPort(ModelLine(board_model(bus)), "x", progress=progress).write_memory(0, data)
    done = [2 * CHECK_BYTES + n * MOST_PAYLOAD for n in range(1, CHECK_BYTES // MOST_PAYLOAD + 1)]
    assert told == [("sending", len(data)), *done]
    for size in (10, 1 << 20):
        with shown("board:x")("sending", size) as advance:
            advance(size)


def test_numbers_go_round():
    bus = FakeBus()
    board = board_model(bus)
    port = LinkPort(ModelLine(board), "x")
    board._expected = port._session._sequence = protocol.NUMBERS - 20  # as after so many requests
    data = random.Random(4).randbytes(60_000)
    port.write_memory(0, data)
    assert port.read_memory(0, len(data)) == data
    assert 0 < board._expected < protocol.NUMBERS - 20


@pytest.mark.parametrize("seed", range(0, 200, 50))
def test_sessions_over_a_bad_line_have_no_wrong_result(seed):
    outcomes = [session(each) for each in range(seed, seed + 50)]
    assert sum(outcome.faults for outcome in outcomes) > 100
    assert sum(outcome.done for outcome in outcomes) > 8 * sum(outcome.errors for outcome in outcomes)


class Repeating(model.BoardModel):
    """Carries a request out again when it comes again."""

    def _serve(self, request: Request) -> bytes:
        if request.operation > Operation.OPEN and request.session == self._session:
            self._expected = request.sequence
        return super()._serve(request)


class Unchecked:
    """A checksum that is right for everything."""

    @staticmethod
    def crc32(data: bytes) -> int:
        return 0


def wrong(sessions: int) -> bool:
    """Return whether one of the first sessions has a wrong result."""
    for seed in range(sessions):
        try:
            session(seed)
        except Mismatch:
            return True
    return False


def test_the_sessions_find_a_board_that_repeats_what_it_does(monkeypatch):
    monkeypatch.setattr("link_support.BoardModel", Repeating)
    assert wrong(60)


def test_the_sessions_find_a_link_without_a_checksum(monkeypatch):
    monkeypatch.setattr(protocol, "zlib", Unchecked)
    monkeypatch.setattr(Deframer, "feed", _unchecked)
    assert wrong(60)


def _unchecked(self: Deframer, data: bytes) -> list[bytes]:
    """Return what stands between two flags, whatever its checksum."""
    self._inside += data
    *ended, rest = bytes(self._inside).split(b"\x7e")
    self._inside = bytearray(rest)
    return [plain[:-4] for piece in ended if (plain := unescaped(piece)) is not None and len(plain) > 4]


def test_the_checksum_is_zlibs():
    content = b"vtakit"
    assert enframed(content) == b"\x7e" + content + zlib.crc32(content).to_bytes(4, "little") + b"\x7e"


def test_the_page_of_the_link_has_its_frames():
    """docs/link.md: fields with their widths in order, operations and statuses with their numbers."""
    page = (Path(__file__).parents[2] / "docs" / "link.md").read_text(encoding="utf-8")
    fields = [(name, int(width)) for width, name in re.findall(r"^\| (\d+) \| ([a-z]+) \|", page, flags=re.MULTILINE)]
    assert fields == [*protocol.REQUEST.items(), *protocol.REPLY.items()]
    named = [(name, int(number)) for number, name in re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", page, flags=re.MULTILINE)]
    assert named == [(each.name, each.value) for each in [*Operation, *Status]]
    assert all(f"| {status.name} | {text} |" in page for status, text in protocol.STATUS_DOC.items())
