"""The operations of a group: who reads what, which are inlined, and what follows an anchor element by element."""

from collections.abc import Iterator
from dataclasses import dataclass

from vtakit.compiler.ir.expr import Call, Div, ProducerLoad
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import subexpressions, substitute
from vtakit.compiler.te.operation import ComputeOp, ScanOp, producers_first
from vtakit.compiler.te.tensor import Operation

LARGEST = 200  # nodes of an expression that is put in place of each read


@dataclass(frozen=True, eq=False)
class Flow:
    """The operations that outputs need, producers first."""

    outputs: tuple[Operation, ...]
    ops: tuple[Operation, ...]
    readers: dict[Operation, list[Operation]]

    @classmethod
    def of(cls, outputs: tuple[Operation, ...]) -> "Flow":
        """From the operations of the outputs."""
        ops = producers_first(outputs, lambda op: [tensor.op for tensor in op.input_tensors])
        readers: dict[Operation, list[Operation]] = {op: [] for op in ops}
        for op in ops:
            for source in dict.fromkeys([tensor.op for tensor in op.input_tensors]):
                readers[source].append(op)
        return cls(outputs, tuple(ops), readers)

    def is_output(self, op: Operation) -> bool:
        """Return whether the operation's result is an output."""
        return op in self.outputs

    def within_scans(self) -> set[Operation]:
        """The operations that a scan computes step by step, which stay where they are."""
        states = {state.op for op in self.ops if isinstance(op, ScanOp) for state in op.state_placeholder}
        found: set[Operation] = set()
        for op in self.ops:
            if any(tensor.op in states or tensor.op in found for tensor in op.input_tensors) and not isinstance(op, ScanOp):
                found.add(op)
        return found

    def computes(self) -> Iterator[ComputeOp]:
        """The computes, producers first."""
        return (op for op in self.ops if isinstance(op, ComputeOp))

    def followers(self, anchor: ComputeOp) -> list[ComputeOp]:
        """The operations that take an anchor's result element by element up to one after which nothing else reads the others.

        That one is the last; the list is empty if the anchor's result is read in any other way.
        """
        taken: list[Operation] = [anchor]
        found: list[ComputeOp] = []
        best = 0
        if self.is_output(anchor):
            return []
        for op in self.ops[self.ops.index(anchor) + 1:]:
            if not any(tensor.op in taken for tensor in op.input_tensors):
                continue
            if not is_injective(op) or not self._follows(op, taken):
                break
            assert isinstance(op, ComputeOp)
            taken.append(op)
            found.append(op)
            if all(set(self.readers[item]) <= set(taken) and not self.is_output(item) for item in taken[:-1]):
                best = len(found)
        return found[:best]

    def _follows(self, op: Operation, taken: list[Operation]) -> bool:
        """Return whether an operation reads `taken` element by element, in one shape.

        It may also unflatten the anchor's flat form. An operation tagged "unpanel" takes an anchor's elements in the order
        that this anchor's schedule gives them.
        """
        assert isinstance(op, ComputeOp)
        for load in loads(op):
            if load.tensor.op not in taken:
                continue
            if load.tensor.op is taken[0] and len(taken) == 1 and op.tag == "unpanel":
                continue
            if load.tensor.op is taken[0] and len(taken) == 1 and len(load.indices) != len(op.axis):
                if not _is_flat(op, load):
                    return False
            elif not _is_same_element(op, load):
                return False
        return True


def is_injective(op: Operation) -> bool:
    """Return whether an operation is a compute of one value, without a reduction."""
    return isinstance(op, ComputeOp) and not op.reduce_axis and op.num_outputs == 1


def loads(op: ComputeOp) -> Iterator[ProducerLoad]:
    """Yield the reads of an operation."""
    for e in op.body:
        for node in subexpressions(e):
            if isinstance(node, ProducerLoad):
                yield node


