"""Compile a region of a graph to one program, with its constants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vtakit.compiler.codegen.vta.compile import Progress, compile_for
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.compile import Layer
from vtakit.compiler.graph.decisions import ModelDecisions, of_layer
from vtakit.compiler.graph.ir import Array, Value
from vtakit.compiler.graph.vta.filling import PART
from vtakit.compiler.graph.vta.made import RESULT, Made, Maker, identifier
from vtakit.compiler.graph.vta.place import Region
from vtakit.compiler.graph.vta.unit import Unit
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.fold import Fold
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.program import Buffer, BufferKind, Program
from vtakit.hw.values import pack

LAYER = "layer"  # the name of an operator by itself
PADS, MULTIPLIED, LEFT_OUT = "pads", "multiplied", "left out"  # products of a convolution with its pads of zeros
STORES, AFTER, BETWEEN = "stores", "after", "between"  # of a tile's blocks: after all of its products, or among them


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One program of the accelerator.

    reads, writes   : graph values in its input and output buffers
    inputs, outputs : names of these buffers, in that order
    layers          : one for each part of the program
    """

    program: Program
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]


def compile_region(
    region: Region, target: Target, name: str, progress: Progress | None = None, decisions: ModelDecisions | None = None,
) -> Launch:
    """Compile a region.

    progress  : called with the work done and the whole, in the same unit
    decisions : given for its layers; those of their schedules are added

    Raises VtaError, LowerError or VerifyError where the accelerator cannot run it.
    """
    with shallow(name):
        return _Region(region, target, name).launch(ModelDecisions() if decisions is None else decisions, progress)


def decide_region(region: Region, target: Target, name: str, decisions: ModelDecisions) -> None:
    """Add the decisions of a region's schedules; no program is made."""
    _Region(region, target, name).schedule(decisions)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator of a region by itself.

    made  : with stages whose names do not depend on the layer's
    given : the activations that it reads
    """

    made: Made
    given: tuple[Tensor, ...]

    def function(self, target: Target, decisions: Mapping[str, Any]) -> Function:
        """Return its program in loop IR.

        decisions : of its schedule, such as "result.tile"

        Raises DecisionError for a value that is no candidate, and VtaError, LowerError or VerifyError where the accelerator
        cannot run it.
        """
        s = create_schedule(self.made.layer.result.op)
        label = s[self.made.layer.result].label
        s.decisions.given |= {f"{label}{name.removeprefix(RESULT)}": value for name, value in decisions.items()}
        self.made.schedule(s)
        args = [*self.given, *[each for each in self.made.inputs if each in self.made.constants], self.made.layer.result]
        with shallow(LAYER):
            return lower(s, args, LAYER, limits=target.limits)


def operator_of(region: Region, unit: Unit, target: Target, decisions: ModelDecisions) -> Operator:
    """Return the operator of a unit of a region, as the region's program has it with decisions, to which its own is added."""
    alone = region.of(unit)
    given = {key[:2]: placeholder(key[2].type.shape, target.dtype("inp"), name=f"in{i}__") for i, key in enumerate(alone.inputs)}
    fold = unit.fold if (unit.data[0], unit.fold) in given else None
    tensors = [given[value, None if at else fold] for at, value in enumerate(unit.data)]
    return Operator(_made(unit, Maker(target, LAYER), tensors, fold, decisions), tuple(given.values()))


def _made(unit: Unit, maker: Maker, tensors: list[Tensor], fold: Fold | None, decisions: ModelDecisions) -> Made:
    """Make the operator of a unit.

    Decisions: pads, of a convolution with pads of zeros, whether products with them are left out; stores, of a convolution whose
    REQUANTs store several blocks of channels, whether they stand after a tile's products or between them and the next one's.
    Both take more instructions, which no estimate of a whole network knows, so by default neither is done.
    """
    made = unit.build(maker, tensors, fold)
    convs = [each for each in made.layers.values() if isinstance(each, Conv2d)]
    inside = any(each.has_zero_pads for each in convs) and decisions.choose(
        unit.nodes, PADS, [MULTIPLIED, LEFT_OUT], MULTIPLIED, _made) == LEFT_OUT
    between = any(each.can_store_between for each in convs) and decisions.choose(
        unit.nodes, STORES, [AFTER, BETWEEN], AFTER, _made) == BETWEEN
    if not inside and not between:
        return made
    return unit.build(Maker(maker.target, maker.name, inside=inside, between=between), tensors, fold)


@dataclass(frozen=True, slots=True, eq=False)
class _Scheduled:
    """A region's schedule, and what its program is called with."""

    schedule: Schedule
    given: tuple[Tensor, ...]
    constants: Mapping[Tensor, Array]
    outputs: tuple[Tensor, ...]


