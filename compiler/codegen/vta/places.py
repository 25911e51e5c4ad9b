"""Places of buffers within a scratchpad."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.codegen.vta.tree import Loop


@dataclass(eq=False)
class Site:
    """A place in a scratchpad for a buffer, and for others that take it over.

    size   : elements of one copy
    copies : how many lie one after another; each time the memory is allocated the next one is taken
    base   : element of the first copy
    within : site whose next copy holds this one; None if it has elements of its own
    """

    scope: str
    size: int
    loops: tuple[Loop, ...]
    names: list[str] = field(default_factory=list)
    begin: int = -1
    end: int = -1
    copies: int = 1
    base: int = 0
    turn: int = -1
    within: "Site | None" = None

    def enter(self) -> None:
        """Take the next copy."""
        self.turn = (self.turn + 1) % self.copies

    @property
    def bound(self) -> int:
        """Return the element behind the last copy."""
        return self.base + self.size * self.copies

    def meets(self, first: int, bound: int) -> bool:
        """Return whether a copy has some of the elements from `first` to before `bound`."""
        return self.base < bound and first < self.bound

    @property
    def address(self) -> int:
        """The first element of the copy at hand."""
        if self.within is not None:
            return self.within.base + (self.within.turn + 1) % self.within.copies * self.within.size
        return self.base + max(self.turn, 0) * self.size


def pack(sites: Sequence[Site], scope: str, target: Target) -> None:
    """Give the sites of one scratchpad their places.

    Raises VtaError if they do not fit with one copy each.
    """
    depth, own = target.depth(scope), [site for site in sites if site.within is None]
    if _lay(own, share=False) <= depth:
        return
    while _lay(own, share=True) > depth:
        several = [site for site in own if site.copies > 1]
        if not several:
            _refuse(own, scope, depth)
        time = max((site.begin for site in several), key=lambda time: needed(own, time))
        largest = max((s for s in several if s.begin <= time <= s.end), key=lambda site: site.size)
        if guests := [site for site in sites if site.within is largest]:
            own += guests
            for site in guests:
                site.within = None
        else:
            largest.copies = target.copies if largest.copies > target.copies else 1
    places = [site.base for site in own]
    if not _lay_apart(own, depth):
        for site, base in zip(own, places, strict=True):
            site.base = base


def _refuse(sites: Sequence[Site], scope: str, depth: int) -> NoReturn:
    worst = max((site.begin for site in sites), key=lambda time: needed(sites, time))
    at_once = [site for site in sites if site.begin <= worst <= site.end]
    names = ", ".join(f"{site.names[0]} ({site.size})" for site in at_once)
    raise VtaError(f"the {scope} scratchpad holds {depth} elements, but {names} need {sum(s.size for s in at_once)} at once: "
                   "split the loops into smaller tiles, or compute a stage at an inner loop")


def needed(sites: Sequence[Site], time: int) -> int:
    """Return the elements that sites need at a time, with all their copies."""
    return sum(site.size * site.copies for site in sites if site.begin <= time <= site.end)


def _lay(sites: Sequence[Site], *, share: bool) -> int:
    """Lay sites one after another, or where others are not needed at the same time; returns the elements used."""
    placed: list[Site] = []
    for site in _by_time(sites):
        site.base = next(_free(site, [o for o in placed if not share or _at_once(o, site)], {0, *(o.bound for o in placed)}))
        placed.append(site)
    return max((site.bound for site in sites), default=0)


def _lay_apart(sites: Sequence[Site], depth: int) -> bool:
    """Place each site in the least recently used elements, and return whether all fit.

    A LOAD waits for the last use of the elements that it overwrites. If that is long ago, it runs beside the products of the
    operator before.
    """
    placed: list[Site] = []
    for site in _by_time(sites):
        size, taken = site.size * site.copies, [o for o in placed if _at_once(o, site)]
        starts = {0, depth - size, *(at for o in placed for at in (o.bound, o.base - size))}
        free = list(_free(site, taken, {at for at in starts if 0 <= at <= depth - size}))
        if not free:
            return False
        site.base = min(free, key=lambda at: max([o.end for o in placed if o.meets(at, at + size)], default=-1))
        placed.append(site)
    return True


def _by_time(sites: Sequence[Site]) -> list[Site]:
    return sorted(sites, key=lambda site: (site.begin, -site.size))


def _at_once(one: Site, other: Site) -> bool:
    return one.begin <= other.end and other.begin <= one.end


def _free(site: Site, taken: Sequence[Site], starts: Iterable[int]) -> Iterator[int]:
    """Yield the places for a site that meet none that is taken, lowest first."""
    size = site.size * site.copies
    return (at for at in sorted(starts) if not any(o.meets(at, at + size) for o in taken))
