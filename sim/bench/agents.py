"""A bench's clock and the agents on a block's pins: stream sources and sinks that stall at random and watch the protocol.

A cycle has two moments. At the falling edge every agent drives its pins; once all has settled, every agent looks at what the next
rising edge will transfer. So nothing depends on the order in which the simulator runs the agents, and paths from input to output
without a register are seen as hardware sees them.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from amaranth.lib import wiring
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from vtakit.sim.bench.ports import Item, Pin, Pins, Port, StreamPort

PERIOD_NS = 2
STALLS = (0, 50, 85)  # percent of the cycles in which an agent refuses or withholds; benches sweep both sides over these


class Agent(Protocol):
    """Something on the pins."""

    def drive(self) -> None:
        """Set the pins for this cycle."""

    def sample(self) -> None:
        """See what this cycle transfers."""


def percent(numbers: random.Random) -> int:
    """Return `numbers.randrange(100)`, in half its time."""
    drawn = numbers.getrandbits(7)
    while drawn >= 100:
        drawn = numbers.getrandbits(7)
    return drawn


class Source:
    """Gives the items of `queue`, in order; an item that is offered stays until it is taken; then `gave` is called with it."""

    def __init__(
        self, port: Port, stall: int, numbers: random.Random, gave: Callable[[Item], object] = lambda item: None
    ) -> None:
        self._port, self._stall, self._random, self.gave = port, stall, numbers, gave
        self.queue: deque[Item] = deque()
        self.gate: Callable[[], bool] = lambda: True  # whether the first item may be offered now
        self.taken = 0
        self._offers = False
        self._valid, self._ready = port.valid, port.ready
        self._valid.set(0)

    def drive(self) -> None:
        """Offer the next item, unless this cycle stalls."""
        if self._offers:
            return
        if self.queue and self.gate() and percent(self._random) >= self._stall:
            self._port.offer(self.queue[0])
            self._offers = True
        self._valid.set(int(self._offers))

    def sample(self) -> None:
        """See whether it is taken."""
        if self._offers and self._ready.get():
            self._offers = False
            self.taken += 1
            self.gave(self.queue.popleft())


class Sink:
    """Takes items into `items`, and checks that what is offered neither changes nor goes before it is taken.

    `means` may replace what has no meaning in an item, which then may change.
    """

    def __init__(
        self, name: str, port: Port, stall: int, numbers: random.Random, take: Callable[[Item], object] = lambda item: None
    ) -> None:
        self._name, self._port, self._stall, self._random, self._take = name, port, stall, numbers, take
        self.items: list[Item] = []
        self.means: Callable[[Item], Item] = lambda item: item
        self.ready, self._held = False, None
        self._valid, self._ready = port.valid, port.ready
        self.open: Callable[[], bool] = lambda: True  # whether anything may be taken now

    def drive(self) -> None:
        """Be ready, unless this cycle stalls."""
        self.ready = self.open() and percent(self._random) >= self._stall
        self._ready.set(int(self.ready))

    def sample(self) -> None:
        """Take what is offered."""
        if not self._valid.get():
            assert self._held is None, f"{self._name} withdrew {self._held} before it was taken"
            return
        item = self.means(self._port.payload())
        assert self._held is None or item == self._held, f"{self._name} changed {self._held} to {item} before it was taken"
        self._held = None if self.ready else item
        if self.ready:
            self.items.append(item)
            self._take(item)


class Watch:
    """Keeps what some pins are when a cycle has settled; `see` is called with it."""

    def __init__(self, pins: Pins, names: Iterable[str], see: Callable[[dict[str, int]], object] = lambda now: None) -> None:
        self._gets, self._see = [(name, pins.pin(name).get) for name in names], see
        self.now: dict[str, int] = {}

    def drive(self) -> None:
        """Nothing to drive."""

    def sample(self) -> None:
        """Look."""
        self.now = {name: get() for name, get in self._gets}
        self._see(self.now)


class Chance:
    """An input pin that is 1 in `percent` of the cycles, at random; `now` is its value."""

    def __init__(self, pins: Pins, name: str, percent: int, numbers: random.Random) -> None:
        self._pin, self._percent, self._random = pins.pin(name), percent, numbers
        self.now = 0

    def drive(self) -> None:
        """Choose."""
        self.now = int(percent(self._random) < self._percent)
        self._pin.set(self.now)

    def sample(self) -> None:
        """Nothing to see."""


class Bench:
    """One block of the top, its clock and its agents."""

    def __init__(self, dut: Any, name: str, block: wiring.Component, seed: int) -> None:
        self.dut, self.pins, self.block = dut, Pins(dut, f"{name}__" if name else ""), block
        self.random = random.Random(seed)
        self.cycle = 0
        self._drives: list[Callable[[], None]] = []  # of every agent
        self._samples: list[Callable[[], None]] = []
        self._settled, self._edge = ReadOnly(), FallingEdge(dut.clk)

    @classmethod
    async def start(cls, dut: Any, name: str, block: wiring.Component, seed: int, **inputs: int) -> "Bench":
        """The bench of block `name`, or of the top itself if that is empty, with a running clock, after reset.

        inputs   pins that no agent drives, with their values from reset on; every other input is 0
        """
        bench = cls(dut, name, block, seed)
        Pin.settled = False
        for known in Pins.every.values():  # what the test before left behind
            if known is not None and known.driven is not None:
                known.set(0)
        for pin, value in inputs.items():
            bench.pins.set(pin, value)
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, "ns").start()
        for _ in range(2):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        return bench

    def add(self, agent: Any) -> Any:
        """Let an agent take part in every cycle, after those added before."""
        self._drives.append(agent.drive)
        self._samples.append(agent.sample)
        return agent

    def port(self, name: str) -> StreamPort:
        """The block's stream `name`; `__` leads into an interface."""
        signature = self.block.signature
        for step in name.split("__"):
            signature = signature.members[step].signature
        pins = self.pins
        for step in name.split("__"):
            pins = pins.at(step)
        return StreamPort(pins, signature.members["payload"].shape)

    def source(self, name: str, stall: int = 0, items: Iterable[Item] = ()) -> Source:
        """A source on the block's stream `name`."""
        source: Source = self.add(Source(self.port(name), stall, self.random))
        source.queue.extend(items)
        return source

    def sink(self, name: str, stall: int = 0, take: Callable[[Item], object] = lambda item: None) -> Sink:
        """A sink on the block's stream `name`; `take` is called with each item in the cycle in which it is transferred."""
        sink: Sink = self.add(Sink(name, self.port(name), stall, self.random, take))
        return sink

    async def step(self) -> None:
        """One cycle, from falling edge to falling edge: a test may set pins before and after it."""
        for drive in self._drives:
            drive()
        await self._settled
        Pin.settled = True
        for sample in self._samples:
            sample()
        Pin.settled = False
        self.cycle += 1
        await self._edge

    def watch(self, *names: str, see: Callable[[dict[str, int]], object] = lambda now: None) -> Watch:
        """Keep what pins are in each cycle."""
        watch: Watch = self.add(Watch(self.pins, names, see))
        return watch

    def chance(self, name: str, percent: int) -> Chance:
        """Drive an input at random."""
        chance: Chance = self.add(Chance(self.pins, name, percent, self.random))
        return chance

    async def run(self, done: Callable[[], bool], limit: int, what: str) -> None:
        """Cycles until `done`; at most `limit`, and `what` is what has not happened then."""
        for _ in range(limit):
            if done():
                return
            await self.step()
        assert done(), f"after {limit} cycles: {what}"

    async def rest(self, cycles: int = 20) -> None:
        """Cycles in which nothing more should happen."""
        for _ in range(cycles):
            await self.step()
