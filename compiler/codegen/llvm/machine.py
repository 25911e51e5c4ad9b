"""The record of a processor: all that rules, passes and estimates assume of it.

Estimates rank candidates; they never decide whether code is legal, and no result depends on them. Each field has its unit in its
name and in `facts`. `compiler.codegen.llvm.machines` makes the record of a target.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtakit.base.jsons import read_object
from vtakit.compiler.codegen.record import GIB as _GIB
from vtakit.compiler.codegen.record import KIB as _KIB
from vtakit.compiler.codegen.record import MIB as _MIB
from vtakit.compiler.codegen.record import Fact, MachineError, Record, facts_of
from vtakit.compiler.codegen.record import fact as _fact
from vtakit.compiler.ir.dtypes import DType

__all__ = ["Fact", "Machine", "MachineError", "MachineLike", "facts", "load_machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Record):
    """One core of a processor, its share of the caches, and the grain of parallel work. `facts` explains each field.

    Defaults were measured on a Sapphire Rapids at 3.1 to 3.3 GHz (2026-11) unless the field says otherwise. Sizes of L1 and L2
    are the least that a processor with vectors has.

    Raises MachineError for a value out of range.
    """

    vector_bytes: int = _fact(64, "bytes", 4, 256, "size of a vector register; from the target's features")
    vector_registers: int = _fact(32, "registers", 8, 128, "vector registers; from the target's features")

    fmas_per_cycle: int = _fact(2, "vectors a cycle", 1, 8, "multiply-adds of whole vectors that begin in a cycle")
    fma_latency_cycles: int = _fact(
        5, "cycles", 1, 32,
        "latency from a multiply-add to the next one on the same sum: 4, and 1 for operands that are late")
    fma_busy: float = _fact(
        0.85, "share", 0.1, 1,
        "share of a reduction's estimated cycles in which multiply-adds run, where it is compared with transforms and with "
        "memory")
    bf16_speedup: float = _fact(2.0, "times", 0.25, 16, "products of bfloat16 pairs in the time of one product of float32")
    byte_step_cycles: float = _fact(
        0.5, "cycles", 0.001, 64,
        "cycles in which each lane of a vector adds products of four bytes; from the target's features")
    count_cycles: float = _fact(
        1.5, "cycles", 0.01, 64,
        "cycles in which each lane of a vector matches a word of 32 bits with one of the weights, counts the bits and adds the "
        "count: three instructions on two ports; from the target's features")
    pack_cycles: float = _fact(
        2.0, "cycles", 0, 64, "cycles to make one word of a plane of bits of 32 bytes: 1.3 without pads, 2.3 with (Zen 5)")
    loads_per_cycle: float = _fact(
        1.8, "vectors a cycle", 0.5, 8,
        "loads from L1: two may begin in a cycle, but some wait for a line or a bank that another load takes")
    step_cycles: float = _fact(
        0.5, "cycles", 0, 16,
        "cycles of one step of a reduction besides its multiply-adds and loads: addresses and jump")
    broadcast_cycles: float = _fact(
        0.25, "cycles", 0, 16,
        "cycles of one step for each scalar that an instruction of its own loads into a vector")
    stream_cycles: float = _fact(
        1.4, "cycles", 0, 64,
        "cycles of one step for each stream of weights: one vector of it is loaded from L2, and another one is prefetched")
    transform_cycles: float = _fact(
        9.5, "cycles", 0, 1000,
        "cycles to transform a vector of a Winograd tile to one point, and as many to transform it back")

    tile_product_cycles: float = _fact(
        16.0, "cycles", 1, 1024,
        "cycles of one product of full tile registers (AMX), as Intel's optimization reference manual states")
    tile_load_cycles: float = _fact(32.0, "cycles", 1, 1024, "cycles to load a full tile register from L2, at 32 bytes a cycle")

    line_bytes: int = _fact(64, "bytes", 16, 1024, "size of a cache line")
    l1_bytes: int = _fact(32 * _KIB, "bytes", _KIB, _GIB, "size of the L1 data cache of a core")
    l2_bytes: int = _fact(256 * _KIB, "bytes", 2 * _KIB, _GIB, "size of the L2 cache of a core")
    l3_bytes: int = _fact(
        24 * _MIB, "bytes", 2 * _KIB, 64 * _GIB,
        "most weights of a layer that stay in the L3 cache beside all other data (Zen 4 with 32 MiB); not read from the system, "
        "since cores share L3")
    l2_bytes_per_cycle: float = _fact(64.0, "bytes a cycle", 0.1, 1024, "rate of data and weights from L2 into a register tile")
    l3_bytes_per_cycle: float = _fact(8.5, "bytes a cycle", 0.1, 1024, "rate of weights from beyond L2, while L3 holds them")
    memory_bytes_per_cycle: float = _fact(4.0, "bytes a cycle", 0.1, 1024, "rate of weights that L3 does not hold")
    overlap: float = _fact(
        0.5, "share", 0, 1,
        "share of the shorter of computing and waiting for a cache that the longer of the two hides")

    prefetch_bytes: int = _fact(
        2048, "bytes", 0, _MIB,
        "distance from a read of weights to the line that is prefetched: 32 steps of 14 cycles, more than the latency of L3 "
        "(Sapphire Rapids, Zen 5)")
    prefetch_steps: int = _fact(
        64, "steps", 1, 4096,
        "prefetch distance in products of matrices: with few rows a step takes a few cycles, and weights are in memory")

    tasks: int = _fact(
        4, "tasks", 1, 4096, "fewest iterations of a parallel loop: work that has fewer parts is divided along another axis")
    task_vectors: int = _fact(
        16, "vectors", 1, 1 << 20,
        "vectors, of up to four registers each, in one task of a loop over elements")
    parallel_elements: int = _fact(
        1 << 14, "elements", 0, 1 << 40, "fewest elements for which a loop without products runs on several threads")
    parallel_macs: int = _fact(
        800_000, "multiply-adds", 0, 1 << 40,
        "fewest multiply-adds for which a kernel runs on several threads: a parallel loop takes 2 to 4 us to begin and to end, "
        "so two threads gain where one takes 8 us; with 512-bit vectors")
    parallel_bytes: int = _fact(
        250_000, "bytes", 0, 1 << 40, "fewest moved bytes for which a kernel with products runs on several threads")
    parallel_moved_bytes: int = _fact(
        100_000, "bytes", 0, 1 << 40, "fewest moved bytes for which a kernel without products runs on several threads")
    parallel_scan_macs: int = _fact(
        1 << 18, "multiply-adds", 0, 1 << 40,
        "fewest multiply-adds for which one step of a recurrent layer runs on several threads: each weight is for one product "
        "of a row, so the step takes as long as its weights from L3")
    separable_bytes: int = _fact(
        2 * _MIB, "bytes", 0, 1 << 40,
        "least size of the data and result of a depthwise convolution for which its rows are computed just before the next "
        "convolution reads them: from there on L2 and L3 return fewer of them in time, whatever the size of L2 (Sapphire "
        "Rapids, Zen 5)")
    layout_macs: int = _fact(
        16, "multiply-adds", 0, 1 << 20,
        "fewest multiply-adds that a layout in blocks must save for each element that enters or leaves it: a multiply-add in "
        "blocks saves 3 to 16 ps, and an element takes 90 ps to move (Zen 4)")

    def __post_init__(self) -> None:
        self.check()
        for name in ("vector_bytes", "line_bytes"):
            if (size := getattr(self, name)).bit_count() != 1:
                raise MachineError(f"a machine's {name} is {size} and must be a power of two, as registers and cache lines are")

    def lanes(self, kind: DType) -> int:
        """Return the elements of a type in a vector register."""
        return max(1, self.vector_bytes // kind.bytes)

    def far_bytes_per_cycle(self, size_bytes: int) -> float:
        """Return the rate at which weights of a size arrive from beyond L2."""
        return self.l3_bytes_per_cycle if size_bytes <= self.l3_bytes else self.memory_bytes_per_cycle

    def beside(self, cycles: float, waits: float) -> float:
        """Return the cycles of computing and of waiting for memory together, of which each hides a share of the shorter."""
        return max(cycles, waits) + (1 - self.overlap) * min(cycles, waits)

    def threads_pay(self, macs: int, moved_bytes: int) -> bool:
        """Return whether a kernel of so many multiply-adds and moved bytes is faster with all threads in its parallel loops."""
        return macs >= self.parallel_macs or moved_bytes >= (self.parallel_bytes if macs else self.parallel_moved_bytes)

    def separable_pays(self, moved_bytes: int) -> bool:
        """Return whether rows of a depthwise convolution that moves so much are best made as the next one needs them."""
        return moved_bytes >= self.separable_bytes


def facts(record: type[Machine] = Machine) -> Iterator[Fact]:
    """Yield the fields of the record, in order."""
    return facts_of(record)


MachineLike = Machine | str | Path | Mapping[str, Any]


def load_machine(what: MachineLike, base: Machine) -> Machine:
    """Return the record that `what` means: one already, a mapping of fields, or the path of a JSON file of them.

    base : gives the fields that a mapping or file leaves out
    """
    if isinstance(what, Machine):
        return what
    if isinstance(what, Mapping):
        return base.changed(what)
    if not isinstance(what, str | Path):
        raise MachineError(f"a machine is a Machine, a mapping of its fields or a path, not {type(what).__name__}")
    found = read_object(what, "machine file", [fact.name for fact in facts()], MachineError)
    return base.changed(found, f"machine file {str(what)!r}")
