"""Fusion: nodes into groups, each of which becomes one kernel.

The operators have four classes (TVM, OSDI'18, section 3): injective ones fuse with each other, before a reduction, and where
they read what an anchor or reduction makes element by element, after it; opaque ones stay alone. A node joins the group of its
immediate post-dominator, the first node through which all goes that is made of it, so that nothing outside a group reads what
is inside. A convolution of each channel by itself joins the one of single pixels that alone reads it, if memory would be slower.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.facts import Facts, facts_of
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.target import Estimates
from vtakit.compiler.nn.operators import Kind

VIEWS = frozenset(("reshape",))  # the same elements in the same order: what they make is the memory of what they read

_MOST_COST = 400  # expression nodes of a group's largest tree, each element's recomputation counted
_CHEAP = 6  # a tree of so few is computed again rather than stored
_FEW = 2  # times that any tree may be computed again
_UNKNOWN = Machine()


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that become one kernel.

    nodes   : in order; the last makes what is read outside
    inputs  : what the kernel reads
    outputs : what it writes
    view    : whether it is a single node that only gives its operand another shape
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    view: bool = False

    @property
    def name(self) -> str:
        """The operators, for people."""
        return "_".join(node.op for node in self.nodes)


def fuse(graph: Graph, machine: Estimates = _UNKNOWN) -> tuple[Group, ...]:
    """Return the graph's nodes as groups, each after those whose outputs it reads.

    machine : record that decides between two kernels and one that computes rows just before they are read
    """
    fuser = _Fuser(graph)
    fuser.after_anchors()
    fuser.before()
    fuser.separable(machine)
    return fuser.groups()


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order = {node: i for i, node in enumerate(graph.nodes)}
        self.consumers = graph.consumers()
        self.producers = graph.producers()
        self.facts: dict[Node, Facts] = {node: facts_of(node) for node in graph.nodes}
        self.dominators = self._post_dominators()
        self.members: dict[Node, list[Node]] = {node: [node] for node in graph.nodes}  # by the group's last node
        self.sink: dict[Node, Node] = {node: node for node in graph.nodes}

    def _post_dominators(self) -> dict[Node, Node | None]:
        """The immediate post-dominator of each node; None where that is the end of the graph."""
        given = {value for _, value in self.graph.outputs}
        found: dict[Node, Node | None] = {}
        for node in reversed(self.graph.nodes):
            readers = [reader for value in node.outputs for reader in self.consumers.get(value, [])]
            if not readers or not given.isdisjoint(node.outputs):
                found[node] = None
                continue
            common: Node | None = readers[0]
            for reader in readers[1:]:
                other: Node | None = reader
                while common is not other and common is not None and other is not None:
                    if self.order[common] < self.order[other]:
                        common = found[common]
                    else:
                        other = found[other]
                common = common if common is other else None
            found[node] = common
        return found

    def _between(self, node: Node, end: Node) -> list[Node]:
        """The nodes on the paths from a node to its post-dominator, that one included, in order."""
        found = {end}
        todo = self._readers(node)
        while todo:
            at = todo.pop()
            if at not in found:
                found.add(at)
                todo += self._readers(at)
        return sorted(found, key=self.order.__getitem__)

    def _readers(self, node: Node) -> list[Node]:
        return [reader for value in node.outputs for reader in self.consumers.get(value, [])]

    def _alone(self, node: Node) -> bool:
        return self.sink[node] is node and len(self.members[node]) == 1

    def _kind(self, node: Node) -> Kind:
        return Kind.OPAQUE if node.op in VIEWS or len(node.outputs) > 1 else self.facts[node].kind

    def after_anchors(self) -> None:
        """Join to each anchor or reduction the readers of its result, element by element. The later of two anchors takes them."""
        for node in reversed(self.graph.nodes):
            if self._kind(node) not in (Kind.ANCHOR, Kind.REDUCTION):
                continue
            last: Node = node
            while (end := self.dominators[last]) is not None:
                path = self._between(last, end)
                inside = {value for member in (*self.members[last], *path) for value in member.outputs}
                fits = all(
                    self._kind(each) is Kind.INJECTIVE and self._alone(each) and self._reads_in_place(each, inside)
                    and each.outputs[0].type.shape == node.outputs[0].type.shape for each in path
                )
                if not fits or not self._affordable([*self.members[last], *path], end):
                    break
                self._join(last, path, end)
                last = end

    def _reads_in_place(self, node: Node, values: Iterable[Value]) -> bool:
        inside = set(values)
        return all(
            operand.in_place for value, operand in zip(node.inputs, self.facts[node].operands, strict=True) if value in inside
        )

    def before(self) -> None:
        """Injective nodes join the injective node or reduction that all of them goes into."""
        for node in self.graph.nodes:
            end = self.dominators[node]
            if end is None or self.sink[node] is not node or self._kind(node) is not Kind.INJECTIVE:
                continue
            path = self._between(node, end)
            inner = path[:-1]
            whole = [*self.members[node], *(member for each in inner for member in self.members[self.sink[each]])]
            if any(self._kind(member) is not Kind.INJECTIVE for member in whole):
                continue  # a node on the path may be the end of a group with an anchor
            starts = self._kind(end) is Kind.REDUCTION or (
                self._kind(end) is Kind.INJECTIVE
                and all(self._kind(member) is Kind.INJECTIVE for member in self.members[self.sink[end]])
            )
            ends = {self.sink[each] for each in inner} | {node}
            if not starts or not ends <= {*path, node}:
                continue
            last = self.sink[end]
            together = sorted({*whole, *self.members[last]}, key=self.order.__getitem__)
            if self._affordable(together, last):
                self._join(node, [*inner, *self.members[last]], last)

    def separable(self, machine: Estimates) -> None:
        """A depthwise convolution in blocks, with what follows it, joins that of single pixels which alone reads it.

        Rows of the one are then made just before the other needs them. That pays where the values between them would go through
        slow memory and back; where they stay in a cache it only makes worse tiles.
        """
        given = {value for _, value in self.graph.outputs}
        for node in self.graph.nodes:
            if node.op != "depthwise_blocked" or len(node.outputs[0].type.shape) != 5:
                continue
            made = self.sink[node].outputs[0]
            readers = self.consumers.get(made, [])
            moved = sum(value.type.size * value.type.dtype.bytes for value in (node.reads[0], made))
            if not machine.separable_pays(moved) or made in given or len(readers) != 1 or not _is_of_pixels(readers[0], made):
                continue
            end = self.sink[readers[0]]
            self._join(node, self.members[end], end)

    def _join(self, node: Node, path: Iterable[Node], end: Node) -> None:
        """Make one group, whose last node is `end`, of the groups of a node and of those on a path."""
        merged = {member for each in (node, *path, end) for member in self.members.get(self.sink[each], [each])}
        for each in merged:
            self.members.pop(each, None)
            self.sink[each] = end
        self.members[end] = sorted(merged, key=self.order.__getitem__)

    def _affordable(self, nodes: list[Node], end: Node) -> bool:
        """Return whether the nodes as one expression recompute little, and are not too large an expression."""
        inside = set(nodes)
        weight: dict[Node, int] = {}
        for node in nodes:
            facts = self.facts[node]
            total = facts.cost
            for value, operand in zip(node.inputs, facts.operands, strict=True):
                maker = None if value is None else self.producers.get(value)
                if value is None or maker is None or maker not in inside:
                    continue
                kind = self._kind(maker)
                if kind is Kind.INJECTIVE:
                    again = operand.reads * (node.outputs[0].type.size if self._kind(node) is Kind.INJECTIVE else value.type.size)
                    if again > _FEW * max(1, value.type.size) and weight[maker] > _CHEAP:
                        return False
                    total += operand.reads * weight[maker]
            weight[node] = total
        return weight[end] <= _MOST_COST

    def groups(self) -> tuple[Group, ...]:
        found = []
        given = {value for _, value in self.graph.outputs}
        for end in sorted(self.members, key=self.order.__getitem__):
            nodes = self.members[end]
            made = {value for node in nodes for value in node.outputs}
            inputs = dict.fromkeys(value for node in nodes for value in node.reads if value not in made)
            outputs = [
                value for node in nodes for value in node.outputs
                if value in given or any(self.sink[reader] is not end for reader in self.consumers.get(value, []))
            ]
            found.append(Group(tuple(nodes), tuple(inputs), tuple(outputs) or nodes[-1].outputs, nodes[-1].op in VIEWS))
        return tuple(found)  # a group reads only last nodes of others, so the order of the last nodes is one of the groups


def _is_of_pixels(node: Node, data: Value) -> bool:
    """Return whether a node is a 1x1 convolution of `data` in blocks, with stride 1 and without pads or groups."""
    if node.op != "conv_blocked" or node.reads[0] is not data or node.attrs.get("groups", 1) > 1:
        return False
    alone = all(extent == 1 for extent in node.reads[1].type.shape[2:-2])
    return alone and not any(node.attrs.get("pads") or ()) and all(step == 1 for step in node.attrs.get("strides") or ())
