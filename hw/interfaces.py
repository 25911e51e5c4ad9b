"""The signals between blocks: commands, scratchpad ports, bursts, and the AXI4 and AXI4-Lite channels."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.config import INSN_BITS, VTAConfig
from vtakit.hw.isa.formats import Format, Kind
from vtakit.hw.params import CoreParams

INDEX_BITS = 24  # number of an instruction in its program
FAULT_BITS = 8


def layout(fmt: Format, cfg: VTAConfig) -> data.Layout:
    """A format's fields as an Amaranth layout, so that hardware decodes with the encoder's own places."""
    shapes = {p.field.name: signed(p.width) if p.field.kind is Kind.INT else unsigned(p.width) for p in fmt.place(cfg)}
    return data.FlexibleLayout(fmt.bits, {p.field.name: data.Field(shapes[p.field.name], p.offset) for p in fmt.place(cfg)})


# An instruction, its number, and whether it moves or computes anything.
COMMAND = data.StructLayout({"word": INSN_BITS, "index": INDEX_BITS, "works": 1})


def sram_write(element_bits: int, depth_log2: int, *, lanes: int = 1, slices: int = 1) -> wiring.Signature:
    """Write, when `valid`, `count` neighbouring elements from `index` on, or those slices of one element that `mask` names.

    The indices must lie in the scratchpad; only one of lanes and slices is more than 1.
    """
    return wiring.Signature({
        "valid": Out(1), "index": Out(depth_log2), "count": Out(range(lanes + 1)), "mask": Out(slices),
        "data": Out(data.ArrayLayout(element_bits, lanes)),
    })


def sram_read(element_bits: int, depth_log2: int) -> wiring.Signature:
    """Read the element at `index` while `enable`; `data` follows after the scratchpad's latency."""
    return wiring.Signature({"enable": Out(1), "index": Out(depth_log2), "data": In(element_bits)})


def burst(params: CoreParams) -> data.StructLayout:
    """Beats to move: byte address of the first, a multiple of the bus, and their number less one."""
    return data.StructLayout({"address": params.address_bits, "last": range(params.burst_beats)})


def read_beat(params: CoreParams) -> data.StructLayout:
    """A beat that was read, and whether the memory answered with an error instead."""
    return data.StructLayout({"data": params.bus_bits, "error": 1})


def axi_read(params: CoreParams) -> wiring.Signature:
    """The read channels of an AXI4 manager with one ID; constant signals (size, burst type) are added at the top."""
    return wiring.Signature({
        "ar": Out(stream.Signature(data.StructLayout({"addr": params.address_bits, "len": 8}))),
        "r": In(stream.Signature(data.StructLayout({"data": params.bus_bits, "resp": 2, "last": 1}))),
    })


def axi_write(params: CoreParams) -> wiring.Signature:
    """The write channels of an AXI4 manager with one ID."""
    return wiring.Signature({
        "aw": Out(stream.Signature(data.StructLayout({"addr": params.address_bits, "len": 8}))),
        "w": Out(stream.Signature(data.StructLayout({"data": params.bus_bits, "strb": params.bus_bytes, "last": 1}))),
        "b": In(stream.Signature(data.StructLayout({"resp": 2}))),
    })


def axi_lite(address_bits: int) -> wiring.Signature:
    """The channels of an AXI4-Lite manager of 32 bits."""
    return wiring.Signature({
        "aw": Out(stream.Signature(data.StructLayout({"addr": address_bits}))),
        "w": Out(stream.Signature(data.StructLayout({"data": 32, "strb": 4}))),
        "b": In(stream.Signature(data.StructLayout({"resp": 2}))),
        "ar": Out(stream.Signature(data.StructLayout({"addr": address_bits}))),
        "r": In(stream.Signature(data.StructLayout({"data": 32, "resp": 2}))),
    })
