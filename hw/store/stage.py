"""The store stage: STOREs, from the accumulator to DRAM."""

from amaranth.hdl import Module
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import COMMAND, INDEX_BITS, axi_write, sram_read
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Stage
from vtakit.hw.issue.issue import Issue
from vtakit.hw.issue.stage import Cause, attribute, status, token_members
from vtakit.hw.memory.write_master import WriteMaster
from vtakit.hw.params import CoreParams
from vtakit.hw.store.port import StorePort
from vtakit.hw.timing import INSNS_STARTED


class StoreStage(wiring.Component):
    """Members
    -------
    commands : ``In(stream)``            instructions, in order
    base_out : ``In``                    base register
    window_low, window_high : ``In``     bytes of DRAM that may be written
    acc : ``Out(sram_read)``             the ACC scratchpad, data one cycle after the index
    acc_asks, acc_ready                  a read waits for nothing but the port; the port is ours in this cycle
    axi : ``Out(axi_write)``
    pop_prev, push_prev                  tokens from and to compute
    stop : ``In(1)``                     start no instruction and no burst
    status : ``Out(status)``
    idle : ``Out(1)``                    no write burst is under way
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, cfg = params, params.cfg
        super().__init__({
            "commands": In(stream.Signature(COMMAND)), "base_out": In(params.address_bits),
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "acc": Out(sram_read(8 * cfg.acc_bytes, cfg.acc_depth_log2)), "acc_asks": Out(1), "acc_ready": In(1),
            "axi": Out(axi_write(params)),
            **token_members(Stage.STORE), "stop": In(1), "status": Out(status()), "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.port = port = StorePort(params)
        m.submodules.master = master = WriteMaster(params)
        m.submodules.issue = issue = Issue(params.cfg, Stage.STORE, 1)
        # STOREs that write and are not yet done: answers come in their order, so one that is an error is the oldest's. The oldest
        # under way in `issue` may be another: it retires after its last answer, and some STOREs write nothing.
        m.submodules.writers = writers = fifo.SyncFIFO(width=INDEX_BITS, depth=INSNS_STARTED)
        connect(m, port.bursts, master.bursts)
        connect(m, port.beats, master.beats)
        connect(m, port.read, flipped(self.acc))
        connect(m, master.axi, flipped(self.axi))
        connect(m, flipped(self.commands), issue.commands)
        connect(m, flipped(self.pop_prev), issue.pop_prev)
        issue.tell(m, self.status)

        command = self.commands.payload
        m.d.comb += [
            issue.unit.eq(command.works), issue.takes.eq(port.commands.ready), issue.done.eq(master.done),
            issue.stop.eq(self.stop), self.push_prev.eq(issue.push_prev),
            port.commands.valid.eq(issue.offers), port.commands.payload.command.eq(command),
            port.commands.payload.base.eq(self.base_out),
            port.window_low.eq(self.window_low), port.window_high.eq(self.window_high), port.read_ready.eq(self.acc_ready),
            self.acc_asks.eq(port.active & ~port.stalled),
            master.stop.eq(self.stop), self.idle.eq(master.idle),
            writers.w_en.eq(port.commands.valid & port.commands.ready), writers.w_data.eq(command.index),
            writers.r_en.eq(master.done),
        ]
        with m.If(master.error):
            m.d.comb += [self.status.fault.eq(Fault.BUS_WRITE), self.status.fault_index.eq(writers.r_data)]
        with m.Elif(port.outside):
            m.d.comb += [self.status.fault.eq(Fault.SRAM_RANGE), self.status.fault_index.eq(port.index)]
        with m.Elif(port.dram_outside):
            m.d.comb += [self.status.fault.eq(Fault.DRAM_RANGE), self.status.fault_index.eq(port.index)]
        attribute(m, self.status.activity.cause, {
            Cause.BUSY: (port.active & ~port.stalled) | issue.starts,
            Cause.WAIT_MEMORY: ~issue.none_started,
            Cause.WAIT_PREV: issue.lacks_prev,
        })
        return m
