"""The simulated hardware's registers as a port, and the model that lives on behind them."""

import gc

import pytest
from driver_support import ADD, TINY, tiny
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.regs import IDENTITY, mask_of, offset_of
from vtakit.hw.params import CoreParams
from vtakit.runtime.vta import connect, rtl, simulated
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.build import library
from vtakit.sim.rtl.host import command, read_register, until_idle
from vtakit.sim.rtl.model import Kind, Model, Op
from vtakit.sim.rtl.surroundings import Surroundings

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model


def test_an_access_that_the_hardware_refuses():
    with tiny("rtl") as driver:
        port = driver.device.port
        with raises(DeviceError, "device 'rtl' refuses the write of 0x1 to its register at 0x000"):
            port.write_register(offset_of("identity"), 1)
        with raises(DeviceError, "device 'rtl' refuses the read of its register at 0xffc"):
            port.read_register(0xFFC)
        assert port.read_register(offset_of("identity")) == IDENTITY


def test_registers_that_do_not_answer_in_time(monkeypatch):
    with tiny("rtl", stall=99) as driver:
        advance = Model.advance
        monkeypatch.setattr(rtl, "_ACCESS_CYCLES", 10)
        monkeypatch.setattr(Model, "advance", lambda model: advance(model, 5))
        with raises(DeviceError, "device 'rtl' does not answer at its registers within 10 cycles"):
            driver.device.port.read_register(0)
        monkeypatch.undo()
        assert driver.run(ADD, {"x": bytes(16)}).buffers["y"] == bytes([3] * 4)


def test_a_poll_ends_with_its_limit_of_reads():
    """It is the busy bit of a program that waits for a slow memory."""
    dram = bytearray(4096)
    with Model(library(CoreParams(cfg=TINY)), dram, Surroundings(latency=5000)) as model:
        def work(*ops: Op) -> Op:
            model.give(ops)
            while not model.advance():
                pass
            return model.answers()[-1]

        work(Op(kind=Kind.WRITE, address=offset_of("insn_count"), value=1), command("start"))
        busy, before = mask_of("status", "busy"), model.counts().cycles
        poll = until_idle()
        assert work(Op(kind=Kind.POLL, address=poll.address, value=poll.value, limit=3)).value == busy
        took = model.counts().cycles - before
        assert 2 * 32 < took < 4 * 48  # three reads with 32 cycles between two
        assert work(until_idle()).value & busy == 0
        assert work(*read_register("status")).value == mask_of("status", "error")  # the memory holds no FINISH


def test_a_model_that_nothing_refers_to_is_closed():
    model = Model(library(CoreParams(cfg=TINY)), bytearray(64), Surroundings())
    close = model._close
    assert close.alive
    del model
    gc.collect()
    assert not close.alive


def test_a_memory_larger_than_this_machines(monkeypatch):
    def none_left(size: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(simulated, "bytearray", none_left, raising=False)
    with raises(VtakitError, "a device's memory of 4096 bytes is more than this machine has"):
        connect("fsim", TINY, memory_bytes=4096)
