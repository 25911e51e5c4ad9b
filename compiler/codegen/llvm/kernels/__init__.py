"""Micro-kernels: loops that one intrinsic stands for, with what each means and the instructions that a target has for it."""
