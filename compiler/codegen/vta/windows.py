"""DWCONV instructions of a loop nest: rows and columns of outputs, each through one window."""

from dataclasses import dataclass

import numpy as np

from vtakit.compiler.codegen.vta.actions import Action, Operand, Output, reach, turns, whole_steps
from vtakit.compiler.codegen.vta.forms import Env
from vtakit.compiler.codegen.vta.kernels import Loop, places
from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.compiler.codegen.vta.tree import Nest
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import DWCONV, Opcode, Stage

_HIGHEST = {place.field.name: place.high for place in DWCONV.place(DEFAULT)}
MOST_ROWS, MOST_COLUMNS, MOST_STEP = _HIGHEST["rows"], _HIGHEST["columns"] + 1, _HIGHEST["x_step"] + 1


@dataclass(frozen=True, slots=True)
class Windows:
    """Sums over windows of each lane: ``acc[b, j] += sum of inp[r, c, b, j] * wgt[j, tap]``.

    dst, src, wgt : of the first output: its accumulator, the first tap of its window, its weights
    pitches : input values from a row of the window to the next, and from a column
    taps    : rows and columns of the window that are used: the last ones of the device's
    """

    nest: Nest
    lanes: tuple[int, int, int]
    dst: Operand
    src: Operand
    wgt: Operand
    pitches: tuple[int, int]
    taps: tuple[int, int]

    def emit(self, env: Env, out: Output) -> None:
        """Append its instructions."""
        ranges = turns(self.nest, env)
        if ranges is None:
            return
        steps, base = [], []
        for operand, lanes in zip((self.dst, self.src, self.wgt), self.lanes, strict=True):
            steps.append(whole_steps(operand.form.steps, lanes))
            base.append(operand.at(env, ranges, lanes))
        loops = [Loop(len(r), (steps[0][at], steps[1][at], steps[2][at])) for at, r in enumerate(ranges) if len(r) > 1]
        row_pitch, column_pitch = whole_steps(self.pitches, self.lanes[1])
        x, column_pitch, loops = _along(loops, column_pitch)
        y, row_pitch, loops = _along(loops, row_pitch)
        (rows, columns), (y_step, x_step) = self.taps, (loop.steps[1] // pitch for loop, pitch in (
            (y, row_pitch), (x, column_pitch)))
        wide, high = (MOST_COLUMNS - columns) // x_step + 1, (MOST_ROWS - rows) // y_step + 1
        for dst, src, wgt in places(loops):
            for i in range(0, y.extent, high):
                for j in range(0, x.extent, wide):
                    down, across = min(high, y.extent - i), min(wide, x.extent - j)
                    first = base[0] + dst + i * y.steps[0] + j * x.steps[0]
                    from_ = base[1] + src + i * y.steps[1] + j * x.steps[1]
                    size = (down - 1) * y_step + rows, (across - 1) * x_step + columns
                    fields = {
                        "dst": first, "src": from_, "wgt": base[2] + wgt, "rows": size[0], "columns": size[1] - 1,
                        "y_first": rows - 1, "x_first": columns - 1, "y_step": y_step - 1, "x_step": x_step - 1,
                        "src_row": row_pitch if size[0] > 1 else 0, "src_column": column_pitch if size[1] > 1 else 0,
                        "dst_row": y.steps[0] if down > 1 else 0, "dst_column": x.steps[0] if across > 1 else 0,
                    }
                    accesses = (
                        Access("acc", reach(first, ((down, y.steps[0]), (across, x.steps[0]))), write=True),
                        Access("inp", reach(from_, ((size[0], row_pitch), (size[1], column_pitch))), write=False),
                        Access("wgt", slice(base[2] + wgt, base[2] + wgt + 1), write=False),
                    )
                    out.steps.append(Step(Opcode.DWCONV, fields, Stage.COMPUTE, accesses, part=out.part))


AnyAction = Action | Windows


def _along(loops: list[Loop], pitch: int) -> tuple[Loop, int, list[Loop]]:
    """The loop that moves the window by a few times a pitch, and its output, but not the weights; the pitch; the other loops.

    pitch : 0 for a window of one tap that way, which a loop may move by anything: its step is the pitch
    """
    def moves(loop: Loop) -> bool:
        dst, src, wgt = loop.steps
        return not wgt and dst > 0 and src > 0 and (not pitch or (src % pitch == 0 and src // pitch <= MOST_STEP))
    found = min(filter(moves, loops), key=lambda loop: loop.steps[1], default=None)
    if found is None:
        return Loop(1, (0, pitch or 1, 0)), pitch or 1, loops
    return found, pitch or found.steps[1], [loop for loop in loops if loop is not found]


def accumulators(step: Step) -> frozenset[int]:
    """The elements that a DWCONV writes."""
    elements = step.accesses[0].elements
    return frozenset(range(elements.start, elements.stop) if isinstance(elements, slice) else np.unique(elements).tolist())
