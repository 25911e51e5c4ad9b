"""Plants one defect after the other in a copy of hw/ and tells whether the block's bench, or the core's, catches it.

  python tests/hw/planted.py [NAME …]      all defects, or those of the benches named; minutes: each is a model of its own
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEFECTS = [  # bench, file, what is there, what is put there instead
    ("token_queue", "issue/token_queue.py", "came.eq(self.push & ~taken & ~full)",
     "came.eq(self.push & ~taken)"),
    ("scratchpad", "memory/scratchpad.py", "first_row + (lane < first_lane)", "first_row"),
    ("mac_array", "compute/mac_array.py", "wgt[out * cfg.block + into]", "wgt[into * cfg.block + out]"),
    ("mac_array", "compute/booth.py", "Mux(negative, ~(low | middle), low & middle)",
     "Mux(negative, ~low, low & middle)"),
    ("mac_array", "compute/booth.py", "missing = Cat(negative, Const(0, 1))", "missing = Const(0, 2)"),
    ("alu", "compute/alu.py", "far.eq(Mux(left, ~upper.all(), upper.any()))", "far.eq(upper.any())"),
    ("alu", "compute/alu.py", "fill.eq(~left & a[-1])", "fill.eq(a[-1])"),
    ("alu", "compute/alu.py", "with m.If(self.runs):\n            m.d.sync += chosen",
     "with m.If(1):\n            m.d.sync += chosen"),
    ("alu", "compute/alu.py", "with m.If(self.runs):\n            m.d.sync += [\n",
     "with m.If(1):\n            m.d.sync += [\n"),
    ("alu", "compute/alu.py", "with m.If(self.runs):\n            m.d.sync += [p", "with m.If(1):\n            m.d.sync += [p"),
    ("pipeline", "pipeline.py", "Mux(self.level <= 1, self.w_data, read.data)", "Mux(self.level == 0, self.w_data, read.data)"),
    ("steps", "compute/steps.py", "after = Mux(moves[1], plus(start, outer), start)",
     "after = Mux(moves[1], plus(offset, outer), start)"),
    ("steps", "compute/steps.py", "issue.eq(active & has_room & ready)", "issue.eq(active & ready)"),
    ("steps", "compute/steps.py", "(index >= self.pending.end)", "(index + 1 >= self.pending.end)"),
    ("steps", "compute/steps.py", "+ uop[name] + (offset[bits] << bits)", "+ uop[name] - (offset[bits] << bits)"),
    ("arithmetic", "compute/arithmetic.py", "second.eq(Mux(meets_first, result, first))", "second.eq(first)"),
    ("arithmetic", "compute/arithmetic.py", "delay.eq(before_is_alu & behind(before))", "delay.eq(0)"),
    ("arithmetic", "compute/arithmetic.py", "Mux(newer, older, read)", "Mux(newer, result, read)"),
    ("arithmetic", "compute/arithmetic.py", "| (older.dst == new.dst) |", "|"),
    ("bursts", "memory/bursts.py", "params.burst_beats - beat[: params.burst_beats.bit_length() - 1]", "params.burst_beats"),
    ("bursts", "memory/bursts.py", "(found.end <= self.window_high)", "(found.end < self.window_high)"),
    ("read_buffer", "memory/read_buffer.py", "(room > wanted.last)", "(room != 0)"),
    ("read_buffer", "memory/read_buffer.py", "taken_before.eq(taken)", "taken_before.eq(self.beats.valid)"),
    ("read_master", "memory/read_master.py", "(in_flight + start < params.outstanding)",
     "(in_flight + start <= params.outstanding)"),
    ("read_master", "memory/read_master.py", "(owners.r_data == n)", "(owners.r_data >= n)"),
    ("read_master", "memory/read_master.py", "in reversed(range(1, readers + 1))", "in range(1, readers + 1)"),
    ("read_master", "memory/read_master.py", "n = (owner + away) % readers", "n = (away + 1) % readers"),
    ("read_master", "memory/read_master.py", "owners.r_rdy & ~ResetSignal(allow_reset_less=True)", "owners.r_rdy"),
    ("read_master", "memory/read_master.py", "is_open.eq(~self.stop & (", "is_open.eq(("),
    ("write_master", "memory/write_master.py", "(here > wanted.last)", "(here != 0)"),
    ("write_master", "memory/write_master.py", "lengths.w_en.eq(start)", "lengths.w_en.eq(aw.valid & aw.ready)"),
    ("write_master", "memory/write_master.py", "b.ready.eq(~ResetSignal(allow_reset_less=True))", "b.ready.eq(1)"),
    ("write_master", "memory/write_master.py", "self.done.eq(finished & finals.r_data)", "self.done.eq(finished)"),
    ("load_writer", "load/planner.py", "most.eq(Mux(pads, lanes, most_at_row))", "most.eq(lanes)"),
    ("load_port", "load/planner.py", "in_beat(row_place + f.x_stride, a_beat)", "in_beat(row_place + f.x_size, a_beat)"),
    ("load_port", "load/planner.py", "plan.outside.eq(bound > depth)", "plan.outside.eq(bound > depth + 1)"),
    ("acc_writer", "compute/acc_writer.py", "source.ready.eq(~write.last | ~self.busy)", "source.ready.eq(1)"),
    ("store_port", "store/port.py", "strobes.eq(Mux(full, 0, Cat(*new_strobes)))", "strobes.eq(Cat(*new_strobes))"),
    ("store_port", "store/narrower.py", "taken | (room != 0))", "1)"),
    ("store_port", "store/narrower.py", "coming.is_part & coming.scales, unit.stays]",
     "coming.is_part & coming.scales]"),
    ("store_port", "store/narrower.py", "under_way.append(pools & here.is_part & here.scales)", "pass"),
    ("store_port", "store/narrower.py", "here.is_first | (new", "(new"),
    ("store_port", "store/narrower.py", "pools & ~here.is_row", "pools"),
    ("store_port", "store/walk.py", "lacks_row.eq(0), rows_left", "rows_left"),
    ("store_port", "store/walk.py", "origin + 1 + double - lacks_column", "origin + 1 + double"),
    ("store_port", "store/walk.py", "Mux(above, pitch, 0) + left", "Mux(above, pitch, 0)"),
    ("store_port", "store/narrower.py", "out.place.eq(unit.result_tag)", "out.place.eq(here.place)"),
    ("store_port", "store/port.py", "left.eq(f.x_size), first.eq(f.sram_base)", "left.eq(f.x_size)"),
    ("requantizer", "store/requantizer.py", "+ near5[0] +", "+"),
    ("requantizer", "store/requantizer.py", "far4 | (unlike4 >> fine4).any()", "far4"),
    ("requantizer", "store/requantizer.py", "| (low6 > high6)", ""),
    ("requantizer", "store/requantizer.py", ")[parts[stage]]", ")[parts[0]]"),
    ("requantizer", "store/requantizer.py", "Cat(flags[:-1]).any() |", "Cat(flags[:2]).any() |"),
    ("arithmetic", "compute/arithmetic.py", "Mux(at[last].overwrite, 0, value)", "Mux(at[last - 1].overwrite, 0, value)"),
    ("steps", "compute/steps.py", "window.overwrite, gemm.overwrite & ~is_alu)", "window.overwrite, 0)"),
    ("steps", "compute/steps.py", "emitted.eq(issue & turn & emits)", "emitted.eq(issue & turn)"),
    ("steps", "compute/steps.py", "wait.eq(wait - 1)", "wait.eq(0)"),
    ("steps", "compute/steps.py", "Mux(phase == step_size, 0, phase + 1)", "Mux(phase == 3, 0, phase + 1)"),
    ("window", "compute/window.py", "self.row >= back", "self.row > back"),
    ("window", "compute/window.py", "Mux(self.first, 0, taps[n + 1])", "taps[n + 1]"),
    ("arithmetic", "compute/arithmetic.py", "(now.emits if self._windows else 1)", "1"),
    ("decoder", "fetch/decoder.py", ".rows != 0)", ".columns != 0)"),
    ("store_port", "store/walk.py", "self.beyond.eq(self._is_beyond(after))", "self.beyond.eq(0)"),
    ("decoder", "fetch/decoder.py", "(f.y_pad_0 | f.y_pad_1 | f.x_pad_0 | f.x_pad_1)", "(f.y_pad_0 | f.y_pad_1 | f.x_pad_0)"),
    ("fetch", "fetch/fetch.py", "~now.error & (decoder.fault == 0)", "~now.error | (decoder.fault == 0)"),
    ("fetch", "fetch/fetch.py", "has_decoded.eq(between.o.valid), decoded", "has_decoded.eq(between.o.valid & ~sent), decoded"),
    ("fetch", "fetch/fetch.py", "missing.eq(self.count == 0)", "missing.eq(0)"),
    ("fetch", "fetch/fetch.py", "with m.Elif(bursts.outside):", "with m.Elif(0):"),
    ("retire", "issue/retire.py", "(self.retires & (oldest.unit == n + 1))", "self.retires"),
    ("pipeline", "pipeline.py", "with m.If(self.i.valid & ~full):", "with m.If(self.i.valid):"),
    ("pipeline", "pipeline.py", "self.i.ready.eq(~full)", "self.i.ready.eq(moves)"),
    ("counters", "control/counters.py", "with m.If(self.clear):", "with m.If(self.clear & ~counts):"),
    ("acc_memory", "compute/acc_memory.py", "self.result.index, self.load.index)[", "self.load.index, self.result.index)["),
    ("acc_memory", "compute/acc_memory.py", "bank.eq(bank_of(read.index))", "bank.eq(bank_of(self.read0.index))"),
    ("acc_memory", "compute/acc_memory.py", "Mux(load_bank, self.writes[-1], self.writes[0])", "self.writes[0]"),
    ("arithmetic", "compute/arithmetic.py", "& (at[last - 1].dst == written)", ""),
    ("arithmetic", "compute/arithmetic.py", "replaced.eq(gemms[last - 1] &", "replaced.eq("),
    ("issue", "issue/issue.py", "~self.lacks_next & retire.started.ready", "retire.started.ready"),
    ("issue", "issue/issue.py", "tokens.ready.eq(self.starts & wanted)", "tokens.ready.eq(self.commands.valid & wanted)"),
    ("supervisor", "control/supervisor.py", "with m.If(self.drained):", "with m.If(self.drained | resetting):"),
    ("supervisor", "control/supervisor.py", "with m.If(self.start & ~self.reset):", "with m.If(self.start):"),
    ("supervisor", "control/supervisor.py", "m.d.sync += resetting.eq(self.reset)", "m.d.sync += resetting.eq(0)"),
    ("supervisor", "control/supervisor.py", "with m.If(~self.clear):", "with m.If(1):"),
    ("core", "control/supervisor.py", "self.clear.eq(1)\n                    m.next",
     "self.clear.eq(resetting)\n                    m.next"),
    ("core", "control/registers.py", "with m.If(~self.busy & ~(data", "with m.If(~(data"),
    ("core", "control/registers.py", "~self.busy & ~(data & mask & absent).any()", "~self.busy"),
    ("core", "control/registers.py", "awake.eq(~ResetSignal(allow_reset_less=True))", "awake.eq(1)"),
    ("core", "store/stage.py", "fault_index.eq(writers.r_data)", "fault_index.eq(issue.retire_index)"),
    ("core", "core.py", "Mux(self.window_high[-1], 1 << params.address_bits, self.window_high)", "self.window_high"),
    ("core", "compute/stage.py", "self.store_ready.eq(~arithmetic.src.enable & ~", "self.store_ready.eq(~"),
    ("core_small", "compute/stage.py", "~arithmetic.src.enable & ~acc.read1_busy", "~arithmetic.src.enable"),
    ("alu", "compute/alu.py", "part.eq(self.part)", "part.eq(0)"),
    ("arithmetic", "compute/passes.py", "(bank_of(new.dst) == bank_of(new.src))", "(bank_of(new.dst) != bank_of(new.src))"),
    ("arithmetic", "compute/passes.py", "reads_src=~half", "reads_src=whole"),
    ("arithmetic", "compute/arithmetic.py", "now.is_alu & passes.last", "now.is_alu"),
    ("arithmetic", "compute/arithmetic.py", "ends[0].eq(accepts & now.last & passes.last)", "ends[0].eq(accepts & now.last)"),
    ("arithmetic", "compute/passes.py", "accepts & whole", "accepts"),
    ("arithmetic", "compute/window.py", "each.word_select(part,", "each.word_select(0,"),
    ("arithmetic", "compute/arithmetic.py", "& (passes.part == 0)", ""),
    ("core_small", "load/stage.py", "writes.ready.eq(~write.pad | (turn == turns - 1))", "writes.ready.eq(1)"),
    ("acc_memory", "compute/acc_memory.py", "Mux(takes[0], self.read0.index, self.read1.index)",
     "Mux(takes[1], self.read1.index, self.read0.index)"),
]
RUN = """
import sys
from pathlib import Path
import vtakit.hw
from vtakit.sim.bench.model import Blocks, build, simulate
name, folder = sys.argv[1], Path(sys.argv[2])
assert Path(vtakit.hw.__file__).resolve().parent == Path.cwd() / "hw", "the copy with the defect is not what is tested"
if name.startswith("core"):
    from vtakit.hw.isa.config import NAMED
    from vtakit.hw.params import CoreParams
    from vtakit.hw.top import Top
    small = {"gemm_passes": 2, "mul_passes": 2, "acc_copies": 1} if name == "core_small" else {}
    model, bench = build(Top(CoreParams.of(NAMED["tiny"], 64, small))), "core_bench"
