"""The thresholds of Python's garbage collector around a compilation."""

import gc

import pytest

from vtakit.base.collector import seldom_collected


@pytest.fixture
def thresholds():
    kept = gc.get_threshold()
    yield gc.set_threshold
    gc.set_threshold(*kept)


@pytest.mark.parametrize(("before", "inside"), [
    ((700, 10, 10), (50_000, 10, 10)), ((90_000, 5, 5), (90_000, 5, 5)), ((0, 10, 10), (0, 10, 10)),
])
def test_the_collector_searches_less_often_and_then_as_before(thresholds, before, inside):
    thresholds(*before)

    def fail():
        with seldom_collected():
            assert gc.get_threshold() == inside
            raise KeyError
    with pytest.raises(KeyError):
        fail()
    assert gc.get_threshold() == before
