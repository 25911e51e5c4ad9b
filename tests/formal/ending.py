"""The end of a program: the real core's and supervisor's logic around stages that do whatever they like."""

from unittest.mock import patch

from amaranth.hdl import Const, Fragment, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from formal.checker import Checker

from vtakit.hw import core
from vtakit.hw.control.supervisor import Supervisor
from vtakit.hw.core import Core
from vtakit.hw.isa.insns import Stage
from vtakit.hw.params import CoreParams

FREED = ("Fetch", "LoadStage", "ComputeStage", "StoreStage", "ReadMaster", "Scratchpad")


class DoneAfterAllWrites(Checker):
    """Core and Supervisor as they are, with the blocks in `FREED` replaced by ones whose outputs are free.

    What is assumed of those, and proved of the real store stage in `formal.stores`: an empty stage, and an idle one, has nothing
    on the write channels and nothing unanswered; one that is idle and stopped stays idle. What is assumed and not proved: a core
    that was cleared does nothing before its start; and once FINISH has retired, fetch has handed out all
    instructions, and all three stages are empty, they stay so until the next start; that is, no instruction is then still on its
    way through a command queue.
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__()

    def properties(self, m: Module) -> None:
        made: dict[str, wiring.Component] = {}
        freed = {name: self._freed(getattr(core, name), made) for name in FREED}

        class AbstractCore(Core):
            def elaborate(self, platform: object) -> Module:
                with patch.dict(Core.elaborate.__globals__, TOKEN_QUEUE_DEPTH=1, **freed):
                    return super().elaborate(platform)

        top = AbstractCore(self._params)
        m.submodules.supervisor = supervisor = Supervisor()
        cleared = Signal()  # as in `hw.top`, a cycle after `clear`
        m.submodules.core = ResetInserter(cleared)(Fragment.get(top, None))  # made at once, for `made`
        m.d.sync += cleared.eq(supervisor.clear)
        m.d.comb += [
            supervisor.start.eq(self.free("start")), supervisor.reset.eq(self.free("reset")), top.start.eq(supervisor.go),
            top.stop.eq(supervisor.stop),
            *(getattr(supervisor, n).eq(getattr(top, n)) for n in ("ended", "drained", "fault", "fault_index", "fault_stage")),
        ]
        fetch, store = made["Fetch"], made["StoreStage"]
        stages = [made[f"{stage.name.capitalize()}Stage"] for stage in Stage]
        # Bursts that the memory has not answered: free, but none while the stage is empty or idle, as `formal.stores` proves.
        unanswered = self.free("unanswered")
        quiet = ~top.write.aw.valid & ~top.write.w.valid & ~unanswered
        empty = fetch.ended
        for block in stages:
            empty = empty & block.status.empty
        self.assume(m, "an empty store stage has nothing to write", ~store.status.empty | quiet)
        self.assume(m, "an idle store stage has nothing on its way", ~store.idle | quiet)
        finished, over, untouched, stopped = (Signal(name=name) for name in ("finished", "over", "untouched", "stopped"))
        m.d.sync += [
            finished.eq((finished | made["ComputeStage"].finished) & ~supervisor.clear),
            over.eq((over | (empty & finished)) & ~supervisor.clear), stopped.eq(store.idle & store.stop),
        ]
        with m.If(supervisor.clear):
            m.d.sync += untouched.eq(1)
        with m.Elif(supervisor.go):
            m.d.sync += untouched.eq(0)
        began = self._seen(m, supervisor.clear)
        self.assume(m, "what is over stays so until the next start", ~over | empty)
        self.assume(m, "a store stage that is idle and stopped stays idle", ~stopped | store.idle)
        self.assume(m, "a cleared core does nothing before its start", ~(untouched | ~began) | store.idle)
        self.watch(
            busy=supervisor.busy, done=supervisor.done, error=supervisor.error, stop=supervisor.stop, clear=supervisor.clear,
            ended=top.ended, drained=top.drained, fault=top.fault, aw_valid=top.write.aw.valid, w_valid=top.write.w.valid,
        )
        self.prove(m, "done: no write is on its way", ~supervisor.done | quiet)
        self.prove(m, "done: not busy, and no error", ~supervisor.done | (~supervisor.busy & (supervisor.error == 0)))
        self.prove(m, "done only after FINISH has retired", ~supervisor.done | finished | supervisor.clear)
        self.prove(m, "not busy: no write is on its way", supervisor.busy | quiet)
        self.prove(m, "a core is cleared only when no write is on its way", ~supervisor.clear | quiet)
        self.reach(m, "done", supervisor.done)
        self.reach(m, "done again after an error", supervisor.done & self._seen(m, supervisor.error != 0))
        self.reach(m, "stopped while writes are on their way", supervisor.stop & top.write.w.valid)

    @staticmethod
    def _seen(m: Module, condition: Value) -> Value:
        seen = Signal()
        m.d.sync += seen.eq(seen | condition)
        return seen

    def _freed(self, block: type, made: dict[str, wiring.Component]) -> type:
        """A block of the same boundary, whose outputs are free."""
        checker = self

        class Freed(block):  # type: ignore[misc, valid-type]
            def elaborate(self, platform: object) -> Module:
                m, name = Module(), block.__name__
                for path, member, value in self.signature.flatten(self):
                    if member.flow is Out and not isinstance(value, Const):
                        m.d.comb += value.eq(checker.free("_".join([name, *map(str, path)]), len(Value.cast(value))))
                return m

            def __init__(self, *args: object, **settings: object) -> None:
                super().__init__(*args, **settings)
                made[block.__name__] = self

        return Freed