else:
    from board import board, params_of
    blocks = {n: b for n, b in board(params_of("tiny", 64)).items() if n.startswith((name, "retire"))}  # one with a clock
    model, bench = build(Blocks(blocks)), f"bench_{name}"
failures = [f"{n}: {m}" for n, m in simulate(model, [bench], folder, {"config": "tiny", "bus_bits": 64}).items() if m]
print(failures[0].splitlines()[0][:150] if failures else "MISSED")
"""


def main() -> None:
    """Plant, run and print one line for each."""
    wanted = sys.argv[1:]
    missed = 0
    for bench, file, old, new in DEFECTS:
        if wanted and bench not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            shutil.copytree(ROOT / "hw", tree / "hw")
            shutil.copytree(ROOT / "vtakit", tree / "vtakit", symlinks=True)
            for part in ("sim", "compiler", "runtime", "boards"):
                (tree / part).symlink_to(ROOT / part)
            path = tree / "hw" / file
            text = path.read_text()
            assert text.count(old) == 1, f"{file} holds {text.count(old)} times {old!r}"
            path.write_text(text.replace(old, new))
            command = [sys.executable, "-c", RUN, bench, str(tree / "run")]
            benches = ROOT / "tests" / "hw" / "benches"
            environment = os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{benches}", "COCOTB_MAX_FAILURES": "1"}
            # The copy is the working folder: what python -c finds there comes before PYTHONPATH.
            done = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, timeout=900, check=False
            )
            if done.returncode:
                sys.exit(f"{bench} with {new!r} could not be run:\n{done.stderr}")
            failure = done.stdout.strip().splitlines()[-1]
            missed += failure == "MISSED"
            said = failure if failure == "MISSED" else f"caught by {failure}"
            print(f"{bench:13} {old[:50]!r}: {said}", flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
