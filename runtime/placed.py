"""Launches and copies of a network in module files."""

from collections.abc import Mapping, Sequence
from typing import Any

from vtakit.compiler.codegen.gpu.placed import Copy, PlacedLaunch, Scalar
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.fields import number, text

MOST_BLOCKS = {"x": 2**31 - 1, "y": 65535, "z": 65535}  # of a grid, as NVIDIA's devices have them; OpenCL's are at least those
MOST_THREADS = 4096  # of a block
_REGIONS = {region.value: region for region in Region}


def listed(each: PlacedLaunch | Copy) -> list[Any]:
    """Return a launch or copy as plain data."""
    if isinstance(each, Copy):
        return [[each.source.region.value, each.source.at], [each.to.region.value, each.to.at], each.size]
    args = [[arg.kind, arg.value] if isinstance(arg, Scalar) else [arg.region.value, arg.at] for arg in each.args]
    return [each.kernel, each.grid, each.block, args]


def parsed(given: Sequence[Any], limits: Mapping[Region, int]) -> PlacedLaunch | Copy:
    """Return the launch or copy that `listed` described.

    limits : of places in each region

    Raises VtakitError, ValueError, KeyError or TypeError for other data.
    """
    if len(given) == 3:
        source, to, size = given
        return Copy(_place(source, limits), _place(to, limits), number(size))
    kernel, grid, block, args = given
    x, y, z = (number(size, most + 1) for size, most in zip(grid, MOST_BLOCKS.values(), strict=True))
    across, down, deep = (number(size, MOST_THREADS + 1) for size in block)
    return PlacedLaunch(text(kernel), (x, y, z), (across, down, deep), tuple(
        _place(arg, limits) if arg[0] in _REGIONS else _scalar(arg) for arg in args))


def _place(given: Sequence[Any], limits: Mapping[Region, int]) -> Place:
    name, at = given
    region = _REGIONS[text(name)]
    return Place(region, number(at, limits[region]))


def _scalar(given: Sequence[Any]) -> Scalar:
    kind, value = given
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r:.40} is no number")
    return Scalar(str(dtype(text(kind))), value)
