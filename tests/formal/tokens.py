"""Token queues: no token is lost or invented."""

from amaranth.hdl import Module, Signal
from formal.checker import Checker

from vtakit.hw.issue.token_queue import TokenQueue


class TokensAreKept(Checker):
    """The count of tokens pushed, less those taken, less those that `overflow` reports as lost, is what the queue holds.

    The count starts at 0, changes by each event as it happens and by nothing else, and is proved to stay from 0 to `depth`:
    so none is taken that was not pushed before, and none that was pushed and not reported is gone.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        super().__init__()

    def properties(self, m: Module) -> None:
        m.submodules.queue = queue = TokenQueue(self._depth)
        push, ready = self.free("push"), self.free("pop_ready")
        taken, loses, lost, inside = Signal(), Signal(), Signal(), Signal(range(2 * self._depth + 2))
        m.d.comb += [
            queue.push.eq(push), queue.pop.ready.eq(ready), taken.eq(queue.pop.valid & ready),
            loses.eq(push & ~taken & (inside == self._depth)),
        ]
        m.d.sync += [inside.eq(inside + push - taken - loses), lost.eq(loses)]
        self.watch(pop_valid=queue.pop.valid, overflow=queue.overflow, empty=queue.empty, inside=inside)
        self.prove(m, "never more tokens than the depth, never fewer than none", inside <= self._depth)
        self.prove(m, "a token can be taken exactly when one is there", queue.pop.valid == (inside != 0))
        self.prove(m, "empty says that none is there", queue.empty == (inside == 0))
        self.prove(m, "overflow says, a cycle late, that a token was pushed into a full queue that gave none away: it is lost",
                   queue.overflow == lost)
        index, giver = self.free("index", 1), Signal()
        m.d.comb += queue.index.eq(index)
        with m.If(push):
            m.d.sync += giver.eq(index)
        self.prove(m, "the giver is the last that pushed", queue.giver == giver)
        self.reach(m, "push and take in one cycle, full", push & taken & (inside == self._depth))
        self.reach(m, "overflow", queue.overflow)
