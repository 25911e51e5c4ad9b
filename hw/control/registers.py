"""The host's registers on an AXI4-Lite bus, derived from `hw.isa.regs`."""

from collections.abc import Mapping
from types import MappingProxyType

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import axi_lite
from vtakit.hw.isa.regs import ADDRESS_BITS, REGISTER_BYTES, REGISTERS, AccessMode, Register, offsets

OKAY, SLVERR = 0, 2
WORD_BITS = 8 * REGISTER_BYTES


class Registers(wiring.Component):
    """One access at a time; a read takes three cycles, a write two.

    `settings` says how many bits of each writable register exist; a write that sets another is refused. `inits` has the values
    after a reset that are not those of `hw.isa.regs`.

    Members
    -------
    axil : ``In(axi_lite)``
    busy : ``In(1)``                     refuse a start, and changes of settings
    a writable register's name : ``Out``     its value
    a read-only register's name : ``In``     its value; of 64 bits, the low half latches the high one when it is read
    start, reset, clear_counters, acknowledge : ``Out(1)``   a 1 was written there, for one cycle
    """

    def __init__(self, settings: Mapping[str, int], inits: Mapping[str, int] = MappingProxyType({})) -> None:
        writable = {r.name for r in REGISTERS if r.mode is AccessMode.READ_WRITE}
        if set(settings) != writable:
            raise ValueError(f"settings must give a width for each of {sorted(writable)}, got {sorted(settings)}")
        self._settings = dict(settings)
        members: dict[str, wiring.Member] = {"axil": In(axi_lite(ADDRESS_BITS)), "busy": In(1)}
        for register in REGISTERS:
            if register.mode is AccessMode.READ_WRITE:
                members[register.name] = Out(settings[register.name], init=inits.get(register.name, register.init))
            elif register.mode is AccessMode.READ_ONLY:
                members[register.name] = In(WORD_BITS * register.words)
            else:
                members |= {field.name: Out(1) for field in register.fields}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        awake = Signal()  # in reset, from its first cycle on, nothing is taken that would then be lost
        m.d.comb += awake.eq(~ResetSignal(allow_reset_less=True))
        self._write(m, awake)
        self._read(m, awake)
        return m

    def _write(self, m: Module, awake: Signal) -> None:
        aw, w, b = self.axil.aw, self.axil.w, self.axil.b
        address = Signal(ADDRESS_BITS)
        data = Signal(WORD_BITS)
        mask = Signal(WORD_BITS)  # of the bits to write
        has_address, has_data, accept, legal = (Signal(name=name) for name in ("has_address", "has_data", "accept", "legal"))
        m.d.comb += [
            aw.ready.eq(awake & ~has_address), w.ready.eq(awake & ~has_data), accept.eq(has_address & has_data & ~b.valid),
        ]
        with m.If(aw.valid & aw.ready):
            m.d.sync += [has_address.eq(1), address.eq(aw.payload.addr)]
        with m.If(w.valid & w.ready):
            m.d.sync += [has_data.eq(1), data.eq(w.payload.data), mask.eq(Cat(s.replicate(8) for s in w.payload.strb))]
        with m.If(b.ready):
            m.d.sync += b.valid.eq(0)
        with m.If(accept):
            m.d.sync += [has_address.eq(0), has_data.eq(0), b.valid.eq(1), b.payload.resp.eq(Mux(legal, OKAY, SLVERR))]
        with m.If(accept), m.Switch(address[2:]):
            for at, register in offsets():
                for word in range(register.words):
                    with m.Case(at // REGISTER_BYTES + word):
                        if register.mode is AccessMode.READ_WRITE:
                            value = getattr(self, register.name)[WORD_BITS * word : WORD_BITS * (word + 1)]
                            keeps = Const(~(register.align - 1) if word == 0 else ~0, WORD_BITS)
                            absent = Const(-1 << max(0, self._settings[register.name] - WORD_BITS * word), WORD_BITS)
                            with m.If(~self.busy & ~(data & mask & absent).any()):
                                m.d.comb += legal.eq(1)
                                m.d.sync += value.eq(((value & ~mask) | (data & mask)) & keeps)
                        elif register.mode is AccessMode.WRITE_ONE:
                            pulses = [getattr(self, field.name) for field in register.fields]
                            with m.If(~(self.busy & data[0] & mask[0])):  # bit 0 is start
                                m.d.comb += [legal.eq(1), *(p.eq(data[n] & mask[0]) for n, p in enumerate(pulses))]

    def _read(self, m: Module, awake: Signal) -> None:
        ar, r = self.axil.ar, self.axil.r
        address = Signal(ADDRESS_BITS)
        has_address = Signal()
        high = Signal(WORD_BITS)
        accept = Signal(name="accept_read")
        m.d.comb += [ar.ready.eq(awake & ~has_address), accept.eq(has_address & ~r.valid)]
        with m.If(ar.valid & ar.ready):
            m.d.sync += [has_address.eq(1), address.eq(ar.payload.addr)]
        with m.If(r.ready):
            m.d.sync += r.valid.eq(0)
        with m.If(accept):
            m.d.sync += [has_address.eq(0), r.valid.eq(1), r.payload.resp.eq(SLVERR), r.payload.data.eq(0)]
            with m.Switch(address[2:]):
                for at, register in offsets():
                    low, rest = self._value(register)
                    with m.Case(at // REGISTER_BYTES):
                        m.d.sync += [r.payload.resp.eq(OKAY), r.payload.data.eq(low)]
                        if len(rest):
                            m.d.sync += high.eq(rest)
                    if register.words == 2:
                        with m.Case(at // REGISTER_BYTES + 1):
                            latched = register.mode is AccessMode.READ_ONLY
                            m.d.sync += [r.payload.resp.eq(OKAY), r.payload.data.eq(high if latched else rest)]

    def _value(self, register: Register) -> tuple[Value, Value]:
        """The words that a register reads as; the second may be empty."""
        if register.mode is AccessMode.WRITE_ONE:
            return Const(0, WORD_BITS), Const(0, 0)
        value = getattr(self, register.name)
        return value[:WORD_BITS], value[WORD_BITS:]
