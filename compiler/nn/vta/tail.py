"""The stages from accumulators to what is stored: an epilogue as tensor expressions, and its schedule."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.requant import looked_up, requantized
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.values import int_value, wrap
from vtakit.compiler.nn.vta.arguments import check_schedule
from vtakit.compiler.nn.vta.epilogue import Epilogue, axes, made, shape_of, times, widened
from vtakit.compiler.nn.vta.lifted import Lifted
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.language import thread_axis
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import REQUANT_WORDS, Feature


class Residual(NamedTuple):
    """A residual as accumulators [images, out blocks, rows, columns, batch, block], loaded and scaled.

    lifted : the products that bring it there, where loads cannot
    """

    loaded: Tensor
    scaled: Tensor
    lifted: Lifted | None = None

    @classmethod
    def of(cls, target: Target, name: str, epilogue: Epilogue) -> "Residual | None":
        """Return the one that an epilogue adds. Raises VtaError where a configuration cannot load it."""
        if epilogue.add is None:
            return None
        given, called, by, lifted = epilogue.add, f"{name}_{epilogue.add.name}", epilogue.add_scale, None
        if target.has(Feature.ACC_8BIT) or epilogue.identity is None:
            loaded = widened(target, given, called)
        else:
            window = made(given.shape, lambda *at: given[at], f"{called}_window")
            lifted = Lifted(target=target, shape=tuple(shape_of(window)), window=window, weights=epilogue.identity, name=called,
                            read=lambda *at: window[*at[:-3], at[-1]])  # of an index without its lane, a tap, and a lane
            loaded = lifted.accumulators
        if by is None:
            return cls(loaded, loaded, lifted)
        return cls(loaded, made(
            loaded.shape,
            lambda n, o, *at: times(target, loaded(n, o, *at), by[o, at[-2], at[-1]] if isinstance(by, Tensor) else by),
            f"{called}_scaled"), lifted)


class Loops(NamedTuple):
    """The result's stage, and of its loops that over output blocks, the innermost over tiles, and the innermost over strips.

    strip : the loop over tiles, if a tile is computed at once
    """

    out: Stage
    blocks: IterVar
    tile: IterVar
    strip: IterVar


@dataclass(frozen=True, eq=False, kw_only=True)
class Tail:
    """The stages from accumulators to what is stored.

    sums   : acc type [images, groups, out blocks, rows, columns, batch, block]
    residual : what the epilogue adds
    begun    : whether the sums began with it, so that nothing is added after them
    phases : (down, across) where the groups are phases of each group: parts of one result that lie between each other
    by_phase : whether the requantization has numbers for each phase, one phase's channels in whole blocks after another's
    between : whether REQUANTs go among the products of their tile and the next
    blocks_first : sums is [out blocks, groups, images, …], so that one REQUANT stores all images of a block
    """

    target: Target
    name: str
    epilogue: Epilogue
    sums: Tensor
    phases: tuple[int, int] | None = None
    blocks_first: bool = False
    residual: Residual | None = None
    begun: bool = False
    by_phase: bool = False
    between: bool = False
    widened: dict[Tensor, Tensor] = field(default_factory=dict)

    def _order(self, at: Sequence[Any]) -> tuple[Any, ...]:
        """Dimensions of `sums` as those of its plain order, or the other way round."""
        return (at[2], at[1], at[0], *at[3:]) if self.blocks_first else tuple(at)

    def _block(self, at: Sequence[Expr]) -> Expr:
        """The block of output channels of an accumulator."""
        per_group = int(self._order(shape_of(self.sums))[2])
        if self.phases is None:
            return at[1] * per_group + at[2]
        return at[2] if self._groups == 1 else at[1] // prod(self.phases) * per_group + at[2]

    def _numbers(self, at: Sequence[Expr]) -> Expr:
        """The block of the requantization's numbers for an accumulator."""
        block = self._block(at)
        if not self.by_phase or self.phases is None:
            return block
        return at[1] % prod(self.phases) * (self._groups * int(self._order(shape_of(self.sums))[2])) + block

    @property
    def _groups(self) -> int:
        """Groups, of which each may have phases."""
        return int(self._order(shape_of(self.sums))[1]) // (prod(self.phases) if self.phases is not None else 1)

    @property
    def _on_store(self) -> bool:
        """Return whether REQUANT stores the result."""
        return self.epilogue.requantize is not None and self.epilogue.requantize.on_store

    @property
    def passes(self) -> int:
        """Cycles for each accumulator beside the products: of the ALU's steps, and of a reset where products cannot overwrite."""
        cycles = self.epilogue.passes + self.epilogue.multiplications * (self.target.params.mul_passes - 1)
        if self.begun:  # neither an addition nor a reset
            return cycles - 1
        return cycles + (not self.target.has(Feature.OVERWRITE))

    @cached_property
    def finished(self) -> Tensor:
        """The accumulators after the epilogue's ALU passes; `sums` where there are none."""
        e = self.epilogue
        for tensor in e.elements:
            if self.residual is not None and tensor is e.add:
                self.widened[tensor] = self.residual.loaded
            else:
                self.widened[tensor] = widened(self.target, tensor, f"{self.name}_{tensor.name}")
        before = 1 + (e.add_scale is not None) if self.begun else 0
        if e.passes == before:
            return self.sums
        return made(self.sums.shape, self._value, f"{self.name}_finished")

    def _value(self, *at: Expr) -> Expr:
        plain = n, g, _, y, x, b, k = self._order(at)
        block = self._block(plain)

        def element(of: Any) -> Any:
            if self.phases is not None:
                phase = g if self._groups == 1 else g % prod(self.phases)
                return of[n, block, y, phase // self.phases[1], x, phase % self.phases[1], b, k]
            return of[n, block, y, x, b, k]

        def read(of: Tensor | int) -> Any:
            if not isinstance(of, Tensor):
                return of
            return of[block, b, k] if of.ndim == 3 else element(self.widened[of])
        e = self.epilogue
        value: Expr = self.sums(*at)
        if e.bias is not None:
            value = value + read(e.bias)
        if e.scale is not None:
            value = times(self.target, value, read(e.scale))
        if e.shift is not None:
            value = value >> read(e.shift)
        if self.residual is not None and not self.begun:
            value = value + element(self.residual.scaled)
        if e.low is not None:
            value = maximum(value, e.low)
        if e.high is not None:
            value = minimum(value, e.high)
        if e.requantize is None or e.requantize.on_store:
            return value
        by, plus, shift = (e.requantize.parameters[self._numbers(plain), word, b, k] for word in range(REQUANT_WORDS))
        if e.requantize.multiplies:
            value = value * by
        low, high = e.requantize.clip
        one = e.requantize.one_shift
        return minimum(maximum(value + plus >> (shift if one is None else one), low), high)

    def _stored(self, *at: Expr) -> Expr:
        """Return the element that is stored for an accumulator."""
        value: Expr = self.finished(*self._order(at))
        requantize = self.epilogue.requantize
        if requantize is not None and requantize.on_store:
            words = [requantize.parameters[self._numbers(at), word, at[-2], at[-1]] for word in range(REQUANT_WORDS)]
            value = requantized(self.target.config, value, words)
            if requantize.table is not None:
                value = looked_up(value, lambda word, row, column: requantize.parameters[
                    self._numbers(at), word + REQUANT_WORDS, row, column], *self.target.element("acc"))
        return value.astype(self.target.dtype("out"))

    @cached_property
    def result(self) -> Tensor:
        """Return the stored tensor.

        With groups it is [images, groups, out blocks, …], which lies in memory as without them;
        with phases [images, out blocks, rows, phases down, columns, phases across, batch, block], and groups as without phases.
        """
        shape = self._order(self.sums.shape)
        if self.phases is not None and self._groups > 1:
            down, across = self.phases
            return made(
                (shape[0], self._groups, shape[2], shape[3], down, shape[4], across, *shape[5:]),
                lambda n, g, o, y, py, x, px, b, k: self._stored(n, (g * down + py) * across + px, o, y, x, b, k), self.name,
            )
        if self.phases is not None:
            down, across = self.phases
            return made(
                (shape[0], shape[2], shape[3], down, shape[4], across, *shape[5:]),
                lambda n, o, y, py, x, px, b, k: self._stored(n, py * across + px, o, y, x, b, k), self.name,
            )
        if int_value(shape[1]) != 1:
            return made(shape, self._stored, self.name)
        return made((shape[0], *shape[2:]), lambda n, *at: self._stored(n, wrap(0), *at), self.name)

    def tile(self, s: Schedule, sizes: Sequence[int], threads: int = 1, strip: int | None = None) -> Loops:
        """Split the result into tiles of so many images, blocks, rows and columns, and place what is computed for each.

        threads : virtual threads that share the tiles, of the first of blocks, rows, columns and images that has as many
        strip   : rows of a tile that are computed and stored at once; None for all

        Raises VtaError if no dimension has so many tiles.
        """
        check_schedule(self.name, s)
        out = s[self.result]
        if self.phases is None:
            n, *g, o, y, x, b, k = axes(out)
        else:
            n, *g, o, y, py, x, px, b, k = axes(out)
            g += [py, px]
        strip = sizes[2] if strip is None else strip
        split = [out.split(axis, size) for axis, size in zip((n, o, y, x), (*sizes[:2], strip, sizes[3]), strict=True)]
        outer, inner = [pair[0] for pair in split], [pair[1] for pair in split]
        if strip < sizes[2]:
            tiles, strips = out.split(outer[2], -(-sizes[2] // strip))
            outer[2:] = tiles, outer[3], strips
        if threads > 1:
            whole = [int_value(axis.dom.extent) or 1 for axis in (n, o, y, x) if axis.dom is not None]
            counts = [-(-extent // size) for extent, size in zip(whole, sizes, strict=True)]
            along = next((at for at in (1, 2, 3, 0) if counts[at] >= threads), None)
            if along is None:
                raise VtaError(f"{self.name}: {threads} virtual threads, and no dimension has more than {max(counts)} tiles: "
                               "give fewer threads, or a cut of smaller tiles")
            thread, outer[along] = out.split(outer[along], nparts=threads)
            out.bind(thread, thread_axis("cthread"))
            g = [thread, *g]
        out.reorder(*g, outer[1], outer[0], *outer[2:], *inner, b, k)
        e, added = self.epilogue, self.residual
        residual = () if added is None else (added.scaled, added.loaded)
        for tensor in dict.fromkeys((self.finished, self.sums, *self.widened.values(), *residual)):
            s[tensor].set_scope("acc")
            s[tensor].compute_at(out, outer[-1])
        if added is not None and added.lifted is not None:
            added.lifted.schedule(s, out, outer[-1])
        readers = {vector: added.scaled if added is not None and vector is e.add_scale else self.finished for vector in e.vectors}
        if e.requantize is not None:
            readers[e.requantize.parameters] = self.result if self._on_store else self.finished
        for tensor, reader in readers.items():
            s[s.cache_read(tensor, "acc", [reader])].compute_at(out, outer[1])
        if self._on_store:
            table = e.requantize is not None and e.requantize.table is not None
            target = self.target
            plain, apart = (target.requant_lookup, target.requant_lookup_between) if table else (
                target.requant, target.requant_between)
            out.tensorize(b, apart if self.between else plain)
        return Loops(out, outer[1], outer[3], outer[-1])
