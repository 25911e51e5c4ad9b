"""Placement: assign the nodes of a graph to the accelerator or the CPU, with the fewest launches.

Each node has a *stage*, even on the CPU and odd on the accelerator: the least that is no smaller than the stages of its operands.
The nodes of one stage can run together. Parts are convex, and no order of the nodes has fewer launches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.compile import Left
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, Node, Value, graph_text
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.vta.filled import filled
from vtakit.compiler.graph.vta.layouts import conversion, of_stored
from vtakit.compiler.graph.vta.made import check_words
from vtakit.compiler.graph.vta.pads import with_own_pads
from vtakit.compiler.graph.vta.unit import Unit
from vtakit.compiler.graph.vta.units import SUMS, Units
from vtakit.compiler.nn.vta.fold import Fold

UNQUANTIZED = "it computes in floating point, and the accelerator in int8: quantize the model first"
OTHERWISE = ("its operands, or its result after a residual sum and an activation, are not quantized as the accelerator computes: "
             "8 bits, one scale and zero point for all of an activation, constant weights")
_FLOAT = "it computes in floating point, and the accelerator in int8"
_ABSENT = "the accelerator has no such operator"
_FLOAT_SUMS = frozenset(("conv", "conv_transpose", "dense", "gemm", "matmul"))
_CONVERSIONS = frozenset(("quantize_linear", "dequantize_linear", "reshape"))
_LAYOUTS = frozenset(("transpose", "slice", "pad"))  # without a name: no node of the model, but brings a signal into place


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The operators of one launch.

    units   : in execution order
    inputs  : values that it reads: (the graph's value, how it is folded, the packed value in memory)
    outputs : values that other parts read: (the graph's value, the packed value in memory)
    """

    units: tuple[Unit, ...]
    inputs: tuple[tuple[Value, Fold | None, Value], ...]
    outputs: tuple[tuple[Value, Value], ...]

    @property
    def reads(self) -> tuple[Value, ...]:
        """Packed values that the launch reads."""
        return tuple([packed for _, _, packed in self.inputs])

    @property
    def writes(self) -> tuple[Value, ...]:
        """Packed values that other parts read."""
        return tuple([packed for _, packed in self.outputs])

    def of(self, unit: Unit) -> "Region":
        """Return a launch of one of the units alone."""
        unit = unit.alone or unit
        known = {(value, fold): packed for value, fold, packed in self.inputs}
        fold = unit.fold if (unit.data[0], unit.fold) in known else None
        keys = dict.fromkeys([(value, None if at else fold) for at, value in enumerate(unit.data)])
        made = {other.output: (other.alone or other).packed for other in self.units}
        inputs = [(*key, known[key] if key in known else made[key[0]]) for key in keys]
        return Region((unit,), tuple(inputs), ((unit.output, unit.packed),))

    def __str__(self) -> str:
        lines = [f"launch({', '.join(map(repr, self.reads))}):"]
        lines += [f"  {unit.output!r} = {' '.join(unit.ops)}({', '.join(f'%{value.name}' for value in unit.data)})"
                  for unit in self.units]
        return "\n".join([*lines, f"  return {', '.join(map(repr, self.writes))}"])


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A graph divided into parts that run in order; the parts on the CPU are graphs.

    reasons : why nodes that end a quantized layer are not on the accelerator
    """

    graph: Graph
    parts: tuple[Graph | Region, ...]
    reasons: Mapping[Node, str]

    @property
    def left(self) -> tuple[Left, ...]:
        """Return the operators left to the CPU, in order, without the conversions of layout and numbers around launches."""
        inside = {node for part in self.parts if isinstance(part, Region) for unit in part.units for node in unit.nodes}
        nodes = [node for node in self.graph.nodes
                 if node not in inside and node.op not in _CONVERSIONS and (node.name or node.op not in _LAYOUTS)]
        made, readers = self.graph.producers(), self.graph.consumers()

        def reason(node: Node) -> str | None:
            """The node's own, or that of the requantization that would have ended its layer."""
            after = readers.get(node.outputs[0], []) if node.op in (*SUMS, "scaled_add") else []
            return self.reasons.get(node) or (reason(after[0]) if len(after) == 1 else None)
        return tuple([Left(node.op, node.name, reason(node) or _reason(node, made)) for node in nodes])

    def __str__(self) -> str:
        lines = [graph_text(part) if isinstance(part, Graph) else str(part) for part in self.parts]
        return "\n".join([*lines, *map(str, self.left)])


IDLE = "there is no convolution or matrix product beside it"


