"""Sizes of inputs on the command line: --shape, --batch and --ahead."""

import argparse
from collections.abc import Sequence
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.runtime.commands._arguments import number

_MOST_DIGITS = 18


def sizes_of(words: Sequence[str], batch: Any, ahead: Sequence[str]) -> tuple[dict[str, tuple[Any, ...]], Any]:
    """Return the shapes of --shape and the batch of --batch; sizes that stay open have the values that --ahead names."""
    from vtakit.runtime.stages.dims import Dim, dim

    known, shapes = _values_ahead(ahead), shapes_of(words)
    named = {size.name for size in (*[size for shape in shapes.values() for size in shape], batch) if isinstance(size, Dim)}
    if others := sorted(known.keys() - named):
        name = others[0]
        raise VtakitError("--ahead names 'batch', which neither --shape nor --batch leaves open: give --batch 1..64, or --shape "
                          "NAME=batch,…" if name == "batch" else
                          f"--ahead names {name!r}, which --shape does not: give --shape NAME=…,{name},…")

    def with_values(size: Any) -> Any:
        return dim(size.name, size.low, size.high, ahead=known.get(size.name, ())) if isinstance(size, Dim) else size
    return {name: tuple(map(with_values, shape)) for name, shape in shapes.items()}, with_values(batch)


def shapes_of(words: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the shapes that --shape gives, with sizes that stay open."""
    found: dict[str, tuple[Any, ...]] = {}
    for word in words:
        name, equals, sizes = word.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes else []
        made = [_size(part) for part in parts]
        if not equals or not name or None in made:
            raise VtakitError("--shape takes NAME=N,N,…, in which a word as n, or n:1..512, is a size that stays open; got "
                              f"{word!r}")
        if name in found:
            raise VtakitError(f"--shape names {name!r} twice")
        found[name] = tuple(made)
    return found


def _values_ahead(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, _, values = word.partition("=")
        numbers = [part.strip() for part in values.split(",")]
        if not name or not all(map(_is_number, numbers)):
            raise VtakitError(f"--ahead takes WORD=N,N,…, got {word!r}")
        if name in found:
            raise VtakitError(f"--ahead names {name!r} twice: give all its values at once, as {name}=16,128")
        found[name] = tuple(map(int, numbers))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _size(text: str) -> Any:
    """Return the number or the size that stays open that a part of --shape names; None if it is neither."""
    from vtakit.runtime.stages.dims import dim

    if _is_number(text):
        return int(text)
    name, colon, ends = text.partition(":")
    low, dots, high = ends.partition("..")
    if not name.isidentifier() or (colon and not (dots and _is_number(low) and (not high or _is_number(high)))):
        return None
    return dim(name, int(low or 0), int(high) if high else None)


def read_batch(text: str) -> Any:
    if ".." not in text:
        return number(text)
    found = _size(f"batch:{text}")
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither a number nor a range such as 1..64")
    return found
