"""Properties around a block: free inputs, assumptions on them, assertions on the outputs, situations that must be reachable."""

from amaranth.hdl import ClockDomain, Module, Shape, ShapeCastable, Signal, Value
from amaranth.lib import data

from vtakit.hw.params import CoreParams


class SmallParams(CoreParams):
    """A memory port without the product's lower bounds, so that its state is small enough for a proof."""

    def __post_init__(self) -> None:
        pass


class Checker:
    """Base of all checkers: a subclass writes `properties`, which puts the block and what is said of it into a module.

    Inputs are free: the solver may give them any value in any cycle that the assumptions allow.
    """

    def __init__(self) -> None:
        self.domain = ClockDomain("sync", reset_less=True)
        self.inputs: dict[str, Value] = {}
        self.watched: dict[str, Value] = {}
        self.assumptions: dict[str, Signal] = {}
        self.assertions: dict[str, Signal] = {}
        self.covers: dict[str, Signal] = {}

    def properties(self, m: Module) -> None:
        """Add the block, its surroundings and the properties to `m`."""
        raise NotImplementedError

    def free(self, name: str, shape: Shape | ShapeCastable | int = 1) -> Value:
        """An input of this name; asked for twice, it is the same."""
        if name not in self.inputs:
            self.inputs[name] = Signal(shape, name=name)
        return self.inputs[name]

    def constant(self, m: Module, name: str, shape: Shape | ShapeCastable | int) -> Value:
        """An input that may have any value, and keeps it."""
        value = self.free(name, shape)
        before, begun = Signal(len(Value.cast(value)), name=f"{name}_before"), Signal(name=f"{name}_begun")
        m.d.sync += [before.eq(value), begun.eq(1)]
        self.assume(m, f"{name} does not change", ~begun | (Value.cast(value) == before))
        return value

    def watch(self, **values: Value) -> None:
        """Show these values in the trace of a counterexample, after the inputs."""
        self.watched |= values

    def assume(self, m: Module, meaning: str, condition: Value) -> None:
        """The block's surroundings keep `condition` in every cycle."""
        self._property(m, self.assumptions, meaning, condition)

    def prove(self, m: Module, meaning: str, condition: Value) -> None:
        """To be proved: `condition` holds in every cycle (inside `m.If`: in those of its cycles)."""
        self._property(m, self.assertions, meaning, condition)

    def reach(self, m: Module, meaning: str, condition: Value) -> None:
        """To be shown: some run makes `condition` true, so the proofs speak of it."""
        assert meaning not in self.covers, meaning
        self.covers[meaning] = signal = Signal(name=f"reach_{len(self.covers)}")
        m.d.comb += signal.eq(condition)

    def _property(self, m: Module, kept: dict[str, Signal], meaning: str, condition: Value) -> None:
        assert meaning not in kept, meaning
        kept[meaning] = signal = Signal(name=f"property_{len(self.assumptions)}_{len(self.assertions)}", init=1)
        m.d.comb += signal.eq(condition)

    def module(self) -> Module:
        """The block with its surroundings; the properties are signals, not yet assumed or asserted."""
        self.watched, self.assumptions, self.assertions, self.covers = {}, {}, {}, {}
        m = Module()
        m.domains.sync = self.domain
        self.properties(m)
        return m


def held(m: Module, valid: Value, ready: Value, payload: Value) -> Value:
    """Whether a stream keeps its promise: once valid, it stays so with the same payload until it is taken."""
    waits, before = Signal(), Signal(Value.cast(payload).shape())
    m.d.sync += [waits.eq(valid & ~ready), before.eq(payload)]
    return ~waits | (valid & (before == Value.cast(payload)))


class Scoreboard:
    """A first-in first-out list of what is owed, as simple as can be: entry 0 is the oldest."""

    def __init__(self, m: Module, name: str, shape: Shape | ShapeCastable | int, depth: int) -> None:
        self.depth = depth
        self.count = Signal(range(depth + 1), name=f"{name}_count")
        self.entries = [Signal(shape, name=f"{name}_{n}") for n in range(depth)]
        self._m = m

    @property
    def oldest(self) -> Value | data.View:
        """What is owed next, if `count` is not 0."""
        return self.entries[0]

    def update(self, push: Value, pushed: Value, pop: Value) -> None:
        """Append `pushed` when `push`, and drop the oldest when `pop`, in the same cycle if both."""
        self._m.d.sync += self.count.eq(self.count + push - pop)
        following = [*self.entries[1:], self.entries[-1]]
        for n, (entry, later) in enumerate(zip(self.entries, following, strict=True)):
            with self._m.If(push & (self.count == n + pop)):
                self._m.d.sync += entry.eq(pushed)
            with self._m.Elif(pop):
                self._m.d.sync += entry.eq(later)
