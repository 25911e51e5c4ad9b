"""Fused multiply and add. The functions here have a second form in machine code: `sim.ptx.compiled`."""

from fractions import Fraction
from typing import Any

import numpy as np


def fma64(x: Any, y: Any, z: Any) -> Any:
    """x * y + z in float64, rounded once: from exact fractions, as the definition."""
    x, y, z = float(x), float(y), float(z)
    if x - x != 0 or y - y != 0 or z - z != 0:
        return np.float64(x * y if x - x != 0 or y - y != 0 else 0.0) + np.float64(z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:  # the sign of a zero is that of the sum of signed zeros, or + if numbers cancel
        return np.float64(np.copysign(0.0, x) * np.copysign(1.0, y) + z) if x == 0 or y == 0 else np.float64(0.0)
    try:
        return np.float64(float(exact))
    except OverflowError:
        return np.float64(np.inf if exact > 0 else -np.inf)


def fma32(x: Any, y: Any, z: Any) -> Any:
    """x * y + z in float32, rounded once: the product is exact in float64, the sum is rounded to odd, then to float32."""
    product, other = np.float64(x) * np.float64(y), np.float64(z)
    total = product + other
    if total - total == 0:
        back = total - product
        error = (product - (total - back)) + (other - back)
        if error != 0:
            bits = total.view(np.int64)
            if bits & 1 == 0:
                total = np.int64(bits + 1 if (error > 0) == (total > 0) else bits - 1).view(np.float64)
    return np.float32(total)
