"""REQUANT's arithmetic is exact in 64 bits."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vtakit.hw.isa.requant import rescaled

WORDS = st.integers(-(2**31), 2**31 - 1)


@given(WORDS, WORDS, st.integers(0, 65535), st.integers(0, 63), st.integers(-128, 127))
@example(2**31 - 1, 2**31 - 1, 65535, 0, 127)
@example(-(2**31), -(2**31), 65535, 63, -128)
def test_a_result_is_the_nearest_integer_and_ties_go_up(x, bias, multiplier, shift, zero_point):
    numbers = (x, bias, multiplier, shift, zero_point)
    wanted = floor(Fraction((x + bias) * multiplier, 1 << shift) + Fraction(1, 2)) + zero_point
    assert rescaled(*numbers) == wanted
    assert rescaled(*map(np.int64, numbers)) == wanted


@pytest.mark.parametrize(("product", "shift", "wanted"), [(3, 1, 2), (-3, 1, -1), (-1, 1, 0), (2, 2, 1), (-2, 2, 0), (7, 0, 7)])
def test_ties(product, shift, wanted):
    assert rescaled(product, 0, 1, shift, 0) == wanted
