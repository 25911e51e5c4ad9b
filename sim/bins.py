"""Coverage goals of verification as data: groups of bins, each a cross product, and the unreachable bins, with the reason.

`sim.coverage` counts which of them a set of programs reaches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.insns import FLAG_QUEUES, FLAGS, AluOp, MemType, Stage
from vtakit.hw.system import BUS_BITS

Bin = tuple[str, ...]
COUNTS = ("0", "1", "many")
LOADS = (*(f"LOAD {kind.name}" for kind in MemType if kind is not MemType.OUT), "PAD_LOAD INP")
STORES = ("STORE OUT", "REQUANT OUT")
TRANSFERS = (*LOADS, *STORES)
COMPUTE_LOADS = tuple(f"LOAD {kind.name}" for kind in (MemType.UOP, MemType.ACC, MemType.ACC_8BIT))
STAGES = {  # who runs what
    Stage.LOAD: ("LOAD INP", "LOAD WGT", "PAD_LOAD INP"), Stage.COMPUTE: (*COMPUTE_LOADS, "GEMM", "ALU", "DWCONV"),
    Stage.STORE: STORES,
}
TOKENS_ONLY = "tokens only"  # an instruction that moves and computes nothing
OTHER = "other"  # a configuration without a name
NEAR = ("1", "2", "3", "4", "5", "6", "7 or more")  # steps between the writing and the reading of an accumulator element


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """Bins with these values on these axes (a value, or several) cannot be reached."""

    where: tuple[tuple[str, tuple[str, ...]], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cross product of axes."""

    name: str
    doc: str
    axes: tuple[tuple[str, tuple[str, ...]], ...]
    impossible: tuple[Impossible, ...] = ()

    def bins(self) -> Iterator[tuple[Bin, str]]:
        """Every bin, with the reason why it cannot be reached, or an empty one."""
        names = [name for name, _ in self.axes]
        for found in product(*(values for _, values in self.axes)):
            at = dict(zip(names, found, strict=True))
            reasons = (i.reason for i in self.impossible if all(at[axis] in values for axis, values in i.where))
            yield found, next(reasons, "")


def _flags(stage: Stage) -> tuple[str, ...]:
    """Every set of flags that the stage has queues for, as text."""
    names = [flag for flag in FLAGS if (stage, flag) in FLAG_QUEUES]
    chosen = product((False, True), repeat=len(names))
    return tuple(flag_text(name for name, on in zip(names, each, strict=True) if on) for each in chosen)


def flag_text(names: Iterator[str]) -> str:
    """A set of flags as the bins name it."""
    return " ".join(names) or "none"


