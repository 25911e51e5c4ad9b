"""Numbers that decide cycles and that programs do not see: depths, latencies, widths of parts. Nothing here needs Amaranth.

The blocks that they belong to import them from here, and so does the cycle model (`vtakit.sim.cycle`).
"""

from dataclasses import dataclass

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import MEMORIES, REQUANT_WORD_BITS, TABLE_BYTES, MemType
from vtakit.hw.params import CoreParams

# Stages
INSNS_STARTED = 15  # instructions of a stage under way; counters modulo 32 tell any two of them apart
LOADS_AHEAD = 4  # LOADs whose addresses may be under way before their data are written
ARITHMETIC_AHEAD = 8  # GEMM and ALU instructions that wait behind the one that runs
PATIENCE = 7  # cycles that a LOAD waits for a write port of ACC before a step is left out for it
STORE_PATIENCE = 31  # cycles that a STORE waits for the read port of its bank, with one copy of ACC
LOAD_COUNT_BITS = 5  # loads of the compute stage are numbered modulo this; fewer are ever in flight
BANK_STRIDE = 3  # from one bit of an index of ACC that chooses a bank to the next

# Arithmetic
STEPS_AHEAD = 8  # steps between the loops and the arithmetic; at least as many as their way takes cycles
ALU_STAGES = 2  # stages that an ALU step takes beyond a GEMM step
LEVELS_A_STAGE = 2  # adder levels between two registers

# The way of a STORE's values
REQUANT_LATENCY = 7  # cycles from values to results, without a table
# Parts of elements that may be under way: at least as many as their way takes cycles.
PLAIN_AHEAD = 4
SCALED_AHEAD = PLAIN_AHEAD + REQUANT_LATENCY + 2


def factors_at(*, windows: bool, gemm_passes: int) -> int:
    """Return the stage of the arithmetic in which the multipliers have their operands."""
    return 3 if windows and gemm_passes > 1 else 2


def mac_latency(cfg: VTAConfig) -> int:
    """Cycles from tiles to sums: products, then the tree."""
    return 1 + -(-cfg.log_block // LEVELS_A_STAGE)


def element_parts(params: CoreParams) -> int:
    """Parts of a stored element, each with the lanes that a beat takes."""
    return max(1, params.cfg.out_bytes // params.bus_bytes)


def part_lanes(params: CoreParams) -> int:
    """Lanes of a part."""
    return params.cfg.batch * params.cfg.block // element_parts(params)


def table_rows(lanes: int) -> int:
    """Return the rows of a REQUANT's table, each as wide as the values of so many lanes."""
    return max(1, TABLE_BYTES * 8 // (lanes * REQUANT_WORD_BITS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Destination of loads: one memory type at the width of the bus.

    element_bytes   in DRAM
    lanes           elements written at once at most; more than 1 only if several share a beat
    depth           elements of its scratchpad
    """

    kind: MemType
    element_bytes: int
    lanes: int
    depth: int

    def beats(self, params: CoreParams) -> int:
        """Beats that one element takes, at least 1."""
        return max(1, self.element_bytes // params.bus_bytes)

    def a_beat(self, params: CoreParams) -> int:
        """Elements that one beat holds, at least 1."""
        return max(1, params.bus_bytes // self.element_bytes)


def target(params: CoreParams, kind: MemType) -> Target:
    """Return the destination for a memory type that fills a scratchpad straight from the bus."""
    memory = MEMORIES[kind]
    size, depth = memory.bytes_in(params.cfg), memory.depth_in(params.cfg)
    return Target(kind=kind, element_bytes=size, lanes=params.lanes(size, depth), depth=depth)


def load_targets(params: CoreParams) -> list[Target]:
    """Return the destinations of the load stage."""
    return [target(params, kind) for kind in (MemType.INP, MemType.WGT)]


def compute_targets(params: CoreParams) -> list[Target]:
    """Return the destinations of the compute stage: UOP, and ACC from DRAM of either width."""
    cfg = params.cfg
    kinds = [MemType.ACC, *([MemType.ACC_8BIT] if cfg.has_acc8 else [])]
    return [target(params, MemType.UOP), *(
        Target(kind=kind, element_bytes=MEMORIES[kind].bytes_in(cfg), lanes=1, depth=cfg.acc_depth) for kind in kinds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Shape of a scratchpad behind a `Target`. Each element is stored as `parts` words, one for each pass of the matrix core.

    depth_log2   of words
    lanes        words that a beat writes
    slices       beats that a word takes
    turns        cycles that a pad takes, which is written as whole words
    """

    word_bits: int
    depth_log2: int
    parts: int
    lanes: int
    slices: int
    turns: int


def storage(params: CoreParams, kind: MemType) -> Storage:
    """Return the shape of the scratchpad of a memory type."""
    to, parts = target(params, kind), params.gemm_passes if kind is MemType.WGT else 1
    word_bits, shared = 8 * to.element_bytes // parts, to.beats(params) == 1
    lanes = to.lanes * parts if shared else max(1, params.bus_bits // word_bits)
    return Storage(
        word_bits=word_bits, depth_log2=(to.depth * parts).bit_length() - 1, parts=parts, lanes=lanes,
        slices=max(1, word_bits // params.bus_bits), turns=1 if shared else parts // lanes,
    )
