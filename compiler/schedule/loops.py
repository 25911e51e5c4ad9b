"""Primitives that change a stage's loops, and those that say how a loop runs."""

from itertools import pairwise
from typing import Any

from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.stmt import AUTO_STEPS
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.schedule.checks import Checks, refuse
from vtakit.compiler.schedule.relations import Fuse, Mark, Prefetch, Singleton, Split
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor


class LoopPrimitives(Checks):
    """The primitives on the loops of a stage. An axis is given as an object, or by its name in the stage."""

    __slots__ = ()

    def split(
        self, axis: IterVar | str, factor: Expr | int | None = None, nparts: Expr | int | None = None
    ) -> tuple[IterVar, IterVar]:
        """Replace a loop by an outer and an inner one, and return these.

        ``for i in range(n): s``  ->  ``for io in range(ceil(n / factor)): for ii in range(factor): s[i -> io * factor + ii]``

        Give either `factor`, the extent of the inner loop, or `nparts`, that of the outer one. If the product is more than
        the extent, the iterations beyond it are guarded. Raises ScheduleError if the axis is no loop of the stage, is
        already marked, or if not exactly one positive number is given.
        """
        def asked() -> str:
            parts = [f"{key}={value!r}" for key, value in (("factor", factor), ("nparts", nparts)) if value is not None]
            return self.call("split", axis, *parts)

        parent = self.leaf(axis, asked)
        if (factor is None) == (nparts is None):
            truth = "neither factor nor nparts is given" if factor is None else "both factor and nparts are given"
            refuse(self, asked(), truth, "give one: factor, the extent of the inner loop, or nparts, that of the outer", parent)
        self.refuse_marked(parent, asked, "split")
        self.refuse_kind(parent, (IterKind.OPAQUE, IterKind.THREAD), asked)
        size = self._split_size(factor if nparts is None else nparts, "factor" if nparts is None else "nparts", parent, asked)
        outer = IterVar(Var(f"{parent.name}_outer", parent.dtype), None, parent.kind)
        inner = IterVar(Var(f"{parent.name}_inner", parent.dtype), None, parent.kind)
        relation = Split(parent, outer, inner, size if nparts is None else None, size if factor is None else None)
        self.add_relation(relation, (parent,), (outer, inner))
        made = self.name_axis(outer), self.name_axis(inner)
        kind = "factor" if nparts is None else "nparts"
        self.record("split", {"axis": self.axis_labels[parent], kind: self.plain(size)}, made)
        return outer, inner

    def _split_size(self, given: Any, word: str, axis: IterVar, asked: Any) -> Expr:
        cure = f"give a {word} of at least 1: a number, or an expression of sizes"
        size = self.number(given)
        if size is None:
            refuse(self, asked(), f"the {word} {given!r} is no number", cure, axis)
        number = int_value(size)
        if not size.dtype.is_int:
            refuse(self, asked(), f"the {word} {size} is a {size.dtype}", cure, axis)
        if number is not None and number < 1:
            refuse(self, asked(), f"the {word} is {size}, but a loop has at least one iteration", cure, axis)
        if number is not None and number > axis.dtype.max:
            truth = f"the {word} {number} is no {axis.dtype}, which counts the loop"
            refuse(self, asked(), truth, f"give a smaller {word}", axis)
        return const(number, axis.dtype) if number is not None else size

    def fuse(self, *axes: IterVar | str) -> IterVar:
        """Replace adjacent loops, given outermost first, by one over all their iterations, and return it.

        ``for i in range(n): for j in range(m): s``  ->  ``for f in range(n * m): s[i -> f // m, j -> f % m]``

        Without axes, on an operation of rank 0, a loop of extent 1 is made. Raises ScheduleError if the axes are not
        adjacent loops of the stage, in their order, or one is already marked.
        """
        def asked() -> str:
            return self.call("fuse", *axes)

        if not axes:
            return self._singleton(asked)
        leaves = [self.leaf(axis, asked) for axis in axes]
        self.refuse_repeats(leaves, asked)
        for first, second in pairwise(leaves):
            distance = self.position(second) - self.position(first)
            if distance != 1:
                a, b = self.axis_labels[first], self.axis_labels[second]
                if distance == -1:
                    refuse(self, asked(), f"{b} is outside of {a}", f"give them outermost first: {b}, {a}", second)
                refuse(
                    self, asked(), f"{a} and {b} are not adjacent: other loops are between them",
                    f"bring them together first with reorder({a}, {b}, …)", second,
                )
        for axis in leaves:
            self.refuse_marked(axis, asked, "fuse")
            self.refuse_kind(axis, (IterKind.OPAQUE, IterKind.THREAD, IterKind.ORDERED), asked)
        fused = leaves[0]
        for inner in leaves[1:]:
            kind = IterKind.REDUCE if IterKind.REDUCE in (fused.kind, inner.kind) else IterKind.DATA
            made = IterVar(Var(f"{fused.name}_{inner.name}_fused", fused.dtype), None, kind)
            self.add_relation(Fuse(fused, inner, made), (fused, inner), (made,))
            self.name_axis(made)
            fused = made
        self.record("fuse", {"axes": [self.axis_labels[axis] for axis in leaves]}, (self.axis_labels[fused],))
        return fused

    def _singleton(self, asked: Any) -> IterVar:
        if not isinstance(self.op, ComputeOp) or self.op.axis:
            refuse(self, asked(), "no axes are given", "give the loops to fuse; only an operation of rank 0 needs none")
        axis = IterVar(Var("singleton", INT32), Range(const(0, INT32), const(1, INT32)), IterKind.DATA)
        self.add_relation(Singleton(axis), (), (axis,))
        self.record("fuse", {"axes": []}, (self.name_axis(axis),))
        return axis

    def reorder(self, *axes: IterVar | str) -> None:
        """Put loops into the order given, in the places that they have together; other loops stay.

        Raises ScheduleError if one is given twice, is no loop of the stage, or is the loop of a scan, whose steps go in order.
        """
        def asked() -> str:
            return self.call("reorder", *axes)

        leaves = [self.leaf(axis, asked) for axis in axes]
        self.refuse_repeats(leaves, asked)
        for axis in leaves:
            self.refuse_kind(axis, (IterKind.ORDERED, IterKind.OPAQUE), asked)
        places = sorted([self.position(axis) for axis in leaves])
        for place, axis in zip(places, leaves, strict=True):
            self.leaf_iter_vars[place] = axis
        self.record("reorder", {"axes": [self.axis_labels[axis] for axis in leaves]})

    def tile(self, *given: Any, x_factor: Any = None, y_factor: Any = None) -> tuple[IterVar, ...]:
        """Split axes by factors and put the outer loops around the inner ones; return the outer, then the inner.

        ``tile(y, x, 8, 4)``: ``for yo: for xo: for yi in range(8): for xi in range(4): s``; any number of axes.
        Raises ScheduleError unless there is a factor an axis.
        """
        given = (*given, *[factor for factor in (x_factor, y_factor) if factor is not None])
        half = len(given) // 2
        axes, factors = given[:half], given[half:]
        if not axes or len(given) % 2 or any(isinstance(factor, IterVar | str) for factor in factors):
            count = sum(isinstance(item, IterVar | str) for item in given)
            truth = f"axes given: {count}; factors given: {len(given) - count}"
            refuse(self, self.call("tile", *given), truth, "give the axes, then one factor for each: tile(y, x, 8, 8)")

        def asked() -> str:
            return self.call("tile", *given)

        leaves = [self.leaf(axis, asked) for axis in axes]
        self.refuse_repeats(leaves, asked)
        for axis, factor in zip(leaves, factors, strict=True):
            self.refuse_marked(axis, asked, "tile")
            self.refuse_kind(axis, (IterKind.OPAQUE, IterKind.THREAD, IterKind.ORDERED), asked)
            self._split_size(factor, "factor", axis, asked)
        pairs = [self.split(axis, factor) for axis, factor in zip(leaves, factors, strict=True)]
        order = (*[outer for outer, _ in pairs], *[inner for _, inner in pairs])
        self.reorder(*order)
        return order

    def vectorize(self, axis: IterVar | str) -> None:
        """Run all iterations of a loop at once, as the lanes of vectors; its extent must be a number when lowered.

        Raises ScheduleError for an axis of a reduction or scan, whose iterations depend on each other, or one already marked.
        """
        self._run_as(axis, Mark.VECTORIZED, "vectorize")

    def parallel(self, axis: IterVar | str) -> None:
        """Run the iterations of a loop on the threads of a CPU.

        Raises ScheduleError for an axis of a reduction or scan, whose iterations depend on each other, or one already marked.
        """
        self._run_as(axis, Mark.PARALLEL, "parallel")

    def unroll(self, axis: IterVar | str) -> None:
        """Write out the iterations of a loop one after another; its extent must be a number when lowered.

        Raises ScheduleError for a loop already marked otherwise.
        """
        self._run_as(axis, Mark.UNROLLED, "unroll")

    def _run_as(self, axis: IterVar | str, mark: Mark, word: str) -> None:
        def asked() -> str:
            return self.call(word, axis)

        leaf = self.leaf(axis, asked)
        self.refuse_run_as(leaf, asked)
        if mark is not Mark.UNROLLED:
            self.refuse_dependent(leaf, asked, word)
        self.notes[leaf] = self.note(leaf)._replace(mark=mark)
        self.record(word, {"axis": self.axis_labels[leaf]})

    def bind(self, axis: IterVar | str, thread: IterVar) -> None:
        """Run the iterations of a loop on a GPU's blocks or threads, or as virtual threads (`te.thread_axis`).

        A reduction may be bound to ``threadIdx``: the threads then combine their results. Raises ScheduleError for binding
        it to anything else, binding an axis twice, or a second loop of the stage to the same index.
        """
        def asked() -> str:
            return self.call("bind", axis, getattr(thread, "name", repr(thread)))

        leaf = self.leaf(axis, asked)
        if not isinstance(thread, IterVar) or thread.kind is not IterKind.THREAD:
            truth = f"{getattr(thread, 'name', thread)!r} is no thread axis"
            refuse(self, asked(), truth, "make one with te.thread_axis('threadIdx.x')", leaf)
        self.refuse_run_as(leaf, asked)
        if not thread.thread.startswith("threadIdx"):
            self.refuse_dependent(leaf, asked, f"bind to {thread.thread}")
        elif leaf.kind is not IterKind.REDUCE:
            self.refuse_dependent(leaf, asked, "bind")
        self._refuse_thread_twice(thread, asked)
        self.notes[leaf] = self.note(leaf)._replace(thread=thread)
        self.record("bind", {"axis": self.axis_labels[leaf], "thread": self.schedule.thread_as_data(thread)})

    def _refuse_thread_twice(self, thread: IterVar, asked: Any) -> None:
        for other, notes in self.notes.items():
            taken = notes.thread
            if taken is not None and (taken is thread or (taken.thread == thread.thread and "vthread" not in thread.thread)):
                truth = f"{taken.thread} is bound to {self.axis_labels[other]} already"
                refuse(self, asked(), truth, "bind each loop to an index of its own, or fuse the two loops first", other)

    def pragma(self, axis: IterVar | str, key: str, value: Any = None) -> None:
        """Keep a note with a loop for a later pass: a number, string or expression; "vectorize", "unroll" and "parallel" are
        the primitives of those names.

        Raises ScheduleError for a key that is no string, a value of another type, or a pragma that wants a number and has none.
        """
        def asked() -> str:
            return self.call("pragma", axis, repr(key), *([] if value is None else [repr(value)]))

        leaf = self.leaf(axis, asked)
        if not isinstance(key, str) or not key:
            refuse(self, asked(), f"the key is {key!r}", "give the pragma's name as a string", leaf)
        if key in ("vectorize", "unroll", "parallel"):
            getattr(self, key)(leaf)
            return
        if not isinstance(value, int | float | str | Expr | None):
            truth = f"the value {value!r} is of type {type(value).__name__}"
            refuse(self, asked(), truth, "give a number, a string or an expression", leaf)
        if key == AUTO_STEPS and type(int_value(value) if isinstance(value, Expr) else value) is not int:
            refuse(self, asked(), f"{key} is a number of steps", "give a whole number, such as 16", leaf)
        notes = self.note(leaf)
        self.notes[leaf] = notes._replace(pragmas={**notes.pragmas, key: 1 if value is None else value})
        args = {"axis": self.axis_labels[leaf], "key": key}
        self.record("pragma", args if value is None else args | {"value": self.plain(value)})

    def prefetch(self, tensor: Tensor, axis: IterVar | str, offset: Expr | int = 1) -> None:
        """Ask for what the stage reads of `tensor` so many iterations of a loop ahead.

        Raises ScheduleError if the stage does not read the tensor.
        """
        def asked() -> str:
            return self.call("prefetch", getattr(tensor, "name", repr(tensor)), axis, str(offset))

        leaf = self.leaf(axis, asked)
        ahead = self.number(offset)
        if ahead is None or not ahead.dtype.is_int:
            truth = f"the offset {offset!r} is no number of iterations"
            refuse(self, asked(), truth, "give a whole number, or an expression of sizes", leaf)
        if not isinstance(tensor, Tensor) or not self.schedule.read_as(self, tensor):
            reads = ", ".join(item.name for item in self.op.input_tensors) or "nothing"
            refuse(self, asked(), f"{self.label} does not read it", f"prefetch what it reads: {reads}", "body")
        if not isinstance(self.op, ComputeOp):
            refuse(self, asked(), f"{self.label} is no compute", "prefetch in the stage of a te.compute", "body")
        notes = self.note(leaf)
        self.notes[leaf] = notes._replace(prefetches=(*notes.prefetches, Prefetch(tensor, ahead)))
        label = self.schedule.tensor_label(tensor)
        self.record("prefetch", {"tensor": label, "axis": self.axis_labels[leaf], "offset": self.plain(offset)})

    def tensorize(self, axis: IterVar | str, intrin: Any) -> None:
        """Compute the loops from an axis inward by a tensor intrinsic (`te.decl_tensor_intrin`).

        Lowering matches what the loops compute with what the intrinsic does. Raises ScheduleError for anything that is no
        intrinsic, for a stage that has one already, or a loop from there inward that is marked.
        """
        name = getattr(intrin, "name", None)

        def asked() -> str:
            return self.call("tensorize", axis, name if isinstance(name, str) else repr(intrin))

        leaf = self.leaf(axis, asked)
        if not isinstance(name, str) or not hasattr(intrin, "scalar_params"):
            refuse(self, asked(), f"{intrin!r} is no tensor intrinsic", "make one with te.decl_tensor_intrin", leaf)
        if not isinstance(self.op, ComputeOp):
            refuse(self, asked(), f"{self.label} is no compute", "tensorize the stage of a te.compute", "body")
        for other, notes in self.notes.items():
            if notes.intrin is not None:
                refuse(self, asked(), f"{self.axis_labels[other]} is tensorized already by {notes.intrin.name}",
                       "tensorize one loop of a stage", other)
        for inner in self.leaf_iter_vars[self.position(leaf):]:
            notes = self.note(inner)
            if notes.mark is not Mark.SERIAL or notes.thread is not None:
                refuse(self, asked(), f"{self.axis_labels[inner]} is marked, but the intrinsic takes the place of that loop",
                       "tensorize a loop inside of it, or leave it unmarked", inner)
        self.notes[leaf] = self.note(leaf)._replace(mark=Mark.TENSORIZED, intrin=intrin)
        self.record("tensorize", {"axis": self.axis_labels[leaf], "intrin": name})
        self.schedule.intrinsics[name] = intrin
