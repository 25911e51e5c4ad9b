"""The store stage: accumulator elements are narrowed or requantised, joined to beats, and written to DRAM."""
