"""Groups of stages that are placed together."""

from typing import Any

from vtakit.compiler.schedule.checks import refuse
from vtakit.compiler.schedule.data import GroupOp
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.relations import Attach, AttachKind
from vtakit.compiler.schedule.stage import Stage, Stages
from vtakit.compiler.te.operation import ScanOp


def hold_update(schedule: Stages, scan: ScanOp) -> None:
    """Put what the update of a scan needs beyond the states and its inputs, and the update, within the scan's loop."""
    outputs = [schedule.stage_of(tensor.op) for tensor in scan.update]
    inputs = [schedule.stage_of(tensor.op) for tensor in (*scan.state_placeholder, *scan.inputs)]
    ends = [*filter(None, outputs)]
    between = _between(schedule, ends, [*filter(None, inputs)], include_inputs=False)
    made = make_group(schedule, [stage for stage in schedule.stages if stage in between or stage in ends])
    made.attach = Attach(AttachKind.SCAN, schedule[scan].label, scan.scan_axis)


def of_state(schedule: Stages, stage: Stage) -> str:
    """Return the label of the group within a scan's loop that reads a stage as the scan's state, "" if it is no state."""
    for other in schedule.stages:
        if isinstance(other.op, ScanOp) and any(schedule.stage_of(state.op) is stage for state in other.op.state_placeholder):
            within = (AttachKind.SCAN, other.label)
            return next(group.label for group in schedule.stages if group.attach[:2] == within)
    return ""


def create_group(schedule: Stages, outputs: Any, inputs: Any, *, include_inputs: bool) -> Stage:
    """Do what `Schedule.create_group` says."""
    ends, starts = (_stages(schedule, given) for given in (outputs, inputs))
    asked = f"create_group([{', '.join(s.label for s in ends)}], [{', '.join(s.label for s in starts)}])"
    held = _between(schedule, ends, starts, include_inputs=include_inputs)
    if not held:
        raise ScheduleError(f"{asked}: no stage is on the way from the inputs to the outputs: give outputs that need the inputs")
    group = make_group(schedule, held, asked)
    args = {"outputs": [s.label for s in ends], "inputs": [s.label for s in starts], "include_inputs": include_inputs}
    schedule.record("", "create_group", args, (group.label,))
    return group


def _stages(schedule: Stages, given: Any) -> list[Stage]:
    items = given if isinstance(given, list | tuple) else [given]
    return [item if isinstance(item, Stage) else schedule[item] for item in items]


def _between(schedule: Stages, outputs: list[Stage], inputs: list[Stage], *, include_inputs: bool) -> list[Stage]:
    """Return the stages that need an input and that an output needs, in order."""
    starts, ends = {stage.label for stage in inputs}, {stage.label for stage in outputs}
    needed: set[str] = set()
    todo = [*ends]
    while todo:
        label = todo.pop()
        if label not in needed:
            needed.add(label)
            if label not in starts:
                todo += schedule.reads(label)
    fed = set(starts)
    for stage in schedule.stages:
        if stage.label in needed and not fed.isdisjoint(schedule.reads(stage.label)):
            fed.add(stage.label)
    chosen = {label for label in needed & fed if include_inputs or label not in starts}
    return [stage for stage in schedule.stages if stage.label in chosen]


def make_group(schedule: Stages, held: list[Stage], asked: str = "") -> Stage:
    """Make a group of stages; groups that hold only some of these go into it as a whole."""
    chains = [_groups_around(schedule, stage) for stage in held]
    common = [label for label in chains[0] if all(label in chain for chain in chains)]
    parent = common[0] if common else ""
    children: dict[str, None] = {}
    for stage, chain in zip(held, chains, strict=True):
        within = chain[: chain.index(parent)] if parent else chain
        children[within[-1] if within else stage.label] = None
    labels = {stage.label for stage in held}
    for label in children:
        child = schedule.labelled(label)
        missing = [part.label for part in schedule.members(child) if part.label not in labels]
        if missing:
            truth = f"the group {label} would be cut: it also holds {missing[0]}"
            refuse(child, asked, truth, f"choose ends so that all of {label} is in", "body")
    last = max(at for at, stage in enumerate(schedule.stages) if stage.label in children)
    group = schedule.add_stage(GroupOp("group"), last + 1)
    group.group = parent
    for label in children:
        schedule.labelled(label).group = group.label
    return group


def _groups_around(schedule: Stages, stage: Stage) -> list[str]:
    """Return the labels of the groups that a stage is in, innermost first."""
    found = []
    label = stage.group
    while label:
        found.append(label)
        label = schedule.labelled(label).group
    return found


