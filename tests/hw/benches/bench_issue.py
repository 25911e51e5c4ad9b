"""issue against a list: in order, each with all its tokens at once and when its unit takes it; tokens given as it retires."""

from collections import deque

import cocotb
from board import ISSUES, blocks, params

from vtakit.hw.isa.insns import FLAG_QUEUES, LOAD, Opcode
from vtakit.hw.timing import INSNS_STARTED
from vtakit.sim.bench.agents import STALLS, Bench

COUNT = 150


class Tokens:
    """A queue of tokens that the stage takes from, filled at random."""

    def __init__(self, bench, flag, percent):
        self._pins, self._random, self._percent, self.flag = bench.pins.at(flag), bench.random, percent, flag
        self.count = 0

    def drive(self):
        self.count += self._random.randrange(100) < self._percent
        self._pins.set("valid", int(self.count > 0))

    def sample(self):
        pass


def random_command(cfg, pick, index, units):
    """What is offered, what it asks for, and the unit that is to do it. The flags lie alike in all instructions."""
    place = {p.field.name: p for p in LOAD.place(cfg)}
    flags = {name: pick.randrange(2) for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
    fields = flags | {"opcode": int(pick.choice(list(Opcode)))}
    word = pick.getrandbits(128)
    for name, value in fields.items():
        word = word & ~(((1 << place[name].width) - 1) << place[name].offset) | value << place[name].offset
    return {"word": word, "index": index}, fields | {"unit": pick.randint(0, units)}


@cocotb.test()
@cocotb.parametrize(name=list(ISSUES), withheld=STALLS, tokens=[10, 100], takes=[20, 100], done=[10, 100])
async def starts_and_retires_in_order(dut, name, withheld, tokens, takes, done):
    stage, units = ISSUES[name]
    bench = await Bench.start(dut, name, blocks()[name], seed=withheld + tokens + takes + done)
    pins, pick = bench.pins, bench.random
    commands = [random_command(params().cfg, pick, n, units) for n in range(COUNT)]
    source = bench.source("commands", withheld, [item for item, _ in commands])
    pops = [bench.add(Tokens(bench, flag, tokens)) for of, flag in FLAG_QUEUES if of is stage and flag.startswith("pop")]
    pushes = [flag for of, flag in FLAG_QUEUES if of is stage and flag.startswith("push")]
    stops = bench.chance("stop", 10)
    seen = bench.watch(
        "commands__valid", "commands__ready", "offers", "starts", "lacks_prev", "lacks_next", "none_started", "retires",
        "retire_index", "finished", *pushes, *(f"{queue.flag}__ready" for queue in pops),
    )
    under_way: deque[int] = deque()
    running, finished = [0] * (units + 1), [0] * (units + 1)  # instructions of each unit: at work, done and not retired
    started, retired, most = 0, 0, 0
    while retired < COUNT:
        taking = sum((pick.randrange(100) < takes) << n for n in range(units))
        ending = [n > 0 and running[n] > 0 and pick.randrange(100) < done for n in range(units + 1)]
        wanted = commands[started][1] if started < COUNT else {"unit": 0}
        pins.set("unit", wanted["unit"])
        pins.set("takes", taking)
        pins.set("done", sum(ends << n for n, ends in enumerate(ending)) >> 1)
        await bench.step()
        offered, unit = seen.now["commands__valid"], wanted["unit"]
        lacks = {queue.flag: int(offered and wanted[queue.flag] and queue.count == 0) for queue in pops}
        may = offered and not any(lacks.values()) and len(under_way) < INSNS_STARTED and not stops.now
        starts = int(may and (unit == 0 or taking >> unit - 1 & 1))
        oldest = commands[under_way[0]][1] if under_way else None
        retires = int(oldest is not None and (oldest["unit"] == 0 or finished[oldest["unit"]] > 0))
        want = {
            "commands__ready": starts, "offers": 1 << unit - 1 if may and unit else 0, "starts": starts,
            "lacks_prev": lacks.get("pop_prev", 0), "lacks_next": lacks.get("pop_next", 0), "none_started": not under_way,
            "retires": retires, "finished": retires and oldest["opcode"] == Opcode.FINISH,
            **{flag: retires and oldest[flag] for flag in pushes},
            **{f"{queue.flag}__ready": starts and wanted[queue.flag] for queue in pops},
        } | ({"retire_index": under_way[0]} if retires else {})
        assert {pin: seen.now[pin] for pin in want} == want, f"cycle {bench.cycle}, instruction {started}: {wanted}"
        for queue in pops:
            queue.count -= starts and wanted[queue.flag]
        if retires:
            finished[oldest["unit"]] -= 1
            retired, _ = retired + 1, under_way.popleft()
        for n, ends in enumerate(ending):
            running[n], finished[n] = running[n] - ends, finished[n] + ends
        if starts:
            running[unit] += 1
            under_way.append(started)
            started += 1
        most = max(most, len(under_way))
        assert bench.cycle < 200 * COUNT, f"{retired} of {COUNT} have retired"
    assert source.taken == COUNT
    assert most == INSNS_STARTED or withheld or (tokens, takes, done) != (100, 100, 10), "the stage was never full"
