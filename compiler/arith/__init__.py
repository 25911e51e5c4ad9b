"""Reasoning about index arithmetic: one normal form, ranges, strides, proofs, sets and affine maps.

It depends on `vtakit.compiler.ir` alone.
"""

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.sets import Interval, intersect, interval, region, union
from vtakit.compiler.arith.state import Bounds, Modular

__all__ = ["Analyzer", "Bounds", "Interval", "Modular", "intersect", "interval", "region", "union"]
