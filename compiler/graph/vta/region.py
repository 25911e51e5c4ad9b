"""From a region of a graph to one program, with its constants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vtakit.compiler.codegen.vta.compile import Progress, compile_for
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.compile import Layer
from vtakit.compiler.graph.ir import Array, Value
from vtakit.compiler.graph.vta.made import Made, Maker, identifier
from vtakit.compiler.graph.vta.place import Region
from vtakit.compiler.graph.vta.units import Unit
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.schedule.schedule import create_schedule
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.program import Buffer, BufferKind, Program


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A program of the accelerator.

    reads, writes   : the values that lie in its inputs and outputs
    inputs, outputs : the names of these buffers, in that order
    layers          : what each part of the program does
    """

    program: Program
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]


def compile_region(region: Region, target: Target, name: str, progress: Progress | None = None) -> Launch:
    """The program of a region.

    progress : is called with how much of the work is done, and of how much

    Raises VtaError, LowerError or VerifyError where the accelerator cannot run it.
    """
    with shallow(name):
        return _Region(region, target, name).launch(progress)


class _Region:
    def __init__(self, region: Region, target: Target, name: str) -> None:
        self.region, self.target, self.name = region, target, name
        self.names = _names(region.units)
        self.made: dict[Unit, Made] = {}

    def launch(self, progress: Progress | None) -> Launch:
        given = {key[:2]: placeholder(key[2].type.shape, "int8", name=f"in{i}__") for i, key in enumerate(self.region.inputs)}
        values: dict[Value, Tensor] = {}
        for unit in self.region.units:
            fold = unit.fold if (unit.data[0], unit.fold) in given else None
            tensors = [
                values[value] if value in values else given[value, None if at else fold] for at, value in enumerate(unit.data)
            ]
            self.made[unit] = unit.build(Maker(self.target, self.names[unit]), tensors, fold)
            values[unit.output] = self.made[unit].value
        results = {unit.output: made.layer.result for unit, made in self.made.items()}
        outputs = [results[value] for value, _ in self.region.outputs]
        constants: dict[Tensor, Array] = {}
        for made in self.made.values():
            constants |= {tensor: made.constants[tensor] for tensor in made.layer.inputs if tensor in made.constants}
        s = create_schedule([tensor.op for tensor in outputs])
        read = {tensor for made in self.made.values() for tensor in made.reads}
        for made in self.made.values():
            made.schedule(s)
            if made.view is not None and made.view in read:
                s[made.view].compute_inline()
        args = [*given.values(), *constants, *outputs]
        program = compile_for(lower(s, args, self.name), self.target, progress)
        called = [buffer.name for buffer in program.buffers[:len(args)]]
        program = _finished(program, dict(zip(called[len(given):], constants.values(), strict=False)), self._spans())
        return Launch(program, self.region.reads, self.region.writes, tuple(called[:len(given)]),
                      tuple(called[len(args) - len(outputs):]), self._layers(program))

    def _layers(self, program: Program) -> tuple[Layer, ...]:
        """What each part of the program does; parts have the names of the buffers that they store to."""
        units = {name: unit for unit, name in self.names.items()}
        found = []
        for number, part in enumerate(program.parts):
            word, _, again = part.name.partition("#")
            done = [units[name] for name in word.split("+")]
            ops = tuple([op for unit in done for op in unit.ops])
            names = tuple([name for unit in done for name in unit.names])
            sizes = (0, 0) if again else (sum(unit.bytes for unit in done), sum(unit.macs for unit in done))
            found.append(Layer(number, ops, names, *sizes))
        return tuple(found)

    def _spans(self) -> dict[str, tuple[int, int]]:
        """Of each unit's result the numbers of the unit and of the last one that reads it."""
        number = {unit.output: at for at, unit in enumerate(self.region.units)}
        last = dict(number)
        for at, unit in enumerate(self.region.units):
            last |= {value: at for value in unit.data if value in last}
        return {self.names[self.region.units[at]]: (at, last[value]) for value, at in number.items()}


def _names(units: Sequence[Unit]) -> dict[Unit, str]:
    """An identifier for each unit."""
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


def _finished(program: Program, constants: Mapping[str, Array], spans: Mapping[str, tuple[int, int]]) -> Program:
    """The program with its constants, and with one scratch buffer for several whose contents are not needed at one time.

    constants : contents of buffers by name
    spans     : from which operator to which a scratch buffer's contents are needed, by its name

    Loads are done in order, so an operator that stores, which it does after a load of its own, stores after all loads of the
    operators before it; that no two accesses race is what the static checker proves of the whole program.
    """
    own: list[Buffer] = []
    scratch: list[Buffer] = []
    for buffer in program.buffers:
        if buffer.name in constants:
            array = constants[buffer.name]
            own.append(replace(buffer, kind=BufferKind.CONST, data=array.astype(array.dtype.newbyteorder("<")).tobytes()))
        else:
            (scratch if buffer.kind is BufferKind.SCRATCH else own).append(buffer)
    place, sizes = _shared(scratch, spans)
    shared = [Buffer(name=name, size_bytes=size, kind=BufferKind.SCRATCH) for name, size in sizes.items()]
    relocations = [replace(entry, symbol=place.get(entry.symbol, entry.symbol)) for entry in program.relocations]
    return replace(program, buffers=(*own, *shared), relocations=tuple(relocations))


def _shared(scratch: Sequence[Buffer], spans: Mapping[str, tuple[int, int]]) -> tuple[dict[str, str], dict[str, int]]:
    """A buffer for each, several having one, by name; and the sizes of these."""
    free: list[tuple[int, str]] = []  # the last operator that needs it
    sizes: dict[str, int] = {}
    place: dict[str, str] = {}
    for buffer in sorted(scratch, key=lambda b: spans[b.name]):
        first, last = spans[buffer.name]
        ready = [name for until, name in free if until < first]
        large = [name for name in ready if sizes[name] >= buffer.size_bytes]
        fresh = f"scratch__{len(sizes)}"
        name = min(large, key=sizes.__getitem__) if large else max(ready, key=sizes.__getitem__, default=fresh)
        free = [entry for entry in free if entry[1] != name]
        sizes[name] = max(sizes.get(name, 0), buffer.size_bytes)
        place[buffer.name] = name
        free.append((last, name))
    return place, sizes
