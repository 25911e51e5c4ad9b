"""Places of buffers within a scratchpad."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.places import Site, pack
from vtakit.compiler.codegen.vta.target import vta
from vtakit.hw.isa.config import VTAConfig

SMALL = replace(vta("default"), config=VTAConfig(log_wgt_buff_size=12))
DEPTH = SMALL.depth("wgt")  # 16 elements


def site(begin: int, end: int, size: int, copies: int = 1) -> Site:
    return Site("wgt", size, (), ["w"], begin, end, copies)


def ranges(sites: list[Site]) -> list[range]:
    return [range(s.base, s.bound) for s in sites]


def test_operators_in_a_row_do_not_share_elements():
    """LOADs of an operator do not overwrite operands of the operator before."""
    sites = [site(at, at + 1, size, 2) for at, size in zip(range(0, 12, 2), (3, 4, 3, 4, 3, 4), strict=True)]
    pack(sites, "wgt", SMALL)
    assert all(set(one).isdisjoint(other) for one, other in pairwise(ranges(sites)))
    assert all(s.copies == 2 and s.bound <= DEPTH for s in sites)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=8))
def test_what_is_needed_at_once_lies_apart(drawn):
    sites = [site(min(a, b), max(a, b), size, copies) for a, b, size, copies in drawn]
    least = max(sum(s.size for s in sites if s.begin <= time <= s.end) for time in range(10))
    try:
        pack(sites, "wgt", SMALL)
    except VtaError:
        assert least > DEPTH // 2, "gaps between sites take no more than that"
        assert all(s.copies == 1 for s in sites)
        return
    for at, one in enumerate(sites):
        assert 0 <= one.base < one.bound <= DEPTH
        for other in sites[:at]:
            if one.begin <= other.end and other.begin <= one.end:
                assert set(range(one.base, one.bound)).isdisjoint(range(other.base, other.bound))


def test_a_site_in_the_next_copy_of_another_has_a_place_of_its_own_where_copies_are_short():
    whole = site(0, 3, 6, 2)
    guest = site(1, 3, 2, 2)
    guest.within = whole
    pack([whole, guest], "wgt", SMALL)
    assert (whole.copies, guest.within) == (2, whole)
    whole.enter()
    assert guest.address == whole.base + whole.size
    whole.enter()
    assert guest.address == whole.base
    rest = site(0, 3, 6)
    pack([whole, guest, rest], "wgt", SMALL)
    assert (whole.copies, guest.within) == (1, None)
    every = ranges([whole, guest, rest])
    assert sum(map(len, every)) == len(set().union(*every)) <= DEPTH


def test_what_does_not_fit_is_said():
    with pytest.raises(VtaError, match=r"the wgt scratchpad holds 16 elements, but w \(9\), w \(8\) need 17 at once"):
        pack([site(0, 1, 9), site(1, 2, 8, 2)], "wgt", SMALL)
