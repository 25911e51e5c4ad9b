"""The store stage: STOREs, from the accumulator to DRAM."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.decoder import FAULT_BITS
from vtakit.hw.interfaces import COMMAND, INDEX_BITS, axi_write, layout, sram_read
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import STORE, Stage
from vtakit.hw.params import CoreParams
from vtakit.hw.retire import Retire
from vtakit.hw.stage import Cause, token_members, tokens_there
from vtakit.hw.store_port import StorePort
from vtakit.hw.write_master import WriteMaster


class StoreStage(wiring.Component):
    """Members
    -------
    commands : ``In(stream)``            instructions, in order
    base_out : ``In``                    base register
    window_low, window_high : ``In``     bytes of DRAM that may be written
    acc : ``Out(sram_read)``             the ACC scratchpad, data one cycle after the index; acc_ready: the port is ours
    axi : ``Out(axi_write)``
    pop_prev, push_prev                  tokens from and to compute
    stop : ``In(1)``                     start no further burst
    fault, fault_index, cause, waits, index, empty    as in the load stage
    idle : ``Out(1)``                    no write is under way
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, cfg = params, params.cfg
        super().__init__({
            "commands": In(stream.Signature(COMMAND)), "base_out": In(params.address_bits),
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "acc": Out(sram_read(8 * cfg.acc_bytes, cfg.acc_depth_log2)), "acc_ready": In(1), "axi": Out(axi_write(params)),
            **token_members(Stage.STORE),
            "stop": In(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "cause": Out(3), "waits": Out(1),
            "index": Out(INDEX_BITS), "empty": Out(1), "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.port = port = StorePort(params)
        m.submodules.master = master = WriteMaster(params)
        m.submodules.retire = retire = Retire(1)
        connect(m, port.bursts, master.bursts)
        connect(m, port.beats, master.beats)
        connect(m, port.read, flipped(self.acc))
        connect(m, master.axi, flipped(self.axi))

        command = self.commands.payload
        f = data.View(layout(STORE, params.cfg), command.word)
        moving, start = Signal(), Signal()
        missing = tokens_there(m, self, Stage.STORE, params.cfg, command.word, start)["pop_prev"]
        m.d.comb += [
            moving.eq((f.x_size != 0) & (f.y_size != 0)),
            start.eq(self.commands.valid & ~missing & retire.started.ready & (~moving | port.commands.ready)),
            self.commands.ready.eq(start),
            port.commands.valid.eq(self.commands.valid & ~missing & retire.started.ready & moving),
            port.commands.payload.command.eq(command), port.commands.payload.base.eq(self.base_out),
            port.window_low.eq(self.window_low), port.window_high.eq(self.window_high), port.read_ready.eq(self.acc_ready),
            master.stop.eq(self.stop), self.idle.eq(master.idle),
            retire.started.valid.eq(start), retire.started.payload.unit.eq(moving),
            retire.started.payload.push_prev.eq(f.push_prev), retire.done.eq(master.done),
            self.push_prev.eq(retire.push_prev), self.empty.eq(retire.empty & ~self.commands.valid),
            self.waits.eq(self.commands.valid & missing & retire.empty), self.index.eq(command.index),
        ]
        with m.If(port.outside):
            m.d.comb += [self.fault.eq(Fault.SRAM_RANGE), self.fault_index.eq(port.index)]
        with m.Elif(port.dram_outside):
            m.d.comb += [self.fault.eq(Fault.DRAM_RANGE), self.fault_index.eq(port.index)]
        with m.Elif(master.error):
            m.d.comb += [self.fault.eq(Fault.BUS_WRITE), self.fault_index.eq(port.index)]
        with m.If(port.active):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Elif(~retire.empty):
            m.d.comb += self.cause.eq(Cause.WAIT_MEMORY)
        with m.Elif(self.commands.valid & missing):
            m.d.comb += self.cause.eq(Cause.WAIT_PREV)
        with m.Elif(self.commands.valid):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Else():
            m.d.comb += self.cause.eq(Cause.IDLE)
        return m
