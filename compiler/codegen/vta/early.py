"""LOADs of accumulators before the products that they can run beside: of zeros in the place of resets, and of data."""

from vtakit.compiler.codegen.vta.stream import Access, Step
from vtakit.hw.isa.insns import MemType, Opcode, Stage

# Steps that run beside the LOAD for each element. It takes up to 9 cycles an element while every step writes to the accumulator,
# and what follows retires after it; with half as many, depthwise convolutions took 15 % longer.
STEPS_BESIDE = 18
MANY = 64  # elements of a LOAD, from which on it moves past ALU instructions: a pool of rows of 8 takes 17 % longer so
STEPS_TO_START = 128  # that run until the first data of a LOAD come from DRAM, on a bus that others use too


def clear_early(steps: list[Step]) -> list[Step]:
    """Return the same program, with tiles cleared behind earlier products, where there are enough of them.

    A LOAD writes in the cycles in which arithmetic leaves a bank of ACC free; steps that reset take a cycle each. So a reset
    moves up as a LOAD, past instructions that do not touch its elements, until the steps of the GEMMs that it passes outlast it.
    """
    moved: dict[int, list[Step]] = {}
    gone: set[int] = set()
    for at, step in enumerate(steps):
        if not (step.fields.get("reset") and isinstance(step.accesses[0].elements, slice)):
            continue
        size = _size(step.accesses[0])
        if step.cycles != size:  # an instruction of several kernels, or one that resets elements twice
            continue
        to, beside = _place(steps, at, STEPS_BESIDE * size)
        if beside >= STEPS_BESIDE * size:
            fields = {"memory_type": int(MemType.ACC), "sram_base": step.accesses[0].elements.start, "x_size": size, "y_pad_0": 1}
            moved.setdefault(to, []).append(Step(Opcode.LOAD, fields, Stage.COMPUTE, step.accesses, part=step.part))
            gone.add(at)
    return _rearranged(steps, moved, gone)


def load_early(steps: list[Step]) -> list[Step]:
    """Return the same program, with LOADs of accumulators from DRAM moved far enough ahead that products hide them.

    The compute stage starts in order and arithmetic waits for the elements that an older LOAD has not yet written. Nothing
    moves past an instruction that touches the same elements, in the scratchpad or in DRAM.
    """
    moved: dict[int, list[Step]] = {}
    gone: set[int] = set()
    for at, step in enumerate(steps):
        if step.op is Opcode.LOAD and step.stage is Stage.COMPUTE and step.symbol:
            enough = STEPS_BESIDE * _size(step.accesses[0]) + STEPS_TO_START
            to, beside = _place(steps, at, enough)
            if not beside and _size(step.accesses[0]) >= MANY:  # no products, as in a pool
                to, beside = _place(steps, at, enough, Opcode.ALU)
            if beside:
                moved.setdefault(to, []).append(step)
                gone.add(at)
    return _rearranged(steps, moved, gone)


def _size(access: Access) -> int:
    assert isinstance(access.elements, slice)
    return int(access.elements.stop - access.elements.start)


def _place(steps: list[Step], at: int, enough: int, beside_what: Opcode = Opcode.GEMM) -> tuple[int, int]:
    """Before which instruction an instruction could stand, and so beside how many steps of others: no more than is enough."""
    beside, to = 0, at
    for earlier in range(at - 1, -1, -1):
        step = steps[earlier]
        if beside >= enough or any(access.meets(own) for access in step.accesses for own in steps[at].accesses):
            break
        if step.op is beside_what and not step.fields.get("reset"):
            beside, to = beside + step.cycles, earlier
    return to, beside


def _rearranged(steps: list[Step], moved: dict[int, list[Step]], gone: set[int]) -> list[Step]:
    return [s for at, step in enumerate(steps) for s in (*moved.get(at, ()), *([step] if at not in gone else []))]
