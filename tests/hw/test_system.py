"""Memory systems: names, files, fields, and what is refused."""

import json
from dataclasses import replace

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
    assert slow.to_dict() == slow.options | {"bandwidth": 0.25}, "modules that were kept have these fields"


def test_a_dram_has_the_fields_of_its_kind_beside_those_of_the_port(tmp_path):
    ulx3s, pynq = SYSTEMS["ulx3s"], SYSTEMS["pynq"]
    assert load_system({"kind": "sdram"}) == ulx3s
    assert load_system({"kind": "ddr"}) == pynq
    assert load_system({"kind": "flat"}) == REFERENCE
    slow = load_system({"kind": "ddr", "latency": 9, "trcd": 9, "clock": 4})
    assert slow == replace(pynq, latency=9, dram=replace(pynq.dram, trcd=9, clock=4.0))
    for system in SYSTEMS.values():
        path = tmp_path / "system.json"
        path.write_text(json.dumps(system.to_dict()))
        assert load_system(path) == system
    assert ulx3s.dram.capacity_bytes == 32 << 20
    assert pynq.dram.capacity_bytes == 512 << 20
    assert SYSTEMS["ultra96"].dram.capacity_bytes == 2 << 30


def test_clocks_between_commands_follow_from_the_datasheet():
    assert SYSTEMS["ulx3s"].dram.between == {
        "column": 8, "read_write": 2 + 8 + 1, "write_read": 8, "read_precharge": 8, "write_precharge": 8 + 2 - 1,
        "read_data": 2 + 8, "write_data": 8}
    assert SYSTEMS["pynq"].dram.between == {
        "column": 4, "read_write": 7 + 4 + 2 - 6, "write_read": 6 + 4 + 4, "read_precharge": 4, "write_precharge": 6 + 4 + 8,
        "read_data": 7 + 4, "write_data": 6 + 4}


def test_what_tiles_are_chosen_for():
    """Closed forms; tests/sim/test_dram.py measures the stream."""
    ulx3s, pynq = SYSTEMS["ulx3s"], SYSTEMS["pynq"]
    assert ulx3s.bytes_a_cycle == pytest.approx(2 * (1 - 10 / 625))
    assert ulx3s.read_latency == 6 + 2 + 2 + 8
    assert ulx3s.write_share == 1
    assert pynq.bytes_a_cycle == 8, "the port is slower than the chip"
    assert pynq.read_latency == 20 + 4  # 7 + 7 + 4 clocks at 5.25 a cycle
    assert pynq.write_share == pytest.approx(8 / (21 * (1 - 151 / 4095)))
    assert (REFERENCE.bytes_a_cycle, REFERENCE.read_latency, REFERENCE.write_share) == (8, 40, 0)


@pytest.mark.parametrize(("given", "message"), [
    ("fast", "unknown memory system 'fast'; known: ideal, pynq, reference, ultra96, ulx3s, or the path of a .json file"),
    ("idal", "unknown memory system 'idal'; did you mean 'ideal'? Known: ideal, … or the path of a .json file"),
    (3, "a memory system is a System, a name, a mapping or a path, not int"),
    ({"latenci": 3},
     "a memory system of kind 'flat' has no field 'latenci'; did you mean 'latency'? Known: bandwidth, bus_bits, kind, …"),
    ({"latency": -1}, "a memory system's latency … -1 … whole number … 0 to 100000"),
    ({"outstanding": 1.5}, "a memory system's outstanding … 1.5 … whole number … 1 to 256"),
    ({"bandwidth": 25}, "a memory system's bandwidth is 25 and must be a share of 0.01 to 1"),
    ({"bandwidth": True}, "a memory system's bandwidth is True and must be a share of 0.01 to 1"),
    ({"bus_bits": 128.0}, "a memory system's bus_bits … 128.0 … one of (64, 128, 256, 512)"),
    ({"bus_bits": 100}, "a memory system's bus_bits … 100 … one of (64, 128, 256, 512)"),
    ({"trcd": 3}, "a memory system of kind 'flat' has no field 'trcd'; it belongs to kinds sdram and ddr: add \"kind\": …"),
    ({"kind": "dram"}, "unknown kind of memory 'dram'; did you mean 'sdram'? Known: ddr, flat, sdram"),
    ({"kind": ["ddr"]}, "unknown kind of memory ['ddr']; known: ddr, flat, sdram"),
    ({"kind": "ddr", "tcdr": 3}, "a memory system of kind 'ddr' has no field 'tcdr'; did you mean 'trcd'? Known: ahead, …"),
    ({"kind": "ddr", "trcd": 0}, "a memory system's trcd is 0 and must be a whole number from 1 to 256"),
    ({"kind": "ddr", "banks": 6}, "a memory system's banks is 6 and must be a power of two from 1 to 32"),
    ({"kind": "ddr", "burst": 1}, "a memory system's burst is 1 and must be at least 2: kind 'ddr' moves 2 words a clock"),
    ({"kind": "ddr", "clock": 20}, "a memory system's clock is 20 and must be a number of memory clocks in a cycle …"),
    ({"kind": "ddr", "clock": True}, "a memory system's clock is True and must be a number …"),
    ({"kind": "sdram", "tcwl": 3}, "a memory system's tcwl is 3 and must be at most tcas, 2"),
    ({"kind": "sdram", "trc": 3}, "a memory system's trc is 3 and must be at least tras, 4"),
    ({"kind": "sdram", "columns": 4}, "a memory system's columns is 4 and must be at least burst, 8"),
    ({"kind": "sdram", "trefi": 20}, "a memory system's trefi is 20 and must be 0, or more than …"),
    ({"kind": "sdram", "policy": "lazy"}, "a memory system's policy is 'lazy' and must be 'open' or 'closed'"),
])
def test_a_system_that_there_is_not(given, message):
    with raises(MemorySystemError, message):
        load_system(given)


def test_a_system_whose_dram_is_none():
    with raises(MemorySystemError, "a memory system's dram is 'ddr' and must be a vtakit.hw.dram.Dram, or None"):
        System(dram="ddr")


@pytest.mark.parametrize(("text", "message"), [
    ("[]", "memory system file 'system.json' has no object of fields: bus_bits, latency, outstanding, bandwidth, kind"),
    ("{",
     "cannot read memory system file 'system.json': Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ('{"speed": 3}', "memory system file 'system.json': a memory system of kind 'flat' has no field 'speed'; known: …"),
    ('{"kind": "ddr", "trp": 3.5}', "memory system file 'system.json': a memory system's trp is 3.5 and must be a whole …"),
    (None, "cannot read memory system file 'system.json': No such file or directory"),
])
def test_a_file_that_is_no_system(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "system.json").write_text(text)
    with raises(MemorySystemError, message):
        load_system("system.json")
    assert issubclass(MemorySystemError, VtakitError)
