"""Reasoning about index arithmetic: one normal form, ranges, strides, proofs, sets and affine maps.

`vtakit.compiler.arith.analyzer.Analyzer` is what the rest of the compiler uses. It depends on `vtakit.compiler.ir` alone.
"""
