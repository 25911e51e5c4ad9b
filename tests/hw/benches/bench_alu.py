"""alu against the definition's operations: every opcode, extremes, and every shift amount."""

import cocotb
import numpy as np
from board import SHARED, blocks, params

from vtakit.hw.compute.alu import operand_bits
from vtakit.hw.isa.insns import AluOp
from vtakit.hw.values import pack, unpack, wrap
from vtakit.sim.bench.agents import Bench
from vtakit.sim.plain import ALU


def interesting(bits: int) -> list[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return [low, low + 1, -2, -1, 0, 1, 2, high - 1, high, low // 3, high // 3]


@cocotb.test()
@cocotb.parametrize(op=list(AluOp), block=["alu", "alu_shared"])
async def gives_the_definitions_results(dut, op, block):
    """MUL of shared multipliers runs once for each part of the lanes."""
    cfg = params().cfg
    b_bits, lanes = operand_bits(cfg), cfg.batch * cfg.block
    parts = SHARED["mul_passes"] if block == "alu_shared" and op == AluOp.MUL else 1
    held = SHARED["mul_passes"] if block == "alu_shared" else 1
    bench = await Bench.start(dut, block, blocks()[block], 0)
    rng = np.random.default_rng(int(op))
    amounts = range(-2 * cfg.acc_bits, 2 * cfg.acc_bits + 1)
    seconds = [*interesting(b_bits), *amounts, *rng.integers(-(1 << (b_bits - 1)), 1 << (b_bits - 1), 20).tolist()]
    firsts = [*interesting(cfg.acc_bits), *rng.integers(-(1 << (cfg.acc_bits - 1)), 1 << (cfg.acc_bits - 1), 9).tolist()]
    pairs = np.array([(a, b) for a in firsts for b in seconds])
    rng.shuffle(pairs)
    pairs = np.concatenate([pairs, pairs[: -len(pairs) % lanes]]).reshape(-1, lanes, 2)
    bench.pins.set("chosen", 1 << op)
    bench.pins.set("runs", 1)
    for group in pairs:
        a, b = group[:, 0], group[:, 1]
        bench.pins.set("a", int.from_bytes(pack(a, cfg.acc_bits).tobytes(), "little"))
        bench.pins.set("b", int.from_bytes(pack(b, b_bits).tobytes(), "little"))
        # Multipliers have only the operands of their own, and these only for MUL.
        for part in range(parts):
            for name, value in (("factor_a", a), ("factor_b", b)):
                given = wrap(value, cfg.acc_bits) if op == AluOp.MUL else rng.integers(-1, 2, lanes)
                mine = given.reshape(held, -1)[part]
                bench.pins.set(name, int.from_bytes(pack(mine, cfg.acc_bits).tobytes(), "little"))
            if block == "alu_shared":
                bench.pins.set("part", part)
                if part and bench.random.randrange(4) == 0:
                    bench.pins.set("runs", 0)
                    await bench.step()
                    bench.pins.set("runs", 1)
            await bench.step()
        raw = bench.pins.get("result").to_bytes(cfg.acc_bytes, "little")
        got = unpack(np.frombuffer(raw, np.uint8), cfg.acc_bits)
        want = wrap(ALU[op](a, b, cfg.acc_bits), cfg.acc_bits)
        np.testing.assert_array_equal(got, want, f"{op.name} {a} {b}")
    bench.pins.set("runs", 0)
    for name in ("a", "factor_a"):
        bench.pins.set(name, 0)
    bench.pins.set("chosen", 1 << (op + 1) % len(AluOp))
    before = bench.pins.get("result")
    await bench.rest(3)
    assert bench.pins.get("result") == before, "without runs, the result stays"
