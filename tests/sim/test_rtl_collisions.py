"""Nothing uses what a block RAM gives for an element that is being written in the cycle in which it is read.

Synthesis says so to yosys (docs/decisions.md), and Amaranth's own memories would hide it: they give the old value.
"""

import random

import pytest
from amaranth.lib import fifo
from amaranth.sim import Simulator
from collisions import hasty, model, spoiled

from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Queue
from vtakit.sim.fuzz import cases, fuzz

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model


def test_random_programs_give_the_definitions_results_on_memories_that_spoil_collisions():
    with model(CoreParams(cfg=NAMED["tiny"])) as library:
        text = library.path.with_name("vta.v").read_text()
        assert text.count("spoiled") > 20, "the model has no such memories"
        assert [str(failure) for failure in fuzz(list(cases("rtl", ["tiny"], 900, 250, 40)), 1, lambda count: None)] == []


def passed(queue, stall, slow):
    """What a queue of which both sides pause at random has taken, and what it gave."""
    numbers, taken, given = random.Random(stall + slow), [], []

    async def both(context):
        offers = False
        for _ in range(600):
            if not offers and numbers.randrange(100) >= stall:
                offers = True
                context.set(queue.i.payload, numbers.getrandbits(16))
            context.set(queue.i.valid, int(offers))
            context.set(queue.o.ready, int(numbers.randrange(100) >= slow))
            if offers and context.get(queue.i.ready):
                offers = False
                taken.append(context.get(queue.i.payload))
            if context.get(queue.o.valid) and context.get(queue.o.ready):
                given.append(context.get(queue.o.payload))
            await context.tick()

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(both)
    simulator.run_until(600e-6)
    assert len(given) > 60
    return taken[: len(given)], given


@pytest.mark.parametrize("stall", [0, 50, 80])
@pytest.mark.parametrize("slow", [0, 50, 80])
def test_a_queue_uses_no_collision_and_one_that_does_is_noticed(stall, slow, monkeypatch):
    with spoiled():
        taken, given = passed(Queue(16, 5), stall, slow)
    assert given == taken
    monkeypatch.setattr(fifo, "SyncFIFOBuffered", hasty())
    taken, given = passed(Queue(16, 5), stall, slow)
    assert given == taken, "the hasty queue is right where memories give the new value"
    with spoiled():
        taken, given = passed(Queue(16, 5), stall, slow)
    assert given != taken
