"""Numbers, arrays and targets that operators are given."""

from numbers import Integral
from typing import Any, TypeGuard

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.hw.isa.insns import Feature


def whole(what: str, given: Any, least: int | None = None, *, other: str = "") -> int:
    """A whole number, of NumPy's types too, as Python's. Raises VtaError for anything else.

    what  : how the message begins; other : what else it names that would do
    """
    if not isinstance(given, Integral) or (least is not None and given < least):
        enough = "" if least is None else f" of at least {least}"
        raise VtaError(f"{what} is {given!r:.40} and must be a whole number{enough}{other}")
    return int(given)


def check_array(what: str, given: Any, dims: str) -> None:
    """Raise VtaError unless it is an array with so many dimensions, named for the message."""
    if not isinstance(given, np.ndarray) or given.ndim != dims.count(",") + 1:
        have = f"of shape {given.shape}" if isinstance(given, np.ndarray) else f"{given!r:.40}"
        raise VtaError(f"{what} are {have} and must be an array [{dims}]")


def check_target(what: str, given: object) -> None:
    """Raise VtaError unless it is a target."""
    if not isinstance(given, Target):
        raise VtaError(f"{what}'s target is {given!r:.40} and must be what vta(...) makes")


def check_pairs(what: str, **pairs: object) -> None:
    """Raise VtaError unless each is (down, across), two numbers of at least 1."""
    for name, pair in pairs.items():
        if not _numbers(pair, 2) or min(pair) < 1:
            raise VtaError(f"{what}: {name} is {pair!r} and must be (down, across), at least 1 each")


def check_sizes(what: str, sizes: object) -> None:
    """Raise VtaError unless it is (images, blocks, rows, columns) of a tile, numbers of at least 1."""
    if not _numbers(sizes, 4) or min(sizes) < 1:
        raise VtaError(f"{what}: the sizes of a tile are {sizes!r:.60} and must be (images, blocks, rows, columns), at least "
                       "1 each")


def check_pad(what: str, pad: object) -> None:
    """Raise VtaError unless it is (above, below, left, right), numbers of at least 0."""
    if not _numbers(pad, 4) or min(pad) < 0:
        raise VtaError(f"{what}: pad is {pad!r} and must be (above, below, left, right), at least 0 each")


def _numbers(given: object, count: int) -> TypeGuard[tuple[int, ...]]:
    return isinstance(given, tuple) and len(given) == count and all(isinstance(number, Integral) for number in given)


def check_schedule(name: str, given: object) -> None:
    """Raise VtaError for what is no schedule."""
    if not isinstance(given, Schedule):
        raise VtaError(f"{name}: the schedule is {given!r:.40} and must be what te.create_schedule makes")


def check_fill(target: Target, what: str, pad: tuple[int, int, int, int], fill: object) -> None:
    """Raise VtaError unless the LOADs of a target pad with a value."""
    half, value = 1 << target.config.inp_bits - 1, whole(f"{what}: the value of the pads", fill)
    if not -half <= value < half:
        raise VtaError(f"{what}: the pads are {value}, and activations of this configuration are from {-half} to {half - 1}")
    if value and any(pad) and not target.has(Feature.PAD_VALUE):
        raise VtaError(f"{what}: the pads are {value}, and this device pads with zeros: put a pad before it, or choose a device "
                       "with the feature PAD_VALUE")
