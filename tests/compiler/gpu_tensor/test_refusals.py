"""Schedules of tensor cores that no hardware runs: each is refused, with what would work."""

import re

import pytest
from tensor_support import product

from vtakit import te
from vtakit.compiler.intrin.tensor_cores import bind_lanes, load, mma
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import IntImm
from vtakit.compiler.ir.layouts import SWIZZLES, swizzled, swizzled_place
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import map_stmt, replace_buffers, statements
from vtakit.compiler.lower import LowerError, VerifyError, lower, verify
from vtakit.compiler.lower.verify.fragments import check_fragments
from vtakit.compiler.lower.verify.limits import NO_LIMITS
from vtakit.compiler.lower.verify.program import Program
from vtakit.compiler.nn.gpu.tensor_cores import Tile
from vtakit.compiler.passes import PassError, lower_late
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.te.errors import ExpressionError


def relaunched(function, tag, extent):
    """The function with another number of indices of a thread axis."""
    def on_stmt(s):
        return s.replace(extent=IntImm(extent)) if isinstance(s, st.For) and s.thread == tag else s
    return function._replace(body=map_stmt(function.body, on_stmt))


def with_scope(function, scope, name):
    """The function with a buffer in another scope."""
    found = next(s.buffer for s in _allocations(function) if s.buffer.name == name)
    other = Buffer(found.name, found.shape, found.dtype, scope, swizzle=found.swizzle)
    body = replace_buffers(function.body, {found: other})
    return function._replace(body=map_stmt(body, lambda s: s.replace(buffer=other) if isinstance(s, st.Allocate)
                                           and s.buffer is found else s))


def _allocations(function):
    return [s for s in statements(function.body) if isinstance(s, st.Allocate)]


def test_a_warp_has_32_lanes():
    s, args, _ = product(16, 16, 32)
    function = lower(s, args)
    found = [broken.found for broken in check_fragments(Program(relaunched(function, "threadIdx.x", 16), NO_LIMITS))]
    assert any("load_tile is made by 32 lanes together, and threadIdx.x has 16" in text for text in found)
    with pytest.raises(PassError, match="32 lanes hold a tile together"):
        lower_late(relaunched(function, "threadIdx.x", 64), "gpu")


def test_a_fragment_is_whole_tiles():
    s, args, _ = product(16, 16, 32, tile=Tile(16, 16, 16, 1, 1, 2))
    function = lower(s, args)
    with pytest.raises(VerifyError, match="does not consist of whole tiles of 64 x 8"):
        verify(with_scope(function, "wgmma.c", "C_mma_c"))
    with pytest.raises(VerifyError, match=re.escape("mma.c has no tiles of bfloat16")):
        verify(with_scope(function, "mma.c", "A_shared_mma_a"))


def test_sums_are_read_by_the_lanes_that_hold_them():
    """An epilogue whose columns are dealt out one to a lane."""
    a, b = te.placeholder((16, 16), "float16", name="A"), te.placeholder((8, 16), "float16", name="B")
    r = te.reduce_axis((0, 16), name="r")
    c = te.compute((16, 8), lambda i, j: te.sum(a[i, r].astype("float32") * b[j, r].astype("float32"), axis=r), name="C")
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "mma.c")
    of_a, of_b = (s.cache_read(x, "shared", [sums]) for x in (a, b))
    fragments = [s.cache_read(of_a, "mma.a", [sums]), s.cache_read(of_b, "mma.bt", [sums])]
    tx = te.thread_axis((0, 32), "threadIdx.x")
    block, whole = s[c].split(c.op.axis[0], 16)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    flat = s[c].fuse(whole, c.op.axis[1])
    _, near = s[c].split(flat, 32)
    s[c].bind(near, tx)
    for stage in (of_a, of_b, *fragments, sums):
        s[stage].compute_at(s[c], block)
    for stage in (of_a, of_b):
        _, one = s[stage].split(s[stage].fuse(*s[stage].op.axis), 32)
        s[stage].bind(one, tx)
    i, _ = s[sums].op.axis
    s[sums].tensorize(i, mma("float16", turned=True))
    for stage, shape in zip(fragments, ((16, 16), (8, 16)), strict=True):
        s[stage].tensorize(s[stage].op.axis[0], load("mma.a" if shape[0] == 16 else "mma.bt", "float16", *shape))
    with pytest.raises(VerifyError, match=r"block C touches C_mma_c\[.*\], which lane .* holds .*\n(.|\n)*bind_lanes"):
        lower(s, [a, b, c])
    with pytest.raises(PassError, match=r"which lane .* holds: bind its loops to lanes by bind_lanes"):
        lower_late(lower(s, [a, b, c], check=False), "gpu")


