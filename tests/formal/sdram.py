"""The SDRAM controller: its commands are legal at any time, for the requests that it has, and refreshes are in time."""

from collections.abc import Iterable

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from formal.checker import Checker, Scoreboard, SmallParams

from vtakit.boards.memory.chips import MODE_CLOCKS, Chip
from vtakit.boards.memory.initialisation import Initialisation
from vtakit.boards.memory.scheduler import Scheduler
from vtakit.boards.memory.signals import PRECHARGE_ALL_BIT, Kind, bits, request
from vtakit.hw.dram import Dram

MOST_BEHIND = 2  # refreshes


class History:
    """The clocks in which something happened, newest first, as far back as it is asked about."""

    def __init__(self, m: Module, name: str, event: Value, clocks: int) -> None:
        self._past = Signal(clocks, name=f"{name}_past")  # one more than a distance asks about, for covers
        m.d.sync += self._past.eq(Cat(event, self._past)[: len(self._past)])

    def apart(self, clocks: int) -> Value:
        """Return whether it is at least so many clocks ago."""
        assert clocks - 1 <= len(self._past)
        return ~self._past[: clocks - 1].any() if clocks > 1 else Value.cast(1)


class CommandsAreLegal(Checker):
    """Any requests at any time, from when the chip is initialised on.

    The checker knows the datasheet's distances and what each bank has open, by the commands alone.

    contents   also which rows and columns the column commands go to
    """

    def __init__(self, params: SmallParams, dram: Dram, *, contents: bool = False) -> None:
        self._params, self._dram, self._contents = params, dram, contents
        super().__init__()

    def properties(self, m: Module) -> None:
        dram, between, banks = self._dram, self._dram.between, range(self._dram.banks)
        m.submodules.scheduler = dut = Scheduler(self._params, dram)
        asks = request(self._params, dram)
        enable, enabled = self.free("enable"), Signal()
        m.d.sync += enabled.eq(enable)
        self.assume(m, "an initialised chip stays so", ~enabled | enable)
        m.d.comb += dut.enable.eq(enable)
        for name, port in (("read", dut.reads), ("write", dut.writes)):
            m.d.comb += [port.valid.eq(self.free(f"{name}_valid")), port.payload.eq(self.free(f"{name}_request", asks))]

        def kind_is(*kinds: Kind) -> Value:
            return Cat(command.kind == kind for kind in kinds).any()

        command, everywhere = dut.command, dut.command.address[PRECHARGE_ALL_BIT]
        on = [command.bank == n for n in banks]
        activate, read, write = ([kind_is(kind) & on[n] for n in banks] for kind in (Kind.ACTIVATE, Kind.READ, Kind.WRITE))
        precharge = [kind_is(Kind.PRECHARGE) & (on[n] | everywhere) for n in banks]
        refresh = kind_is(Kind.REFRESH)

        def history(name: str, events: Iterable[Value], clocks: int) -> list[History]:
            return [History(m, f"{name}{n}", event, clocks) for n, event in enumerate(events)]

        activates, precharges = history("activate", activate, dram.trc), history("precharge", precharge, dram.trp)
        reads = history("read", read, between["read_precharge"])
        writes = history("write", write, between["write_precharge"])
        any_activate = History(m, "any_activate", Cat(activate).any(), dram.trrd)
        any_read = History(m, "any_read", Cat(read).any(), max(between["column"], between["read_write"]))
        any_write = History(m, "any_write", Cat(write).any(), max(between["column"], between["write_read"]))
        refreshes = History(m, "refresh", refresh, dram.trfc)

        opened = Signal(dram.banks)
        m.d.sync += opened.eq((opened | Cat(activate)) & ~Cat(precharge))
        self.watch(kind=command.kind, bank=command.bank, address=command.address, opened=opened)

        def prove(meaning: str, commands: Value, legal: Value) -> None:
            self.prove(m, meaning, ~commands | legal)

        self.prove(m, "no command before the chip is initialised", enabled | (command.kind == Kind.NOP))
        self.prove(m, "no command but those of accesses and refreshes",
                   kind_is(Kind.NOP, Kind.ACTIVATE, Kind.READ, Kind.WRITE, Kind.PRECHARGE, Kind.REFRESH))
        prove("ACTIVATE: tRRD", kind_is(Kind.ACTIVATE), any_activate.apart(dram.trrd))
        prove("ACTIVATE: tRFC", kind_is(Kind.ACTIVATE), refreshes.apart(dram.trfc))
        prove("READ: data of READs do not overlap", kind_is(Kind.READ), any_read.apart(between["column"]))
        prove("READ: data of a WRITE have ended", kind_is(Kind.READ), any_write.apart(between["write_read"]))
        prove("WRITE: data of WRITEs do not overlap", kind_is(Kind.WRITE), any_write.apart(between["column"]))
        prove("WRITE: the bus is idle between data of a READ and of a WRITE", kind_is(Kind.WRITE),
              any_read.apart(between["read_write"]))
        prove("REFRESH: tRFC", refresh, refreshes.apart(dram.trfc))
        prove("REFRESH: all banks are closed", refresh, opened == 0)
        for n in banks:
            prove(f"ACTIVATE of bank {n}: it is closed", activate[n], ~opened[n])
            prove(f"ACTIVATE of bank {n}: tRC", activate[n], activates[n].apart(dram.trc))
            prove(f"ACTIVATE of bank {n}: tRP", activate[n], precharges[n].apart(dram.trp))
            prove(f"READ or WRITE of bank {n}: it is open", read[n] | write[n], opened[n])
            prove(f"READ or WRITE of bank {n}: tRCD", read[n] | write[n], activates[n].apart(dram.trcd))
            closes = precharge[n] & opened[n]
            prove(f"PRECHARGE of bank {n}: tRAS", closes, activates[n].apart(dram.tras))
            prove(f"PRECHARGE of bank {n}: the data of a READ have come", closes, reads[n].apart(between["read_precharge"]))
            prove(f"PRECHARGE of bank {n}: tWR", closes, writes[n].apart(between["write_precharge"]))
            prove(f"REFRESH: tRP of bank {n}", refresh, precharges[n].apart(dram.trp))
            prove(f"REFRESH: tRC of bank {n}", refresh, activates[n].apart(dram.trc))
        self._refreshes(m, enable, refresh)
        if self._contents:
            self._columns(m, dut, activate)
        else:
            self.reach(m, "READ behind WRITE", kind_is(Kind.READ) & ~any_write.apart(between["write_read"] + 1))
            self.reach(m, "WRITE behind READ", kind_is(Kind.WRITE) & ~any_read.apart(between["read_write"] + 1))
            self.reach(m, "another row of an open bank",
                       activate[0] & ~precharges[0].apart(dram.trp + 1) & activates[1].apart(dram.trrd))

    def _refreshes(self, m: Module, enable: Value, refresh: Value) -> None:
        """One refresh in every interval, none of them much too late, and none that is not due."""
        interval = self._dram.trefi
        left, behind = Signal(range(interval), init=interval - 1), Signal(range(MOST_BEHIND + 3))
        due = Signal()
        m.d.comb += due.eq(enable & (left == 0))
        with m.If(enable):
            m.d.sync += left.eq(Mux(left == 0, interval - 1, left - 1))
        m.d.sync += behind.eq(behind + due - refresh)
        self.prove(m, "at most so many refreshes are behind", behind <= MOST_BEHIND)
        self.prove(m, "no refresh that is not due", ~refresh | (behind != 0))
        if not self._contents:
            self.reach(m, "a refresh that is due and waits", behind != 0)

    def _columns(self, m: Module, dut: Scheduler, activate: list[Value]) -> None:
        """Each direction's requests are served in order, each of its columns once, in the row that it is in."""
        dram, command = self._dram, dut.command
        rows = [Signal(bits(dram.rows), name=f"row_of_bank{n}") for n in range(dram.banks)]
        for n, begins in enumerate(activate):
            with m.If(begins):
                m.d.sync += rows[n].eq(command.address)
        for name, port, kind in (("read", dut.reads, Kind.READ), ("write", dut.writes, Kind.WRITE)):
            here = Scoreboard(m, name, port.payload.shape(), 5)
            moves, taken = command.kind == kind, port.valid & port.ready
            done = Signal.like(port.payload.last, name=f"{name}_done")
            oldest = here.oldest
            ends = moves & (done == oldest.last)
            here.update(taken, port.payload, ends)
            m.d.sync += done.eq(Mux(moves, Mux(ends, 0, done + 1), done))
            place = Cat(oldest.column, oldest.bank, oldest.row)
            now = Signal(len(place), name=f"{name}_place")
            m.d.comb += now.eq(place + done)
            column, bank = now[: len(oldest.column)], now[len(oldest.column) :][: bits(dram.banks)]
            row = now[len(oldest.column) + bits(dram.banks) :]
            open_row = rows[0]
            for n in range(1, dram.banks):
                open_row = Mux(command.bank == n, rows[n], open_row)
            with m.If(moves):
                self.prove(m, f"a {name} is of a request", here.count != 0)
                self.prove(m, f"a {name} goes to the bank of its request", command.bank == bank)
                self.prove(m, f"a {name} goes to the column of its request",
                           command.address[bits(dram.burst) : PRECHARGE_ALL_BIT] == column)
                self.prove(m, f"a {name} goes to the row of its request", open_row == row)
                self.prove(m, f"a {name} closes no bank by itself", ~command.address[PRECHARGE_ALL_BIT])
            self.prove(m, f"{name}s under way are few", here.count <= 4)
            self.reach(m, f"a second {name} that crosses into the next row", ends & (done != 0) & (column == 0))


