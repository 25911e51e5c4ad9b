"""Kernels in C-like languages: one emitter of the low "gpu" form, and a dialect object for each language."""
