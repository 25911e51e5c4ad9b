"""Convolutions: definitions, layouts in which they are computed, and `…_cpu`, their schedules for a CPU."""
