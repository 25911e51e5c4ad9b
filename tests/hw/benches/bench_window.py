"""window against what the last steps took: rows of any length, spread tiles between, pauses."""

import cocotb
from board import WINDOWED, blocks

from vtakit.sim.bench.agents import Bench

STEPS = 400


def taps_of(taken, across):
    """Tile of each tap, the first row's first; 0 where nothing has entered or the window has no tap."""
    rows, columns = WINDOWED.window
    found = [0] * WINDOWED.block
    for tap in range(rows * columns):
        back = (rows - 1 - tap // columns) * across + columns - 1 - tap % columns
        found[tap] = taken[-1 - back] if back < len(taken) else 0
    return found


@cocotb.test()
@cocotb.parametrize(across=[1, 2, 5, 16], pause=[0, 30])
async def holds_the_last_tiles(dut, across, pause):
    cfg, bits = WINDOWED, 8 * WINDOWED.inp_bytes
    bench = await Bench.start(dut, "window", blocks()["window"], seed=across + pause)
    pick, pins, taken, wanted = bench.random, bench.pins, [], None
    for _ in range(STEPS):
        tile, kind = pick.getrandbits(bits), pick.choice(["shifts", "shifts", "shifts", "spreads"])
        kind = "pauses" if pick.randrange(100) < pause else kind
        if kind == "spreads" or (kind == "shifts" and pick.randrange(40) == 0):
            taken = []  # another instruction
        n = len(taken)
        given = {"shifts": kind == "shifts", "spreads": kind == "spreads", "first": not taken, "column": n % across,
                 "row": min(n // across, cfg.window[0] - 1), "tile": tile}
        for name, value in given.items():
            pins.set(name, int(value))
        if kind == "shifts":
            taken.append(tile)
            wanted = taps_of(taken, across)
        elif kind == "spreads":
            places = [(row, out) for row in range(cfg.batch) for out in range(cfg.block)]
            wanted = [sum((tile >> (row * cfg.block + n) * cfg.inp_bits & 3) << (row * cfg.block + out) * cfg.inp_bits
                          for row, out in places) for n in range(cfg.block)]
        await bench.step()
        if wanted is not None:
            factors = pins.get("factors")
            assert [factors >> n * bits & (1 << bits) - 1 for n in range(cfg.block)] == wanted, (kind, len(taken))
