"""Buffers in the scratchpads: when each is needed, and how many copies of it there should be."""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from vtakit.compiler.codegen.vta.alu import passes
from vtakit.compiler.codegen.vta.errors import UnfitError, VtaError
from vtakit.compiler.codegen.vta.places import Site, needed, pack
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.codegen.vta.tree import Branch, Let, Loop, Memory, Nest, Node, Row
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.passes.affine import linear
from vtakit.hw.isa.insns import Feature

MORE = 2  # times as many copies of what a chunk loads, where products wait for its weights


class _Touch(NamedTuple):
    time: int
    loops: tuple[Loop, ...]
    nest: Nest


def place(root: Node, target: Target) -> dict[Var, Site]:
    """A site for each buffer in a scratchpad, by the buffer's `data`.

    A buffer whose values are made element by element of another one's last use takes its place, since an ALU instruction
    writes to its first operand. What is allocated within loops has copies, so that one is filled while others are used. Weights
    that arrive more slowly than their products run have more copies, and so has the data loaded beside them: their loads begin
    while the products of an operator before leave time on the bus. Where the scratchpad is too small, memory that is not needed
    at once is shared, and then of the largest buffers that are needed at once there are fewer copies.

    Raises VtaError if that is still too much.
    """
    walk = _Walk(target)
    walk.node(root, ())
    walk.adopt()
    walk.set_copies()
    if target.has(Feature.POOL):
        walk.place_maxima()
    sites = list(dict.fromkeys(walk.sites.values()))
    for scope in target.scopes:
        pack([site for site in sites if site.scope == scope], scope, target)
    return walk.sites


