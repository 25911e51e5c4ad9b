"""The store stage: accumulator elements are narrowed or requantized, joined to beats, and written to DRAM."""
