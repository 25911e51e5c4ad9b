"""The choice of each clock's command: the hardware of what `vtakit.sim.dram` defines."""

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.memory.signals import PRECHARGE_ALL_BIT, Kind, beats_a_column, bits, column, command, request
from vtakit.boards.memory.timers import timer
from vtakit.hw.dram import Dram
from vtakit.hw.params import CoreParams

HIT, CONFLICT, CLOSED = range(3)  # of a bank, for a request: its row is open, another one, none
_MOST_OWED = 7


class _Window:
    """The two requests at the head of a direction's queue, with what their banks need."""

    def __init__(self, name: str, shape: Any) -> None:
        self.valid = [Signal(name=f"{name}_valid{n}") for n in range(2)]
        self.entry = [Signal(shape, name=f"{name}_entry{n}", reset_less=True) for n in range(2)]
        self.need = [Signal(3, name=f"{name}_need{n}", reset_less=True) for n in range(2)]
        self.take = Signal(name=f"{name}_take")


class _State:
    """Registers, and what is issued in this clock.

    opened, rows          of the banks
    hand, need            the request in hand, and what its bank needs; with `has_hand`
    is_first              no column command of it has been issued
    writing               direction
    reads, writes         requests behind it
    moves                 READ or WRITE for the request in hand
    activates, precharges of `bank`, with `row`
    precharges_all, refreshes   steps of a refresh
    """

    def __init__(self, shape: Any, dram: Dram) -> None:
        self.opened = Signal(dram.banks, name="opened")
        self.rows = Array(Signal(bits(dram.rows), name=f"row{n}", reset_less=True) for n in range(dram.banks))
        self.hand, self.need = Signal(shape, name="hand", reset_less=True), Signal(3, name="need")
        self.has_hand, self.is_first, self.writing = (Signal(name=name) for name in ("has_hand", "is_first", "writing"))
        self.reads, self.writes = _Window("read", shape), _Window("write", shape)
        self.moves, self.activates, self.precharges, self.precharges_all, self.refreshes = (
            Signal(name=name) for name in ("moves", "activates", "precharges", "precharges_all", "refreshes"))
        self.bank, self.row = Signal(bits(dram.banks), name="bank"), Signal(bits(dram.rows), name="row")

    def needs(self, request: Any) -> Value:
        """Return what the bank of a request needs now."""
        is_open, same = self.opened.bit_select(request.bank, 1), self.rows[request.bank] == request.row
        return Cat(is_open & same, is_open & ~same, ~is_open)


