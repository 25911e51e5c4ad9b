"""Convolutions whose last block of output channels has lanes to spare: filled with pixels of the result, if that is faster."""

from dataclasses import replace

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import TensorType, Value
from vtakit.compiler.graph.vta.filling import Filling
from vtakit.compiler.graph.vta.made import Maker, identifier, packed_shape
from vtakit.compiler.graph.vta.unit import Build, Unit
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.pixels import Pixels, Spread2d
from vtakit.compiler.te.language import placeholder

ONE = (1, 1)
GAIN = 0.02  # from which on pixels are packed: the estimate does not know what lies between two layers


def filled(
    unit: Unit, target: Target, decisions: ModelDecisions, *, here: bool, later: bool, cpu: bool,
) -> Unit:
    """Return the unit with its last block filled with pixels, if that should be faster.

    here, later, cpu : whether units of its launch, units of later launches, and the CPU read its result

    Decisions: pixels, down and across, of the last block of a convolution's result.
    """
    filling = unit.filling
    if filling is None or unit.fold is not None or (later and not filling.whole):
        return unit
    spread = here or later
    data = placeholder(packed_shape(target, unit.data[0].type.shape), target.dtype("inp"), "data")

    def maker() -> Maker:
        return Maker(target, identifier(unit.name, unit.ops[0]))
    plain = filling.plain(maker(), data).cycles
    cycles = {ONE: int((1 - GAIN) * plain)}
    for pixels in filling.choices:
        try:
            made = filling.made(maker(), data, pixels, spread=spread)
            cycles[pixels.count] = sum(map(_cycles, made.layers.values()))
        except VtaError:
            continue
    default = min(cycles, key=lambda count: cycles[count])
    down, across = decisions.choose(unit.nodes, "pixels", [list(count) for count in cycles], list(default), filled)
    if (down, across) == ONE:
        return unit
    chosen = next(pixels for pixels in filling.choices if pixels.count == (down, across))
    build = _build(filling, chosen, spread=spread)
    if filling.whole and spread:
        return replace(unit, build=build)
    images, channels, *rest, batch, block = unit.packed.type.shape
    kind = unit.packed.type.dtype
    last = Value(f"{unit.packed.name}_rest", TensorType((images, 1, *chosen.packed, batch, block), kind))
    if filling.whole:
        return replace(unit, build=build, packed=last, count=chosen.count)
    main = Value(unit.packed.name, TensorType((images, channels - 1, *rest, batch, block), kind))
    return replace(unit, build=build, packed=main, rest=last, count=chosen.count, alone=unit)


def _build(filling: Filling, pixels: Pixels, *, spread: bool) -> Build:
    return lambda m, t, f: filling.made(m, t[0], pixels, spread=spread)


def _cycles(layer: Layer) -> int:
    assert isinstance(layer, Conv2d | Spread2d)
    return layer.cycles
