"""Zeros written while products are computed: a LOAD of nothing but padding in the place of GEMM steps that reset."""

from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.hw.isa.insns import MemType, Opcode, Stage

# Steps that run beside the LOAD for each element. It takes up to 9 cycles an element while every step writes to the accumulator,
# and what follows retires after it; with half as many, depthwise convolutions took 15 % longer.
STEPS_BESIDE = 18


def clear_early(steps: list[Step]) -> list[Step]:
    """The same program, with tiles cleared behind the products before, where there are enough of them.

    A LOAD writes in the cycles in which arithmetic leaves a bank of ACC free; steps that reset take a cycle each. So a reset
    moves up as a LOAD, past instructions that do not touch its elements, until the steps of the GEMMs that it passes outlast it.
    """
    moved: dict[int, list[Step]] = {}
    gone: set[int] = set()
    for at, step in enumerate(steps):
        if step.fields.get("reset") and isinstance(step.accesses[0].elements, slice):
            to = _place(steps, at, step.accesses[0])
            if to is not None:
                size = step.accesses[0].elements.stop - step.accesses[0].elements.start
                first = step.accesses[0].elements.start
                fields = {"memory_type": int(MemType.ACC), "sram_base": first, "x_size": size, "y_pad_0": 1}
                moved.setdefault(to, []).append(Step(Opcode.LOAD, fields, Stage.COMPUTE, step.accesses, part=step.part))
                gone.add(at)
    return [s for at, step in enumerate(steps) for s in (*moved.get(at, ()), *([step] if at not in gone else []))]


def _place(steps: list[Step], at: int, cleared: Access) -> int | None:
    """Before which instruction the LOAD stands; None if too few steps would run beside it."""
    assert isinstance(cleared.elements, slice)
    size, beside = cleared.elements.stop - cleared.elements.start, 0
    if size > 65535 or steps[at].cycles != size:  # an instruction of several kernels, or one that resets elements twice
        return None
    for earlier in range(at - 1, -1, -1):
        step = steps[earlier]
        if any(access.meets(cleared) for access in step.accesses):
            return None
        if step.op is Opcode.GEMM and not step.fields.get("reset"):
            beside += step.cycles
        if beside >= STEPS_BESIDE * size:
            return earlier
    return None
