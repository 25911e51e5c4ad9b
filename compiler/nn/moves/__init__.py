"""Operators that move elements, with the schedule of transpositions for a CPU."""
