"""Helpers of the hand-made programs, which tile loops to fit the scratchpads."""

from vtakit.hw.params import CoreParams

# The reference system, from whose times a cut is chosen; the program is right for any other.
BUS_BYTES = CoreParams().bus_bytes
START_CYCLES = 64  # from a token that lets a LOAD start until its first element is in the scratchpad


def even_sizes(whole: range) -> list[int]:
    """The sizes of the largest of one, two, three … nearly equal parts that a loop can be cut into, ascending."""
    return sorted({-(-len(whole) // parts) for parts in range(1, len(whole) + 1)})


def parts(whole: range, size: int) -> list[range]:
    """A loop cut into parts of `size`; the last may be shorter."""
    return [whole[at : at + size] for at in whole[::size]]


def part_count(whole: range, part: range) -> int:
    """Return the number of parts as long as `part` into which a loop is split."""
    return -(-len(whole) // len(part))