class _Region:
    def __init__(self, region: Region, target: Target, name: str) -> None:
        self.region, self.target, self.name = region, target, name
        self.names = _names(region.units)
        self.made: dict[Unit, Made] = {}

    def launch(self, decisions: ModelDecisions, progress: Progress | None) -> Launch:
        """Make the program of the schedule."""
        found = self.schedule(decisions)
        args = [*found.given, *found.constants, *found.outputs]
        program = compile_for(lower(found.schedule, args, self.name, limits=self.target.limits), self.target, progress)
        called = [buffer.name for buffer in program.buffers[:len(args)]]
        packed = [pack(array, tensor.dtype.bits).tobytes() for tensor, array in found.constants.items()]
        constants = dict(zip(called[len(found.given):], packed, strict=False))
        return Launch(_with_constants(program, constants), self.region.reads, self.region.writes,
                      tuple(called[:len(found.given)]), tuple(called[len(args) - len(found.outputs):]), self._layers(program))

    def schedule(self, decisions: ModelDecisions) -> _Scheduled:
        """Make the operators, and schedule them."""
        given = {key[:2]: placeholder(key[2].type.shape, self.target.dtype("inp"), name=f"in{i}__")
                 for i, key in enumerate(self.region.inputs)}
        values: dict[Value, Tensor] = {}
        for unit in self.region.units:
            fold = unit.fold if (unit.data[0], unit.fold) in given else None
            tensors = [
                values[value] if value in values else given[value, None if at else fold] for at, value in enumerate(unit.data)
            ]
            self.made[unit] = _made(unit, Maker(self.target, self.names[unit]), tensors, fold, decisions)
            values[unit.output] = self.made[unit].value
        results = {unit.packed: made.layer.result for unit, made in self.made.items()}
        results |= {unit.rest: made.parts[PART].result for unit, made in self.made.items() if unit.rest is not None}
        outputs = [results[packed] for _, packed in self.region.outputs]
        constants: dict[Tensor, Array] = {}
        for made in self.made.values():
            constants |= {tensor: made.constants[tensor] for tensor in made.inputs if tensor in made.constants}
        s = create_schedule([tensor.op for tensor in outputs])
        read = {tensor for made in self.made.values() for tensor in made.reads}
        for unit, made in self.made.items():
            layer = decisions.kernel(unit.nodes)
            for stage, one in made.layers.items():
                label = s[one.result].label
                for name, value in decisions.given(layer).items():
                    if name.startswith(f"{stage}."):
                        s.decisions.given[f"{label}{name.removeprefix(stage)}"] = value
                with of_layer(layer, label, stage):
                    one.schedule(s)
                found = [each for each in s.decisions if each.name.startswith(f"{label}.")]
                own = [each._replace(name=f"{stage}{each.name.removeprefix(label)}") for each in found]
                decisions.add(layer, {each.name: each for each in own})
            for tensor in made.operands:
                s[tensor].compute_inline()
            if made.view is not None and made.view in read:
                s[made.view].compute_inline()
        return _Scheduled(s, tuple(given.values()), constants, tuple(outputs))

    def _layers(self, program: Program) -> tuple[Layer, ...]:
        """Describe each part of the program; a part has the names of the values that it stores."""
        units = {name: unit for unit, name in self.names.items()}
        found, seen = [], set[Unit]()
        for number, part in enumerate(program.parts):
            done = [units[name.partition("__")[0]] for name in part.name.partition("#")[0].split("+")]
            again, seen = seen.issuperset(done), seen.union(done)
            ops = tuple([op for unit in done for op in unit.ops])
            names = tuple([name for unit in done for name in unit.names])
            sizes = (0, 0) if again else (sum(unit.bytes for unit in done), sum(unit.macs for unit in done))
            found.append(Layer(number, ops, names, *sizes))
        return tuple(found)


def _names(units: Sequence[Unit]) -> dict[Unit, str]:
    """Choose a unique identifier for each unit."""
    found: dict[Unit, str] = {}
    taken: set[str] = set()
    for unit in units:
        plain = identifier(unit.name, unit.ops[0])
        name, count = plain, 1
        while name in taken:
            count += 1
            name = f"{plain}_{count}"
        taken.add(name)
        found[unit] = name
    return found


def _with_constants(program: Program, constants: Mapping[str, bytes]) -> Program:
    """Return the program with the contents of its constant buffers, which are given by name."""
    def filled(buffer: Buffer) -> Buffer:
        data = constants.get(buffer.name)
        return buffer if data is None else replace(buffer, kind=BufferKind.CONST, data=data)
    return replace(program, buffers=tuple([filled(buffer) for buffer in program.buffers]))
