"""The machine itself: fetch, load, compute and store, their queues and scratchpads, behind one AXI4 port."""

from collections.abc import Iterable, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.compute.stage import ComputeStage
from vtakit.hw.fetch.fetch import Fetch
from vtakit.hw.interfaces import FAULT_BITS, INDEX_BITS, axi_read, axi_write
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FLAG_QUEUES, MEMORIES, TOKEN_QUEUE_DEPTH, Feature, MemType, Queue, Stage
from vtakit.hw.issue.stage import activity
from vtakit.hw.issue.token_queue import TokenQueue
from vtakit.hw.load.stage import LoadStage
from vtakit.hw.memory.read_master import ReadMaster
from vtakit.hw.memory.scratchpad import Scratchpad
from vtakit.hw.params import CoreParams
from vtakit.hw.store.stage import StoreStage
from vtakit.hw.timing import storage

QUIET_CYCLES = 8  # after this many in which nothing can move, a program that has not finished never will


class Core(wiring.Component):
    """Runs one program after each reset; `hw.control.supervisor` starts it and acts on its end.

    Members
    -------
    start : ``In(1)``                    begin
    stop : ``In(1)``                     begin nothing more; what the memory has been asked for is still taken
    insn_addr, insn_count : ``In``       where the program lies
    base_… : ``In``                      base register of each memory type
    window_low, window_high : ``In``     the bytes that transfers may touch
    read, write : ``Out``                the AXI4 channels
    ended : ``Out(1)``                   FINISH has retired, and nothing is under way
    fault, fault_index, fault_stage : ``Out``   what is wrong, as soon as it is met
    drained : ``Out(1)``                 no burst is in flight
    activity_load, activity_compute, activity_store    what each stage did in this cycle
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "stop": In(1), "insn_addr": In(params.address_bits), "insn_count": In(INDEX_BITS),
            **{f"base_{kind.name.lower()}": In(params.address_bits) for kind in MEMORIES},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "read": Out(axi_read(params)), "write": Out(axi_write(params)),
            "ended": Out(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "fault_stage": Out(2), "drained": Out(1),
            **{f"activity_{stage.name.lower()}": Out(activity()) for stage in Stage},
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
            m.d.comb += getattr(self, f"activity_{stage.name.lower()}").eq(block.status.activity)
        for kind in MEMORIES:
            name = f"base_{kind.name.lower()}"
            for block in stages.values():
                if name in block.signature.members:
                    m.d.comb += getattr(block, name).eq(getattr(self, name))
        # There is nothing beyond the address space, whatever the window says.
        window_high = Signal.like(self.window_high, reset_less=True)
        m.d.sync += window_high.eq(Mux(self.window_high[-1], 1 << params.address_bits, self.window_high))
        for block in stages.values():
            m.d.comb += [block.window_low.eq(self.window_low), block.window_high.eq(window_high)]

        for kind in (MemType.INP, MemType.WGT):
            to, name = storage(params, kind), kind.name.lower()
            m.submodules[name] = memory = Scratchpad(
                element_bits=to.word_bits, depth_log2=to.depth_log2, lanes=to.lanes, slices=to.slices,
                registered=kind is not MemType.INP or Feature.DWCONV not in params.features,
            )
            connect(m, getattr(load, name), memory.write)
            connect(m, getattr(compute, name), memory.read0)
        connect(m, store.acc, compute.store)
        m.d.comb += [store.acc_ready.eq(compute.store_ready), compute.store_asks.eq(store.acc_asks)]

        queues = {}
        for queue in Queue:
            m.submodules[queue.name.lower()] = queues[queue] = TokenQueue(TOKEN_QUEUE_DEPTH)
        givers = {}
        for (stage, flag), queue in FLAG_QUEUES.items():
            if flag.startswith("pop"):
                connect(m, queues[queue].pop, getattr(stages[stage], flag))
            else:
                givers[queue] = stage
                m.d.comb += [
                    queues[queue].push.eq(getattr(stages[stage], flag)),
                    queues[queue].index.eq(stages[stage].status.activity.retire_index),
                ]

        m.d.comb += [
            fetch.start.eq(self.start), fetch.address.eq(self.insn_addr), fetch.count.eq(self.insn_count),
            *(block.stop.eq(self.stop) for block in (reader, *stages.values())), self.drained.eq(reader.idle & store.idle),
        ]

        # Ending: FINISH has retired and nothing is under way; or nothing can move, since each stage is empty or waits for a
        # token that nobody under way will give.
        finished, started, empty, stuck = (Signal(name=name) for name in ("finished", "started", "empty", "stuck"))
        quiet = Signal(range(QUIET_CYCLES + 1))
        told = {stage: block.status for stage, block in stages.items()}
        m.d.comb += [
            empty.eq(told[Stage.LOAD].empty & told[Stage.COMPUTE].empty & told[Stage.STORE].empty & fetch.ended),
            self.ended.eq(finished & empty),
            stuck.eq(started & ~self.ended & (fetch.ended | fetch.blocked) & _all(s.empty | s.waits for s in told.values())),
        ]
        m.d.sync += [
            finished.eq(finished | compute.finished), started.eq(started | self.start),
            quiet.eq(Mux(stuck, Mux(quiet == QUIET_CYCLES, quiet, quiet + 1), 0)),
        ]
        earliest: Value = Const((1 << INDEX_BITS) - 1, INDEX_BITS)  # number of the earliest instruction that waits
        for stage, s in told.items():
            waits = Signal(name=f"{stage.name.lower()}_waits")
            index = Signal(INDEX_BITS, name=f"{stage.name.lower()}_index")
            m.d.sync += [waits.eq(s.waits), index.eq(s.index)]
            earliest = Mux(waits & (index < earliest), index, earliest)
        oldest = Signal(INDEX_BITS)
        m.d.sync += oldest.eq(earliest)
        # A stage's fault is known late in a cycle: it is told in the next. A faulty stage is not empty, so `ended` is no earlier.
        faults: list[tuple[Value, Value, Value, Stage]] = []
        for stage, s in told.items():
            fault = Signal(FAULT_BITS, name=f"{stage.name.lower()}_fault")
            index = Signal(INDEX_BITS, name=f"{stage.name.lower()}_fault_index")
            m.d.sync += fault.eq(s.fault)
            with m.If(s.fault != 0):
                m.d.sync += index.eq(s.fault_index)
            faults.append((fault != 0, fault, index, stage))
        met = _first(m, "met", [
            *((queues[q].overflow, Fault.TOKEN_OVERFLOW, queues[q].giver, givers[q]) for q in Queue),
            *faults,
            (fetch.fault != 0, fetch.fault, fetch.fault_index, Stage.COMPUTE),
        ])
        left = _first(m, "left", [(~queues[q].empty, Fault.TOKENS_LEFT, queues[q].giver, givers[q]) for q in Queue])
        locked = _first(m, "locked", [(quiet == QUIET_CYCLES, Fault.DEADLOCK, oldest, Stage.COMPUTE)])
        # `ended` is late in a cycle: it meets a fault that is chosen by then.
        chosen = Mux(met.fault != 0, met, Mux(self.ended & (left.fault != 0), left, locked))
        m.d.comb += Cat(self.fault, self.fault_index, self.fault_stage).eq(chosen)
        return m


def _first(m: Module, name: str, causes: Sequence[tuple[Value, Value | Fault, Value, Stage]]) -> data.View:
    """Return the first of the faults that happens, the number of its instruction, and the stage; 0 if none does."""
    found = Signal(data.StructLayout({"fault": FAULT_BITS, "index": INDEX_BITS, "stage": 2}), name=name)
    for happens, fault, index, stage in reversed(causes):
        with m.If(happens):
            m.d.comb += [found.fault.eq(fault), found.index.eq(index), found.stage.eq(stage)]
    return found


def _all(bits: Iterable[Value]) -> Value:
    found: Value = Const(1, 1)
    for bit in bits:
        found = found & bit
    return found
