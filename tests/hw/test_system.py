"""Memory systems: names, files, fields, and what is refused."""

import json

import pytest
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.system import REFERENCE, SYSTEMS, MemorySystemError, System, load_system


def test_a_system_by_name_fields_and_file(tmp_path):
    assert load_system("reference") is REFERENCE
    assert load_system(SYSTEMS["ideal"]).latency == 0
    assert load_system({"bandwidth": 0.25, "latency": 60}) == System(bandwidth=0.25, latency=60)
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({"bus_bits": 128, "outstanding": 4}))
    assert load_system(path) == load_system(str(path)) == System(bus_bits=128, outstanding=4)


def test_a_system_is_its_fields_and_its_options():
    slow = System(bandwidth=0.25, latency=60, bus_bits=128, outstanding=3)
    assert System.from_dict(slow.to_dict()) == slow
    assert slow.bytes_a_cycle == 4
    assert slow.options == {"bus_bits": 128, "latency": 60, "outstanding": 3, "bandwidth": 25}


@pytest.mark.parametrize(("given", "message"), [
    ("fast", "unknown memory system 'fast'; known: ideal, reference, or the path of a .json file"),
    ("idal", "unknown memory system 'idal'; did you mean 'ideal'? Known: ideal, reference, or the path of a .json file"),
    (3, "a memory system is a System, a name, a mapping or a path, not int"),
    ({"latenci": 3},
     "a memory system … no field 'latenci'; did you mean 'latency'? Known: bandwidth, bus_bits, latency, outstanding"),
    ({"latency": -1}, "a memory system's latency … -1 … whole number … 0 to 100000"),
    ({"outstanding": 1.5}, "a memory system's outstanding … 1.5 … whole number … 1 to 256"),
    ({"bandwidth": 25}, "a memory system's bandwidth is 25 and must be a share of 0.01 to 1"),
    ({"bandwidth": True}, "a memory system's bandwidth is True and must be a share of 0.01 to 1"),
    ({"bus_bits": 128.0}, "a memory system's bus_bits … 128.0 … one of (64, 128, 256, 512)"),
    ({"bus_bits": 100}, "a memory system's bus_bits … 100 … one of (64, 128, 256, 512)"),
])
def test_a_system_that_there_is_not(given, message):
    with raises(MemorySystemError, message):
        load_system(given)


@pytest.mark.parametrize(("text", "message"), [
    ("[]", "memory system file 'system.json' has no object of fields: bus_bits, latency, outstanding, bandwidth"),
    ("{",
     "cannot read memory system file 'system.json': Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ('{"clock": 3}', "memory system file 'system.json' has no field 'clock'; known: bandwidth, bus_bits, latency, outstanding"),
    (None, "cannot read memory system file 'system.json': No such file or directory"),
])
def test_a_file_that_is_no_system(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "system.json").write_text(text)
    with raises(MemorySystemError, message):
        load_system("system.json")
    assert issubclass(MemorySystemError, VtakitError)
