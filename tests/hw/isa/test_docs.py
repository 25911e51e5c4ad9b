"""The reference page: fresh for the default, complete for every configuration."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from vtakit.hw.isa.config import DEFAULT, NAMED
from vtakit.hw.isa.docs import reference
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.formats import Format
from vtakit.hw.isa.insns import ALL_FEATURES, FORMATS, REQUANT_PARAMS, UOP, Feature
from vtakit.hw.isa.regs import REGISTERS, device_features, offsets, pack_config

PAGE = Path(__file__).parents[3] / "docs" / "isa.md"


def test_the_page_in_docs_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == reference(DEFAULT), "rewrite it: vtakit isa > docs/isa.md"


@pytest.mark.parametrize("name", NAMED)
def test_the_reference_names_everything(name):
    text = reference(NAMED[name])
    formats: list[Format] = [*FORMATS.values(), UOP, REQUANT_PARAMS]
    for fmt in formats:
        assert f"### {fmt.name}\n" in text
        for placed in fmt.place(NAMED[name]):
            top = placed.offset + placed.width - 1
            bits = f"{top}:{placed.offset}" if placed.width > 1 else str(top)
            assert f"| {bits} | {placed.field.name} |" in text
    for fault in Fault:
        assert f"{fault.name} | {fault.doc} |" in text
    for register in REGISTERS:
        assert f"| {register.name} |" in text
    assert ("ACC_8BIT does not exist" in text) is not NAMED[name].has_acc8
    assert ("REQUANT does not exist" in text) is not NAMED[name].has_requant


def test_registers_follow_each_other_without_a_gap():
    places = list(offsets())
    assert places[0][0] == 0
    for (at, register), (following, _) in pairwise(places):
        assert following == at + 4 * register.words
    assert len({register.name for _, register in places}) == len(places)
    for _, register in places:
        assert sum(field.width for field in register.fields) <= 32 * register.words


def test_the_config_register_tells_configurations_apart():
    assert len({pack_config(config) for config in NAMED.values()}) == len(NAMED)
    assert pack_config(DEFAULT) & 0x3F == DEFAULT.log_inp_width
    assert pack_config(DEFAULT) >> 48 == DEFAULT.log_acc_buff_size


def test_what_a_configuration_does_not_allow_is_no_feature_of_its_devices():
    assert device_features(DEFAULT) == ALL_FEATURES
    assert device_features(NAMED["tiny_acc16"]) == (
        Feature.ALU_MUL | Feature.OVERWRITE | Feature.PAD_VALUE | Feature.DWCONV)
    assert device_features(NAMED["i4w4"]) == (
        Feature.ALU_MUL | Feature.REQUANT | Feature.OVERWRITE | Feature.PAD_VALUE | Feature.DWCONV | Feature.POOL)
    assert device_features(NAMED["tiny_i16"]) == Feature.ALU_MUL | Feature.OVERWRITE | Feature.DWCONV
    assert Feature.DWCONV not in device_features(replace(NAMED["tiny"], log_block=1))
