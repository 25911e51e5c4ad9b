"""In-order issue: a stage's instructions start once their tokens are there, and give theirs when they retire."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import COMMAND, INDEX_BITS, layout
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import FLAG_QUEUES, LOAD, Opcode, Stage
from vtakit.hw.issue.retire import Retire
from vtakit.hw.issue.stage import token_members


class Issue(wiring.Component):
    """Hands each instruction to the unit that does it, all its tokens taken in the same cycle.

    Members
    -------
    commands : ``In(stream)``               instructions, in order
    unit : ``In``                           the unit of the instruction at hand; 0: there is nothing to do
    offers : ``Out(units)``                 bit n: the instruction is for unit n + 1, and may start
    takes : ``In(units)``                   bit n: unit n + 1 would take it
    done : ``In(units)``                    bit n: unit n + 1 has finished its oldest instruction
    pop_…, push_…                           tokens, those that the stage has
    stop : ``In(1)``                        start nothing
    starts : ``Out(1)``                     the instruction at hand starts
    retires : ``Out(1)``, retire_index      the oldest instruction under way retires; its number
    finished : ``Out(1)``                   and it is FINISH
    lacks_prev, lacks_next : ``Out(1)``     the instruction at hand lacks a token
    none_started : ``Out(1)``               no instruction is under way
    """

    def __init__(self, cfg: VTAConfig, stage: Stage, units: int) -> None:
        self._cfg, self._stage, self._units = cfg, stage, units
        super().__init__({
            "commands": In(stream.Signature(COMMAND)), "unit": In(range(units + 1)), "offers": Out(units), "takes": In(units),
            "done": In(units), **token_members(stage), "stop": In(1), "starts": Out(1), "retires": Out(1),
            "retire_index": Out(INDEX_BITS), "finished": Out(1), "lacks_prev": Out(1), "lacks_next": Out(1),
            "none_started": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.retire = retire = Retire(self._units)
        command = self.commands.payload
        f = data.View(layout(LOAD, self._cfg), command.word)  # the flags lie alike in all instructions
        for side, lacks in (("prev", self.lacks_prev), ("next", self.lacks_next)):
            if (self._stage, f"pop_{side}") in FLAG_QUEUES:
                tokens, wanted = getattr(self, f"pop_{side}"), f[f"pop_{side}"]
                m.d.comb += [lacks.eq(self.commands.valid & wanted & ~tokens.valid), tokens.ready.eq(self.starts & wanted)]
            if (self._stage, f"push_{side}") in FLAG_QUEUES:
                m.d.comb += getattr(self, f"push_{side}").eq(getattr(retire, f"push_{side}"))
        may = Signal()
        m.d.comb += [
            may.eq(self.commands.valid & ~self.lacks_prev & ~self.lacks_next & retire.started.ready & ~self.stop),
            self.offers.eq(Cat(may & (self.unit == n + 1) for n in range(self._units))),
            self.starts.eq(may & Cat(Const(1, 1), self.takes).bit_select(self.unit, 1)), self.commands.ready.eq(self.starts),
            retire.started.valid.eq(self.starts), retire.started.payload.unit.eq(self.unit),
            retire.started.payload.push_prev.eq(f.push_prev), retire.started.payload.push_next.eq(f.push_next),
            retire.started.payload.finish.eq(f.opcode == Opcode.FINISH), retire.started.payload.index.eq(command.index),
            retire.done.eq(self.done), self.retires.eq(retire.retires), self.retire_index.eq(retire.index),
            self.finished.eq(retire.finish), self.none_started.eq(retire.empty),
        ]
        return m

    def tell(self, m: Module, status: wiring.PureInterface) -> None:
        """Drive what a stage's `status` says of its instructions."""
        m.d.comb += [
            status.activity.starts.eq(self.starts), status.activity.start_index.eq(self.commands.payload.index),
            status.activity.retires.eq(self.retires), status.activity.retire_index.eq(self.retire_index),
            status.empty.eq(self.none_started & ~self.commands.valid), status.index.eq(self.commands.payload.index),
            status.waits.eq((self.lacks_prev | self.lacks_next) & self.none_started),
        ]
