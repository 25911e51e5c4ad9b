"""State of the cycle model's blocks: registers by name, as a NumPy record for machine code or as plain objects."""

from types import SimpleNamespace
from typing import Any

import numpy as np

NONE = -1  # in a register for a number: there is none


def record(*registers: str, **parts: "np.dtype[Any] | int") -> "np.dtype[Any]":
    """Return the layout of a block's state: `registers` of int64; of `parts` a number is so many registers, a layout a block."""
    fields: list[tuple[Any, ...]] = [(name, "i8") for name in registers]
    fields += [(name, "i8", (part,)) if isinstance(part, int) else (name, part) for name, part in parts.items()]
    return np.dtype(fields, align=True)


def zeros(layout: "np.dtype[Any]", *, plain: bool = False) -> Any:
    """Return one state of a layout in a list or array, all zero: `zeros(layout)[0].register` is a register."""
    return [_blank(layout)] if plain else np.zeros(1, layout)


def _blank(layout: "np.dtype[Any]") -> Any:
    found = SimpleNamespace()
    assert layout.fields is not None
    for name in layout.fields:
        kind = layout.fields[name][0]
        setattr(found, name, _blank(kind) if kind.fields else [0] * kind.shape[0] if kind.shape else 0)
    return found


def as_array(layout: "np.dtype[Any]", values: Any) -> Any:
    """Return plain objects as an array of one state."""
    found = np.zeros(1, layout)
    _copy(values, found[0])
    return found


def _copy(values: Any, into: Any) -> None:
    for name in into.dtype.names:
        value = getattr(values, name)
        if isinstance(value, SimpleNamespace):
            _copy(value, into[name])
        else:
            into[name] = value
