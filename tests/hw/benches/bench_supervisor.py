"""supervisor between a host that starts and resets at any moment and a core that ends, is wrong, does both, or never ends."""

import cocotb
from board import blocks

from vtakit.sim.bench.agents import Bench

RUNS = 60
BURST_CYCLES = 30  # the longest burst
NOTHING = {"done": 0, "error": 0, "error_index": 0, "error_stage": 0}


class Core:
    """What the supervisor sees of a core, and what it must not do to one."""

    def __init__(self, bench, longest, outcomes):
        self._pins, self._random, self._longest, self._outcomes = bench.pins, bench.random, longest, outcomes
        self.outcome, self.result = "", NOTHING  # of the last run, unless it was stopped
        self._left: int | None = None  # cycles until it ends or is wrong; None: it was cleared
        self._answer = 0  # cycles until the burst in flight ends
        self._cleared = self._stopped = False  # cleared: since the last run
        self._resets = False  # a cycle after `clear`, as in hw.top; in it, what is left of the program goes on without `stop`

    def drive(self):
        over = self._left == 0
        self._pins.set("ended", int(over and self.outcome in ("ended", "both")))
        for name in ("fault", "fault_index", "fault_stage"):
            self._pins.set(name, self.result[name.replace("fault", "error")] if over else 0)
        self._pins.set("drained", int(self._answer == 0))

    def sample(self):
        pass

    def see(self, now):
        assert not (now["clear"] and self._answer), "cleared while a burst is in flight"
        assert now["stop"] or not self._stopped or self._cleared, "what was stopped goes on"
        assert now["busy"] or not (now["stop"] or now["go"]), "stopped, or started, while idle"
        self._stopped = now["stop"]
        works = self._left or (self._left == 0 and self.outcome == "fault")
        if self._answer:
            self._answer -= 1
        elif works and not now["stop"] and self._random.randrange(3) == 0:
            self._answer = self._random.randint(1, BURST_CYCLES)
        if self._left and not (self._left == 1 and self._answer):
            self._left -= 1
        if now["go"]:
            assert (self._cleared, now["clear"]) == (True, 0), "started without having been cleared"
            self._cleared = False
            self._begin()
        if self._resets:
            self._left, self._cleared = None, True
        self._resets = now["clear"]

    def _begin(self):
        pick = self._random
        self.outcome = pick.choice(self._outcomes)
        wrong = {"error": pick.randint(1, 255), "error_index": pick.getrandbits(24), "error_stage": pick.randrange(3)}
        self.result = NOTHING | ({"done": 1} if self.outcome == "ended" else wrong)
        self._left = 1 << 30 if self.outcome == "never" else pick.randint(1, self._longest)


@cocotb.test()
@cocotb.parametrize(start=[5, 50, 100], reset=[0, 1, 20], longest=[1, 5, 100])
async def runs_to_its_end_or_a_reset(dut, start, reset, longest):
    bench = await Bench.start(dut, "supervisor", blocks()["supervisor"], seed=start + reset + longest)
    starts, resets = bench.chance("start", start), bench.chance("reset", reset)
    core = bench.add(Core(bench, longest, ("ended", "fault", "both", *(["never"] if reset else []))))
    bench.watch("clear", "go", "stop", "busy", see=core.see)
    seen = bench.watch("busy", *NOTHING)
    busy, began, stopped, result, endings = 0, False, False, NOTHING, []
    while len(endings) < RUNS:
        await bench.step()
        now = {name: seen.now[name] for name in NOTHING}
        assert seen.now["busy"] or not began, "a start was ignored"
        assert busy or began or not seen.now["busy"], "busy without a start"
        if busy and not seen.now["busy"]:
            result = NOTHING if stopped else core.result
            endings.append("stopped" if stopped else core.outcome)
        busy = seen.now["busy"]
        assert now == result if not busy else now["done"] == 0, f"cycle {bench.cycle}, {endings[-1:]}: {now}"
        began = bool(not busy and starts.now and not resets.now)
        stopped = bool(busy and (stopped or resets.now))
        if not busy and (starts.now or resets.now):
            result = NOTHING
        assert bench.cycle < 1000 * RUNS, f"{len(endings)} runs have ended"
    assert set(endings) >= ({"stopped"} if reset else {"ended", "fault", "both"})
