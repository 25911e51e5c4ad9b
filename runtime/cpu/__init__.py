"""Compiled functions on this machine's processor: `vtakit.runtime.cpu.function.build` makes one that takes NumPy arrays."""