class Reads:
    """Reads of operations after others are inlined into them, in terms of their own axes."""

    def __init__(self, inlined_ops: set[Operation]) -> None:
        self.inlined = inlined_ops
        self._of: dict[ComputeOp, tuple[ProducerLoad, ...]] = {}

    def of(self, op: ComputeOp) -> tuple[ProducerLoad, ...]:
        """Each read once."""
        if op not in self._of:
            found: dict[ProducerLoad, None] = {}
            for load in loads(op):
                source = load.tensor.op
                if source not in self.inlined or not isinstance(source, ComputeOp):
                    found[load] = None
                    continue
                place = {axis.var: index for axis, index in zip(source.axis, load.indices, strict=True)}
                for inner in self.of(source):
                    found[ProducerLoad(inner.tensor, tuple([substitute(index, place) for index in inner.indices]))] = None
            self._of[op] = tuple(found)
        return self._of[op]


def extent(axis: IterVar) -> int:
    """Return the extent of an operator's axis, which is constant."""
    found = None if axis.dom is None else int_value(axis.dom.extent)
    assert found is not None, "operators are defined on fixed shapes"
    return found


def extents(op: ComputeOp) -> tuple[int, ...]:
    """Return the extents of the data axes."""
    return tuple(map(extent, op.axis))


def divisors(count: int) -> list[int]:
    """Return all divisors, ascending."""
    return [part for part in range(1, count + 1) if not count % part]


def divisor(count: int, most: int) -> int:
    """Return the largest divisor that is no larger than `most`; at least 1."""
    return max([part for part in range(1, max(min(count, most), 1) + 1) if not count % part])


def _is_same_element(op: ComputeOp, load: ProducerLoad) -> bool:
    if len(load.indices) != len(op.axis):
        return False
    return all(
        index is axis.var or (int_value(index) == 0 and int_value(size) == 1 == extent(axis))
        for index, axis, size in zip(load.indices, op.axis, load.tensor.shape, strict=True))


def _is_flat(op: ComputeOp, load: ProducerLoad) -> bool:
    """Return whether all indices but one, the last or the one before it, are axes in order, and that one is their flat index."""
    if op.tag != "unflatten":
        return False
    for behind in (0, 1):
        lead = len(load.indices) - 1 - behind
        axes = [*op.axis[:lead], *op.axis[len(op.axis) - behind:]]
        if all(index is axis.var or int_value(index) == 0
               for index, axis in zip([*load.indices[:lead], *load.indices[lead + 1:]], axes, strict=False)):
            return True
    return False


def inlined(flow: Flow, fixed: set[Operation]) -> set[Operation]:
    """The injective operations that are computed where they are read.

    Not: outputs, `fixed` ones, what an extern or scan reads, what is dear and would be computed several times, and what would
    make an expression too long.
    """
    found: set[Operation] = set()
    weight: dict[Operation, int] = {}
    for op in flow.computes():
        count, dear = 0, False
        for e in op.body:
            for node in subexpressions(e):
                count += weight.get(node.tensor.op, 1) if isinstance(node, ProducerLoad) and node.tensor.op in found else 1
                dear = dear or isinstance(node, Call | Div)
        if not is_injective(op) or flow.is_output(op) or op in fixed:
            continue
        readers = flow.readers[op]
        if any(not isinstance(reader, ComputeOp) for reader in readers):
            continue
        reads = sum(load.tensor.op is op for reader in readers if isinstance(reader, ComputeOp) for load in loads(reader))
        repeated = reads > 1 or any(isinstance(reader, ComputeOp) and _repeats(reader, op) for reader in readers)
        if (dear and repeated) or (count > LARGEST and reads > 1) or count > 20 * LARGEST:
            continue
        found.add(op)
        weight[op] = count
    return found


def _repeats(reader: ComputeOp, op: Operation) -> bool:
    """Return whether a reader reads an element of `op` several times: some axis is in no index, or windows overlap."""
    for load in loads(reader):
        if load.tensor.op is not op:
            continue
        used = {node for index in load.indices for node in subexpressions(index)}
        if any(axis.var not in used and extent(axis) != 1 for axis in reader.root_iter_vars):
            return True
        if len(load.indices) < len(reader.root_iter_vars):
            return True
    return False
