"""Lane maps of fragments: against the formulas of NVIDIA's PTX ISA, written out here once more, and each against its inverse."""

import numpy as np
import pytest

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.fragments import FRAGMENTS, fragment_of, grid_of, lanes_of, place_in


@pytest.mark.parametrize("key", FRAGMENTS, ids=lambda key: f"{key[0]}-{key[1]}")
def test_every_element_has_one_place(key):
    f = FRAGMENTS[key]
    places = {(lane, at): f.place(lane, at) for lane in range(f.lanes) for at in range(f.elements)}
    assert sorted(places.values()) == [(row, column) for row in range(f.rows) for column in range(f.columns)]
    assert all(f.owner(*place) == held for held, place in places.items())


# PTX ISA 8.7, "Matrix Fragments for mma.m16n8k16 with floating point type", "… mma.m16n8k8" (.tf32), "… mma.m16n8k32" (.s8),
# with groupID = %laneid >> 2 and threadID_in_group = %laneid % 4; of b row and column are k and n.
def a_16(g, t, i):
    return g if i in (0, 1, 4, 5) else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0)


def b_16(g, t, i):
    return t * 2 + (i & 1) + (8 if i >= 2 else 0), g


def a_32(g, t, i):
    return g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4


def b_32(g, t, i):
    return t if i == 0 else t + 4, g


def a_8(g, t, i):
    return g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)


def b_8(g, t, i):
    return t * 4 + (i & 3) + (0 if i < 4 else 16), g


def sums(g, t, i):
    return g if i < 2 else g + 8, t * 2 + (i & 1)


@pytest.mark.parametrize(("key", "formula"), [
    (("mma.a", 16), a_16), (("mma.b", 16), b_16), (("mma.a", 32), a_32), (("mma.b", 32), b_32), (("mma.a", 8), a_8),
    (("mma.b", 8), b_8), (("mma.c", 32), sums)], ids=lambda value: getattr(value, "__name__", None) or f"{value[0]}-{value[1]}")
def test_maps_are_those_of_the_isa(key, formula):
    f = FRAGMENTS[key]
    for lane in range(32):
        for at in range(f.elements):
            assert f.place(lane, at) == formula(lane >> 2, lane % 4, at)
            if key[0] == "mma.b":
                turned = FRAGMENTS["mma.bt", key[1]]
                assert turned.place(lane, at) == formula(lane >> 2, lane % 4, at)[::-1]


def test_sums_of_a_warpgroup_are_those_of_the_isa():
    """PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma: matrix D of m64nNk16."""
    f = FRAGMENTS["wgmma.c", 32]
    assert lanes_of("wgmma.c") == 128
    for lane in range(128):
        for at in range(4):
            row = lane // 32 * 16 + lane % 32 // 4 + (8 if at >= 2 else 0)
            assert f.place(lane, at) == (row, lane % 4 * 2 + (at & 1))
    wide = Buffer("D", (64, 32), dtype("float32"), "wgmma.c")
    for at in range(16):  # i of d_i: columns (i / 4) * 8 + …
        row, column = f.place(5, at % 4)
        assert place_in(wide, f, (row, column + at // 4 * 8)) == (5, at)


def test_places_in_a_buffer_of_several_tiles_are_all_different():
    buffer = Buffer("C", (2, 32, 24), dtype("float32"), "mma.c")
    fragment = fragment_of(buffer)
    assert grid_of(buffer, fragment) == (2, 2, 3)
    found = {place_in(buffer, fragment, index) for index in np.ndindex(2, 32, 24)}
    assert found == {(lane, at) for lane in range(32) for at in range(2 * 2 * 3 * 4)}


def test_what_is_no_fragment():
    assert fragment_of(Buffer("C", (16, 8), dtype("float16"), "mma.c")) is None
    assert grid_of(Buffer("C", (16, 12), dtype("float32"), "mma.c"), FRAGMENTS["mma.c", 32]) is None
