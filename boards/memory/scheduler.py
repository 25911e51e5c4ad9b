"""The choice of each clock's command: the hardware of what `vtakit.sim.dram` defines."""

from collections.abc import Iterable
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


class Window:
    """The two requests at the head of a direction's queue, with what their banks need."""

    def __init__(self, name: str, shape: Any) -> None:
        self.valid = [Signal(name=f"{name}_valid{n}") for n in range(2)]
        self.entry = [Signal(shape, name=f"{name}_entry{n}", reset_less=True) for n in range(2)]
        self.need = [Signal(3, name=f"{name}_need{n}", reset_less=True) for n in range(2)]
        self.take = Signal(name=f"{name}_take")


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
        m, params, dram = Module(), self._params, self._dram
        banks, between = range(dram.banks), dram.between
        shape = request(params, dram)
        opened = Signal(dram.banks)
        rows = Array(Signal(bits(dram.rows), name=f"row{n}", reset_less=True) for n in banks)
        hand, need, has_hand, writing = Signal(shape, reset_less=True), Signal(3), Signal(), Signal()
        is_first = Signal()  # no column command of the request in hand has been issued
        windows = [Window("read", shape), Window("write", shape)]

        # What is issued in this clock: a column command, or ACTIVATE or PRECHARGE of `bank`, or a step of a refresh.
        moves, activates, precharges, precharges_all, refreshes = (
            Signal(name=name) for name in ("moves", "activates", "precharges", "precharges_all", "refreshes"))
        bank, row = Signal(bits(dram.banks)), Signal(bits(dram.rows))
        of_bank = [bank == n for n in banks]
        at_hand = [hand.bank == n for n in banks]
        may_activate = Cat(timer(
            m, f"activate{n}", (activates & of_bank[n], dram.trc), ((precharges & of_bank[n]) | precharges_all, dram.trp),
            (refreshes, dram.trfc)) for n in banks)
        may_precharge = Cat(timer(
            m, f"precharge{n}", (activates & of_bank[n], dram.tras), (precharges & of_bank[n], 2),
            (moves & ~writing & at_hand[n], between["read_precharge"]),
            (moves & writing & at_hand[n], between["write_precharge"])) for n in banks)
        may_move = Cat(timer(
            m, f"column{n}", (activates & of_bank[n], dram.trcd), (precharges & of_bank[n], 2)) for n in banks)
        may_read = timer(m, "reading", (moves & ~writing, between["column"]), (moves & writing, between["write_read"]))
        may_write = timer(m, "writing", (moves & writing, between["column"]), (moves & ~writing, between["read_write"]))
        may_any = timer(m, "activating", (activates, dram.trrd))

        def needs(entry: Any) -> Value:
            is_open, same = opened.bit_select(entry.bank, 1), rows[entry.bank] == entry.row
            return Cat(is_open & same, is_open & ~same, ~is_open)

        # The request in hand, and those behind it.
        refreshing = Signal()
        free = Signal()
        m.d.comb += free.eq(self.enable & ~refreshing & has_hand)
        direction = Mux(writing, may_write, may_read)
        hand_moves = Signal()
        m.d.comb += hand_moves.eq(need[HIT] & may_move.bit_select(hand.bank, 1) & direction)

        def turn(entry: Any, entry_need: Value) -> tuple[Value, Value]:
            """Whether a request's ACTIVATE, and its PRECHARGE, are legal now."""
            return (entry_need[CLOSED] & may_activate.bit_select(entry.bank, 1) & may_any,
                    entry_need[CONFLICT] & may_precharge.bit_select(entry.bank, 1))

        turns: list[tuple[Value, Value, Value, Value, Value]] = []  # goes, activates, precharges, bank, row
        activate, precharge = turn(hand, need)
        turns.append((hand_moves | activate | precharge, activate, precharge, hand.bank, hand.row))
        for place in range(min(dram.ahead, 2)):
            found = []
            for window in windows:
                entry = window.entry[place]
                apart = [entry.bank != hand.bank, *(entry.bank != window.entry[n].bank for n in range(place))]
                may = reduce(and_, apart, window.valid[place])
                found.append((*(each & may for each in turn(entry, window.need[place])), entry.bank, entry.row))
            activate, precharge, entry_bank, entry_row = (Mux(writing, w, r) for r, w in zip(*found, strict=True))
            turns.append((activate | precharge, activate, precharge, entry_bank, entry_row))
        chosen: list[Value] = []
        for n, (goes, *_) in enumerate(turns):
            mine = Signal(name=f"turn{n}")
            m.d.comb += mine.eq(free & goes & ~reduce(or_, (t[0] for t in turns[:n]), Const(0, 1)))
            chosen.append(mine)
        m.d.comb += [
            moves.eq(chosen[0] & hand_moves),
            activates.eq(_any(mine & t[1] for mine, t in zip(chosen, turns, strict=True))),
            precharges.eq(_any(mine & t[2] for mine, t in zip(chosen, turns, strict=True))),
            bank.eq(_one_of(zip(chosen, (t[3] for t in turns), strict=True))),
            row.eq(_one_of(zip(chosen, (t[4] for t in turns), strict=True))),
        ]
        for n in banks:
            with m.If(activates & of_bank[n]):
                m.d.sync += [opened[n].eq(1), rows[n].eq(row)]
            with m.If((precharges & of_bank[n]) | precharges_all):
                m.d.sync += opened[n].eq(0)

        self._refresh(m, refreshing, refreshes, precharges_all, opened, may_activate, may_precharge)

        # On to the next column command, or the next request.
        finishes, loads, switches = Signal(), Signal(), Signal()
        served = Signal(range(dram.batch + 1))
        mine, other = (Mux(writing, a, b) for a, b in (
            (windows[1].valid[0], windows[0].valid[0]), (windows[0].valid[0], windows[1].valid[0])))
        enough = Signal()
        m.d.comb += [
            finishes.eq(moves & (hand.last == 0)), loads.eq(finishes | ~has_hand),
            enough.eq(served + has_hand >= dram.batch), switches.eq(other & (~mine | enough)),
        ]
        turned = writing ^ switches
        m.d.sync += need.eq(needs(hand))
        with m.If(moves):
            place = Cat(hand.column, hand.bank, hand.row)
            following = Signal(len(place))
            m.d.comb += following.eq(place + 1)
            m.d.sync += [place.eq(following), hand.last.eq(hand.last - 1), is_first.eq(0)]
            with m.If(hand.column.all()):  # into the next row, which is in another bank
                m.d.sync += need.eq(0)
        with m.If(loads):
            m.d.sync += [
                has_hand.eq(mine | other), is_first.eq(1),
                hand.eq(Mux(turned, windows[1].entry[0], windows[0].entry[0])),
                need.eq(Mux(turned, needs(windows[1].entry[0]), needs(windows[0].entry[0]))),
            ]
            with m.If(switches):
                m.d.sync += [writing.eq(turned), served.eq(0)]
            with m.Elif(finishes & (served != dram.batch)):
                m.d.sync += served.eq(served + 1)
        m.d.comb += [windows[0].take.eq(loads & ~turned), windows[1].take.eq(loads & turned)]
        for window, asks in zip(windows, (self.reads, self.writes), strict=True):
            self._advance(m, window, asks, needs)

        # The command, from a register, and its data.
        keep = Signal(beats_a_column(params, dram))
        m.d.comb += keep.eq(Cat(
            (~is_first | (hand.first_beat <= n)) & ((hand.last != 0) | (hand.last_beat >= n)) for n in range(len(keep))))
        m.d.sync += [
            self.command.kind.eq(Mux(moves, Mux(writing, Kind.WRITE, Kind.READ), Mux(
                activates, Kind.ACTIVATE, Mux(precharges | precharges_all, Kind.PRECHARGE, Mux(
                    refreshes, Kind.REFRESH, Kind.NOP))))),
            self.command.bank.eq(bank),
            self.command.address.eq(Mux(moves, hand.column << bits(dram.burst), Mux(
                activates, row, Mux(precharges_all, 1 << PRECHARGE_ALL_BIT, 0)))),
            self.column.keep.eq(keep), self.column.ends.eq(hand.last == 0),
        ]
        return m

    def _advance(self, m: Module, window: Window, asks: Any, needs: Any) -> None:
        """Move requests up in a window."""
        moves = [Signal(name=f"{window.take.name}_moves{n}") for n in range(2)]
        m.d.comb += [
            moves[0].eq(window.take | ~window.valid[0]), moves[1].eq(moves[0] | ~window.valid[1]), asks.ready.eq(moves[1]),
        ]
        m.d.sync += [need.eq(needs(entry)) for need, entry in zip(window.need, window.entry, strict=True)]
        with m.If(moves[0]):
            m.d.sync += [
                window.valid[0].eq(window.valid[1]), window.entry[0].eq(window.entry[1]), window.need[0].eq(needs(window.entry[1])),
            ]
        with m.If(moves[1]):
            # Its need is known a clock later; until then nothing is done for it.
            m.d.sync += [window.valid[1].eq(asks.valid), window.entry[1].eq(asks.payload), window.need[1].eq(0)]

    def _refresh(
        self, m: Module, refreshing: Signal, refreshes: Signal, precharges_all: Signal, opened: Signal, may_activate: Value,
        may_precharge: Value,
    ) -> None:
        """Count the refreshes that are due, and say when one may begin."""
        dram = self._dram
        if not dram.trefi:
            return
        left, owed = Signal(range(dram.trefi), init=dram.trefi - 1), Signal(range(_MOST_OWED + 1))
        due = Signal()
        m.d.comb += [
            due.eq(self.enable & (left == 0)),
            precharges_all.eq(refreshing & opened.any() & (~opened | may_precharge).all()),
            refreshes.eq(refreshing & ~opened.any() & may_activate.all()),
        ]
        with m.If(self.enable):
            m.d.sync += [left.eq(Mux(left == 0, dram.trefi - 1, left - 1)), refreshing.eq(owed + due - refreshes != 0)]
            m.d.sync += owed.eq(owed + due - refreshes)


def _any(values: Iterable[Value]) -> Value:
    return reduce(or_, values, Const(0, 1))


def _one_of(choices: Iterable[tuple[Value, Value]]) -> Value:
    """Return the value of the one choice that is made, or 0."""
    return reduce(or_, (Mux(chosen, value, 0) for chosen, value in choices), Const(0, 1))
