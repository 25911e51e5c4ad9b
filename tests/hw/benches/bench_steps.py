"""The step generator against nested loops: one step a cycle, stalls, micro-ops that an older load has yet to write."""

import cocotb
from board import blocks, params
from windows import random_window

from vtakit.hw.isa.codec import encode, encode_uop
from vtakit.hw.isa.insns import FORMATS, Opcode
from vtakit.sim.bench.agents import STALLS, Bench
from vtakit.sim.bench.memory import ScratchpadReads
from vtakit.sim.bench.models import loop_steps, window_steps

INSTRUCTIONS = 25


def random_uops(cfg, pick):
    return [
        encode_uop(cfg, dst=pick.randrange(cfg.acc_depth), src=pick.randrange(1 << cfg.src_depth_log2),
                   wgt=pick.randrange(cfg.wgt_depth)) if pick.randrange(3) else encode_uop(cfg, dst=0, src=0, wgt=0)
        for _ in range(cfg.uop_depth)
    ]


def random_loops(cfg, pick, wide):
    op = pick.choice((Opcode.GEMM, Opcode.ALU))
    begin = pick.randrange(cfg.uop_depth)
    f = {"uop_bgn": begin, "uop_end": pick.randint(begin + 1, min(begin + 3, cfg.uop_depth)),
         "iter_out": pick.randint(1, 3), "iter_in": pick.randint(1, 4)}
    for place in FORMATS[op].place(cfg):
        name = place.field.name
        if name.endswith(("_out", "_in")) and not name.startswith("iter"):
            f[name] = pick.randint(0, place.high if wide else min(place.high, 2))
    if op is Opcode.GEMM:
        return op, f | {"reset": pick.randrange(2), "overwrite": pick.randrange(2)}
    return op, f | {"alu_opcode": pick.randrange(5), "use_imm": pick.randrange(2), "imm": pick.randint(-32768, 32767)}


@cocotb.test()
@cocotb.parametrize(stall=STALLS, withheld=STALLS, wide=[False, True])
async def walks_the_loops(dut, stall, withheld, wide):
    cfg = params().cfg
    bench = await Bench.start(dut, "steps", blocks()["steps"], seed=stall + 100 * withheld + wide)
    uops = random_uops(cfg, bench.random)
    bench.add(ScratchpadReads(bench.pins.at("uop"), uops, 1, 32, bench.random))
    commands, steps = bench.source("commands", withheld), bench.sink("steps", stall)
    issued = []
    bench.watch("issued", see=lambda now: issued.append(now["issued"]))
    wanted = []
    for index in range(INSTRUCTIONS):
        op, f = random_loops(cfg, bench.random, wide)
        commands.queue.append({"command": encode(cfg, FORMATS[op].name, **f) | index << 128, "loads_before": 0})
        is_alu = int(op is Opcode.ALU)
        more = {"index": index, "is_alu": is_alu}
        more |= {name: f.get(name, 0) for name in ("reset", "overwrite", "alu_opcode", "use_imm")}
        more["imm"] = f.get("imm", 0) & 0xFFFF
        wanted.extend(step | more for step in loop_steps(cfg, op, f, uops))
    start = bench.cycle
    await bench.run(lambda: len(steps.items) == len(wanted), 20 * len(wanted) + 200, f"{len(wanted)} steps")
    if not stall and not withheld:
        assert bench.cycle - start <= len(wanted) + 8, "a step a cycle, without a gap between instructions"
    await bench.rest()
    assert len(steps.items) == len(wanted)
    assert sum(issued) == INSTRUCTIONS
    for number, (got, want) in enumerate(zip(steps.items, wanted, strict=True)):
        names = ["fault", "last", "index", "is_alu", "reset", "overwrite"]
        names += ["alu_opcode", "use_imm", *(["imm"] if want["use_imm"] else [])] if want["is_alu"] else []
        if not want["fault"]:  # the indices of a step that stops the core do not matter
            uses_src = not want["use_imm"] if want["is_alu"] else not want["reset"]
            names += ["dst", *(["src"] if uses_src else []), *(["wgt"] if uses_src and not want["is_alu"] else [])]
        assert {n: got[n] for n in names} == {n: want[n] for n in names}, f"step {number}"


