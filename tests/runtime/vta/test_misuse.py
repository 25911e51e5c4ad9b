"""Arguments of the driver and of reports that make no sense: one sentence each, and the device works on."""

import numpy as np
import pytest
from driver_support import ADD, TINY, tiny
from support import raises

from vtakit import sim
from vtakit.base.errors import VtakitError
from vtakit.runtime.report import Layer, Report
from vtakit.runtime.report.sections import sections
from vtakit.runtime.vta import DeviceMemoryError


@pytest.mark.parametrize(("act", "message"), [
    (lambda d: d.allocate("3"), "the size of a buffer must be an integer, not '3'"),
    (lambda d: d.allocate(2.0), "the size of a buffer must be an integer, not 2.0"),
    (lambda d: d.allocate(3, "a"), "the alignment of a buffer must be an integer, not 'a'"),
    (lambda d: d.upload([1, 2]), "what is uploaded must be bytes or an array, not list"),
    (lambda d: d.upload(np.array([None])), "what is uploaded must be bytes or an array, not an array of object"),
    (lambda d: d.upload(bytes(4)).read("3"), "size must be an integer, not '3'"),
    (lambda d: d.upload(bytes(4)).read(1, None), "offset must be an integer, not None"),
    (lambda d: d.upload(bytes(4)).write(b"a", "x"), "offset must be an integer, not 'x'"),
    (lambda d: d.run(ADD, [b""]), "inputs must be a mapping of buffers' names, not [b'']"),
    (lambda d: d.run(ADD, {3: b""}), "inputs must be a mapping of buffers' names, not {3: b''}"),
    (lambda d: d.load(ADD).launch([]), "buffers must be a mapping of buffers' names, not []"),
    (lambda d: sim.run(ADD, "x"), "buffers must be a mapping of buffers' names, not 'x'"),
])
def test_arguments_of_the_wrong_kind(act, message):
    with tiny("fsim") as driver:
        with raises(VtakitError, message):
            act(driver)
        assert driver.run(ADD, {"x": bytes(16)}).buffers["y"] == bytes([3] * 4)


@pytest.mark.parametrize("align", [0, -64, 3])
def test_an_alignment_is_a_power_of_two(align):
    message = f"the alignment of a buffer of device 'fsim' must be a power of two, not {align}"
    with tiny("fsim") as driver, raises(DeviceMemoryError, message):
        driver.allocate(4, align)


@pytest.mark.parametrize(("steps", "message"), [
    ("a", "max_steps must be an integer, not 'a'"), (None, "max_steps must be an integer, not None"),
    (0, "max_steps must be at least 1, not 0"),
])
def test_steps_that_bound_nothing(steps, message):
    with raises(VtakitError, message):
        tiny("fsim", max_steps=steps)


FINISH = (3,)


@pytest.mark.parametrize(("act", "message"), [
    (lambda: Report("x", 3), "the layers of a report must be Layers, not 3"),
    (lambda: Report("x", [None]), "the layers of a report must be Layers, not [None]"),
    (lambda: Layer.of("a", TINY, FINISH, {}, macs="3"), "the multiplications of 'a' must be an integer, not '3'"),
    (lambda: Layer.of("a", TINY, FINISH, {}, macs=-3), "the multiplications of 'a' must be at least 0, not -3"),
    (lambda: sections(TINY, FINISH, {"a": 1}, None, macs=3), "macs must be a mapping of parts' names, not 3"),
    (lambda: sections(TINY, FINISH, {"a": 1}, None, macs={3: 3}), "macs names 3, which is none of the parts a"),
    (lambda: Report("x", (Layer.of("a", TINY, FINISH, {}),)).save(None), "a report's file must be a path, not None"),
])
def test_reports_that_there_are_not(act, message):
    with raises(VtakitError, message):
        act()


def test_a_device_that_counts_nothing_but_cycles_has_no_stages():
    layer = Layer.of("a", TINY, FINISH, {"cycles": 30})
    assert (layer.cycles, layer.stages) == (30, {})
    assert "cycles of each stage" not in str(Report("board", (layer,)))