def place(
    graph: Graph, target: Target, without: Mapping[Node, str] | None = None, decisions: ModelDecisions | None = None,
) -> Placement:
    """Place the nodes of a graph.

    without : nodes that end a layer and must stay on the CPU, with the reason

    Decisions: place, of each layer that the accelerator can run.

    Raises VtaError for a configuration whose widths are not those of quantized networks.
    """
    check_words(target)
    graph = with_own_pads(graph, target)
    decisions = ModelDecisions() if decisions is None else decisions
    units = Units(graph, target, decisions, without or {})
    refused = {**units.reasons, **(without or {})}
    able = [unit for end, unit in units.found.items() if end not in refused]
    chosen = _beside_sums(graph, able)
    placed = []
    for unit in able:
        default = "vta" if unit in chosen else "cpu"
        if decisions.choose(unit.nodes, "place", ["vta", "cpu"], default, place) == "vta":
            placed.append(unit)
        else:
            refused[unit.nodes[-1]] = IDLE if default == "cpu" else "a decision places it there"
    chosen = placed
    if not chosen:
        return Placement(graph, (graph,), refused)
    cutter = _Cutter(graph, target, chosen, _Stages(graph, chosen))
    dense = [filled(unit, target, decisions, **cutter.readers(unit)) for unit in chosen]
    return Placement(graph, _Cutter(graph, target, dense, _Stages(graph, dense)).parts(), refused)


def _beside_sums(graph: Graph, units: list[Unit]) -> list[Unit]:
    """The units in whose launch there is a convolution or matrix product."""
    chosen = units
    while True:
        stages = _Stages(graph, chosen)
        working = {stages.of[unit] for unit in chosen if not SUMS.isdisjoint(unit.ops)}
        busy = [unit for unit in chosen if stages.of[unit] in working]
        if len(busy) == len(chosen):
            return chosen
        chosen = busy


class _Stages:
    """Stages of units, and of nodes outside units."""

    def __init__(self, graph: Graph, units: Sequence[Unit]) -> None:
        inside = {node: unit for unit in units for node in unit.nodes}
        self.of: dict[Unit | Node, int] = {}
        self.made: dict[Value, Unit | Node] = {}
        for node in graph.nodes:
            unit = inside.get(node)
            if unit is not None and unit.nodes[-1] is not node:
                continue
            item: Unit | Node = unit or node
            reads, own = (unit.data, 1) if unit is not None else (node.reads, 0)
            stage = own
            for value in reads:
                before = self.made.get(value)
                if before is not None:
                    at = self.of[before]
                    stage = max(stage, at if at % 2 == own else at + 1)
            self.of[item] = stage
            self.made |= dict.fromkeys(node.outputs, item)


