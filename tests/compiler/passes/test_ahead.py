"""Prefetches a number of bytes ahead, in loops with the pragma."""

import numpy as np
import pytest

import vtakit
from vtakit import te
from vtakit.compiler.lower import lower
from vtakit.compiler.passes import PassError, lower_late


def product(rows: int = 3, steps: int = 40):
    """A schedule of a product whose row of sums is a vector, and its tensors."""
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, 32), name="B")
    k = te.reduce_axis((0, steps), name="k")
    c = te.compute((rows, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "local")
    i, _ = s[c].op.axis
    s[sums].compute_at(s[c], i)
    (k,), (_, j) = s[sums].op.reduce_axis, s[sums].op.axis
    s[sums].reorder(k, j)
    s[sums].vectorize(j)
    return s, s[sums], k, (a, b, c)


def text(s, tensors) -> list[str]:
    return [line.strip() for line in str(lower_late(lower(s, tensors))).splitlines()]


def test_each_line_of_what_a_loop_reads_is_asked_for():
    s, stage, k, tensors = product()
    stage.pragma(k, "prefetch_ahead", 1024)
    found = [line for line in text(s, tensors) if line.startswith("prefetch")]
    assert len(found) == 2  # 32 numbers are two lines; the sums stay where they are, and A is read number by number
    assert all("B" in line for line in found)
    assert [line.rstrip(")").split(", ")[-1] for line in found] == ["1024", "1088"]


def test_without_the_pragma_nothing_is():
    s, _, _, tensors = product()
    assert not any("prefetch" in line for line in text(s, tensors))


@pytest.mark.parametrize("ahead", [64, 1 << 20, -64])
def test_addresses_outside_of_a_buffer_do_no_harm(ahead):
    s, stage, k, tensors = product()
    stage.pragma(k, "prefetch_ahead", ahead)
    function = vtakit.build(s, tensors)
    assert "prefetch" in function.compiled.assembly
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 40), np.float32), rng.standard_normal((40, 32), np.float32), np.zeros((3, 32), np.float32)
    function(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_bytes_are_a_whole_number():
    s, stage, k, tensors = product()
    stage.pragma(k, "prefetch_ahead", "far")
    with pytest.raises(PassError, match="has the pragma prefetch_ahead with the value 'far': give a whole number of bytes"):
        lower_late(lower(s, tensors))
