"""arithmetic against one step after the other: every hazard distance, MUL among the others, a step a cycle, waits and holds."""

import cocotb
import numpy as np
from bench_acc_memory import bank, meet
from board import SHARED, blocks, params
from windows import Taken, random_window

from vtakit.hw.isa.insns import AluOp
from vtakit.hw.values import pack, unpack, wrap
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import ScratchpadReads
from vtakit.sim.bench.models import step_result, window_steps

STEPS = 250
DISTANCES = range(1, 9)
WRITERS = ["gemm", "overwrite", "add", "mul"]
BLOCKS = ["arithmetic", "arithmetic_shared"]
WINDOWED = ["arithmetic_windows", "arithmetic_shared"]
NOTHING = {"is_alu": 0, "reset": 0, "overwrite": 0, "alu_opcode": 0, "use_imm": 0, "imm": 0, "fault": 0, "last": 0}


def number(values, bits):
    return int.from_bytes(pack(values, bits).tobytes(), "little")


class State:
    """The block with scratchpads around it, and the model's accumulator beside."""

    def __init__(self, bench, cfg, block):
        passes = SHARED["gemm_passes"] if block == "arithmetic_shared" else 1
        rng = np.random.default_rng(bench.random.getrandbits(32))
        half = 1 << (cfg.acc_bits - 1)
        self.cfg = cfg
        self.inp = wrap(rng.integers(0, 1 << 16, (cfg.inp_depth, cfg.batch, cfg.block)), cfg.inp_bits)
        self.wgt = wrap(rng.integers(0, 1 << 16, (cfg.wgt_depth, cfg.block, cfg.block)), cfg.wgt_bits)
        self.acc = rng.integers(-half, half, (cfg.acc_depth, cfg.batch, cfg.block))
        self.held = [number(tile, cfg.acc_bits) for tile in self.acc]  # the scratchpad as the block has left it
        self.writes = []
        self.awaited = None  # element that must be written in the next cycle
        pins, pick = bench.pins, bench.random
        inp = [number(tile, cfg.inp_bits) for tile in self.inp]
        wgt = [number(part, cfg.wgt_bits) for tile in self.wgt for part in np.split(tile, passes)]
        bench.add(ScratchpadReads(pins.at("inp"), inp, 1 if block in WINDOWED else 2, 8 * cfg.inp_bytes, pick))
        bench.add(ScratchpadReads(pins.at("wgt"), wgt, 2, 8 * cfg.wgt_bytes // passes, pick))
        for name in ("acc", "src"):
            bench.add(ScratchpadReads(pins.at(name), self.held, 1, 8 * cfg.acc_bytes, pick, kept=False))
        self.bench, self.cycles = bench, []
        if block == "arithmetic_shared":
            bench.watch("acc__enable", "acc__index", "src__enable", "src__index", see=self._read)
        bench.watch("result__valid", "result__index", "result__data", "writes", see=self._see)

    def _see(self, now):
        assert self.awaited in (None, now["result__index"] if now["result__valid"] else None), "a replaced result without another"
        self.awaited = now["result__index"] if now["result__valid"] and not now["writes"] else None
        if now["result__valid"]:
            if now["writes"]:
                assert now["writes"] == 1 << bank(self.cfg, now["result__index"])
                self.held[now["result__index"]] = now["result__data"]
            self.writes.append((now["result__index"], now["result__data"]))
            self.cycles.append(self.bench.cycle)

    def _read(self, now):
        same = meet(self.cfg, now["acc__index"], now["src__index"])
        assert not (now["acc__enable"] and now["src__enable"] and same), "two elements of one bank in one cycle"

    def check(self, steps):
        """Every result in order, and nothing else written."""
        wanted, taken = [], Taken(self.cfg)
        for step in steps:
            if step.get("window"):
                sums = taken.sums(step, self.inp, self.wgt)
                if not step["emits"]:
                    continue
                before = 0 if step["overwrite"] else self.acc[step["dst"]]
                self.acc[step["dst"]] = wrap(before + sums, self.cfg.acc_bits)
            else:
                self.acc[step["dst"]] = step_result(self.cfg, step, self.acc, self.inp, self.wgt)
            wanted.append((step["dst"], number(self.acc[step["dst"]], self.cfg.acc_bits)))
        for at, (got, want) in enumerate(zip(self.writes, wanted, strict=False)):
            if got != want:
                shown = [unpack(np.frombuffer(v.to_bytes(self.cfg.acc_bytes, "little"), np.uint8), self.cfg.acc_bits)
                         for v in (got[1], want[1])]
                raise AssertionError(f"step {at} {steps[at]}: got acc[{got[0]}] = {shown[0]}, want acc[{want[0]}] = {shown[1]}")
        assert len(self.writes) == len(wanted)
        assert self.held == [number(tile, self.cfg.acc_bits) for tile in self.acc]


def given(steps, block):
    """The steps as the block takes them: one with windows is told which are no DWCONV's."""
    plain = {"emits": 1, "window": 0} if block in WINDOWED else {}
    return [plain | step | {"imm": step["imm"] & 0xFFFF} for step in steps]


def random_step(cfg, pick, dsts, mul):
    """A step on few accumulator elements, so that most meet one another under way."""
    kind = pick.choice(("gemm", "gemm", "reset", "alu", "alu"))
    step = NOTHING | {"dst": pick.choice(dsts)}
    if kind == "gemm":
        overwrite = int(pick.randrange(4) == 0)
        return step | {"overwrite": overwrite, "src": pick.randrange(cfg.inp_depth), "wgt": pick.randrange(cfg.wgt_depth)}
    if kind == "reset":
        return step | {"reset": int(pick.randrange(4) == 0), "overwrite": pick.randrange(2), "src": 0, "wgt": 0}
    ops = [AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR]
    op = AluOp.MUL if pick.randrange(100) < mul else pick.choice(ops)
    imm = pick.choice((pick.randint(-40, 40), pick.randint(-32768, 32767)))
    alu = {"is_alu": 1, "alu_opcode": int(op), "use_imm": pick.randrange(2), "imm": imm}
    return step | alu | {"src": pick.choice(dsts), "wgt": 0}


@cocotb.test()
@cocotb.parametrize(withheld=STALLS, hold=[0, 30], elements=[1, 2, 5, 9], mul=[0, 15, 60], block=BLOCKS)
async def dependent_steps_are_exact(dut, withheld, hold, elements, mul, block):
    cfg = params().cfg
    bench = await Bench.start(dut, block, blocks()[block], seed=withheld + hold + 1000 * elements + mul)
    state = State(bench, cfg, block)
    bench.chance("hold", hold)
    steps = [random_step(cfg, bench.random, range(elements), mul) for _ in range(STEPS)]
    source = bench.source("steps", withheld, given(steps, block))
    await bench.run(lambda: len(state.writes) == STEPS, 60 * STEPS, "all results")
    assert source.taken == STEPS
    await bench.rest(30)
    state.check(steps)


@cocotb.test()
@cocotb.parametrize(withheld=STALLS, hold=[0, 30], mul=[0, 15], block=WINDOWED)
async def windows_among_dependent_steps_are_exact(dut, withheld, hold, mul, block):
    """With multipliers that a window feeds: DWCONVs on the elements of the steps before and after them."""
    cfg = params().cfg
    bench = await Bench.start(dut, block, blocks()[block], seed=withheld + hold + mul)
    state = State(bench, cfg, block)
    bench.chance("hold", hold)
    steps = []
    while len(steps) < STEPS:
        if bench.random.randrange(3):
            steps += [random_step(cfg, bench.random, range(5), mul) for _ in range(bench.random.randrange(4))]
            continue
        f = random_window(cfg, bench.random, legal=True) | {"dst": bench.random.randrange(3), "dst_row": 1, "dst_column": 1}
        steps += [NOTHING | step | {"overwrite": f["overwrite"], "last": 0} for step in window_steps(cfg, f)]
    source = bench.source("steps", withheld, given(steps, block))
    await bench.run(lambda: source.taken == len(steps), 60 * len(steps), "all steps")
    await bench.rest(60)
    state.check(steps)


@cocotb.test()
@cocotb.parametrize(distance=DISTANCES, operand=["dst", "src"], writer=WRITERS, reader=["gemm", "add", "mul"], block=BLOCKS)
async def a_hazard_of_each_distance(dut, distance, operand, writer, reader, block):
    """A result that is read `distance` steps later, as dst or as src; steps on other elements between."""
    cfg = params().cfg
    bench = await Bench.start(dut, block, blocks()[block], seed=distance)
    state = State(bench, cfg, block)
    plain = NOTHING | {"src": 1, "wgt": 1}
    kinds = {"gemm": plain, "overwrite": plain | {"overwrite": 1}, "add": plain | {"is_alu": 1, "alu_opcode": int(AluOp.ADD)},
             "mul": plain | {"is_alu": 1, "alu_opcode": int(AluOp.MUL)}}
    between = [plain | {"dst": 9 + n, "src": n, "wgt": 0} for n in range(distance - 1)]
    read = kinds[reader] | ({"dst": 3, "src": 5} if operand == "dst" or reader == "gemm" else {"dst": 6, "src": 3})
    steps = [kinds[writer] | {"dst": 3}, *between, read, plain | {"dst": 8}, read]
    bench.source("steps", 0, given(steps, block))
    await bench.run(lambda: len(state.writes) == len(steps), 200, "all results")
    await bench.rest(30)
    state.check(steps)
    if writer == reader == "gemm" and block == "arithmetic":
        assert state.cycles[-1] - state.cycles[0] == len(steps) - 1, "GEMM steps never pause"


@cocotb.test()
async def a_step_waits_for_an_element_that_a_load_has_yet_to_write(dut):
    cfg = params().cfg
    pending = {"pending__loads_done": 2, "pending__next": 4, "pending__end": 9}
    bench = await Bench.start(dut, "arithmetic", blocks()["arithmetic"], seed=0, **pending)
    state = State(bench, cfg, "arithmetic")
    step = NOTHING | {"is_alu": 1, "alu_opcode": int(AluOp.ADD), "wgt": 0}
    steps = [step | {"dst": 3, "src": 9, "loads_before": 3}, step | {"dst": 5, "src": 3, "loads_before": 2},
             step | {"dst": 1, "src": 6, "loads_before": 3}]
    bench.source("steps", 0, steps)
    await bench.rest(30)
    assert len(state.writes) == 2, "elements outside the load, and steps older than it, do not wait"
    bench.pins.set("pending__next", 6)
    await bench.rest(30)
    assert len(state.writes) == 2, "acc[6] is not written yet"
    bench.pins.set("pending__next", 7)
    await bench.rest(30)
    state.check(steps)


@cocotb.test()
@cocotb.parametrize(mul=[0, 50], block=BLOCKS)
async def retires_each_instruction_once_after_its_last_write(dut, mul, block):
    cfg = params().cfg
    bench = await Bench.start(dut, block, blocks()[block], seed=mul)
    state = State(bench, cfg, block)
    steps = [random_step(cfg, bench.random, range(4), mul) | {"last": int(n % 3 == 2)} for n in range(60)]
    source = bench.source("steps", 30, given(steps, block))
    retired = []
    bench.watch("retired", see=lambda now: now["retired"] and retired.append(len(state.writes)))
    await bench.run(lambda: len(retired) == 20, 2000, "20 instructions retired")
    await bench.rest()
    assert source.taken == 60
    assert len(retired) == 20
    assert all(written >= 3 * (n + 1) for n, written in enumerate(retired)), "retired before its results are written"
    state.check(steps)


@cocotb.test()
async def a_fault_names_its_instruction_and_writes_nothing(dut):
    cfg = params().cfg
    bench = await Bench.start(dut, "arithmetic", blocks()["arithmetic"], seed=0)
    state = State(bench, cfg, "arithmetic")
    seen = []
    bench.watch("fault", "fault_index", see=lambda now: now["fault"] and seen.append(now["fault_index"]))
    bench.source("steps", 0, [{"dst": 1, "fault": 1, "index": 77, "last": 1}])
    await bench.rest(30)
    assert seen == [77]
    state.check([])
