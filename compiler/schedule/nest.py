"""The loops of a stage as text, with a mark where a message points."""

from vtakit.compiler.ir.iters import IterKind, IterVar
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.domains import extents
from vtakit.compiler.schedule.relations import AttachKind, Mark, Notes
from vtakit.compiler.te.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp

_HEAD, _PLAIN = "-->   ", "      "
_WORD = {Mark.SERIAL: "range", Mark.UNROLLED: "unrolled", Mark.VECTORIZED: "vectorized", Mark.PARALLEL: "parallel",
         Mark.TENSORIZED: "tensorized"}


def nest_text(stage: StageData, mark: IterVar | str | None = None) -> str:
    """The loops of a stage and what stands in them.

    mark : the axis that an arrow points at; "body" for what is in the loops; "stage" for the line above them; None for no arrows
    """
    sizes = extents(stage)
    lines: list[str] = []

    def line(depth: int, text: str, marked: bool) -> None:
        head = "" if mark is None else _HEAD if marked else _PLAIN
        lines.append(f"{head}{'    ' * depth}{text}".rstrip())

    line(0, _heading(stage), mark == "stage" if isinstance(mark, str) else False)
    depth = 0
    for axis in stage.leaf_iter_vars:
        notes = stage.note(axis)
        word = f"bind[{notes.thread.thread}]" if notes.thread else _WORD[notes.mark]
        size = sizes.get(axis, "?")
        line(depth, f"for {stage.axis_labels[axis]} in {word}({size}):{_comment(axis, notes)}", axis is mark)
        depth += 1
    for text in _body(stage):
        line(depth, text, mark == "body" if isinstance(mark, str) else False)
    return "\n".join(lines)


def _heading(stage: StageData) -> str:
    place = {
        AttachKind.ROOT: "",
        AttachKind.INLINE: ", inlined",
        AttachKind.SCAN: f", the update of {stage.attach.stage}",
        AttachKind.SCOPE: "",
    }[stage.attach.kind]
    if stage.attach.kind is AttachKind.SCOPE and stage.attach.axis is not None:
        holder = stage.schedule.labelled(stage.attach.stage)
        place = f", at {holder.label}'s loop {holder.axis_labels[holder.loop_of(stage.attach.axis)]}"
    scope = f", in {stage.scope}" if stage.scope else ""
    output = ", an output" if stage.is_output else ""
    return f"# {stage.label}{output}{scope}{place}"


def _comment(axis: IterVar, notes: Notes) -> str:
    words = [axis.kind.value] if axis.kind is not IterKind.DATA else []
    words += [f"{key}={value}" for key, value in notes.pragmas.items()]
    words += [f"prefetch {item.tensor.name} + {item.offset}" for item in notes.prefetches]
    if notes.intrin is not None:
        words.append(f"by {notes.intrin.name}")
    return "  # " + ", ".join(words) if words else ""


def _body(stage: StageData) -> list[str]:
    """Return the lines of a loop nest's body, in terms of the operation's axes."""
    op = stage.op
    if isinstance(op, ComputeOp):
        indices = ", ".join(axis.name for axis in op.axis)
        return [f"{tensor.name}[{indices}] = {e}" for tensor, e in zip(op.outputs, op.body, strict=True)]
    if isinstance(op, ScanOp):
        return [f"scan of {', '.join(tensor.name for tensor in op.update)}"]
    if isinstance(op, ExternOp):
        return [f"extern({', '.join(tensor.name for tensor in op.inputs)})"]
    if isinstance(op, PlaceholderOp):
        return [f"{op.output(0)} is given by the caller"]
    return [f"the group of {', '.join(member.label for member in stage.schedule.stages if member.group == stage.label)}"]
