"""Starting, stopping and ending: what happens to the core when the host asks, when a program ends, and when it is wrong."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import FAULT_BITS, INDEX_BITS
from vtakit.hw.isa.faults import Fault


class Supervisor(wiring.Component):
    """Empties the core, runs it, and stops it: after its last burst, so that the memory port is always left in order.

    Members
    -------
    start : ``In(1)``                       the host wants the program run; ignored while busy
    reset : ``In(1)``                       the host wants it stopped and the state forgotten, at any time
    ended, drained, fault, fault_index, fault_stage : ``In``   of the core
    late : ``In(1)``                        memory has not answered for too long
    clear : ``Out(1)``                      reset the core in the next cycle
    go, stop : ``Out(1)``                   start and stop of the core
    busy : ``Out(1)``                       from start to the end, draining included
    done : ``Out(1)``                       the last program ended with FINISH, all its writes accepted
    error, error_index, error_stage : ``Out``   the `Fault` that stopped it; kept until start or reset
    told : ``Out(1)``                       there is something to tell: a program has ended, or memory does not answer

    A core whose memory does not answer is stopped with the fault BUS_TIMEOUT and stays busy: an answer may still come.
    """

    def __init__(self) -> None:
        super().__init__({
            "start": In(1), "reset": In(1), "ended": In(1), "drained": In(1), "fault": In(FAULT_BITS),
            "fault_index": In(INDEX_BITS), "fault_stage": In(2), "late": In(1), "told": Out(1), "clear": Out(1), "go": Out(1),
            "stop": Out(1), "busy": Out(1),
            "done": Out(1), "error": Out(FAULT_BITS), "error_index": Out(INDEX_BITS), "error_stage": Out(2),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        resetting = Signal()
        ended = Signal()
        fault = Signal.like(self.fault)
        index = Signal.like(self.fault_index)
        stage = Signal.like(self.fault_stage)
        # A cycle late, to keep the core's long paths out of the state's.
        m.d.sync += [ended.eq(self.ended), fault.eq(self.fault), index.eq(self.fault_index), stage.eq(self.fault_stage)]
        # `clear`, `go` and `stop` reach every corner of the core: they come from registers of their own.
        m.d.comb += self.busy.eq(1)
        m.d.sync += [self.clear.eq(0), self.go.eq(0), self.told.eq(0)]
        timed_out = [self.error.eq(Fault.BUS_TIMEOUT), self.error_index.eq(0), self.error_stage.eq(0), self.told.eq(1)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                with m.If(self.start | self.reset):
                    m.d.sync += [self.done.eq(0), self.error.eq(0), self.error_index.eq(0), self.error_stage.eq(0)]
                    m.d.sync += self.clear.eq(1)
                with m.If(self.start & ~self.reset):
                    m.next = "START"
            with m.State("START"):  # `clear` is given, and then the core is in reset
                m.d.sync += resetting.eq(self.reset)
                m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.sync += [self.go.eq(1), resetting.eq(resetting | self.reset)]
                m.next = "BEGIN"
            with m.State("BEGIN"):  # what the run before has left on its way here is forgotten
                m.d.sync += [ended.eq(0), fault.eq(0), resetting.eq(resetting | self.reset)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += resetting.eq(resetting | self.reset)
                with m.If(resetting | self.reset):
                    m.d.sync += self.stop.eq(1)
                    m.next = "DRAIN"
                with m.Elif(self.late):
                    m.d.sync += [*timed_out, self.stop.eq(1)]
                    m.next = "DRAIN"
                with m.Elif(fault != 0):
                    m.d.sync += [self.error.eq(fault), self.error_index.eq(index), self.error_stage.eq(stage), self.stop.eq(1)]
                    m.next = "DRAIN"
                with m.Elif(ended):
                    m.d.sync += [self.done.eq(1), self.told.eq(1)]
                    m.next = "IDLE"
            with m.State("DRAIN"):  # `stop` holds from its first cycle on, so what is drained stays so
                m.d.sync += resetting.eq(resetting | self.reset)
                with m.If(self.drained):
                    m.d.sync += self.clear.eq(1)
                    m.next = "FORGET"
                with m.Elif(self.late):
                    m.d.sync += timed_out
            with m.State("FORGET"):  # or what is left of the program would go on once `stop` is 0
                m.d.sync += resetting.eq(resetting | self.reset)
                with m.If(~self.clear):
                    m.d.sync += [self.stop.eq(0), self.told.eq(1)]
                    with m.If(resetting | self.reset):
                        m.d.sync += [self.error.eq(0), self.error_index.eq(0), self.error_stage.eq(0)]
                    m.next = "IDLE"
        return m
