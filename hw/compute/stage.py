"""The compute stage: micro-op and accumulator loads, GEMM, ALU and FINISH, overlapped where their order allows.

Instructions are started in order. Loads and arithmetic then run side by side, on two rules:

- arithmetic starts once every older load has begun to write, and a step waits for the element that the load in hand has not
  yet written;
- a load begins to write once older arithmetic has read its last micro-op (UOP) or written its last result (ACC); its reads
  of DRAM are under way long before.

They retire in order, and only then give their tokens.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.compute.acc_memory import AccMemory
from vtakit.hw.compute.acc_writer import AccWriter
from vtakit.hw.compute.arithmetic import Arithmetic
from vtakit.hw.compute.steps import StepGenerator, ordered_command
from vtakit.hw.interfaces import COMMAND, burst, layout, read_beat, sram_read
from vtakit.hw.isa.config import UOP_BITS
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, Feature, MemType, Opcode, Stage
from vtakit.hw.issue.issue import Issue
from vtakit.hw.issue.stage import Cause, attribute, status, token_members
from vtakit.hw.load.port import LoadPort
from vtakit.hw.load.stage import connect_write
from vtakit.hw.memory.scratchpad import Scratchpad
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import HeadFIFO, Slice
from vtakit.hw.timing import (
    ARITHMETIC_AHEAD,
    LOAD_COUNT_BITS,
    LOADS_AHEAD,
    PATIENCE,
    STORE_PATIENCE,
    compute_targets,
    storage,
)

LOADS, ARITHMETIC = 1, 2  # units


class ComputeStage(wiring.Component):
    """Members
    -------
    commands : ``In(stream)``                instructions, in order
    base_uop, base_acc, base_acc_8bit : ``In``    base registers
    window_low, window_high : ``In``         bytes of DRAM that may be read
    requests, returned : ``stream``          read bursts and their beats
    inp, wgt : ``Out(sram_read)``            tiles, two cycles after the index; inp one cycle, with DWCONV
    store : ``In(sram_read)``                the store stage's reads of ACC, one cycle
    store_asks, store_ready                  a read waits for nothing but the port; it is taken in this cycle
    pop_prev, pop_next, push_prev, push_next tokens from and to load (prev) and store (next)
    finished : ``Out(1)``                    FINISH retires
    stop : ``In(1)``                         start nothing
    status : ``Out(status)``
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, cfg = params, params.cfg
        self._kinds = [to.kind for to in compute_targets(params)]
        super().__init__({
            "commands": In(stream.Signature(COMMAND)),
            **{f"base_{kind.name.lower()}": In(params.address_bits) for kind in self._kinds},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(read_beat(params), always_ready=True)),
            "inp": Out(sram_read(8 * cfg.inp_bytes, cfg.inp_depth_log2)),
            "wgt": Out(sram_read(storage(params, MemType.WGT).word_bits, storage(params, MemType.WGT).depth_log2)),
            "store": In(sram_read(8 * cfg.acc_bytes, cfg.acc_depth_log2)), "store_asks": In(1), "store_ready": Out(1),
            **token_members(Stage.COMPUTE), "finished": Out(1), "stop": In(1), "status": Out(status()),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, cfg = Module(), self._params, self._params.cfg
        to_uop, *_ = targets = compute_targets(params)
        m.submodules.port = port = LoadPort(params, targets)
        m.submodules.acc_writer = acc_writer = AccWriter(params)
        windows = Feature.DWCONV in params.features
        m.submodules.steps = steps = StepGenerator(cfg, windows=windows)
        m.submodules.arithmetic = arithmetic = Arithmetic(
            cfg, windows=windows, dsp_products=params.dsp_products, gemm_passes=params.gemm_passes,
            mul_passes=params.mul_passes, acc_copies=params.acc_copies)
        m.submodules.issue = issue = Issue(cfg, Stage.COMPUTE, 2)
        m.submodules.uop = uop = Scratchpad(
            element_bits=UOP_BITS, depth_log2=cfg.uop_depth_log2, lanes=to_uop.lanes, registered=False,
        )
        m.submodules.acc = acc = AccMemory(cfg, copies=params.acc_copies)
        connect(m, port.requests, flipped(self.requests))
        connect(m, flipped(self.returned), port.returned)
        connect(m, flipped(self.commands), issue.commands)
        connect(m, flipped(self.pop_prev), issue.pop_prev)
        connect(m, flipped(self.pop_next), issue.pop_next)
        issue.tell(m, self.status)
        connect(m, steps.steps, arithmetic.steps)
        connect(m, steps.uop, uop.read0)
        connect(m, arithmetic.acc, acc.read0)
        connect(m, arithmetic.inp, flipped(self.inp))
        connect(m, arithmetic.wgt, flipped(self.wgt))
        connect_write(m, params, to_uop, port.write0, uop.write)
        connect(m, port.write1, acc_writer.acc)
        if cfg.has_acc8:
            connect(m, port.write2, acc_writer.acc8)

        # ACC: arithmetic writes first, its src reads first. A LOAD that has waited for its bank has one step left out for it, and
        # so has a STORE with one copy; steps that take the banks in turn, or stay on one element, do not let a LOAD wait so long.
        bubbles = Signal(arithmetic.latency)  # steps left out that are under way
        asks = Signal()  # for one more
        blocked = {"waits": (acc_writer.blocked, PATIENCE)}
        if params.acc_copies == 1:
            blocked["store_waits"] = self.store_asks & ~self.store_ready, STORE_PATIENCE
        waits = [Signal(range(most + 1), name=name) for name, (_, most) in blocked.items()]  # cycles that each has waited
        connect(m, arithmetic.result, acc.result)
        connect(m, acc_writer.write, acc.load)
        m.d.comb += [
            acc.writes.eq(arithmetic.writes), acc_writer.busy.eq(acc.load_busy),
            asks.eq((bubbles == 0) & reduce(or_, [
                one & (count == most) for (one, most), count in zip(blocked.values(), waits, strict=True)])),
            self.store_ready.eq(~arithmetic.src.enable & ~acc.read1_busy),
            acc.read1.enable.eq(arithmetic.src.enable | self.store.enable),
            acc.read1.index.eq(Mux(arithmetic.src.enable, arithmetic.src.index, self.store.index)),
            arithmetic.src.data.eq(acc.read1.data), self.store.data.eq(acc.read1.data),
        ]
        m.d.sync += [arithmetic.hold.eq(self.stop | asks), bubbles.eq(Cat(asks, bubbles))]
        for (one, most), count in zip(blocked.values(), waits, strict=True):
            with m.If(~one):
                m.d.sync += count.eq(0)
            with m.Elif(count != most):
                m.d.sync += count.eq(count + 1)

        # Order between loads and arithmetic, by counting both.
        loads, begun, written = (Signal(LOAD_COUNT_BITS, name=f"loads_{name}") for name in ("started", "begun", "written"))
        maths, issued, retired = (Signal(LOAD_COUNT_BITS, name=f"maths_{name}") for name in ("started", "issued", "retired"))
        waiting = data.StructLayout({"maths_before": LOAD_COUNT_BITS, "is_uop": 1})
        m.submodules.loads = load_queue = HeadFIFO(width=waiting.size, depth=2 * LOADS_AHEAD)
        m.submodules.begin = begin = Slice(ordered_command())
        connect(m, begin.o, steps.commands)
        m.submodules.maths = math_queue = fifo.SyncFIFO(width=ordered_command().size, depth=ARITHMETIC_AHEAD)
        next_load, next_math = data.View(waiting, load_queue.r_data), data.View(ordered_command(), math_queue.r_data)

        def reached(count: Value, bound: Value) -> Value:
            """Return whether `count`, which runs at most half its range before or behind, has reached `bound`."""
            return ~(count - bound)[LOAD_COUNT_BITS - 1]

        m.d.sync += [begun.eq(begun + port.begins), written.eq(written + port.done)]
        m.d.sync += [issued.eq(issued + steps.issued), retired.eq(retired + arithmetic.retired)]
        may_start = Signal()
        uop_in_hand = Signal()
        with m.If(port.begins):
            m.d.sync += uop_in_hand.eq(next_load.is_uop)
        # Known a cycle ahead, since all of the load port waits for it; after a load has begun, the next one is not yet known.
        allowed = Mux(
            next_load.is_uop, reached(issued, next_load.maths_before),
            reached(retired + arithmetic.retired, next_load.maths_before),
        )
        m.d.sync += port.may_write.eq(load_queue.r_rdy & allowed & ~port.begins)
        m.d.comb += [
            load_queue.r_en.eq(port.begins),
            may_start.eq(reached(begun, next_math.loads_before)),
            begin.i.valid.eq(math_queue.r_rdy & may_start), begin.i.payload.eq(next_math),
            math_queue.r_en.eq(begin.i.ready & may_start),
            steps.pending.loads_done.eq(written), steps.pending.next.eq(port.next),
            steps.pending.end.eq(Mux(uop_in_hand, port.end, 0)),
            arithmetic.pending.loads_done.eq(written), arithmetic.pending.next.eq(port.next),
            arithmetic.pending.end.eq(Mux(uop_in_hand, 0, port.end)),
            port.window_low.eq(self.window_low), port.window_high.eq(self.window_high),
        ]

        # Issue.
        command = self.commands.payload
        f = data.View(layout(LOAD, cfg), command.word)
        base = self.base_uop
        for kind in self._kinds[1:]:
            base = Mux(f.memory_type == kind, getattr(self, f"base_{kind.name.lower()}"), base)
        loading = Signal()
        reckoning = Signal()
        ordered = Signal(ordered_command())
        queued = Signal(waiting)
        m.d.comb += [
            loading.eq((f.opcode == Opcode.LOAD) & command.works),
            reckoning.eq((f.opcode != Opcode.LOAD) & command.works),
            issue.unit.eq(Mux(loading, LOADS, Mux(reckoning, ARITHMETIC, 0))), issue.stop.eq(self.stop),
            issue.takes.eq(Cat(port.commands.ready & load_queue.w_rdy, math_queue.w_rdy)),
            issue.done.eq(Cat(port.done, arithmetic.retired)),
            port.commands.valid.eq(issue.offers[LOADS - 1] & load_queue.w_rdy),
            port.commands.payload.command.eq(command), port.commands.payload.base.eq(base),
            queued.maths_before.eq(maths), queued.is_uop.eq(f.memory_type == MemType.UOP),
            load_queue.w_en.eq(issue.starts & loading), load_queue.w_data.eq(queued),
            ordered.command.eq(command), ordered.loads_before.eq(loads),
            math_queue.w_en.eq(issue.starts & reckoning), math_queue.w_data.eq(ordered),
            self.push_prev.eq(issue.push_prev), self.push_next.eq(issue.push_next), self.finished.eq(issue.finished),
        ]
        m.d.sync += [loads.eq(loads + (issue.starts & loading)), maths.eq(maths + (issue.starts & reckoning))]

        with m.If(arithmetic.fault):
            m.d.comb += [self.status.fault.eq(Fault.SRAM_RANGE), self.status.fault_index.eq(arithmetic.fault_index)]
        with m.Else():
            m.d.comb += [self.status.fault.eq(port.fault), self.status.fault_index.eq(port.fault_index)]
        attribute(m, self.status.activity.cause, {
            Cause.BUSY: issue.starts | arithmetic.works | (~issue.none_started & ~port.starved),
            Cause.WAIT_MEMORY: ~issue.none_started,
            Cause.WAIT_PREV: issue.lacks_prev,
            Cause.WAIT_NEXT: issue.lacks_next,
        })
        return m