@dataclass(frozen=True, slots=True, kw_only=True)
class _May:
    """Commands that are legal now: of each bank, and of the data bus."""

    activate: Value
    precharge: Value
    move: Value
    read: Value
    write: Value
    activate_any: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A request that may get a command: `goes` if one is legal, of `activate`, `precharge` and a column command."""

    goes: Value
    activate: Value
    precharge: Value
    bank: Value
    row: Value


class Scheduler(wiring.Component):
    """Issues at most one command a clock and keeps every distance of the chip.

    A refresh that is due comes before all else: PRECHARGE of all banks, then REFRESH. Otherwise the request in hand gets its next
    command. If that must wait, the two requests behind it get a PRECHARGE or ACTIVATE, but for banks that one before them needs.
    Behind a request comes the next of its direction, or after `batch` of them, or when there is none, one of the other direction.

    What a bank needs for a request is known a clock late. That costs nothing, since no command may follow an ACTIVATE or
    PRECHARGE of its bank in the next clock.

    Members
    -------
    enable : ``In(1)``               the chip is initialised
    reads, writes : ``In(stream)``   requests
    command : ``Out(command)``       from a register
    column : ``Out(column)``         beside a READ or WRITE
    """

    def __init__(self, params: CoreParams, dram: Dram) -> None:
        self._params, self._dram = params, dram
        asks = stream.Signature(request(params, dram))
        super().__init__({
            "enable": In(1), "reads": In(asks), "writes": In(asks), "command": Out(command(dram)),
            "column": Out(column(params, dram)),
        })

    def elaborate(self, platform: object) -> Module:
        m, dram = Module(), self._dram
        state = _State(request(self._params, dram), dram)
        may = self._distances(m, state)
        refreshing = self._refresh(m, state, may)
        self._choose(m, state, may, self.enable & ~refreshing & state.has_hand)
        for n in range(dram.banks):
            of_bank = state.bank == n
            with m.If(state.activates & of_bank):
                m.d.sync += [state.opened[n].eq(1), state.rows[n].eq(state.row)]
            with m.If((state.precharges & of_bank) | state.precharges_all):
                m.d.sync += state.opened[n].eq(0)
        self._go_on(m, state)
        for window, asks in ((state.reads, self.reads), (state.writes, self.writes)):
            self._advance(m, state, window, asks)
        self._issue(m, state)
        return m

    def _distances(self, m: Module, state: _State) -> _May:
        """Keep the least distances between commands."""
        dram, between, banks = self._dram, self._dram.between, range(self._dram.banks)
        reads, writes = state.moves & ~state.writing, state.moves & state.writing
        activates = [state.activates & (state.bank == n) for n in banks]
        precharges = [state.precharges & (state.bank == n) for n in banks]
        at_hand = [state.hand.bank == n for n in banks]
        # An event's second clock is a distance of 2: what a bank needs is not known again before.
        return _May(
            activate=Cat(timer(
                m, f"activate{n}", (activates[n], dram.trc), (precharges[n] | state.precharges_all, dram.trp),
                (state.refreshes, dram.trfc)) for n in banks),
            precharge=Cat(timer(
                m, f"precharge{n}", (activates[n], dram.tras), (precharges[n], 2),
                (reads & at_hand[n], between["read_precharge"]), (writes & at_hand[n], between["write_precharge"]))
                for n in banks),
            move=Cat(timer(m, f"column{n}", (activates[n], dram.trcd), (precharges[n], 2)) for n in banks),
            read=timer(m, "reading", (reads, between["column"]), (writes, between["write_read"])),
            write=timer(m, "writing", (writes, between["column"]), (reads, between["read_write"])),
            activate_any=timer(m, "activating", (state.activates, dram.trrd)),
        )

    def _choose(self, m: Module, state: _State, may: _May, free: Value) -> None:
        """Choose the command of this clock, unless it is not free."""
        hand = state.hand
        hand_moves = Signal()
        m.d.comb += hand_moves.eq(
            state.need[HIT] & may.move.bit_select(hand.bank, 1) & Mux(state.writing, may.write, may.read))

        def turn(entry: Any, need: Value, allowed: Value) -> tuple[Value, Value]:
            """Return whether a request's ACTIVATE, and its PRECHARGE, are legal now."""
            return (need[CLOSED] & may.activate.bit_select(entry.bank, 1) & may.activate_any & allowed,
                    need[CONFLICT] & may.precharge.bit_select(entry.bank, 1) & allowed)

        activate, precharge = turn(hand, state.need, Const(1, 1))
        turns = [_Turn(
            goes=hand_moves | activate | precharge, activate=activate, precharge=precharge, bank=hand.bank, row=hand.row)]
        for place in range(min(self._dram.ahead, 2)):
            found = []
            for window in (state.reads, state.writes):
                entry = window.entry[place]
                apart = [entry.bank != hand.bank, *(entry.bank != window.entry[n].bank for n in range(place))]
                allowed = reduce(and_, apart, window.valid[place])
                found.append((*turn(entry, window.need[place], allowed), entry.bank, entry.row))
            activate, precharge, bank, row = (Mux(state.writing, w, r) for r, w in zip(*found, strict=True))
            turns.append(_Turn(goes=activate | precharge, activate=activate, precharge=precharge, bank=bank, row=row))
        before: Value = Const(0, 1)
        chosen = []
        for n, each in enumerate(turns):
            mine = Signal(name=f"turn{n}")
            m.d.comb += mine.eq(free & each.goes & ~before)
            chosen.append((mine, each))
            before = before | each.goes
        m.d.comb += [
            state.moves.eq(chosen[0][0] & hand_moves),
            state.activates.eq(reduce(or_, (mine & each.activate for mine, each in chosen))),
            state.precharges.eq(reduce(or_, (mine & each.precharge for mine, each in chosen))),
            state.bank.eq(reduce(or_, (Mux(mine, each.bank, 0) for mine, each in chosen))),
            state.row.eq(reduce(or_, (Mux(mine, each.row, 0) for mine, each in chosen))),
        ]

    def _go_on(self, m: Module, state: _State) -> None:
        """On to the next column command, or the next request."""
        hand, reads, writes, writing = state.hand, state.reads, state.writes, state.writing
        finishes, loads, switches, enough = (Signal(name=name) for name in ("finishes", "loads", "switches", "enough"))
        served = Signal(range(self._dram.batch + 1))
        mine, other = Mux(writing, writes.valid[0], reads.valid[0]), Mux(writing, reads.valid[0], writes.valid[0])
        m.d.comb += [
            finishes.eq(state.moves & (hand.last == 0)), loads.eq(finishes | ~state.has_hand),
            enough.eq(served + state.has_hand >= self._dram.batch), switches.eq(other & (~mine | enough)),
        ]
        turned = writing ^ switches
        m.d.sync += state.need.eq(state.needs(hand))
        with m.If(state.moves):
            place = Cat(hand.column, hand.bank, hand.row)
            following = Signal(len(place))
            m.d.comb += following.eq(place + 1)
            m.d.sync += [place.eq(following), hand.last.eq(hand.last - 1), state.is_first.eq(0)]
            with m.If(hand.column.all()):  # into the next row, which is in another bank
                m.d.sync += state.need.eq(0)
        with m.If(loads):
            m.d.sync += [
                state.has_hand.eq(mine | other), state.is_first.eq(1), hand.eq(Mux(turned, writes.entry[0], reads.entry[0])),
                state.need.eq(Mux(turned, state.needs(writes.entry[0]), state.needs(reads.entry[0]))),
            ]
            with m.If(switches):
                m.d.sync += [writing.eq(turned), served.eq(0)]
            with m.Elif(finishes & (served != self._dram.batch)):
                m.d.sync += served.eq(served + 1)
        m.d.comb += [reads.take.eq(loads & ~turned), writes.take.eq(loads & turned)]

    def _issue(self, m: Module, state: _State) -> None:
        """The command, from a register, and which of its beats are wanted."""
        hand, beats = state.hand, range(beats_a_column(self._params, self._dram))
        keep = Cat(
            (~state.is_first | (hand.first_beat <= n)) & ((hand.last != 0) | (hand.last_beat >= n)) for n in beats)
        m.d.sync += [
            self.command.kind.eq(Kind.NOP), self.command.bank.eq(state.bank), self.command.address.eq(0),
            self.column.keep.eq(keep), self.column.ends.eq(hand.last == 0),
        ]
        with m.If(state.moves):
            m.d.sync += [
                self.command.kind.eq(Mux(state.writing, Kind.WRITE, Kind.READ)),
                self.command.address.eq(hand.column << bits(self._dram.burst)),
            ]
        with m.If(state.activates):
            m.d.sync += [self.command.kind.eq(Kind.ACTIVATE), self.command.address.eq(state.row)]
        with m.If(state.precharges):
            m.d.sync += self.command.kind.eq(Kind.PRECHARGE)
        with m.If(state.precharges_all):
            m.d.sync += [self.command.kind.eq(Kind.PRECHARGE), self.command.address.eq(1 << PRECHARGE_ALL_BIT)]
        with m.If(state.refreshes):
            m.d.sync += self.command.kind.eq(Kind.REFRESH)

    def _advance(self, m: Module, state: _State, window: _Window, asks: Any) -> None:
        """Move requests up in a window."""
        moves = [Signal(name=f"{window.take.name}_moves{n}") for n in range(2)]
        m.d.comb += [
            moves[0].eq(window.take | ~window.valid[0]), moves[1].eq(moves[0] | ~window.valid[1]), asks.ready.eq(moves[1]),
        ]
        m.d.sync += [need.eq(state.needs(entry)) for need, entry in zip(window.need, window.entry, strict=True)]
        with m.If(moves[0]):
            m.d.sync += [
                window.valid[0].eq(window.valid[1]), window.entry[0].eq(window.entry[1]),
                window.need[0].eq(state.needs(window.entry[1])),
            ]
        with m.If(moves[1]):
            # Its need is known a clock later; until then nothing is done for it.
            m.d.sync += [window.valid[1].eq(asks.valid), window.entry[1].eq(asks.payload), window.need[1].eq(0)]

    def _refresh(self, m: Module, state: _State, may: _May) -> Value:
        """Count the refreshes that are due, and begin them. Return whether one is."""
        dram, opened = self._dram, state.opened
        refreshing = Signal()
        if not dram.trefi:
            return refreshing
        left, owed = Signal(range(dram.trefi), init=dram.trefi - 1), Signal(range(_MOST_OWED + 1))
        due = Signal()
        m.d.comb += [
            due.eq(self.enable & (left == 0)),
            state.precharges_all.eq(refreshing & opened.any() & (~opened | may.precharge).all()),
            state.refreshes.eq(refreshing & ~opened.any() & may.activate.all()),
        ]
        with m.If(self.enable):
            m.d.sync += [
                left.eq(Mux(left == 0, dram.trefi - 1, left - 1)), owed.eq(owed + due - state.refreshes),
                refreshing.eq(owed + due - state.refreshes != 0),
            ]
        return refreshing
