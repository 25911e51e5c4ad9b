"""Tensor intrinsics: what a unit of the hardware computes, and the calls that make it do so."""