class _Cutter:
    def __init__(self, graph: Graph, target: Target, units: Sequence[Unit], stages: _Stages) -> None:
        self.graph, self.target, self.units, self.stages = graph, target, units, stages
        self.inside = {node for unit in units for node in unit.nodes}
        self.made_there = {unit.output: unit for unit in units}
        self.nodes = self._needed()
        self.packed: dict[tuple[Value, Fold | None], Value] = {}
        self.packs: dict[int, list[Node]] = {}  # by the stage of the CPU that makes the value
        for unit in units:
            for at, value in enumerate(unit.data):
                self._note(value, self._fold(unit, at))

    def readers(self, unit: Unit) -> dict[str, bool]:
        """Return whether units of its launch, units of later ones, and the CPU read the result of a unit."""
        stages = {self.stages.of[other] for other in self.units if unit.output in other.data}
        own = self.stages.of[unit]
        by_cpu = any(unit.output in node.reads for node in self.nodes) or any(
            value is unit.output for _, value in self.graph.outputs)
        return {"here": own in stages, "later": bool(stages - {own}), "cpu": by_cpu}

    def _needed(self) -> list[Node]:
        """Return the CPU's nodes whose results are read; a node that only reshapes a value for a unit is not needed."""
        wanted = {value for _, value in self.graph.outputs} | {value for unit in self.units for value in unit.data}
        found = []
        for node in reversed(self.graph.nodes):
            if node not in self.inside and not wanted.isdisjoint(node.outputs):
                found.append(node)
                wanted |= set(node.reads)
        return found[::-1]

    def _fold(self, unit: Unit, at: int) -> Fold | None:
        return unit.fold if at == 0 and unit.data[0] not in self.made_there else None

    def _note(self, value: Value, fold: Fold | None) -> None:
        """Add a node that packs a value of the CPU."""
        if value in self.made_there or (value, fold) in self.packed:
            return
        maker = self.stages.made.get(value)
        stage = 0 if maker is None else self.stages.of[maker]
        batch, block = self.target.element("inp")
        attrs: dict[str, object] = {"batch": batch, "block": block}
        if fold is not None:
            attrs |= {"kernel": fold.kernel, "taps": fold.taps, "strides": fold.strides, "pad": fold.pad, "fill": fold.fill}
        node = conversion("vta_pack" if fold is None else "vta_fold", value, attrs)
        self.packed[value, fold] = node.outputs[0]
        self.packs.setdefault(stage, []).append(node)

    def parts(self) -> tuple[Graph | Region, ...]:
        """Return the parts, in execution order."""
        count = max(self.stages.of.values(), default=0) + 1
        nodes: list[list[Node]] = [[] for _ in range(count + 1)]
        for node in self.nodes:
            nodes[self.stages.of[node]].append(node)
        regions = {stage: self._region(stage) for stage in range(1, count, 2)}
        last = count if count % 2 == 0 else count - 1  # of the CPU, which gives the outputs
        found: list[Graph | Region] = []
        for stage in range(last + 1):
            if stage % 2:
                if regions[stage].units:
                    found.append(regions[stage])
            else:
                found += self._cpu(stage, nodes[stage], stage == last)
        return tuple(found)

    def _region(self, stage: int) -> Region:
        units = [unit for unit in self.units if self.stages.of[unit] == stage]
        mine = {unit.output for unit in units}
        inputs: dict[tuple[Value, Fold | None], Value] = {}
        for unit in units:
            for at, value in enumerate(unit.data):
                if value not in mine:
                    key = value, self._fold(unit, at)
                    inputs[key] = self.made_there[value].packed if value in self.made_there else self.packed[key]
        later = {value for unit in self.units if self.stages.of[unit] > stage for value in unit.data}
        later |= {value for node in self.nodes for value in node.reads} | {value for _, value in self.graph.outputs}
        outputs = [(unit.output, packed) for unit in units if unit.output in later for packed in unit.stored]
        return Region(tuple(units), tuple([(*key, packed) for key, packed in inputs.items()]), tuple(outputs))

    def _cpu(self, stage: int, nodes: list[Node], final: bool) -> list[Graph]:
        """Return the CPU's graph of one stage; [] if the stage is empty."""
        packs = self.packs.get(stage, [])
        wanted = self.graph.outputs
        if not final:
            later = {value for node in self.nodes if self.stages.of[node] > stage for value in node.reads}
            later |= {value for _, value in self.graph.outputs}
            made = [value for node in nodes for value in node.outputs if value in later]
            wanted = tuple([(value.name, value) for value in (*[node.outputs[0] for node in packs], *made)])
        if not wanted:
            return []
        whole = [*nodes, *packs]
        unpacks: list[Node] = []
        unpacked: dict[Value, Value] = {}
        for value in dict.fromkeys([*[v for node in nodes for v in node.reads], *[v for _, v in wanted]]):
            if value in self.made_there:
                unpacks += of_stored(self.made_there[value])
                unpacked[value] = unpacks[-1].outputs[0]
        nodes = [replace(node, inputs=tuple([None if v is None else unpacked.get(v, v) for v in node.inputs])) for node in whole]
        outputs = tuple([(name, unpacked.get(value, value)) for name, value in wanted])
        nodes = [*unpacks, *nodes]
        inside = {value for node in nodes for value in node.outputs} | set(self.graph.constants)
        reads = dict.fromkeys([*[v for node in nodes for v in node.reads], *[v for _, v in outputs]])
        part = Graph(f"{self.graph.name}_{stage // 2}", tuple([v for v in reads if v not in inside]), outputs, tuple(nodes),
                     self.graph.constants)
        part = remove_dead(part)
        read = {value for node in part.nodes for value in node.reads} | {value for _, value in part.outputs}
        return [replace(part, inputs=tuple([value for value in part.inputs if value in read]))]


def _reason(node: Node, made: Mapping[Value, Node]) -> str:
    """Return why a node outside quantized layers is on the CPU. `made`: the node that computes a value."""
    if not any(value.type.dtype.is_float for value in (*node.reads, *node.outputs)):
        return _ABSENT
    if node.op not in _FLOAT_SUMS:
        return _FLOAT
    quantized = any(value in made and made[value].op == "dequantize_linear" for value in node.reads)
    return OTHERWISE if quantized else UNQUANTIZED