class _Walk:
    """The order in which buffers are touched."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.sites: dict[Var, Site] = {}
        self.buffers: dict[Var, Buffer] = {}
        self.touches: dict[Var, list[_Touch]] = {}
        self.spans: dict[Loop, tuple[int, int]] = {}
        self.time = 0

    def node(self, node: Node, loops: tuple[Loop, ...]) -> None:
        self.time += 1
        match node:
            case Nest():
                for data in dict.fromkeys(buffer.data for buffer in node.touched()):
                    self.touches.setdefault(data, []).append(_Touch(self.time, loops, node))
            case Row():
                for part in node.parts:
                    self.node(part, loops)
            case Loop():
                first = self.time
                self.node(node.body, (*loops, node))
                self.time += 1
                self.spans[node] = first, self.time
            case Branch():
                self.node(node.then, loops)
                self.node(node.otherwise, loops)
            case Let():
                self.node(node.body, loops)
            case Memory():
                if node.buffer.scope in self.target.scopes:
                    self.sites[node.buffer.data] = self._site(node.buffer, loops)
                    self.buffers[node.buffer.data] = node.buffer
                elif node.buffer.scope != "global":
                    raise VtaError(f"{node.buffer.name} is in the scope {node.buffer.scope!r}, which the accelerator does not "
                                   f"have: use {', '.join(self.target.scopes)}, or none for DRAM")
                self.node(node.body, loops)

    def _site(self, buffer: Buffer, loops: tuple[Loop, ...]) -> Site:
        values, lanes = int_value(buffer.shape[0]), self.target.lanes(buffer.scope)
        if values is None:
            raise VtaError(f"{buffer.name} in {buffer.scope} has {buffer.shape[0]} values, which is not known when the program "
                           "is made: give its sizes as numbers")
        if values % lanes:
            shape = self.target.element(buffer.scope)
            raise VtaError(f"{buffer.name} in {buffer.scope} has {buffer.shape[0]} values, no whole elements of {lanes}: "
                           f"let its last two dimensions be those of an element, {shape}")
        return Site(buffer.scope, values // lanes, loops, [buffer.name])

    def adopt(self) -> None:
        """Work out when each site is needed, and let buffers take over the places of those that they are made of."""
        for data, site in self.sites.items():
            for touch in self.touches.get(data, ()):
                within = touch.loops[len(site.loops):]
                begin, end = self.spans[within[0]] if within else (touch.time, touch.time)
                site.begin = begin if site.begin < 0 else min(site.begin, begin)
                site.end = max(site.end, end)
        made = sorted(self.sites, key=lambda data: self.sites[data].begin)
        for data in made:
            touches = self.touches.get(data)
            if touches and isinstance(touches[0].nest.leaf, st.Store) and touches[0].nest.leaf.buffer.data is data:
                self._take_over(data, touches[0])

    def set_copies(self) -> None:
        """Set how many copies of each site there should be."""
        weights = [(data, site) for data, site in self.sites.items() if site.scope == "wgt"]
        first = min([site.end for _, site in weights], default=0)  # of the program's operators: no bus time is left before it
        slow = {site.loops for data, site in weights if site.begin > first and self._is_slow(data, site)}
        for site in self.sites.values():
            more = MORE if site.scope != "acc" and site.loops in slow and self.target.copies > 1 else 1
            site.copies = more * self.target.copies if site.loops else 1

    def place_maxima(self) -> None:
        """Place maxima in the next copy of their accumulators where ACC is full, since a REQUANT with windows does not read them.

        The program is also right if `stored_maxima` leaves them to the ALU: then the next tile's products wait for the store.
        """
        every = [site for site in dict.fromkeys(self.sites.values()) if site.scope == "acc"]
        for data, site in self.sites.items():
            if site.scope == "acc" and needed(every, site.begin) > self.target.depth("acc"):
                site.within = self._maxima_of(data, site)
                if site.within is not None:
                    site.within.end = max(site.within.end, site.end)

    def _maxima_of(self, data: Var, mine: Site) -> Site | None:
        """Return the site of the accumulators whose maxima a buffer holds, if its next copy has room for them."""
        for touch in self.touches.get(data, ()):
            leaf = touch.nest.leaf
            if isinstance(leaf, st.Store) and leaf.buffer.data is data and isinstance(leaf.value, ir.Max):
                read = {load.buffer.data for load in seeds(leaf.value)} - {data}
                of = self.sites.get(read.pop()) if len(read) == 1 else None  # a sum of two that is clipped is no maximum
                if of is not None and of is not mine and (of.scope, of.loops) == (mine.scope, mine.loops) and (
                        of.copies > 1 and of.size >= mine.size):
                    return of
        return None

    def _is_slow(self, data: Var, site: Site) -> bool:
        """Return whether weights take longer to load than the products take that read them."""
        steps = 0
        for touch in self.touches.get(data, ()):
            if isinstance(touch.nest.leaf, st.Evaluate):
                extents = [loop.extent for loop in touch.loops[len(site.loops):]] + [extent for _, extent in touch.nest.loops]
                steps += prod([int_value(extent) or 1 for extent in extents])
        return 0 < steps < site.size * self.target.config.wgt_bytes / self.target.system.bytes_a_cycle

    def _take_over(self, data: Var, touch: _Touch) -> None:
        leaf, mine = touch.nest.leaf, self.sites[data]
        assert isinstance(leaf, st.Store)
        for load in seeds(leaf.value):
            old = self.sites.get(load.buffer.data)
            if old is None or old is mine or (old.scope, old.size, old.loops) != (mine.scope, mine.size, mine.loops):
                continue
            uses, within = self.touches[load.buffer.data], touch.loops[len(mine.loops):]
            again = within and any(within[0] in use.loops for use in uses[:-1])  # in the next turn of a loop around both
            if uses[-1].nest is touch.nest and not again and _passable(leaf, load):
                old.end = max(old.end, mine.end)
                old.names += mine.names
                self.sites[data] = old
                return


def _passable(leaf: st.Store, seed: Load) -> bool:
    """Return whether the ALU can make a value in place of a load: it is at the same index, and whole until it is last read."""
    own = linear(leaf.indices[0])

    def is_own(load: Load) -> bool:
        return load.buffer.data is seed.buffer.data and linear(load.indices[0]) == own
    try:
        others = [one.load for one in passes(leaf.value, is_own) if one.load is not None and not is_own(one.load)]
    except UnfitError:
        return False
    return is_own(seed) and all(load.buffer.data is not seed.buffer.data for load in others)


def seeds(value: Expr) -> Iterable[Load]:
    """The loads that may stand first in the chain of operations that an expression is."""
    match value:
        case Load():
            yield value
        case ir.Cast():
            yield from seeds(value.value)
        case ir.Add() | ir.Mul() | ir.Min() | ir.Max():
            yield from seeds(value.a)
            yield from seeds(value.b)
        case ir.Sub():
            yield from seeds(value.b)  # first, as negated and added to it takes fewest passes
            yield from seeds(value.a)
        case ir.ShiftLeft() | ir.ShiftRight():
            yield from seeds(value.a)
