"""Passes of a step through the arithmetic's stages: as many as the core needs for it, of which the last one writes."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data

from vtakit.hw.compute.acc_memory import bank_of
from vtakit.hw.compute.alu import is_product


class Pass(NamedTuple):
    """The next pass of the step at hand."""

    part: Value  # of the outputs or lanes, that it forms
    last: Value  # it writes the result
    reads_dst: Value
    reads_src: Value


def next_pass(
    m: Module, new: data.View, *, takes: Value, accepts: Value, windows: bool, one_copy: bool, gemm_passes: int, mul_passes: int,
) -> Pass:
    """Return what the pass that comes next does for the step at hand.

    new      : the step after it, which is at hand from the next cycle on if `takes`; what decides its passes is found as it comes
    accepts  : the pass begins
    one_copy : of ACC: src and dst of one bank are read one after the other
    """
    some, most = new.is_alu & ~new.fault, max(gemm_passes, mul_passes)
    part, doubles, half, more, last = (
        Signal(shape, name=name) for name, shape in (("part", range(most)), ("doubles", 1), ("half", 1), ("more_parts", 1),
                                                     ("last_pass", 1))
    )
    if one_copy:
        with m.If(takes):
            m.d.sync += [doubles.eq(some & ~new.use_imm & (bank_of(new.dst) == bank_of(new.src))), half.eq(0)]
        with m.Elif(accepts):
            m.d.sync += half.eq(doubles & ~half)
    whole = ~doubles | half
    if most > 1:
        sums = ~new.fault & ~new.is_alu & ~new.reset & (new.emits if windows else 1)
        end = Signal.like(part, name="last_part")
        with m.If(takes):
            m.d.sync += [
                part.eq(0), end.eq(Mux(some & is_product(new.alu_opcode), mul_passes - 1, Mux(sums, gemm_passes - 1, 0))),
            ]
        with m.Elif(accepts & whole):
            m.d.sync += part.eq(part + 1)
        m.d.comb += more.eq(part != end)
    m.d.comb += last.eq(whole & ~more)
    return Pass(part=part, last=last, reads_dst=whole, reads_src=~half)
