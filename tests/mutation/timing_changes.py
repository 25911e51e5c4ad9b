"""Changes of the RTL that may move a cycle: registers added, paths left out, priorities swapped, places added and taken away.

In what stands instead, `later(value)` is the value of the cycle before, `either(a, b)` is a as long as the change is not planted
and b when it is, and `planted` says whether it is. Without the last two, all of it stands instead only when it is planted.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a file of hw/.

    name    what changes
    file    where
    blocks  of `vtakit.sim.cycle.lockstep`, by the beginning of their names: those that hold what changes or are driven by it
    edits   texts that stand there once each, and what stands there instead
    """

    name: str
    file: str
    blocks: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]


def change(name: str, file: str, blocks: str, *edits: tuple[str, str]) -> Change:
    """Return a change; `blocks` are separated by spaces."""
    return Change(name, file, tuple(blocks.split()), edits)


FETCH, CONTROL, REGISTERS, CORE = "fetch/fetch.py", "control/supervisor.py", "control/registers.py", "core.py"
ISSUE, RETIRE, TOKENS, PIPELINE = "issue/issue.py", "issue/retire.py", "issue/token_queue.py", "pipeline.py"
BURSTS, BUFFER = "memory/bursts.py", "memory/read_buffer.py"
READS, WRITES = "memory/read_master.py", "memory/write_master.py"
PLANNER, PORT, WRITER = "load/planner.py", "load/port.py", "load/writer.py"
STAGE, STEPS, ARITHMETIC = "compute/stage.py", "compute/steps.py", "compute/arithmetic.py"
ACC, ACC_WRITER = "compute/acc_memory.py", "compute/acc_writer.py"
STORE, STORE_PORT, NARROWER, REQUANTIZER = "store/stage.py", "store/port.py", "store/narrower.py", "store/requantizer.py"
QUEUES = "load_to_compute compute_to_load compute_to_store store_to_compute"
LOADS = "load.port compute.port"
BURST_MAKERS = "fetch.bursts load.port.bursts compute.port.bursts store.port.bursts"
BUFFERS = "fetch.buffer load.port.buffer compute.port.buffer reader"
ISSUES = f"load.issue compute.issue store.issue fetch.load_queue fetch.compute_queue fetch.store_queue {QUEUES}"

