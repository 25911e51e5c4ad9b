"""Requests to a board, each carried out once and in order, over a line that may lose, damage and repeat bytes."""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vtakit.base.text import counted
from vtakit.boards.link.protocol import (
    ABOUT,
    BUFFER_BYTES,
    BUFFER_FRAMES,
    CRC_BYTES,
    HELLO_BYTES,
    KEPT,
    MOST_PAYLOAD,
    NUMBERS,
    REPLY_BYTES,
    REQUEST_BYTES,
    STATUS_DOC,
    VERSION,
    Deframer,
    Operation,
    Reply,
    Request,
    Status,
)
from vtakit.runtime.vta.link.transport import Transport
from vtakit.sim.faults import DeviceError

PATIENCE_S = 0.25  # without a reply before requests are sent again: 4 KiB at 3 Mbaud and a slow USB adapter take 50 ms
TRIES = 8  # of one request
_READ_BYTES = 4096
_AT_ONCE = min(KEPT, BUFFER_FRAMES)


@dataclass(slots=True, kw_only=True, eq=False)
class Ask:
    """A request before it has a number.

    repeats     it may be carried out again if its answer is lost: a read of memory that nothing changes
    """

    operation: Operation
    address: int = 0
    length: int = 0
    payload: bytes = b""
    repeats: bool = False

    @property
    def bytes(self) -> int:
        """Room that it takes in the board's buffer."""
        return REQUEST_BYTES + len(self.payload) + CRC_BYTES

    def __str__(self) -> str:
        what = self.operation.name.lower().replace("_", " ")
        return f"{what} at 0x{self.address:x}" if self.length else what


@dataclass(slots=True, kw_only=True, eq=False)
class _Pending:
    """A request that was sent, and its reply once that is there."""

    ask: Ask
    sequence: int
    reply: Reply | None = None


class Refused(DeviceError):
    """The board answered a request with an error.

    status    the status in its reply
    """

    def __init__(self, name: str, ask: Ask, status: int) -> None:
        self.status = status
        known = {int(each): text for each, text in STATUS_DOC.items()}
        super().__init__(f"device {name!r} answered the {ask}: {known.get(status, f'status {status}')}")


