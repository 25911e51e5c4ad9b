"""The complementary error function.

For x >= 0, erfc(x) = exp(-x**2) * 2 / (2 + x) * p((2 - x) / (2 + x)). Both polynomials p interpolate at Chebyshev nodes (computed
with 60 digits); their relative errors are 6e-9 up to x = 11, and 3e-16 up to x = 30.
"""

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.te import math

# Highest power first.
_SHORT = (
    3.3652452886019027e-05, -2.281607557088748e-05, -0.0002938530022153632, 0.00041448762084264976, 0.0015297919899834988,
    -0.0032370545994509087, -0.010752496506390164, 0.01822072582366992, 0.13973585349550724, 0.3435803563232391,
    0.5107913548283354,
)
_LONG = (
    -3.010085031111771e-09, 7.591239702748541e-09, 1.2279918875165595e-08, -5.650940004475291e-08, 2.2778664814476833e-08,
    1.6089260594464842e-07, -3.0879159147726527e-07, 1.6189333719713633e-09, 1.015947358986969e-06, -1.8239068464380434e-06,
    -5.695478517369498e-07, 8.061336982581865e-06, -1.0845974570150574e-05, -1.707468641601047e-05, 7.223491469416079e-05,
    -1.7185677743756552e-05, -0.0003315366884922812, 0.0004186480271372893, 0.0015453060242393314, -0.0032395925336418017,
    -0.010755330944510448, 0.01822111575343387, 0.1397360462780234, 0.3435803422069053, 0.5107913526210115,
)


def complement(x: Expr) -> Expr:
    """erfc(x), with a relative error of at most 6e-7 in float32 and 2e-15 in float64 where the result is no denormal.

    Narrower types are computed in float32.
    """
    if x.dtype.bits < 32:
        found: Expr = complement(x.astype("float32")).astype(x.dtype)
        return found
    short = x.dtype.bits == 32

    def number(value: float) -> Expr:
        return const(value, x.dtype)
    size = minimum(math.abs(x), number(11.0 if short else 30.0))  # from there on the result is 0
    at = (number(2.0) - size) / (number(2.0) + size)
    value = number(0.0)
    for factor in _SHORT if short else _LONG:
        value = value * at + number(factor)
    square = size * size
    rest = math.fma(size, size, -square)  # what rounding took off: exp would magnify it by the square
    value = value * (math.exp(-square) * (number(1.0) - rest)) * (number(2.0) / (number(2.0) + size))
    return select(x < 0, number(2.0) - value, value)