GROUPS: tuple[Group, ...] = (
    Group(
        name="pads", doc="transfers that move something, by where zeros are",
        axes=(("instruction", TRANSFERS), ("pads", ("none", "top", "bottom", "left", "right", "several", "all four"))),
        impossible=(Impossible(
            where=(("instruction", STORES), ("pads", ("top", "bottom", "left", "right", "several", "all four"))),
            reason="the pads of a STORE must be 0, and a REQUANT has none"),),
    ),
    Group(
        name="requant", doc="REQUANTs that move something, by whether results are looked up, in each configuration",
        axes=(("configuration", (*NAMED, OTHER)), ("results", ("stored", "looked up"))),
        impossible=(Impossible(
            where=(("configuration", tuple(name for name, cfg in NAMED.items() if not cfg.has_requant)),),
            reason="REQUANT exists only for 32-bit accumulators and outputs of at most 8 bits"), Impossible(
            where=(("configuration", tuple(name for name, cfg in NAMED.items() if not cfg.has_lookup)),
                   ("results", ("looked up",))),
            reason="a table exists only for outputs of 8 bits, and where it fits the accumulator")),
    ),
    Group(
        name="pool", doc="REQUANTs with windows, by their edge, how far they lie apart, and what the first ones lack",
        axes=(("edge", ("1", "2", "3", "4")), ("step", ("1", "2")), ("lack", ("nothing", "a row", "a column", "both"))),
        impossible=(Impossible(
            where=(("edge", ("1",)), ("step", ("1",))), reason="that is a REQUANT without windows"), Impossible(
            where=(("edge", ("1",)), ("lack", ("a row", "a column", "both"))), reason="such a window would have no value")),
    ),
    Group(
        name="pad value", doc="PAD_LOADs with pads, by the value of these",
        axes=(("value", ("least", "negative", "0", "positive", "greatest")),),
    ),
    Group(
        name="shape", doc="rows, elements of a row, and the pitch of rows: less than a row, a row, more",
        axes=(("instruction", TRANSFERS), ("y_size", COUNTS), ("x_size", COUNTS), ("pitch", ("overlap", "dense", "gaps"))),
        impossible=(Impossible(where=(("x_size", ("0",)), ("pitch", ("overlap",))), reason="no pitch is less than 0"),),
    ),
    *(
        Group(
            name=f"{stage.name.lower()} flags", doc="sets of dependence flags of each of the stage's instructions",
            axes=(("instruction", (*instructions, TOKENS_ONLY)), ("flags", _flags(stage))),
        )
        for stage, instructions in STAGES.items()
    ),
    Group(
        name="configuration", doc="instructions that do something, in each named configuration and in random ones",
        axes=(("configuration", (*NAMED, OTHER)), ("instruction", tuple(name for names in STAGES.values() for name in names))),
        impossible=(Impossible(
            where=(("configuration", tuple(name for name, cfg in NAMED.items() if not cfg.has_acc8)),
                   ("instruction", ("LOAD ACC_8BIT",))),
            reason="ACC_8BIT exists only for 8-bit inputs and 32-bit accumulators"), Impossible(
            where=(("configuration", tuple(name for name, cfg in NAMED.items() if not cfg.has_pad_value)),
                   ("instruction", ("PAD_LOAD INP",))),
            reason="PAD_LOAD exists only for inputs of at most 8 bits"), Impossible(
            where=(("configuration", tuple(name for name, cfg in NAMED.items() if not cfg.has_dwconv)),
                   ("instruction", ("DWCONV",))),
            reason="DWCONV exists only for blocks of at least 4"), Impossible(
            where=(("configuration", tuple(name for name, cfg in NAMED.items() if not cfg.has_requant)),
                   ("instruction", ("REQUANT OUT",))),
            reason="REQUANT exists only for 32-bit accumulators and outputs of at most 8 bits")),
    ),
    Group(
        name="gemm", doc="GEMM by its loops",
        axes=(("does", ("multiply", "overwrite", "reset")), ("iter_out", COUNTS), ("iter_in", COUNTS), ("uops", COUNTS)),
    ),
    Group(
        name="dwconv", doc="DWCONV by its rows and columns of outputs, the steps between these, and whether it adds",
        axes=(("does", ("add", "overwrite")), ("rows", COUNTS), ("columns", COUNTS),
              ("steps", ("every", "some rows", "some columns", "some of both"))),
    ),
    Group(
        name="alu", doc="ALU by operation, second operand and loops",
        axes=(("operation", tuple(op.name for op in AluOp)), ("second", ("vector", "immediate")), ("iter_out", COUNTS),
              ("iter_in", COUNTS), ("uops", COUNTS)),
    ),
    Group(
        name="immediate", doc="ALU immediates that are used",
        axes=(("operation", tuple(op.name for op in AluOp)),
              ("value", ("0", "small positive", "small negative", "the width or more", "minus the width or less"))),
    ),
    Group(
        name="hazard", doc="an element written by a step and used by a later one, nothing between having written it",
        axes=(("written by", ("multiply", "overwrite", "reset", "alu", "MUL")),
              ("used by", ("multiply dst", "alu dst", "alu src", "MUL dst", "MUL src")), ("distance", NEAR)),
    ),
    Group(
        name="overlap", doc="LOADs of the compute stage beside arithmetic: do they touch the same micro-ops or elements?",
        axes=(("instruction", COMPUTE_LOADS), ("arithmetic", ("just before", "just after")),
              ("elements", ("the same", "others"))),
    ),
    Group(
        name="page", doc="rows of transfers and 4 KiB pages",
        axes=(("instruction", TRANSFERS), ("row", ("inside", "begins a page", "ends a page", "crosses"))),
    ),
    Group(
        name="beats", doc="rows of transfers on each width of bus: from a beat's begin, to its end, and how many beats",
        axes=(("instruction", TRANSFERS), ("bus", tuple(str(bits) for bits in BUS_BITS)),
              ("first byte", ("begins a beat", "inside")), ("beats", ("1", "2 to 15", "16 or more"))),
    ),
    Group(
        name="waits", doc="instructions on the RTL: what cycles in which they were under way, or the one before, were spent on",
        axes=(("instruction", tuple(name for names in STAGES.values() for name in names)),
              ("cycle", ("busy", "wait_prev before it", "wait_next before it", "wait_memory"))),
        impossible=(Impossible(
            where=(("instruction", STAGES[Stage.LOAD]), ("cycle", ("wait_prev before it",))),
            reason="the load stage has no stage before it"), Impossible(
            where=(("instruction", STORES), ("cycle", ("wait_next before it",))),
            reason="the store stage has no stage after it")),
    ),
    Group(
        name="memory", doc="the memory system of a run on the RTL",
        axes=(("stall", ("none", "some", "half or more")), ("latency", ("0 to 9", "10 to 99", "100 or more")),
              ("outstanding", ("1", "2 to 15", "16 or more"))),
    ),
)
