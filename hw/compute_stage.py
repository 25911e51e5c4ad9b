"""The compute stage: micro-op and accumulator loads, GEMM, ALU and FINISH, overlapped where their order allows.

Instructions are started in order. Loads and arithmetic then run side by side, on two rules:

- arithmetic starts once every older load has begun to write, and a step waits for the element that the load in hand has not
  yet written;
- a load begins to write once older arithmetic has read its last micro-op (UOP) or written its last result (ACC); its reads
  of DRAM are under way long before.

They retire in order, and only then give their tokens.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.acc_writer import AccWriter
from vtakit.hw.arithmetic import Arithmetic
from vtakit.hw.decoder import FAULT_BITS, has_steps
from vtakit.hw.interfaces import COMMAND, INDEX_BITS, burst, layout, sram_read
from vtakit.hw.isa.config import UOP_BITS
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, MEMORIES, MemType, Opcode, Stage
from vtakit.hw.load_port import AHEAD, LoadPort
from vtakit.hw.load_stage import connect_write, moves, target
from vtakit.hw.load_writer import Target
from vtakit.hw.params import CoreParams
from vtakit.hw.retire import Retire
from vtakit.hw.scratchpad import Scratchpad
from vtakit.hw.stage import Cause, token_members, tokens_there
from vtakit.hw.steps import LOAD_COUNT_BITS, StepGenerator, ordered_command

ARITHMETIC_AHEAD = 4  # GEMM and ALU instructions that wait behind the one that runs
LOADS, ARITHMETIC = 1, 2  # units, as retirement numbers them


class ComputeStage(wiring.Component):
    """Members
    -------
    commands : ``In(stream)``                instructions, in order
    base_uop, base_acc, base_acc_8bit : ``In``    base registers
    window_low, window_high : ``In``         bytes of DRAM that may be read
    requests, returned : ``stream``          read bursts and their beats
    inp, wgt : ``Out(sram_read)``            tiles, two cycles after the index
    store : ``In(sram_read)``                the store stage's reads of ACC, one cycle; store_ready: taken in this cycle
    pop_prev, pop_next, push_prev, push_next tokens from and to load (prev) and store (next)
    finished : ``Out(1)``                    FINISH retires
    stop : ``In(1)``                         start nothing
    fault, fault_index, cause, waits, index, empty    as in the load stage
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, cfg = params, params.cfg
        self._kinds = [MemType.UOP, MemType.ACC, *([MemType.ACC_8BIT] if cfg.has_acc8 else [])]
        super().__init__({
            "commands": In(stream.Signature(COMMAND)),
            **{f"base_{kind.name.lower()}": In(params.address_bits) for kind in self._kinds},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(params.bus_bits, always_ready=True)),
            "inp": Out(sram_read(8 * cfg.inp_bytes, cfg.inp_depth_log2)),
            "wgt": Out(sram_read(8 * cfg.wgt_bytes, cfg.wgt_depth_log2)),
            "store": In(sram_read(8 * cfg.acc_bytes, cfg.acc_depth_log2)), "store_ready": Out(1),
            **token_members(Stage.COMPUTE), "finished": Out(1), "stop": In(1),
            "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "cause": Out(3), "waits": Out(1), "index": Out(INDEX_BITS),
            "empty": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, cfg = Module(), self._params, self._params.cfg
        to_uop = target(params, MemType.UOP)
        targets = [to_uop] + [
            Target(kind=kind, element_bytes=MEMORIES[kind].bytes_in(cfg), lanes=1, depth=cfg.acc_depth)
            for kind in self._kinds[1:]
        ]
        m.submodules.port = port = LoadPort(params, targets)
        m.submodules.acc_writer = acc_writer = AccWriter(params)
        m.submodules.steps = steps = StepGenerator(cfg)
        m.submodules.arithmetic = arithmetic = Arithmetic(cfg)
        m.submodules.retire = retire = Retire(2)
        m.submodules.uop = uop = Scratchpad(
            element_bits=UOP_BITS, depth_log2=cfg.uop_depth_log2, lanes=to_uop.lanes, registered=False,
        )
        m.submodules.acc = acc = Scratchpad(
            element_bits=8 * cfg.acc_bytes, depth_log2=cfg.acc_depth_log2, readers=2, registered=False,
        )
        connect(m, port.requests, flipped(self.requests))
        connect(m, flipped(self.returned), port.returned)
        connect(m, steps.steps, arithmetic.steps)
        connect(m, steps.uop, uop.read0)
        connect(m, arithmetic.acc, acc.read0)
        connect(m, arithmetic.inp, flipped(self.inp))
        connect(m, arithmetic.wgt, flipped(self.wgt))
        connect_write(m, params, to_uop, port.write0, uop.write)
        connect(m, port.write1, acc_writer.acc)
        if cfg.has_acc8:
            connect(m, port.write2, acc_writer.acc8)

        # ACC: arithmetic writes first, its src reads first; a load that is kept waiting has one step left out for it.
        bubbles = Signal(8)
        m.d.comb += [
            acc_writer.busy.eq(arithmetic.result.valid), arithmetic.hold.eq(self.stop | (acc_writer.blocked & (bubbles == 0))),
            acc.write.valid.eq(arithmetic.result.valid | acc_writer.write.valid), acc.write.count.eq(1), acc.write.mask.eq(1),
            acc.write.index.eq(Mux(arithmetic.result.valid, arithmetic.result.index, acc_writer.write.index)),
            acc.write.data[0].eq(Mux(arithmetic.result.valid, arithmetic.result.data[0], acc_writer.write.data[0])),
            self.store_ready.eq(~arithmetic.src.enable),
            acc.read1.enable.eq(arithmetic.src.enable | self.store.enable),
            acc.read1.index.eq(Mux(arithmetic.src.enable, arithmetic.src.index, self.store.index)),
            arithmetic.src.data.eq(acc.read1.data), self.store.data.eq(acc.read1.data),
        ]
        m.d.sync += bubbles.eq((bubbles << 1) | (acc_writer.blocked & (bubbles == 0)))

        # Order between loads and arithmetic, by counting both.
        loads, begun, written = (Signal(LOAD_COUNT_BITS, name=f"loads_{name}") for name in ("started", "begun", "written"))
        maths, issued, retired = (Signal(LOAD_COUNT_BITS, name=f"maths_{name}") for name in ("started", "issued", "retired"))
        waiting = data.StructLayout({"maths_before": LOAD_COUNT_BITS, "is_uop": 1})
        m.submodules.loads = load_queue = fifo.SyncFIFO(width=waiting.size, depth=AHEAD + 4)
        m.submodules.maths = math_queue = fifo.SyncFIFO(width=ordered_command().size, depth=ARITHMETIC_AHEAD)
        next_load, next_math = data.View(waiting, load_queue.r_data), data.View(ordered_command(), math_queue.r_data)

        def reached(count: Signal, bound: Signal) -> object:
            """Whether `count`, which runs at most half its range before or behind, has come to `bound`."""
            return ~(count - bound)[LOAD_COUNT_BITS - 1]

        m.d.sync += [begun.eq(begun + port.begins), written.eq(written + port.done)]
        m.d.sync += [issued.eq(issued + steps.issued), retired.eq(retired + arithmetic.retired)]
        may_start, uop_in_hand = Signal(), Signal()
        with m.If(port.begins):
            m.d.sync += uop_in_hand.eq(next_load.is_uop)
        m.d.comb += [
            load_queue.r_en.eq(port.begins),
            port.may_write.eq(load_queue.r_rdy & reached(Mux(next_load.is_uop, issued, retired), next_load.maths_before)),
            may_start.eq(reached(begun, next_math.loads_before)),
            steps.commands.valid.eq(math_queue.r_rdy & may_start), steps.commands.payload.eq(next_math),
            math_queue.r_en.eq(steps.commands.ready & may_start),
            steps.pending.loads_done.eq(written), steps.pending.next.eq(port.next),
            steps.pending.end.eq(Mux(uop_in_hand, port.end, 0)),
            arithmetic.pending.loads_done.eq(written), arithmetic.pending.next.eq(port.next),
            arithmetic.pending.end.eq(Mux(uop_in_hand, 0, port.end)),
            port.window_low.eq(self.window_low), port.window_high.eq(self.window_high),
        ]

        # Start.
        command = self.commands.payload
        f = data.View(layout(LOAD, cfg), command.word)
        is_load, is_math, loading, reckoning = (Signal(name=name) for name in ("is_load", "is_math", "loading", "reckoning"))
        free, start = Signal(), Signal()
        missing = tokens_there(m, self, Stage.COMPUTE, cfg, command.word, start)
        base = self.base_uop
        for kind in self._kinds[1:]:
            base = Mux(f.memory_type == kind, getattr(self, f"base_{kind.name.lower()}"), base)
        tokens = self.commands.valid & ~missing["pop_prev"] & ~missing["pop_next"] & retire.started.ready & ~self.stop
        ordered = Signal(ordered_command())
        queued = Signal(waiting)
        m.d.comb += [
            is_load.eq(f.opcode == Opcode.LOAD), is_math.eq((f.opcode == Opcode.GEMM) | (f.opcode == Opcode.ALU)),
            loading.eq(is_load & moves(command.word, cfg)), reckoning.eq(is_math & has_steps(command.word, cfg)),
            free.eq(Mux(loading, port.commands.ready & load_queue.w_rdy, ~reckoning | math_queue.w_rdy)),
            start.eq(tokens & free), self.commands.ready.eq(start),
            port.commands.valid.eq(tokens & loading & load_queue.w_rdy),
            port.commands.payload.command.eq(command), port.commands.payload.base.eq(base),
            queued.maths_before.eq(maths), queued.is_uop.eq(f.memory_type == MemType.UOP),
            load_queue.w_en.eq(start & loading), load_queue.w_data.eq(queued),
            ordered.command.eq(command), ordered.loads_before.eq(loads),
            math_queue.w_en.eq(start & reckoning), math_queue.w_data.eq(ordered),
            retire.started.valid.eq(start), retire.started.payload.unit.eq(Mux(loading, LOADS, Mux(reckoning, ARITHMETIC, 0))),
            retire.started.payload.push_prev.eq(f.push_prev), retire.started.payload.push_next.eq(f.push_next),
            retire.started.payload.finish.eq(f.opcode == Opcode.FINISH),
            retire.done[LOADS - 1].eq(port.done), retire.done[ARITHMETIC - 1].eq(arithmetic.retired),
            self.push_prev.eq(retire.push_prev), self.push_next.eq(retire.push_next), self.finished.eq(retire.finish),
            self.empty.eq(retire.empty & ~self.commands.valid),
            self.waits.eq(self.commands.valid & (missing["pop_prev"] | missing["pop_next"]) & retire.empty),
            self.index.eq(command.index),
        ]
        m.d.sync += [loads.eq(loads + (start & loading)), maths.eq(maths + (start & reckoning))]

        with m.If(arithmetic.fault):
            m.d.comb += [self.fault.eq(Fault.SRAM_RANGE), self.fault_index.eq(arithmetic.fault_index)]
        with m.Elif(port.outside):
            m.d.comb += [self.fault.eq(Fault.SRAM_RANGE), self.fault_index.eq(port.outside_index)]
        with m.Elif(port.dram_outside):
            m.d.comb += [self.fault.eq(Fault.DRAM_RANGE), self.fault_index.eq(port.dram_outside_index)]
        with m.If(arithmetic.accepts | (port.active & ~port.starved)):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Elif(port.starved | ~port.empty):
            m.d.comb += self.cause.eq(Cause.WAIT_MEMORY)
        with m.Elif(~retire.empty):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Elif(self.commands.valid & missing["pop_prev"]):
            m.d.comb += self.cause.eq(Cause.WAIT_PREV)
        with m.Elif(self.commands.valid & missing["pop_next"]):
            m.d.comb += self.cause.eq(Cause.WAIT_NEXT)
        with m.Elif(self.commands.valid):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Else():
            m.d.comb += self.cause.eq(Cause.IDLE)
        return m
