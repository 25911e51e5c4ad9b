"""The accelerator: fetch, load, compute and store, their queues and scratchpads, behind one AXI4 port."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.compute_stage import ComputeStage
from vtakit.hw.decoder import FAULT_BITS
from vtakit.hw.fetch import COUNT_BITS, Fetch
from vtakit.hw.interfaces import INDEX_BITS, axi_read, axi_write
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FLAG_QUEUES, MEMORIES, TOKEN_QUEUE_DEPTH, MemType, Queue, Stage
from vtakit.hw.load_stage import LoadStage, target
from vtakit.hw.params import CoreParams
from vtakit.hw.read_master import ReadMaster
from vtakit.hw.scratchpad import Scratchpad
from vtakit.hw.store_stage import StoreStage
from vtakit.hw.token_queue import TokenQueue

QUIET_CYCLES = 8  # after this many in which nothing can move, a program that has not finished never will


class Core(wiring.Component):
    """Members
    -------
    start : ``In(1)``                    run the program; only after reset or when not busy
    insn_addr, insn_count : ``In``       where it lies
    base_… : ``In``                      base register of each memory type
    window_low, window_high : ``In``     the bytes that transfers may touch
    read, write : ``Out``                the AXI4 channels
    busy, done : ``Out(1)``              a program runs; the last one ended with FINISH
    fault, fault_index, fault_stage : ``Out``   why it was stopped instead
    cause_load, cause_compute, cause_store : ``Out(3)``   what each stage's cycle was spent on
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "insn_addr": In(params.address_bits), "insn_count": In(COUNT_BITS),
            **{f"base_{kind.name.lower()}": In(params.address_bits) for kind in MEMORIES},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "read": Out(axi_read(params)), "write": Out(axi_write(params)),
            "busy": Out(1), "done": Out(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "fault_stage": Out(2),
            **{f"cause_{stage.name.lower()}": Out(3) for stage in Stage},
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.fetch = fetch = Fetch(params)
        m.submodules.load = load = LoadStage(params)
        m.submodules.compute = compute = ComputeStage(params)
        m.submodules.store = store = StoreStage(params)
        m.submodules.reader = reader = ReadMaster(params, 3)
        stages: dict[Stage, Any] = {Stage.LOAD: load, Stage.COMPUTE: compute, Stage.STORE: store}
        connect(m, fetch.requests, reader.requests0)
        connect(m, reader.returned0, fetch.returned)
        connect(m, compute.requests, reader.requests1)
        connect(m, reader.returned1, compute.returned)
        connect(m, load.requests, reader.requests2)
        connect(m, reader.returned2, load.returned)
        connect(m, reader.axi, flipped(self.read))
        connect(m, store.axi, flipped(self.write))
        for stage, block in stages.items():
            connect(m, getattr(fetch, stage.name.lower()), block.commands)
            m.d.comb += getattr(self, f"cause_{stage.name.lower()}").eq(block.cause)
        for kind in MEMORIES:
            name = f"base_{kind.name.lower()}"
            for block in stages.values():
                if name in block.signature.members:
                    m.d.comb += getattr(block, name).eq(getattr(self, name))
        for block in stages.values():
            m.d.comb += [block.window_low.eq(self.window_low), block.window_high.eq(self.window_high)]

        for kind in (MemType.INP, MemType.WGT):
            to, name = target(params, kind), kind.name.lower()
            m.submodules[name] = memory = Scratchpad(
                element_bits=8 * to.element_bytes, depth_log2=to.depth.bit_length() - 1, lanes=to.lanes, slices=to.beats(params),
            )
            connect(m, getattr(load, name), memory.write)
            connect(m, getattr(compute, name), memory.read0)
        connect(m, store.acc, compute.store)
        m.d.comb += store.acc_ready.eq(compute.store_ready)

        overflow, left = Signal(), Signal()
        queues = {}
        for queue in Queue:
            m.submodules[queue.name.lower()] = queues[queue] = TokenQueue(TOKEN_QUEUE_DEPTH)
        for (stage, flag), queue in FLAG_QUEUES.items():
            if flag.startswith("pop"):
                connect(m, queues[queue].pop, getattr(stages[stage], flag))
            else:
                m.d.comb += queues[queue].push.eq(getattr(stages[stage], flag))
        m.d.comb += [
            overflow.eq(sum((q.overflow for q in queues.values()), start=0) != 0),
            left.eq(sum((~q.empty for q in queues.values()), start=0) != 0),
        ]

        # Running, stopping, ending.
        stopping, finished = Signal(), Signal()
        m.d.comb += [
            fetch.start.eq(self.start), fetch.address.eq(self.insn_addr), fetch.count.eq(self.insn_count),
            fetch.stop.eq(stopping), reader.stop.eq(stopping), compute.stop.eq(stopping), store.stop.eq(stopping),
        ]
        found, found_index, found_stage = Signal(FAULT_BITS), Signal(INDEX_BITS), Signal(2)
        empty = load.empty & compute.empty & store.empty
        ended = finished & empty & fetch.ended
        # Nothing can move: each stage is empty or waits for a token that nobody under way will give.
        stuck = Signal()
        quiet = Signal(range(QUIET_CYCLES + 1))
        m.d.comb += stuck.eq(
            self.busy & ~stopping & (load.empty | load.waits) & (compute.empty | compute.waits) & (store.empty | store.waits)
            & (fetch.ended | fetch.blocked) & ~ended
        )
        m.d.sync += quiet.eq(Mux(stuck, Mux(quiet == QUIET_CYCLES, quiet, quiet + 1), 0))
        oldest: Value = Const((1 << INDEX_BITS) - 1)  # number of the earliest instruction that waits
        for block in stages.values():
            oldest = Mux(block.waits & (block.index < oldest), block.index, oldest)
        causes = [
            (overflow, Fault.TOKEN_OVERFLOW, compute.index, Stage.COMPUTE),
            *((block.fault != 0, block.fault, block.fault_index, stage) for stage, block in stages.items()),
            (fetch.fault != 0, fetch.fault, fetch.fault_index, Stage.COMPUTE),
            (reader.error, Fault.BUS_READ, compute.index, Stage.COMPUTE),
            (ended & left, Fault.TOKENS_LEFT, self.insn_count - 1, Stage.COMPUTE),
            (quiet == QUIET_CYCLES, Fault.DEADLOCK, oldest, Stage.COMPUTE),
        ]
        for happens, fault, index, stage in reversed(causes):
            with m.If(happens):
                m.d.comb += [found.eq(fault), found_index.eq(index), found_stage.eq(stage)]
        with m.If(compute.finished):
            m.d.sync += finished.eq(1)
        with m.If(self.busy & ~stopping & (found != 0)):
            m.d.sync += [stopping.eq(1), self.fault.eq(found), self.fault_index.eq(found_index), self.fault_stage.eq(found_stage)]
        with m.Elif(self.busy & ~stopping & ended):
            m.d.sync += [self.busy.eq(0), self.done.eq(1)]
        with m.If(stopping & reader.idle & store.idle & ~self.read.ar.valid & ~self.write.aw.valid):
            m.d.sync += self.busy.eq(0)
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), self.done.eq(0), finished.eq(0)]
        return m