class Session:
    """The requests of one program to a board, over `transport`.

    Whatever ends an exchange early, an error or Ctrl-C, ends the session on the board's side too: the next exchange opens a new
    one, so that nothing of the old one is taken for its answer. Without progress, an exchange ends with `DeviceError` after
    `tries * patience_s` of the line's time.
    """

    def __init__(
        self, transport: Transport, name: str, *, patience_s: float = PATIENCE_S, tries: int = TRIES,
        pick: random.Random | None = None,
    ) -> None:
        self.name = name
        self._line, self._patience_s, self._tries = transport, patience_s, tries
        self._pick = pick or random.SystemRandom()
        self._number = 0  # of the session; 0: none is open
        self._sequence = 0  # of the next request
        self._deframer = Deframer(REPLY_BYTES + MOST_PAYLOAD)
        self._replies: deque[Reply] = deque()  # that have come and are not looked at yet
        self.resent = 0  # requests that were sent again

    def ask(self, ask: Ask) -> bytes:
        """The payload of one request's reply."""
        (payload,) = self.exchange([ask])
        return payload

    def exchange(self, asks: Iterable[Ask]) -> Iterator[bytes]:
        """Yield the payloads of the replies, in order; several requests are under way at a time.

        Raises `Refused` for a request that the board could not carry out.
        """
        if not self._number:
            self._open()
        number, self._number = self._number, 0  # until all has gone well
        todo = iter(asks)
        yield from self._exchange(number, todo)
        self._number = number

    def _open(self) -> None:
        """Begin a session, the one after the board's last."""
        self._sequence = self._pick.randrange(NUMBERS)  # so that no old answer is taken for this one's
        (hello,) = self._exchange(0, iter([Ask(operation=Operation.HELLO, repeats=True)]))
        self._check(hello)
        number = (int.from_bytes(hello[len(ABOUT):], "little") + 1) % NUMBERS
        self._sequence = 0
        for _ in self._exchange(number, iter([Ask(operation=Operation.OPEN)])):
            pass
        self._number = number

    def _check(self, hello: bytes) -> None:
        version, payload, room = (int.from_bytes(hello[a:b], "little") for a, b in ((4, 6), (6, 8), (8, 12)))
        if hello[:4] != ABOUT[:4] or version != VERSION:
            raise DeviceError(f"device {self.name!r} has version {version} of the link, and this vtakit knows {VERSION}: build "
                              "its bitstream again")
        if payload < MOST_PAYLOAD or room < BUFFER_BYTES:
            raise DeviceError(f"device {self.name!r} takes {payload} bytes in a request and {room} at a time, and this vtakit "
                              f"sends {MOST_PAYLOAD} and {BUFFER_BYTES}: build its bitstream again")

    def _exchange(self, number: int, todo: Iterator[Ask]) -> Iterator[bytes]:
        pending: deque[_Pending] = deque()  # in the order in which their payloads are yielded
        waiting: Ask | None = next(todo, None)
        heard = _Heard()
        deadline, fails, gap = self._line.clock() + self._patience_s, 0, -1
        while pending or waiting is not None:
            while waiting is not None and self._room(pending, waiting):
                if not any(each.reply is None for each in pending):
                    deadline = self._line.clock() + self._patience_s
                pending.append(self._numbered(waiting))
                self._send(number, pending[-1])
                waiting = next(todo, None)
            if pending[0].reply is not None:
                yield self._payload(pending.popleft())
                continue
            reply = self._next_reply(number, deadline, heard)
            if reply is not None and reply.status == Status.SESSION:
                raise DeviceError(f"device {self.name!r} has forgotten this program: it was reset, or another program has "
                                  "opened it")
            missed = reply is not None and reply.status == Status.SEQUENCE and not _old(reply)
            if reply is None or (missed and reply.expected != gap):
                fails += 1
                if fails >= self._tries:
                    raise self._silence(pending[0].ask, heard)
                gap = -1 if reply is None else reply.expected
                for each in self._unanswered(pending):
                    self._send(number, each)
                    self.resent += 1
                deadline = self._line.clock() + self._patience_s
            elif not missed and self._take(number, pending, reply):
                deadline, fails, gap = self._line.clock() + self._patience_s, 0, -1

    def _take(self, number: int, pending: deque[_Pending], reply: Reply) -> bool:
        """Note a reply; whether it was one that was waited for."""
        found = next((each for each in pending if each.sequence == reply.sequence and each.reply is None), None)
        if found is None or found.ask.operation != reply.operation:
            return False
        lost = reply.status in (Status.GONE, Status.SEQUENCE)  # carried out, and its answer is not kept
        if lost and not found.ask.repeats:
            return False
        if lost:
            found.sequence = self._next_sequence()
            self._send(number, found)
            self.resent += 1
        else:
            found.reply = reply
        return True

    def _payload(self, done: _Pending) -> bytes:
        assert done.reply is not None
        ask, reply = done.ask, done.reply
        if reply.status != Status.OK:
            raise Refused(self.name, ask, reply.status)
        wanted = _LENGTHS.get(ask.operation, ask.length)
        if len(reply.payload) != wanted:
            got = counted(len(reply.payload), "byte")
            raise DeviceError(f"device {self.name!r} answered the {ask} with {got} instead of {wanted}")
        return reply.payload

    def _room(self, pending: deque[_Pending], ask: Ask) -> bool:
        under_way = [each for each in pending if each.reply is None]
        spread = (self._sequence - min((each.sequence for each in under_way), default=self._sequence, key=self._age)) % NUMBERS
        return (len(pending) < _AT_ONCE and spread < _AT_ONCE
                and sum(each.ask.bytes for each in under_way) + ask.bytes < BUFFER_BYTES)

    def _age(self, sequence: int) -> int:
        """Order of the numbers of requests under way, the oldest first."""
        return -((self._sequence - sequence) % NUMBERS)

    def _unanswered(self, pending: Iterable[_Pending]) -> list[_Pending]:
        return sorted((each for each in pending if each.reply is None), key=lambda each: self._age(each.sequence))

    def _numbered(self, ask: Ask) -> _Pending:
        return _Pending(ask=ask, sequence=self._next_sequence())

    def _next_sequence(self) -> int:
        sequence, self._sequence = self._sequence, (self._sequence + 1) % NUMBERS
        return sequence

    def _send(self, number: int, each: _Pending) -> None:
        ask = each.ask
        self._line.send(Request(session=number, sequence=each.sequence, operation=ask.operation, address=ask.address,
                                length=ask.length, payload=ask.payload).to_bytes())

    def _next_reply(self, number: int, deadline: float, heard: "_Heard") -> Reply | None:
        """The next frame of this session, or None at the deadline."""
        while True:
            while self._replies:
                come = self._replies.popleft()
                if come.session == number:
                    return come
            left = deadline - self._line.clock()
            if left <= 0:
                return None
            data = self._line.receive(_READ_BYTES, left)
            heard.bytes += len(data)
            contents = self._deframer.feed(data)
            heard.frames += len(contents)
            self._replies.extend(reply for content in contents if (reply := Reply.parse(content)) is not None)

    def _silence(self, ask: Ask, heard: "_Heard") -> DeviceError:
        asked = f"the {ask} was sent {self._tries} times in {self._tries * self._patience_s:g} s"
        if not heard.bytes:
            cure = "is it plugged in, programmed, and at this port?"
        elif not heard.frames:
            cure = (f"{counted(heard.bytes, 'byte')} came back and no whole frame: is something else at this port, or is the "
                    "rate another?")
        else:
            cure = f"{counted(heard.frames, 'frame')} came back, and none answers it: is the cable good?"
        return DeviceError(f"device {self.name!r} does not answer: {asked}; {cure}")


@dataclass(slots=True)
class _Heard:
    """Bytes and whole frames that came during an exchange."""

    bytes: int = 0
    frames: int = 0


def _old(reply: Reply) -> bool:
    """True if a reply is to a request that was carried out before."""
    return 0 < (reply.expected - reply.sequence) % NUMBERS < NUMBERS // 2


_LENGTHS = {  # bytes of payload in a reply, where it is not the length that was asked for
    Operation.HELLO: HELLO_BYTES, Operation.WRITE_REGISTER: 0, Operation.WRITE_MEMORY: 0, Operation.CHECK_MEMORY: 4,
}