CHANGES = (
    change("a register before the fetched instruction", FETCH, "fetch", ("valid & any_left", "valid & any_left & later(valid)")),
    change("no instruction is decoded while one is sent", FETCH, "fetch",
           ("between.o.ready.eq(~has_decoded | sent)", "between.o.ready.eq(~has_decoded | (sent & ~planted))"),
           ("with m.If(between.o.ready):",
            "with m.If(planted & sent):\n            m.d.sync += has_decoded.eq(0)\n        with m.If(between.o.ready):")),
    change("a register behind the decoder", FETCH, "fetch",
           ("has_decoded & (decoded.stage == stage)", "has_decoded & later(has_decoded) & (decoded.stage == stage)")),
    change("the first beat of an instruction is taken a cycle later", FETCH, "fetch",
           ("~whole | taken)", "either(~whole, ~whole & later(buffer.beats.valid)) | taken)")),
    change("the program is asked for a cycle later", FETCH, "fetch",
           ("bursts.rows.valid.eq(self.start)", "bursts.rows.valid.eq(either(self.start, later(self.start)))")),
    change("one place fewer for a stage's commands", PIPELINE, "fetch",
           ("inner.level < self._depth", "inner.level < self._depth - (self._depth == 510)")),
    change("a queue's first entry comes a cycle later", PIPELINE, "fetch load.port compute.port store.master",
           ("out.i.valid.eq(inner.r_rdy)", "out.i.valid.eq(inner.r_rdy & (later(inner.r_rdy) | ~planted))"),
           ("inner.r_en.eq(out.i.ready)", "inner.r_en.eq(out.i.ready & (later(inner.r_rdy) | ~planted))")),
    # Control
    change("a register more before a program's end", CONTROL, "supervisor",
           ("ended.eq(self.ended)", "ended.eq(either(self.ended, later(self.ended)))")),
    change("a register fewer before a program's end", CONTROL, "supervisor",
           ("with m.Elif(ended):", "with m.Elif(either(ended, ended | self.ended)):")),
    change("the core is in reset for a cycle more", CONTROL, "supervisor",
           ('[self.go.eq(1), resetting.eq(resetting | self.reset)]\n                m.next = "BEGIN"',
            ("[self.go.eq(either(1, ~later(self.clear))), resetting.eq(resetting | self.reset)]\n"
             '                with m.If(~(planted & later(self.clear))):\n                    m.next = "BEGIN"'))),
    change("the host's writes are answered a cycle later", REGISTERS, "registers",
           ("has_address & has_data & ~b.valid", "has_address & has_data & ~b.valid & later(has_address & has_data)")),
    change("a register behind FINISH", CORE, "supervisor", ("finished & empty", "finished & empty & later(empty)")),
    change("FINISH ends the program in its own cycle", CORE, "supervisor",
           ("finished & empty", "(finished | compute.finished) & empty")),
    change("a register between a stage and its queues of tokens", CORE, QUEUES,
           ("getattr(stages[stage], flag)),\n", "either(getattr(stages[stage], flag), later(getattr(stages[stage], flag)))),\n")),
    # Issue
    change("a token is seen a cycle later", TOKENS, QUEUES,
           ("self.push | Mux(taken, more, any_there)", "Mux(taken, more, count != 0)")),
    change("a token is taken only when it has been there for a cycle", ISSUE, ISSUES,
           ("wanted & ~tokens.valid", "wanted & ~(tokens.valid & later(tokens.valid))")),
    change("an instruction is at hand for a cycle before it starts", ISSUE, ISSUES,
           ("may.eq(self.commands.valid & ", "may.eq(self.commands.valid & either(1, later(self.commands.valid)) & ")),
    change("no instruction starts in the cycle after another", ISSUE, ISSUES,
           ("retire.started.ready & ~self.stop", "retire.started.ready & ~(planted & later(self.starts)) & ~self.stop")),
    change("no instruction starts while another retires", ISSUE, ISSUES,
           ("~self.lacks_prev & ~self.lacks_next &", "~self.lacks_prev & ~self.lacks_next & ~(planted & retire.retires) &")),
    change("a register behind the tokens that a stage gives", ISSUE, ISSUES,
           ('getattr(retire, f"push_{side}")', 'later(getattr(retire, f"push_{side}"))')),
    change("an instruction retires a cycle later", RETIRE, ISSUES,
           ("queue.r_rdy & ready", "queue.r_rdy & ready & later(queue.r_rdy & ready)")),
    change("an instruction retires in the cycle in which it is done", RETIRE, ISSUES,
           ("*(count != 0 for count in finished)",
            "*(either(count != 0, (count != 0) | self.done[n]) for n, count in enumerate(finished))")),
    change("one instruction fewer is under way in a stage", RETIRE, ISSUES,
           ("self.started.ready.eq(queue.w_rdy)",
            "self.started.ready.eq(either(queue.w_rdy, queue.w_rdy & (queue.level != INSNS_STARTED - 1)))")),
    # Load
    change("a LOAD's size takes a cycle more", PLANNER, LOADS,
           ("stage.eq(3)", "stage.eq(either(Const(3, 2), Mux(later(stage == 2), 3, 2)))")),
    change("no LOAD is planned while the next is taken", PLANNER, LOADS,
           ("(~planned | takes)", "either(~planned | takes, ~planned)")),
    change("a planned LOAD is taken in the cycle in which the walk before ends", PLANNER, LOADS,
           ("planned & ~active", "planned & (~active | (moves & ends))")),
    change("a register before the walk", PLANNER, LOADS, ("planned & ~active", "planned & later(planned) & ~active")),
    change("no piece is made while one is taken", PLANNER, LOADS,
           ("(~self.pieces.valid | self.pieces.ready)", "either(~self.pieces.valid | self.pieces.ready, ~self.pieces.valid)")),
    change("one LOAD fewer is asked for ahead", PORT, LOADS,
           ("bursts.rows.ready & queue.w_rdy)",
            "bursts.rows.ready & queue.w_rdy & ~(planted & (queue.level == LOADS_AHEAD - 1)))"),
           ("self.commands.valid & queue.w_rdy)",
            "self.commands.valid & queue.w_rdy & ~(planted & (queue.level == LOADS_AHEAD - 1)))"),
           ("self.commands.valid & bursts.rows.ready)",
            "self.commands.valid & bursts.rows.ready & ~(planted & (queue.level == LOADS_AHEAD - 1)))")),
    change("no piece is taken while one is written", WRITER, LOADS, ("(~has | fires)", "either(~has | fires, ~has)")),
    change("the writer sees a beat a cycle later", WRITER, LOADS,
           ("missing.eq(~piece.pad & ~self.beats.valid)",
            "missing.eq(~piece.pad & ~(self.beats.valid & (later(self.beats.valid) | ~planted)))")),
    change("pads are written in every second cycle", WRITER, LOADS,
           ("fires.eq(legal & ready)", "fires.eq(either(legal & ready, legal & ready & ~later(fires & piece.pad)))")),
    change("a LOAD is done a cycle later", WRITER, "load.issue compute.issue load.port compute.port compute",
           ("self.done.eq(fires & piece.ends)", "self.done.eq(either(fires & piece.ends, later(fires & piece.ends)))")),
    # Memory
    change("no row is taken with a burst", BURSTS, BURST_MAKERS,
           ("checked.ready.eq(~busy | (moves & ends))", "checked.ready.eq(~busy | (moves & ends & ~planted))"),
           ("with m.If(checked.ready):",
            "with m.If(planted & moves & ends):\n            m.d.sync += busy.eq(0)\n        with m.If(checked.ready):")),
    change("no row is found while one is checked", BURSTS, BURST_MAKERS,
           ("(~has_found | passes)", "either(~has_found | passes, ~has_found)")),
    change("no row is checked while one is taken", BURSTS, BURST_MAKERS,
           ("(~has_row | (checked.valid & checked.ready))", "either(~has_row | (checked.valid & checked.ready), ~has_row)")),
    change("a row's end takes a cycle more", BURSTS, BURST_MAKERS,
           ("[knows_end.eq(1)", "[knows_end.eq(either(1, ~later(self.rows.valid & self.rows.ready)))")),
    change("a transfer is taken only when all rows before are bursts", BURSTS, BURST_MAKERS,
           ("(~has_row | inside)", "either(~has_row | inside, ~has_row)")),
    change("a row is at hand for a cycle before it is cut", BURSTS, BURST_MAKERS,
           ("moves.eq(busy & out.i.ready)", "moves.eq(busy & out.i.ready & (later(busy) | ~planted))"),
           ("out.i.valid.eq(busy)", "out.i.valid.eq(busy & (later(busy) | ~planted))")),
    change("one place fewer in a reader's buffer", BUFFER, BUFFERS, ("room > wanted.last", "room > wanted.last + planted")),
    change("a place is free in the cycle in which its beat is taken", BUFFER, BUFFERS,
           ("change.eq(taken_before - wanted.last - 1)", "change.eq(either(taken_before, taken) - wanted.last - 1)"),
           ("change.eq(taken_before)", "change.eq(either(taken_before, taken))")),
    change("a place is free a cycle later", BUFFER, BUFFERS,
           ("taken_before.eq(taken)", "taken_before.eq(either(taken, later(taken)))")),
    change("a burst waits a cycle for its room", BUFFER, BUFFERS,
           ("self.bursts.ready.eq(out.i.ready & fits)", "self.bursts.ready.eq(out.i.ready & fits & (later(fits) | ~planted))"),
           ("out.i.valid.eq(self.bursts.valid & fits)", "out.i.valid.eq(self.bursts.valid & fits & (later(fits) | ~planted))")),
    change("one more outstanding read", READS, "reader", ("params.outstanding)", "params.outstanding + planted)")),
    change("one outstanding read fewer", READS, "reader", ("+ start <", "+ start + planted <")),
    change("readers in the other order", READS, "reader",
           ("requests[n].valid", "either(requests[n].valid, requests[(owner + readers - away) % readers].valid)"),
           ("choice.eq(n)", "choice.eq(either(Const(n, 2), Const((owner + readers - away) % readers, 2)))")),
    change("fetch before all others", READS, "reader", ("latest.eq(n)", "latest.eq(either(Const(n, 2), Const(readers - 1, 2)))")),
    change("an outstanding read ends a cycle later", READS, "reader",
           ("in_flight.eq(in_flight + start - finished)", "in_flight.eq(in_flight + start - either(finished, later(finished)))")),
    change("an outstanding read ends a cycle earlier", READS, "reader",
           ("self.stop & (in_flight", "self.stop & (in_flight - (planted & finished)")),
    change("no two reads in cycles after each other", READS, "reader",
           ("start.eq(is_open & address.i.ready", "start.eq(is_open & ~(planted & later(start)) & address.i.ready"),
           ("request.ready.eq(is_open &", "request.ready.eq(is_open & ~(planted & later(start)) &")),
    change("a register before the answers to reads", READS, BUFFERS,
           ("r.ready.eq(owners.r_rdy", "r.ready.eq(either(owners.r_rdy, owners.r_rdy & later(r.valid))")),
    change("a write waits a cycle for its data", WRITES, "store.master",
           ("(here > wanted.last)", "either(here > wanted.last, (here > wanted.last) & later(here > wanted.last))")),
    change("one outstanding write fewer", WRITES, "store.master",
           ("(in_flight != params.outstanding)", "(in_flight != params.outstanding - planted)")),
    change("no address while one is taken", WRITES, "store.master",
           ("(~aw.valid | aw.ready)", "either(~aw.valid | aw.ready, ~aw.valid)")),
    change("data are offered a cycle after their address", WRITES, "store.master",
           ("w.valid.eq(lengths.r_rdy & buffer.o.valid)",
            "w.valid.eq(lengths.r_rdy & buffer.o.valid & (later(lengths.r_rdy) | ~planted))"),
           ("buffer.o.ready.eq(lengths.r_rdy & w.ready)",
            "buffer.o.ready.eq(lengths.r_rdy & w.ready & (later(lengths.r_rdy) | ~planted))")),
    change("a STORE is done a cycle later", WRITES, "store",
           ("self.done.eq(finished & finals.r_data)",
            "self.done.eq(either(finished & finals.r_data, later(finished & finals.r_data)))")),
    change("a register before the answers to writes", WRITES, "store",
           ("b.ready.eq(", "b.ready.eq(either(1, later(b.valid)) & ")),
    change("a beat to write counts a cycle later", WRITES, "store.master",
           ("here.eq(here + arrives - wanted.last - 1)", "here.eq(here + either(arrives, later(arrives)) - wanted.last - 1)"),
           ("here.eq(here + arrives)\n", "here.eq(here + either(arrives, later(arrives)))\n")),
    # Compute
    change("a LOAD waits for its bank a cycle less", STAGE, "compute",
           ("one & (count == most)", "one & either(count == most, count >= most - 1)")),
    change("a step is left out a cycle later", STAGE, "compute", ("self.stop | asks", "self.stop | either(asks, later(asks))")),
    change("steps may be left out one after another", STAGE, "compute", ("(bubbles == 0)", "either(bubbles == 0, 1)")),
    change("a LOAD may write a cycle later", STAGE, "compute",
           ("load_queue.r_rdy & allowed &", "load_queue.r_rdy & allowed & (later(load_queue.r_rdy & allowed) | ~planted) &")),
    change("a LOAD sees the arithmetic's end a cycle later", STAGE, "compute",
           ("reached(retired + arithmetic.retired, next", "reached(retired + (arithmetic.retired & ~planted), next")),
    change("a LOAD sees the last micro-op's read a cycle earlier", STAGE, "compute",
           ("reached(issued, next_load", "reached(either(issued, issued + steps.issued), next_load")),
    change("arithmetic sees a LOAD's begin a cycle earlier", STAGE, "compute",
           ("reached(begun, next_math", "reached(either(begun, begun + port.begins), next_math")),
    change("one arithmetic instruction fewer waits", STAGE, "compute",
           ("load_queue.w_rdy, math_queue.w_rdy)",
            "load_queue.w_rdy, math_queue.w_rdy & ~(planted & (math_queue.level == ARITHMETIC_AHEAD - 1)))")),
    change("a register behind the queue of arithmetic", STAGE, "compute",
           ("math_queue.r_rdy & may_start", "math_queue.r_rdy & may_start & (later(math_queue.r_rdy) | ~planted)"),
           ("begin.i.ready & may_start", "begin.i.ready & may_start & (later(math_queue.r_rdy) | ~planted)")),
    change("a STORE reads no element in the cycle after the arithmetic", STAGE, "store",
           ("self.store_ready.eq(~arithmetic.src.enable &",
            "self.store_ready.eq(~arithmetic.src.enable & ~(planted & later(arithmetic.src.enable)) &")),
    change("arithmetic is done a cycle later", STAGE, "compute",
           ("Cat(port.done, arithmetic.retired)", "Cat(port.done, either(arithmetic.retired, later(arithmetic.retired)))")),
    change("a micro-op waits for the one behind it", STEPS, "compute",
           ("index < self.pending.next", "index + planted < self.pending.next")),
    change("no instruction begins while one ends", STEPS, "compute",
           ("self.commands.ready.eq(~active | (issue & end))", "self.commands.ready.eq(~active | (issue & end & ~planted))"),
           ("with m.If(self.commands.ready):\n            first",
            ("with m.If(planted & issue & end):\n            m.d.sync += active.eq(0)\n"
             "        with m.If(self.commands.ready):\n            first"))),
    change("one step fewer ahead", STEPS, "compute",
           ("has_room.eq(new_room != 0)", "has_room.eq(either(new_room != 0, new_room > 1))")),
    change("a step's place is free a cycle later", STEPS, "compute",
           ("room + taken - issue", "room + either(taken, later(taken)) - issue")),
    change("an instruction's first micro-op is looked for a cycle later", STEPS, "compute",
           ("ready.eq(new_window | (", "ready.eq(~planted & new_window | ~planted & (")),
    change("the last micro-op's read is told a cycle later", STEPS, "compute",
           ("self.issued.eq(issue & end)", "self.issued.eq(either(issue & end, later(issue & end)))")),
    change("a step behind an ALU step waits whatever it needs", ARITHMETIC, "compute",
           ("delay.eq(before_is_alu & behind(before))", "delay.eq(either(before_is_alu & behind(before), before_is_alu))")),
    change("a step right behind an ALU step waits whatever it needs", ARITHMETIC, "compute",
           ("has & now.is_alu & behind(now)", "either(has & now.is_alu & behind(now), has & now.is_alu)")),
    change("no step is taken while one goes on", ARITHMETIC, "compute",
           ("(accepts & last_pass))\n",
            ("(accepts & last_pass & ~planted))\n        with m.If(planted & accepts & last_pass):\n           "
             " m.d.sync += has.eq(0)\n"))),
    change("an arithmetic instruction retires a cycle later", ARITHMETIC, "compute", ("ends[-1]", "later(ends[-1])")),
    change("an arithmetic instruction retires a cycle earlier", ARITHMETIC, "compute", ("ends[-1]", "ends[-2]")),
    change("a result is written though the next replaces it", ARITHMETIC, "compute",
           ("replaced.eq(gemms[last - 1] &", "replaced.eq(~planted & gemms[last - 1] &")),
    change("a step waits for the element behind its own", ARITHMETIC, "compute",
           ("(index >= self.pending.next) &", "(index + planted >= self.pending.next) &")),
    change("a new step waits with the one before it", ARITHMETIC, "compute",
           ("Mux(self.steps.ready, self._unwritten(new),",
            "Mux(self.steps.ready, self._unwritten(new) | (planted & self._unwritten(now)),")),
    change("a LOAD goes before a result in its bank", ACC, "compute",
           ("Mux(load_bank, self.writes[-1], self.writes[0])", "Const(0, 1)")),
    change("a LOAD waits for a replaced result", ACC, "compute",
           ("Mux(load_bank, self.writes[-1], self.writes[0])",
            "Mux(load_bank, self.writes[-1], self.writes[0]) | self.result.valid")),
    change("both banks have one write port", ACC, "compute",
           ("Mux(load_bank, self.writes[-1], self.writes[0])", "self.writes.any()")),
    change("a LOAD's wait for its bank counts a cycle later", ACC_WRITER, "compute",
           ("self.blocked.eq(valid & self.busy)",
            "self.blocked.eq(either(valid & self.busy, valid & self.busy & later(valid & self.busy)))")),
    change("parts of an element wait for its bank", ACC_WRITER, "compute",
           ("~write.last | ~self.busy", "either(~write.last | ~self.busy, ~self.busy)")),
    # Store
    change("a cycle between two STOREs", STORE_PORT, "store",
           ("self.commands.ready.eq(~self.active &", "self.commands.ready.eq(~self.active & ~(planted & later(self.active)) &")),
    change("a STORE's first read waits a cycle", STORE_PORT, "store",
           ("issue.eq(self.active &", "issue.eq(self.active & (later(self.active) | ~planted) &")),
    change("no element joins a beat while one is taken", STORE_PORT, "store",
           ("~full | ~pending | self.beats.ready", "~full | ~pending")),
    change("an element waits for a beat that it does not fill", STORE_PORT, "store",
           ("~full | ~pending | self.beats.ready", "~pending | self.beats.ready")),
    change("one part fewer on its way to memory", NARROWER, "store",
           ("room > 1, taken | (room != 0))", "either(room > 1, room > 2), either(taken | (room != 0), room + taken > 1))")),
    change("a part's place is free a cycle later", NARROWER, "store",
           ("taken.eq(self.found.valid & self.found.ready)",
            "taken.eq(either(self.found.valid & self.found.ready, later(self.found.valid & self.found.ready)))")),
    change("a REQUANT with windows is settled a cycle earlier", NARROWER, "store",
           ("pools & here.is_part & here.scales)", "pools & here.is_part & here.scales & ~planted)")),
    change("a REQUANT is settled a cycle later", REQUANTIZER, "store",
           ("Cat(flags[:-1]).any() |", "either(Cat(flags[:-1]).any(), Cat(flags).any()) |")),
    change("a requantized result comes a cycle later", REQUANTIZER, "store",
           ("Mux(late, valid[-1], flags[-1])",
            "either(Mux(late, valid[-1], flags[-1]), later(Mux(late, valid[-1], flags[-1])))")),
    change("a table takes no cycle", REQUANTIZER, "store", ("late = self.looks_up if", "late = either(self.looks_up, 0) if")),
    change("a STORE retires a cycle later", STORE, "store",
           ("issue.done.eq(master.done)", "issue.done.eq(either(master.done, later(master.done)))")),
)
