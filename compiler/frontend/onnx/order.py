"""Stages of an ONNX graph: parts that are compiled, and steps of one node, in an order in which they can run.

A part is a set of nodes that becomes one graph once its inputs are known: their shapes, and the elements of those that decide
shapes. Parts are as large as the order allows: a node is in the first part in which all its operands are there. Nodes that follow
from constants and shapes alone are in every part that reads them, so that they are folded there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vtakit.compiler.frontend.onnx.subgraphs import domain_of, name_of, reads_of

if TYPE_CHECKING:
    import onnx

_OF_SHAPES = ("Shape", "Size")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Nodes that are compiled together.

    inputs  : names of values that earlier stages make
    outputs : names of values that later stages read
    frees   : names of values that nothing reads afterwards
    """

    nodes: "tuple[onnx.NodeProto, ...]"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scope: "Scope"
    frees: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One node that is no part of compiled code.

    blocks : its subgraphs, by the attribute's name
    frees  : names of values that nothing reads afterwards
    """

    node: "onnx.NodeProto"
    blocks: "Mapping[str, Block]"
    scope: "Scope"
    frees: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its node, or what stands for one."""
        return name_of(self.node)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A graph in stages.

    captured : names of values outside that it reads
    infos    : types of the outputs, as the model declares them
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: "tuple[Part | Step, ...]"
    captured: tuple[str, ...]
    infos: "tuple[onnx.ValueInfoProto, ...]"
    scope: "Scope"


@dataclass(slots=True, eq=False)
class Scope:
    """Constants and kinds of values that a graph sees."""

    constants: "dict[str, onnx.TensorProto]" = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


def in_order(
    nodes: "Sequence[onnx.NodeProto]", steps: Mapping[int, Step], scope: Scope, outputs: Sequence[str],
    later: Collection[int] = (),
) -> tuple[Part | Step, ...]:
    """Return parts (even levels) and steps (odd levels) in order.

    steps   : by the `id` of the nodes that are steps
    outputs : names of values that are read afterwards
    later   : `id` of nodes that are in a part behind the one that makes their operands
    """
    levels: dict[str, int] = {}
    folded: dict[str, onnx.NodeProto] = {}  # what follows from constants and shapes alone, by its values
    of_level: dict[int, list[onnx.NodeProto]] = {}
    for node in nodes:
        reads = [word for word in reads_of(node) if word and word not in scope.constants]
        step = id(node) in steps
        level = max([-1 if step else 0, *[_after(levels[word], step) for word in reads if word in levels]])
        if id(node) in later:
            level = 2 + max([levels[word] for word in reads if word in levels], default=0) // 2 * 2
        levels.update(dict.fromkeys(node.output, level))
        if not step and _folds(node, reads, folded):
            folded.update(dict.fromkeys(node.output, node))
        of_level.setdefault(level, []).append(node)
    needed = set(outputs) | {word for node in nodes if id(node) in steps for word in reads_of(node)}
    found: list[Part | Step] = []
    for level in sorted(of_level):
        if level % 2:
            found += [steps[id(node)] for node in of_level[level]]
            continue
        own = [node for node in of_level[level] if node.output[0] not in folded or not needed.isdisjoint(node.output)]
        wanted = {id(node) for node in own}
        todo = list(own)
        while todo:
            for word in reads_of(todo.pop()):
                source = folded.get(word)
                if source is not None and id(source) not in wanted:
                    wanted.add(id(source))
                    todo.append(source)
        if own:
            inside = tuple([node for node in nodes if id(node) in wanted])
            found.append(_part(inside, scope, {id(node) for node in own}))
    return _with_ends(found, outputs)


def _after(level: int, step: bool) -> int:
    """Return the first level that follows a value's, for a step or for a node of a part."""
    return level + (level % 2 == 0) if step else level + level % 2


def _folds(node: "onnx.NodeProto", reads: Sequence[str], folded: Collection[str]) -> bool:
    if not domain_of(node) and node.op_type in _OF_SHAPES:
        return True
    return not any(each.HasField("g") for each in node.attribute) and all(word in folded for word in reads)


def _part(nodes: "tuple[onnx.NodeProto, ...]", scope: Scope, own: Collection[int]) -> Part:
    made = {word for node in nodes for word in node.output}
    reads = dict.fromkeys(word for node in nodes for word in reads_of(node))
    inputs = tuple([word for word in reads if word and word not in made and word not in scope.constants])
    return Part(nodes, inputs, tuple([word for node in nodes if id(node) in own for word in node.output if word]), scope)


def _with_ends(stages: Sequence[Part | Step], outputs: Sequence[str]) -> tuple[Part | Step, ...]:
    """Return stages with the outputs that something reads, and the values that each is the last to read."""
    alive = set(outputs)
    own = {word for stage in stages for word in made_by(stage) if word}
    found: list[Part | Step] = []
    for stage in reversed(stages):
        reads, made = set(filter(None, reads_by(stage))), made_by(stage)
        frees = tuple(sorted((reads | set(made)) & own - alive))
        if isinstance(stage, Part):
            kept = tuple([word for word in made if word in alive])
            if not kept:
                continue
            found.append(Part(stage.nodes, stage.inputs, kept, stage.scope, frees))
        else:
            found.append(Step(stage.node, stage.blocks, stage.scope, frees))
        alive |= reads
    return tuple(reversed(found))


def reads_by(stage: Part | Step) -> Sequence[str]:
    """Return the names of values that a stage reads."""
    return stage.inputs if isinstance(stage, Part) else [w for w in reads_of(stage.node) if w not in stage.scope.constants]


def made_by(stage: Part | Step) -> Sequence[str]:
    """Return the names of values that a stage makes."""
    return stage.outputs if isinstance(stage, Part) else tuple(stage.node.output)
