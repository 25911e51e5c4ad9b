"""`hw.load.planner.Target`: the destinations of a load port, as numbers."""

from vtakit.sim.cycle.state import record

_KINDS, _MOST = 6, 3  # memory types; destinations of a port at most

# Of each destination: log2 of an element's bytes, elements written at once, elements in a beat, beats of an element less
# one, cycles that a pad takes.
TARGETS = record(number=_KINDS, element_log2=_MOST, lanes=_MOST, a_beat=_MOST, last_beat=_MOST, pad_turns=_MOST)
