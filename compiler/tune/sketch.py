"""Sketches: schedules of any tensor expression for a processor, with their choices as decisions.

Reductions are computed in tiles of sums that registers hold, with what follows them done to each tile; or by vectors along the
reduction. Other operations are computed by vectors, in blocks. What is cheap is computed where it is read, the rest where the
decision says. Nothing here knows an operator.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.expr import Call, Div, Reduce, Select
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import subexpressions
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extents, inlined, is_injective
from vtakit.compiler.nn.cpu.simple import SUMS, reduce_along, run_along
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation, Tensor
from vtakit.compiler.tune.loops import LoopTask, Program, check_arguments
from vtakit.compiler.tune.sketch_lanes import sum_by_lanes, terms_of
from vtakit.compiler.tune.sketch_reads import along, vector_axes
from vtakit.compiler.tune.sketch_tiles import WORTH, Around, compute_in_tiles
from vtakit.compiler.tune.task import TuneError

VERSION = 1  # of the rule: candidates of another one mean something else


def sketch(outputs: Sequence[Tensor], machine: Machine, threads: int, decisions: Decisions) -> Schedule:
    """Return a schedule of all that outputs need.

    Decisions of each reduction: form, "tiles" of sums or "lanes" along the reduction; of what is read there: place, "inline",
    "root" or the number of loops around the place. The others are those of `compute_in_tiles`, `sum_by_lanes`, `run_along` and
    `reduce_along`.
    """
    s = create_schedule([tensor.op for tensor in outputs], decisions)
    flow = Flow.of(s.outputs)
    if any(0 in extents(op) or any(int_value(axis.dom.extent) == 0 for axis in op.reduce_axis if axis.dom)
           for op in flow.computes()):
        return s
    fixed = flow.within_scans()
    fixed |= {tensor.op for op in flow.ops if not isinstance(op, ComputeOp) for tensor in op.input_tensors}
    gone = inlined(flow, fixed)
    around: dict[Operation, Around] = {}
    anchors = [op for op in flow.computes() if op.reduce_axis and op.num_outputs == 1 and op.axis and op not in fixed]
    followed = {follower: anchor for anchor in anchors for follower in flow.followers(anchor)}
    placed = _places(s, flow, gone - set(followed), anchors, followed)
    for op, place in placed.items():
        if place == "inline":
            s[op].compute_inline()
    reads = Reads({op for op, place in placed.items() if place == "inline"})
    done: set[Operation] = {op for op, place in placed.items() if place != "root"}
    for op in anchors:
        followers = flow.followers(op)
        inner = {other: place for other, place in placed.items() if isinstance(place, int) and _reader(flow, other, reads) is op}
        if _form(s, op, machine, reads) == "lanes":
            sum_by_lanes(s, op, machine, reads, threads)
            for other in inner:
                s[other].compute_inline()
            done.add(op)
            continue
        around[op] = compute_in_tiles(s, op, followers, machine, reads, threads)
        for other, depth in inner.items():
            around[op].put(other, depth)
        done |= {op, *followers}
    for op in flow.computes():
        if op in done or op in fixed:
            continue
        if op.reduce_axis:
            reduce_along(s, op, machine, reads)
        elif op.num_outputs == 1 and op.axis:
            _elements(s, op, machine, reads, threads)
    return s


def _reader(flow: Flow, op: Operation, reads: Reads) -> Operation:
    """Return the one operation that reads another, through those that are inlined."""
    (found,) = {reader for reader in flow.readers[op]} or {op}
    return _reader(flow, found, reads) if found in reads.inlined else found


def _places(
    s: Schedule, flow: Flow, gone: set[Operation], anchors: Sequence[ComputeOp], followed: dict[ComputeOp, ComputeOp],
) -> dict[Operation, Any]:
    """Return where the operations are computed that could be inlined: "inline", "root", or the loops of a reduction around them.

    What only reductions read is a decision; the default is a place of its own for conditions and dear calls.
    """
    found: dict[Operation, Any] = dict.fromkeys(followed, "inline")
    for anchor in anchors:
        rest = flow.followers(anchor)
        if rest:
            del found[rest[-1]]
    for op in flow.computes():
        if op in found or op in followed or op.reduce_axis or flow.is_output(op) or not is_injective(op) or not op.axis:
            continue
        readers = flow.readers[op]
        if not any(reader in anchors for reader in readers):
            if op in gone:
                found[op] = "inline"
            continue
        dear = any(isinstance(node, Call | Div | Select) for e in op.body for node in subexpressions(e))
        single = len(readers) == 1
        places = ["inline", "root", *([1, 2, 3] if single else [])] if op in gone or not dear or single else ["inline", "root"]
        found[op] = s[op].choose("place", places, "root" if dear else "inline", rule="sketch")
    return found


def _form(s: Schedule, op: ComputeOp, machine: Machine, reads: Reads) -> str:
    """Return the form of a reduction: the decision, where both are possible."""
    body = op.body[0]
    assert isinstance(body, Reduce)
    terms = terms_of(op, machine)
    if not terms or body.init or body.combiner.name not in SUMS:
        return "tiles"
    lanes = machine.lanes(body.dtype)
    at = vector_axes(op, reads, lanes)[0]
    sizes, run = extents(op), along(op, op.reduce_axis[-1], reads)
    few = sizes[at] < lanes or prod(sizes) < lanes * WORTH  # results, for tiles whose operands are copied
    if run.strided and not few:
        return "tiles"
    default = "lanes" if few or (run.contiguous and not along(op, op.axis[at], reads).contiguous and prod(sizes) < (
        WORTH * sizes[at])) else "tiles"
    found: str = s[op].choose("form", ["tiles", "lanes"], default, rule="sketch")
    return found


def _elements(s: Schedule, op: ComputeOp, machine: Machine, reads: Reads, threads: int) -> None:
    """Compute the elements of an operation without a reduction: along all axes as one, or in tiles if operands are read again."""
    sources = [load.tensor for load in reads.of(op)]
    again = len(sources) > len(set(sources)) or any(
        along(op, axis, reads).still for axis in op.axis if axis.dom is not None and int_value(axis.dom.extent) != 1)
    form = s[op].choose("form", ["along", "tiles"], "along", rule="sketch") if again else "along"
    if form == "along":
        run_along(s[op], machine, reads)
    else:
        compute_in_tiles(s, op, [], machine, reads, threads)


class ExpressionTask(LoopTask):
    """The task of a tensor expression that no rule needs to know."""

    def __init__(
        self, outputs: Sequence[Tensor], args: Sequence[Tensor], *, name: str = "", target: Target | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(name or (outputs[0].op.name if outputs else "expression"), target, threads)
        if not outputs or not all(isinstance(tensor, Tensor) for tensor in (*outputs, *args)):
            raise TuneError(f"task {self.name!r:.80}: give the tensors that it computes, and those that its function takes")
        check_arguments(self.name, outputs, args)
        self.outputs, self.args = tuple(outputs), tuple(args)

    def program(self, decisions: Decisions) -> Program:
        """Return the schedule that decisions lead to. Raises DecisionError for a combination that is not legal."""
        return Program(sketch(self.outputs, self.machine, self.threads, decisions), self.args)

    @property
    def rule(self) -> str:
        """The sketch rule and its version."""
        return f"sketch {VERSION}"


def expression(
    outputs: Tensor | Sequence[Tensor], args: Sequence[Tensor], *, name: str = "", target: Target | None = None, threads: int = 1,
) -> ExpressionTask:
    """Return the task of a tensor expression, whose candidates are generated.

    outputs : the results
    args    : what the function takes: inputs and results, in order
    target  : processor; this machine's if None
    threads : of parallel loops

    Raises TuneError for sizes that are no numbers, and for a result that is not among `args`.
    """
    return ExpressionTask([outputs] if isinstance(outputs, Tensor) else outputs, args, name=name, target=target, threads=threads)
