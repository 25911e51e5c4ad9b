"""Sessions over a line that loses, damages, repeats, delays and invents bytes: never a wrong result, never an endless wait.

  python tests/boards/link_fuzz.py --sessions 10000 --seed 1
  python tests/boards/link_fuzz.py --sessions 1000 --seed 1 --rtl

Each seed is one session: a host opens the link and works with memory and registers. Each answer is compared with what the board
was asked for; one register adds, another counts its reads, so that a request carried out twice shows. An error is a legal end of
an access, whose effect is then unknown until it is looked at. Every access must end within the link's own bound.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parent))

from link_support import ADDER, MEMORY_BYTES, POPPED, REFUSED, FakeBus, board_model
from noisy_line import Noise, NoisyLine

from vtakit.boards.link.protocol import MOST_PAYLOAD
from vtakit.runtime.vta.link.port import CHECK_BYTES, LinkPort
from vtakit.sim.faults import DeviceError

PATIENCE_S, TRIES = 0.25, 8
ACCESSES = 12
LONGEST_DELAY_S = 1.0


class Board(Protocol):
    """The board's end of the link."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes; return those that it sends."""

    def reset(self) -> None:
        """Begin anew; memory and registers keep what they hold."""

    def close(self) -> None:
        """End it."""


class ModelBoard:
    """The board's end in Python."""

    def __init__(self, bus: FakeBus) -> None:
        self._bus = bus
        self.reset()

    def feed(self, data: bytes) -> bytes:
        return self._model.feed(data)

    def reset(self) -> None:
        self._model = board_model(self._bus)

    def close(self) -> None:
        pass


def verilated(bus: FakeBus, seed: int) -> Board:
    """The gateware, with stalls of its bus and pauses of its line."""
    from link_rtl import VerilatedBoard

    pick = random.Random(seed)
    return VerilatedBoard(bus, stall=pick.choice([0, 20, 70]), pace=pick.choice([1, 4, 12]), seed=seed)


def bound_s(requests: int) -> float:
    """The link's bound: so long an exchange of `requests` requests may take, with two more for a new session."""
    return (requests + 2) * TRIES * PATIENCE_S


def requests_of(size: int) -> int:
    """Requests of an access to memory at most: those that write, and two that check each block."""
    return size // MOST_PAYLOAD + 2 + 2 * (size // CHECK_BYTES + 2)


@dataclass(slots=True)
class Outcome:
    """Outcome of one session."""

    done: int = 0
    errors: int = 0
    faults: int = 0
    resent: int = 0
    opened: bool = False
    longest_s: float = 0.0


class Mismatch(AssertionError):
    """A result that is wrong, or an access that took too long."""


class Oracle:
    """Content of the board's memory and registers, as far as a host can know."""

    def __init__(self) -> None:
        self.memory = bytearray(MEMORY_BYTES)
        self.unknown: dict[int, set[int]] = {}  # of a byte: what it may be, after an access that ended in an error
        self.sums = {0}
        self.pops = {0}

    def write(self, address: int, data: bytes, certain: bool) -> None:
        for at, byte in enumerate(data, address):
            if certain:
                self.unknown.pop(at, None)
                self.memory[at] = byte
            elif byte != self.memory[at] or at in self.unknown:
                self.unknown.setdefault(at, {self.memory[at]}).add(byte)

    def check(self, address: int, data: bytes) -> None:
        for at, byte in enumerate(data, address):
            may = self.unknown.pop(at, {self.memory[at]})
            if byte not in may:
                raise Mismatch(f"byte {at} of memory reads as 0x{byte:02x}, and must be one of {sorted(may)}")
            self.memory[at] = byte


def session(seed: int, *, rtl: bool = False) -> Outcome:
    """Run one session. Raises Mismatch if something is wrong."""
    pick = random.Random(seed)
    scale = pick.choice([0.0, 0.01, 0.03, 0.1, 0.3])
    kinds = ("flips", "cuts", "losses", "doubles", "delays", "garbage")
    chosen = pick.sample(kinds, pick.randrange(1, len(kinds) + 1))
    noise = Noise(**{kind: scale for kind in chosen}, unplugs=pick.choice([0, 0, 0, 0.005]), resets=pick.choice([0, 0, 0, 0.01]))
    bus = FakeBus()
    bus.memory[:] = pick.randbytes(MEMORY_BYTES)
    board = verilated(bus, seed) if rtl else ModelBoard(bus)
    try:
        return _session(seed, bus, NoisyLine(board.feed, board.reset, noise, pick, LONGEST_DELAY_S), pick)
    finally:
        board.close()