@cocotb.test()
@cocotb.parametrize(stall=STALLS, withheld=STALLS)
async def walks_rows_and_columns_of_windows(dut, stall, withheld):
    """DWCONVs among GEMMs: which steps have an output, and where; micro-ops are not looked at, so none is waited for."""
    cfg = params().cfg
    bench = await Bench.start(dut, "steps_windows", blocks()["steps_windows"], seed=stall + 100 * withheld)
    uops = random_uops(cfg, bench.random)
    bench.add(ScratchpadReads(bench.pins.at("uop"), uops, 1, 32, bench.random))
    commands, steps = bench.source("commands", withheld), bench.sink("steps", stall)
    wanted = []
    for index in range(2 * INSTRUCTIONS):
        if bench.random.randrange(3):
            f = random_window(cfg, bench.random)
            word, found = encode(cfg, "dwconv", **f), window_steps(cfg, f)
            more = {"overwrite": f["overwrite"], "reset": 0}
        else:
            op, f = Opcode.GEMM, random_loops(cfg, bench.random, wide=False)[1]
            f = {name: value for name, value in f.items() if name in [p.field.name for p in FORMATS[op].place(cfg)]}
            f = {"reset": 0, "overwrite": 0} | f
            word, found, more = encode(cfg, "gemm", **f), loop_steps(cfg, op, f, uops), {
                "overwrite": f["overwrite"], "reset": f["reset"], "window": 0}
        commands.queue.append({"command": word | index << 128, "loads_before": 0})
        wanted.extend(step | more | {"index": index, "is_alu": 0} for step in found)
    start = bench.cycle
    await bench.run(lambda: len(steps.items) == len(wanted), 20 * len(wanted) + 200, f"{len(wanted)} steps")
    if not stall and not withheld:
        assert bench.cycle - start <= len(wanted) + 8, "a step a cycle, without a gap between instructions"
    await bench.rest()
    for number, (got, want) in enumerate(zip(steps.items, wanted, strict=True)):
        names = ["fault", "last", "index", "is_alu", "reset", "overwrite", "window"]
        names += ["emits", "first", "column", "row"] if want["window"] else []
        if not want["fault"]:
            names += ["dst"] if want.get("emits", 1) else []
            names += [] if want["reset"] else ["src", "wgt"]
        assert {n: got[n] for n in names} == {n: want[n] for n in names}, f"step {number}"


@cocotb.test()
@cocotb.parametrize(stall=STALLS)
async def waits_for_an_older_load(dut, stall):
    """Micro-ops from `next` up to `end` are unwritten until the load that is counted in `loads_before` is done."""
    cfg = params().cfg
    bench = await Bench.start(dut, "steps", blocks()["steps"], seed=stall)
    old, new = encode_uop(cfg, dst=1, src=0, wgt=0), encode_uop(cfg, dst=0, src=0, wgt=0)
    uops = [old] * cfg.uop_depth
    bench.add(ScratchpadReads(bench.pins.at("uop"), uops, 1, 32, bench.random))
    steps = bench.sink("steps", stall)
    first, size = 3, 5
    bench.pins.set("pending__next", first)
    bench.pins.set("pending__end", first + size)
    word = encode(cfg, "gemm", reset=1, uop_bgn=1, uop_end=first + size, iter_out=2, iter_in=1)
    bench.source("commands", 0, [{"command": word, "loads_before": 1}])
    await bench.rest(60)
    assert [step["dst"] for step in steps.items] == [1] * (first - 1), "only what the load does not write"
    for n in range(size):
        uops[first + n] = new
        bench.pins.set("pending__next", first + n + 1)
        await bench.rest(30)
        assert [step["dst"] for step in steps.items][first - 1 : first + n] == [0] * (n + 1)
        if n < size - 1:
            assert len(steps.items) == first + n
    bench.pins.set("pending__loads_done", 1)
    await bench.run(lambda: len(steps.items) == 2 * (first - 1 + size), 300, "the second turn")
