"""Buffers of tensors, or of the part of a tensor that is computed at a time."""

from collections.abc import Mapping, Sequence

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.lower.bounds import Bounds
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.plan import Plan
from vtakit.compiler.te.operation import ComputeOp, PlaceholderOp, ScanOp
from vtakit.compiler.te.tensor import Tensor

Origin = tuple[Expr, ...]


class Memory:
    """The buffers of a program.

    own : of each plan the buffers to allocate around its loops and those of its readers
    """

    def __init__(self, bounds: Bounds, given: Mapping[Tensor, Buffer]) -> None:
        self.plans, self.given = bounds.plans, given
        self.own: dict[Plan, list[Buffer]] = {}
        self._states: dict[Tensor, tuple[Plan, int]] = {}
        scanned: set[Plan] = set()
        for plan in self.plans.all:
            if isinstance(plan.op, ScanOp):
                scanned |= self._scan(plan, plan.op)
        for plan in self.plans.all:
            if plan not in scanned and not isinstance(plan.op, PlaceholderOp | ScanOp):
                self._allocate(plan, plan)

    def of(self, tensor: Tensor) -> tuple[Buffer, Origin]:
        """The buffer of a tensor and the index of its first element."""
        state = self._states.get(tensor)
        if state is not None:
            plan, at = state
            return plan.buffers[at], plan.origins[at]
        maker = self.plans.maker(tensor)
        if maker is not None and not isinstance(maker.op, PlaceholderOp):
            return maker.buffers[tensor.value_index], maker.origins[tensor.value_index]
        buffer = self.given.get(tensor)
        if buffer is None:
            raise LowerError(
                "arguments", f"{tensor.name} is read by the program but is not among its arguments, which are "
                f"{', '.join(t.name for t in self.given) or 'none'}", f"add {tensor.name} to the arguments",
            )
        return buffer, _zeros(buffer.shape)

    def _allocate(self, plan: Plan, holder: Plan) -> None:
        """Give each output of a plan a parameter or a new buffer, which is allocated around the loops of `holder`."""
        buffers, origins = [], []
        for tensor in plan.stage.op.outputs:
            given = self.given.get(plan.stage.origin_op.output(tensor.value_index))
            if given is not None:
                if plan.home is not None:
                    raise LowerError(
                        "places", f"{tensor.name} is an argument of the program, and is computed at the loop "
                        f"{plan.home.axis.name} of {plan.home.plan.stage.label}", f"compute {plan.stage.label} at the root, or "
                        f"use cache_write({plan.stage.label}, scope) and compute that there", (plan.stage, "stage"),
                        (plan.home.plan.stage, plan.home.axis),
                    )
                buffers.append(given)
                origins.append(_zeros(given.shape))
                continue
            box = [plan.ranges[axis] for axis in plan.op.axis] if isinstance(plan.op, ComputeOp) else None
            shape = [r.extent for r in box] if box is not None else tensor.shape
            buffer = Buffer(tensor.name, shape, tensor.dtype, plan.scope or "global", strides=_aligned(plan, shape),
                            swizzle=plan.stage.swizzled)
            buffers.append(buffer)
            origins.append(tuple(r.min for r in box) if box is not None else _zeros(shape))
            self.own.setdefault(holder, []).append(buffer)
        plan.buffers, plan.origins = tuple(buffers), tuple(origins)

    def _scan(self, plan: Plan, op: ScanOp) -> set[Plan]:
        """A scan's states: its initial values and its update write into them, and the update reads them."""
        makers = {maker for tensor in (*op.init, *op.update) if (maker := self.plans.maker(tensor)) is not None}
        self._allocate(plan, next((p for p in self.plans.all if p in makers and p.home == plan.home), plan))
        for at, state in enumerate(op.state_placeholder):
            self._states[state] = plan, at
        for maker in makers:
            if not isinstance(maker.op, ComputeOp):
                raise LowerError(
                    "states", f"{maker.stage.label} makes a state of the scan {plan.stage.label} but is no compute",
                    "copy its result with a te.compute, and give that to the scan", (maker.stage, "body"),
                )
            if maker.home != plan.home and any(self.plans.maker(tensor) is maker for tensor in op.init):
                raise LowerError(
                    "places", f"{maker.stage.label} makes the first rows of {plan.stage.label}, and is not computed where that "
                    "is", "compute both at one loop, or both at the root", (maker.stage, "stage"),
                    *([(plan.home.plan.stage, plan.home.axis)] if plan.home is not None else []),
                )
            places = {tensor.value_index: at for tensors in (op.init, op.update) for at, tensor in enumerate(tensors)
                      if self.plans.maker(tensor) is maker}
            maker.buffers = tuple(plan.buffers[places[i]] for i in range(maker.op.num_outputs))
            maker.origins = tuple(plan.origins[places[i]] for i in range(maker.op.num_outputs))
            maker.scope = plan.scope
        return makers


def _aligned(plan: Plan, shape: Sequence[Expr]) -> tuple[int, ...]:
    """Return the strides that `storage_align` asks for; () for compact ones, as where an extent is no constant."""
    sizes = [int_value(extent) for extent in shape]
    if not plan.stage.aligns or not isinstance(plan.op, ComputeOp):
        return ()
    strides: list[int] = []
    stride = 1
    for axis, size in zip(reversed(plan.op.axis), reversed(sizes), strict=True):
        align = plan.stage.aligns.get(axis)
        if align is not None:
            stride += (align.offset - stride) % align.factor
        strides.insert(0, stride)
        if size is None:
            return ()
        stride *= size
    return tuple(strides)


def _zeros(shape: Sequence[Expr]) -> Origin:
    return tuple([const(0, extent.dtype) for extent in shape])


def is_whole(origin: Origin) -> bool:
    return all(int_value(first) == 0 for first in origin)