class ChipIsInitialised(Checker):
    """The commands between power-up and the first access are those of the datasheet, in its order and with its distances."""

    def __init__(self, chip: Chip, dram: Dram, power_up_clocks: int) -> None:
        self._chip, self._dram, self._clocks = chip, dram, power_up_clocks
        super().__init__()

    def properties(self, m: Module) -> None:
        dram = self._dram
        m.submodules.initialisation = dut = Initialisation(dram, self._clocks)
        command, done = dut.command, dut.done
        is_kind = {kind: command.kind == kind for kind in Kind}
        closes, refresh, mode = is_kind[Kind.PRECHARGE], is_kind[Kind.REFRESH], is_kind[Kind.LOAD_MODE]
        any_command = ~is_kind[Kind.NOP]
        clocks, count = Signal(range(self._clocks + 2)), Signal(range(16))
        closed, loaded = Signal(), Signal()
        with m.If(clocks != self._clocks + 1):
            m.d.sync += clocks.eq(clocks + 1)
        m.d.sync += [closed.eq(closed | closes), loaded.eq(loaded | mode), count.eq(count + refresh)]
        precharges, refreshes = History(m, "precharge", closes, dram.trp), History(m, "refresh", refresh, dram.trfc)
        modes = History(m, "mode", mode, MODE_CLOCKS)
        self.watch(kind=command.kind, address=command.address, done=done)

        self.prove(m, "nothing before the chip's power is stable", ~any_command | (clocks >= self._clocks))
        self.prove(m, "first PRECHARGE of all banks, once", ~closes | (command.address[PRECHARGE_ALL_BIT] & ~closed))
        self.prove(m, "then nothing but REFRESH and LOAD MODE", ~any_command | closes | (closed & (refresh | mode)))
        for name, each in (("REFRESH", refresh), ("LOAD MODE", mode)):
            self.prove(m, f"{name}: tRP and tRFC", ~each | (precharges.apart(dram.trp) & refreshes.apart(dram.trfc)))
        self.prove(m, "LOAD MODE once, behind enough REFRESHes", ~mode | (~loaded & (count >= self._chip.refreshes)))
        self.prove(m, "the mode: length of bursts, sequential, CAS latency, bursts of writes too",
                   ~mode | (command.address == (dram.burst.bit_length() - 1 | dram.tcas << 4)))
        self.prove(m, "accesses begin tMRD behind LOAD MODE", ~done | (loaded & modes.apart(MODE_CLOCKS)))
        self.prove(m, "nothing when accesses may begin", ~done | ~any_command)
        self.reach(m, "it is done", done)
