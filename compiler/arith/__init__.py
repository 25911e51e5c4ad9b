"""Reasoning about index arithmetic: one normal form, ranges, strides, proofs, sets and affine maps (docs/compiler_arith.md).

It depends on `vtakit.compiler.ir` alone.
"""

from vtakit.compiler.arith.affine import Digit, IterMap, Source, Sum
from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.detect import Coefficients, Ends, clip_bounds, deduce_bound, linear_coefficients
from vtakit.compiler.arith.iter_map import iter_map
from vtakit.compiler.arith.sets import Interval, conjuncts, intersect, interval, region, union
from vtakit.compiler.arith.state import Bounds, Modular

__all__ = [
    "Analyzer", "Bounds", "Coefficients", "Digit", "Ends", "Interval", "IterMap", "Modular", "Source", "Sum", "clip_bounds",
    "conjuncts", "deduce_bound", "intersect", "interval", "iter_map", "linear_coefficients", "region", "union",
]