def test_a_product_bound_to_lanes_is_refused():
    s, args, _ = product(16, 16, 16)
    function = lower(s, args)
    lane = next(x.var for x in _loops(function) if x.thread == "threadIdx.x")

    def differing(x):
        if isinstance(x, st.Block) and x.name == "C_mma_c":
            return x.replace(predicate=lane < 16)
        return x
    with pytest.raises(VerifyError, match=r"fill_tile is made by all lanes together, and stands under a condition on"):
        verify(function._replace(body=map_stmt(function.body, differing)))


def _loops(function):
    return [s for s in statements(function.body) if isinstance(s, st.For)]


def test_an_operand_in_another_scope_is_refused():
    a = te.placeholder((16, 16), "float16", name="A")
    copied = te.compute((16, 16), lambda i, j: a[i, j], name="D")
    s = te.create_schedule(copied.op)
    s[copied].tensorize(copied.op.axis[0], load("mma.a", "float16", 16, 16))
    with pytest.raises(LowerError, match="the operand s is in the scope shared, but A is in global"):
        lower(s, [a, copied])


def copy_program(body=None, scope="shared", width=8, stages=0, swizzle=0):
    a = te.placeholder((4, 64), "float16", name="A")
    b = te.compute((4, 64), lambda i, j: a[i, j] if body is None else body(a[i, j]), name="B")
    c = te.compute((4, 64), lambda i, j: b[i, j], name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    s[b].set_scope(scope)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].reorder(*c.op.axis)
    _, lanes = s[b].split(b.op.axis[1], width)
    s[b].vectorize(lanes)
    s[b].async_copy()
    if stages:
        s[b].double_buffer(stages)
    if swizzle:
        s[b].swizzle(swizzle)
    return s, [a, c]


def test_what_is_copied_asynchronously():
    with pytest.raises(VerifyError, match="is filled by asynchronous copies, and is local memory"):
        lower(*copy_program(scope="local"))
    with pytest.raises(VerifyError, match="and computes more than an element of global memory"):
        lower(*copy_program(lambda x: x * 2))
    with pytest.raises(PassError, match="is to be asynchronous, and is of 2 bytes: vectorise its loop so that it is of 4"):
        lower_late(lower(*copy_program(width=1)), "gpu")


def test_primitives_refuse_numbers_that_make_no_sense():
    s, (_, c) = copy_program()
    b = s["B"]
    with pytest.raises(ScheduleError, match="1 is no number of copies"):
        b.double_buffer(1)
    with pytest.raises(ScheduleError, match="48 is no row of a swizzle"):
        b.swizzle(48)
    with pytest.raises(ScheduleError, match="is an output"):
        s[c].async_copy()


def test_lanes_are_of_sums_only():
    c = te.compute((16, 16), lambda i, j: te.const(0, "float16"), name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(ExpressionError, match=r"bind_lanes is for sums, not for fragments of 'mma\.a'"):
        bind_lanes(s[c], *c.op.axis, "mma.a", [te.thread_axis("threadIdx.x")])


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("bytes_", [1, 2, 4])
def test_swizzles_are_the_hardwares(swizzle, bytes_):
    """PTX ISA, "Swizzling modes": chunk c of row r of 128 bytes is at c ^ r, over as many bits as the mode has chunks."""
    count = 2048 // bytes_
    places = []
    for at in range(count):
        byte = at * bytes_
        chunk, row = byte // 16 % 8, byte // 128
        want = row * 128 + (chunk ^ row % (swizzle // 16)) * 16 + byte % 16
        assert swizzled_place(at, swizzle, bytes_) * bytes_ == want
        assert at % 97 or int_value(swizzled(IntImm(at), swizzle, bytes_)) == want // bytes_
        places.append(want)
    assert len(set(places)) == count


def test_eight_rows_of_a_chunk_lie_in_different_banks():
    for swizzle in SWIZZLES:
        for column in range(swizzle // 16):
            chunks = {swizzled_place(row * swizzle + column * 16, swizzle, 1) % 128 // 16 for row in range(8)}
            assert len(chunks) == 8 if swizzle > 32 else len(chunks) >= 4
