"""Signals between the parts of the controller, and the pins of the chip."""

from enum import IntEnum

from amaranth.hdl import unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.dram import Dram
from vtakit.hw.params import CoreParams

PRECHARGE_ALL_BIT = 10  # of the address pins


KIND_BITS = 3


class Kind(IntEnum):
    """Command of the chip. Values are RAS, CAS and WE, active high."""

    NOP = 0b000
    TERMINATE = 0b001
    READ = 0b010
    WRITE = 0b011
    ACTIVATE = 0b100
    PRECHARGE = 0b101
    REFRESH = 0b110
    LOAD_MODE = 0b111


def bits(count: int) -> int:
    """Return the bits of an index below `count`, a power of two."""
    return count.bit_length() - 1


def address_bits(dram: Dram) -> int:
    """Return the number of address pins."""
    return max(bits(dram.rows), bits(dram.columns), PRECHARGE_ALL_BIT + 1)


def words_a_beat(params: CoreParams, dram: Dram) -> int:
    """Return the words of the chip in a beat of the port."""
    return params.bus_bits // dram.width


def beats_a_column(params: CoreParams, dram: Dram) -> int:
    """Return the beats that a column command moves, at least 1: a beat may take several commands."""
    return max(1, dram.burst // words_a_beat(params, dram))


def columns_a_beat(params: CoreParams, dram: Dram) -> int:
    """Return the column commands of a beat, at least 1."""
    return max(1, words_a_beat(params, dram) // dram.burst)


def request(params: CoreParams, dram: Dram) -> data.StructLayout:
    """Burst of the port as column commands: `last` + 1 of them, from column `column` of a row on, in units of the burst.

    `first_beat` is the first beat of the first command that is wanted, `last_beat` the last one of the last command.
    """
    beats = beats_a_column(params, dram)
    most = params.burst_beats * columns_a_beat(params, dram) // beats + 1
    return data.StructLayout({
        "bank": bits(dram.banks), "row": bits(dram.rows), "column": bits(dram.columns // dram.burst), "last": range(most),
        "first_beat": range(beats), "last_beat": range(beats),
    })


def column(params: CoreParams, dram: Dram) -> data.StructLayout:
    """Column command for the data path: which of its beats are wanted, and whether the burst of the port ends with it."""
    return data.StructLayout({"keep": unsigned(beats_a_column(params, dram)), "ends": 1})


def command(dram: Dram) -> data.StructLayout:
    """Command and its address pins."""
    return data.StructLayout({"kind": KIND_BITS, "bank": bits(dram.banks), "address": address_bits(dram)})


def chip_pins(dram: Dram) -> wiring.Signature:
    """Pins of the chip but its clock, as the FPGA sees them; `dq_oe` drives the data bus."""
    return wiring.Signature({
        "cke": Out(1), "cs_n": Out(1, init=1), "ras_n": Out(1, init=1), "cas_n": Out(1, init=1), "we_n": Out(1, init=1),
        "ba": Out(bits(dram.banks)), "a": Out(address_bits(dram)), "dqm": Out(dram.width // 8, init=(1 << dram.width // 8) - 1),
        "dq_o": Out(dram.width), "dq_oe": Out(1), "dq_i": In(dram.width),
    })
