"""Parameters of a core: what is refused, and that the device's registers can tell each one that is not."""

from dataclasses import replace

import pytest
from support import raises

from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.regs import REGISTERS, fields_of
from vtakit.hw.params import BUS_BITS, MOST_OUTSTANDING, CoreParams
from vtakit.hw.top import constants

TINY = NAMED["tiny"]


@pytest.mark.parametrize(("given", "message"), [
    ({"bus_bits": 32}, "bus_bits must be one of (64, 128, 256, 512), got 32"),
    ({"address_bits": 31}, "address_bits must be from 32 to 64, got 31"),
    ({"address_bits": 65}, "address_bits must be from 32 to 64, got 65"),
    ({"outstanding": 0}, "outstanding must be from 1 to 255, got 0"),
    ({"outstanding": 256}, "outstanding must be from 1 to 255, got 256"),
    ({"burst_beats": 1}, "burst_beats must be a power of two from 2 to 64 within 4096 bytes, got 1"),
    ({"burst_beats": 12}, "burst_beats must be a power of two from 2 to 64 within 4096 bytes, got 12"),
    ({"burst_beats": 128}, "burst_beats must be a power of two from 2 to 64 within 4096 bytes, got 128"),
    ({"buffer_beats": 16}, "buffer_beats must be a power of two of at least two bursts, got 16"),
    ({"buffer_beats": 48}, "buffer_beats must be a power of two of at least two bursts, got 48"),
    ({"dsp_budget": 21}, "dsp_budget must be at least 22, which ALU, requantizer and addresses take, got 21"),
    ({"axi_prot": 8}, "axi_prot must be from 0 to 7, got 8"),
])
def test_what_no_core_can_be_built_from_is_refused(given, message):
    with raises(ConfigError, message):
        CoreParams(cfg=TINY, **given)


def test_a_budget_of_dsp_blocks_leaves_the_rest_to_logic():
    def products(budget: int | None) -> int | None:
        return CoreParams(dsp_budget=budget).dsp_products

    assert [products(budget) for budget in (None, 66, 156, 322, 999)] == [None, 0, 90, 256, 256]
    assert CoreParams(dsp_budget=60, requantizes=False).dsp_products == 10


def test_the_bus_register_can_tell_every_parameter():
    bits = {field.name: field.width for register in REGISTERS if register.name == "bus" for field in register.fields}
    most = CoreParams(cfg=TINY, bus_bits=max(BUS_BITS), outstanding=MOST_OUTSTANDING, address_bits=64)
    assert most.bus_bytes_log2 < 1 << bits["log_data_bytes"]
    assert most.outstanding < 1 << bits["outstanding"]
    assert most.address_bits < 1 << bits["address_bits"]
    assert [fields_of("bus", constants(replace(most, counters=there))["bus"])["no_causes"] for there in (True, False)] == [0, 1]