def _session(seed: int, bus: FakeBus, line: NoisyLine, pick: random.Random) -> Outcome:
    oracle, outcome = Oracle(), Outcome()
    oracle.memory[:] = bus.memory

    def timed(requests: int, act: Callable[[], Any]) -> Any:
        begin = line.clock()
        try:
            return act()
        finally:
            took = line.clock() - begin
            outcome.longest_s = max(outcome.longest_s, took)
            if took > bound_s(requests):
                raise Mismatch(f"an access of {requests} requests took {took:.2f} s, more than {bound_s(requests):g} s")

    try:
        port = timed(8, lambda: LinkPort(line, "noisy", patience_s=PATIENCE_S, tries=TRIES, pick=random.Random(seed)))
    except DeviceError:
        outcome.errors, outcome.faults = 1, line.faults
        return outcome
    outcome.opened = True
    if port.memory != range(MEMORY_BYTES):
        raise Mismatch(f"the memory is {port.memory}")
    for _ in range(ACCESSES):
        try:
            _access(pick, port, oracle, timed)
            outcome.done += 1
        except DeviceError:
            outcome.errors += 1
    if not outcome.errors:
        if bytes(bus.memory) != bytes(oracle.memory):
            raise Mismatch("the memory holds something else than was written")
        if {bus.sum} != oracle.sums or {bus.pops} != oracle.pops:
            raise Mismatch("an access to a register was carried out more than once, or not")
    outcome.faults, outcome.resent = line.faults, port.resent
    return outcome


def _access(pick: random.Random, port: LinkPort, oracle: Oracle, timed: Callable[..., Any]) -> None:
    """One access of a random kind, compared with what must be."""
    kind = pick.choice(["write", "write", "read", "read", "add", "sum", "pop", "refused"])
    if kind in ("write", "read"):
        size = pick.choice([1, 3, 8, 64, 255, 300, 1024, pick.randrange(1, 6000)])
        address = pick.randrange(MEMORY_BYTES - size)
        if kind == "read":
            oracle.check(address, timed(requests_of(size), lambda: port.read_memory(address, size)))
            return
        data = pick.choice([pick.randbytes(size), bytes(pick.choices(b"\x7e\x7d\x5e\x00", k=size))])
        certain = False
        try:
            timed(requests_of(size), lambda: port.write_memory(address, data))
            certain = True
        finally:
            oracle.write(address, data, certain)
    elif kind == "add":
        value = pick.randrange(1 << 32)
        before = oracle.sums
        oracle.sums = before | {(each + value) % (1 << 32) for each in before}
        timed(1, lambda: port.write_register(ADDER, value))
        oracle.sums = {(each + value) % (1 << 32) for each in before}
    elif kind == "sum":
        found = timed(1, lambda: port.read_register(ADDER))
        if found not in oracle.sums:
            raise Mismatch(f"the sum is {found}, and must be one of {sorted(oracle.sums)}")
        oracle.sums = {found}
    elif kind == "pop":
        before = oracle.pops
        oracle.pops = before | {each + 1 for each in before}
        found = timed(1, lambda: port.read_register(POPPED))
        if found - 1 not in before:
            raise Mismatch(f"this is read {found} of the register, and must be one after {sorted(before)}")
        oracle.pops = {found}
    else:
        try:
            timed(1, lambda: port.read_register(REFUSED))
        except DeviceError:
            return
        raise Mismatch("a register that refuses a read has been read")


def main() -> int:
    """Run sessions; print what came out of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rtl", action="store_true", help="with the gateware in Verilator instead of its model")
    args = parser.parse_args()
    total: Counter[str] = Counter()
    longest, begin = 0.0, monotonic()
    for seed in range(args.seed, args.seed + args.sessions):
        try:
            outcome = session(seed, rtl=args.rtl)
        except Mismatch as error:
            more = " --rtl" if args.rtl else ""
            print(f"session {seed}: {error}\nreplay: python tests/boards/link_fuzz.py --sessions 1 --seed {seed}{more}")
            return 1
        longest = max(longest, outcome.longest_s)
        total.update(accesses=outcome.done, errors=outcome.errors, faults=outcome.faults, resent=outcome.resent,
                     opened=outcome.opened, clean=not outcome.errors)
    print(f"{args.sessions} sessions from seed {args.seed}: {total['accesses']} accesses done, {total['errors']} failed; "
          f"{total['clean']} sessions without an error; {total['faults']} faults of the line, "
          f"{total['resent']} requests sent again; longest access {longest:.2f} s of the line's time; "
          f"{monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
