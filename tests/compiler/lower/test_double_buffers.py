"""The rule about double buffers."""

import pytest

from vtakit import te
from vtakit.compiler.lower import VerifyError, lower


def test_what_fills_a_double_buffer_reads_nothing_that_its_loop_writes():
    """One iteration ahead, the row of the scan that is read is not there yet."""
    state, a = te.placeholder((4, 8), name="state"), te.placeholder((4, 8), name="A")
    init = te.compute((1, 8), lambda _, i: a[0, i], name="first")
    twice = te.compute((4, 8), lambda t, i: state[t - 1, i] * 2, name="twice")
    copied = te.compute((4, 8), lambda t, i: a[t, i] * 3, name="copied")
    update = te.compute((4, 8), lambda t, i: twice[t, i] + copied[t, i], name="next")
    scan = te.scan(init, update, state, inputs=[a], name="scan")
    s = te.create_schedule(scan)
    s[copied].double_buffer()
    lower(s, [a, scan])
    s[twice].double_buffer()
    with pytest.raises(VerifyError) as error:
        lower(s, [a, scan])
    assert (error.value.rule, error.value.found, error.value.cure) == (
        "double buffers",
        "twice is filled one iteration of the loop scan_idx ahead, and that reads scan, which the loop writes",
        "compute scan at another loop, or leave out double_buffer",
    )


def test_a_double_buffer_has_one_size():
    """A fifth of the elements covers more rows in some iterations than in others."""
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c)
    fused = s[c].fuse(*c.op.axis)
    outer, _ = s[c].split(fused, nparts=5)
    s[b].compute_at(s[c], outer)
    lower(s, [a, c])
    s[b].double_buffer()
    with pytest.raises(VerifyError) as error:
        lower(s, [a, c])
    assert (error.value.rule, error.value.found, error.value.cure) == (
        "double buffers",
        "B is filled one iteration of the loop i_j_fused_outer ahead, and the size of B changes with i_j_fused_outer",
        "compute B at another loop, or leave out double_buffer",
    )
