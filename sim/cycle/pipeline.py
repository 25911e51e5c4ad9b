"""Registers between blocks: the FIFOs of `amaranth.lib.fifo` and the `Queue` of `hw.pipeline`, as counts of entries.

A `Slice` is a FIFO of two entries, and so a count in the block that it ends. Payloads lie in rings of the blocks, or follow from
the order of instructions.
"""

from typing import Any

from vtakit.sim.cycle.state import record

BUFFERED = record("inner", "valid")  # SyncFIFOBuffered: entries in its memory, and whether one is at its output
QUEUE = record("has_room", "out", fifo=BUFFERED)  # out: entries in the slice


def buffered(fifo: Any, writes: Any, reads: Any) -> None:
    """SyncFIFOBuffered: `writes` an entry; `reads` is r_en, whether or not an entry is there."""
    moves = (fifo.inner > 0) & ((fifo.valid == 0) | reads)
    fifo.inner += writes - moves
    if moves:
        fifo.valid = 1
    elif reads:
        fifo.valid = 0


def queue(q: Any, depth: Any, writes: Any, reads: Any) -> Any:
    """Queue: `writes` and `reads` are transfers. Returns whether the next cycle may differ although neither is made."""
    takes = q.out < 2
    has_room = (q.fifo.inner + q.fifo.valid) < depth
    moves = (writes or reads or has_room != q.has_room or (takes and q.fifo.valid != 0)
             or (q.fifo.inner > 0 and (takes or q.fifo.valid == 0)))
    if moves:
        q.has_room = has_room
        q.out += (q.fifo.valid & takes) - reads
        buffered(q.fifo, writes, takes)
    return moves
