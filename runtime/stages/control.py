"""Control flow: If, Loop, Scan and SequenceMap."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vtakit.base.text import counted
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.kinds import kind_of
from vtakit.compiler.frontend.onnx.order import Step
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.runtime.stages.blocks import Constants, Env, Fitting, Running, RunningBlock, Watch, as_flag, attributes, first_of
from vtakit.runtime.target import Array


class ControlStep:
    """A node with subgraphs.

    inner   : their stages
    fitting : around what reads operands and slices or stacks them, and not around runs of the subgraphs
    """

    def __init__(self, step: Step, version: int, constants: Constants, blocks: Mapping[str, RunningBlock]) -> None:
        self.name, self.frees, self.op, self.version = step.name, step.frees, str(step.node.op_type), version
        self.inputs, self.outputs = tuple(step.node.input), tuple(step.node.output)
        self.attrs = attributes(step.node)
        self.constants, self.blocks = constants, dict(blocks)
        self.fitting = Fitting(step.name, self.op)
        self.inner: tuple[Running, ...] = tuple([stage for block in blocks.values() for stage in block.stages])

    def block(self, name: str) -> RunningBlock:
        """Return a subgraph. Raises ModelError if the node lacks it."""
        if name not in self.blocks:
            raise ModelError(f"node {self.name!r} ({self.op}) lacks its attribute {name!r}")
        return self.blocks[name]

    def run(self, env: Env, watch: Watch | None) -> None:
        """Run the subgraphs as often as the node says."""
        operands = [self.constants.value(env, name) for name in self.inputs]
        results = _RUN[self.op](self, operands, env, watch)
        env.update({name: made for name, made in zip(self.outputs, results, strict=False) if name})

    def body(self, takes: int, makes: int) -> RunningBlock:
        """Return the subgraph that runs several times. Raises ModelError unless it fits.

        takes : number of its inputs
        makes : number of outputs that it has at least
        """
        found = self.block("body")
        if len(found.block.inputs) != takes or len(found.block.outputs) < makes:
            raise self.wrong(f"its body has {counted(len(found.block.inputs), 'input')} and "
                             f"{counted(len(found.block.outputs), 'output')}; with these operands it takes {takes}, and makes "
                             f"{makes} or more")
        return found

    def scanned(self, operands: int) -> int:
        """Return the number of scanned inputs. Raises ModelError if the node does not say it, or has fewer operands."""
        count = self.attrs.get("num_scan_inputs")
        if not isinstance(count, int) or not 1 <= count <= operands:
            raise self.wrong(f"num_scan_inputs is {count}, and is a number from 1 to that of the operands, {operands}")
        return count

    def wrong(self, why: str) -> ModelError:
        """Return the error for operands that do not fit."""
        return ModelError(f"node {self.name!r} ({self.op}): {why}")


def _branch(step: ControlStep, operands: Sequence[Any], env: Env, watch: Watch | None) -> list[Any]:
    with step.fitting:
        chosen = as_flag(operands[0])
    block = step.block("then_branch" if chosen else "else_branch")
    return block.run(block.captured(env, step.constants), watch)


def _loop(step: ControlStep, operands: Sequence[Any], env: Env, watch: Watch | None) -> list[Any]:
    """Run the body until the trip count or the condition ends it; values that it carries are passed on, not copied."""
    trips, going = (*operands[:2], None, None)[:2]
    with step.fitting:
        limit = None if trips is None else int(first_of(trips, "the trip count"))
        more = True if going is None else as_flag(going)
    carried = list(operands[2:])
    count = len(carried)
    body = step.body(2 + count, 1 + count)
    names = body.block.inputs
    captured = body.captured(env, step.constants)
    collected: list[list[Array]] = [[] for _ in body.block.outputs[1 + count:]]
    trip = 0
    while more and (limit is None or trip < limit):
        inner = {**captured, names[0]: np.array(trip, np.int64), names[1]: np.array(True)}
        inner.update(zip(names[2:], carried, strict=True))
        more_, *made = body.run(inner, watch)
        carried = made[:count]
        with step.fitting:
            more = as_flag(more_)
        for each, value in zip(collected, made[count:], strict=True):
            each.append(value)
        trip += 1
    return carried + [_stacked(step, body, 1 + count + at, each, 0) for at, each in enumerate(collected)]


def _stacked(step: ControlStep, body: RunningBlock, at: int, parts: Sequence[Array], axis: int) -> Array:
    """Return the results of all trips along a new axis; without any, of the shape that the body declares for one."""
    if parts:
        with step.fitting:
            found: Array = np.stack(parts, axis)
        return found
    info = body.block.infos[at].type.tensor_type
    shape = [int(dim.dim_value) if dim.HasField("dim_value") else 0 for dim in info.shape.dim]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return np.zeros(shape, numpy_dtype(kind_of(info.elem_type, f"output {body.block.outputs[at]!r} of node {step.name!r}")))


def _scan(step: ControlStep, operands: Sequence[Any], env: Env, watch: Watch | None) -> list[Any]:
    if step.version < 9:
        return _scan_of_batches(step, operands, env, watch)
    count = step.scanned(len(operands))
    states, given = operands[:len(operands) - count], operands[len(operands) - count:]
    body = step.body(len(operands), len(states))
    outputs = len(body.block.outputs) - len(states)
    axes = _numbers(step, "scan_input_axes", count)
    ways = _numbers(step, "scan_input_directions", count)
    with step.fitting:
        moved = [np.moveaxis(x, axis, 0) for x, axis in zip(given, axes, strict=True)]
    made = _scanned(step, states, moved, ways, _numbers(step, "scan_output_directions", outputs), env, watch)
    out_axes = _numbers(step, "scan_output_axes", outputs)
    return made[0] + [_stacked(step, body, len(states) + at, parts, axis)
                      for at, (parts, axis) in enumerate(zip(made[1], out_axes, strict=True))]


def _numbers(step: ControlStep, name: str, count: int) -> Sequence[int]:
    found = step.attrs.get(name) or (0,) * count
    if len(found) != count:
        raise step.wrong(f"{name} has {len(found)} numbers, and {count} are needed")
    return tuple(found)


def _scanned(
    step: ControlStep, states: Sequence[Any], given: Sequence[Array], ways: Sequence[int], out_ways: Sequence[int], env: Env,
    watch: Watch | None,
) -> tuple[list[Any], list[list[Array]]]:
    """Return the last states, and what each trip made, in the order of the results.

    given : the tensors that are scanned, along their first axis
    """
    body = step.block("body")
    with step.fitting:
        lengths = {len(x) for x in given}
    if len(lengths) > 1:
        raise step.wrong(f"its scanned inputs have different lengths, {sorted(lengths)}")
    captured, names, count = body.captured(env, step.constants), body.block.inputs, len(states)
    carried, length = list(states), next(iter(lengths), 0)
    collected: list[list[Array]] = [[] for _ in out_ways]
    for trip in range(length):
        slices = [x[length - 1 - trip if way else trip, ...] for x, way in zip(given, ways, strict=True)]
        made = body.run({**captured, **dict(zip(names, [*carried, *slices], strict=True))}, watch)
        carried = made[:count]
        for each, value in zip(collected, made[count:], strict=True):
            each.append(value)
    return carried, [each[::-1] if way else each for each, way in zip(collected, out_ways, strict=True)]


def _scan_of_batches(step: ControlStep, operands: Sequence[Any], env: Env, watch: Watch | None) -> list[Any]:
    """Scan of operator set 8: each element of the batch by itself, with its own length; results are filled up with zeros."""
    lengths, *rest = operands or (None,)
    count = step.scanned(len(rest))
    states, given = rest[:len(rest) - count], rest[len(rest) - count:]
    body = step.body(len(rest), len(states))
    outputs = len(body.block.outputs) - len(states)
    ways = _numbers(step, "directions", count)
    with step.fitting:
        batch, longest = given[0].shape[:2]
        ends = [longest] * batch if lengths is None else [int(each) for each in lengths.reshape(-1)]
    last: list[list[Any]] = [[] for _ in states]
    made: list[list[Array]] = [[] for _ in range(outputs)]
    for at in range(batch):
        with step.fitting:
            begin, slices = [state[at, ...] for state in states], [x[at, :ends[at]] for x in given]
        found, parts = _scanned(step, begin, slices, ways, (0,) * outputs, env, watch)
        for each, value in zip(last, found, strict=True):
            each.append(value)
        for number, (each, several) in enumerate(zip(made, parts, strict=True)):
            whole = _stacked(step, body, len(states) + number, several, 0)
            each.append(np.concatenate([whole, np.zeros((longest - len(whole), *whole.shape[1:]), whole.dtype)]))
    with step.fitting:
        return [np.stack(each) for each in (*last, *made)]


def _map(step: ControlStep, operands: Sequence[Any], env: Env, watch: Watch | None) -> list[Any]:
    body = step.body(len(operands), 0)
    with step.fitting:
        length = len(operands[0])
    if any(isinstance(each, list) and len(each) != length for each in operands):
        raise step.wrong(f"its sequences have different lengths, {[len(each) for each in operands if isinstance(each, list)]}")
    captured = body.captured(env, step.constants)
    made: list[list[Any]] = [[] for _ in body.block.outputs]
    for at in range(length):
        given = [each[at] if isinstance(each, list) else each for each in operands]
        results = body.run({**captured, **dict(zip(body.block.inputs, given, strict=True))}, watch)
        for each, value in zip(made, results, strict=True):
            each.append(value)
    return list(made)


_RUN = {"If": _branch, "Loop": _loop, "Scan": _scan, "SequenceMap": _map}
