"""Sizes of inputs on the command line: --shape, --batch and --ahead."""

import argparse
from collections.abc import Sequence
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.runtime.commands._arguments import number


def shapes_of(words: list[str], ahead: Sequence[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Return the shapes that --shape gives, with sizes that stay open, some of which --ahead names values of."""
    from vtakit.runtime.stages.dims import Dim, dim

    known = _values_ahead(ahead)
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
        found[name] = tuple([
            dim(each.name, each.low, each.high, ahead=known.get(each.name, ())) if isinstance(each, Dim) else each
            for each in made
        ])
    words_ = {size.name for shape in found.values() for size in shape if isinstance(size, Dim)}
    if others := sorted(known.keys() - words_ - {"batch"}):
        raise VtakitError(f"--ahead names {others[0]!r}, which --shape does not: give --shape NAME=…,{others[0]},…")
    return found


def batch_of(given: Any, ahead: Sequence[str]) -> Any:
    """Return the batch that --batch gives, with the values of --ahead batch=…"""
    from vtakit.runtime.stages.dims import Dim, dim

    if not isinstance(given, Dim):
        return given
    return dim(given.name, given.low, given.high, ahead=_values_ahead(ahead).get(given.name, ()))


def _values_ahead(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, _, values = word.partition("=")
        numbers = [part.strip() for part in values.split(",")]
        if not name or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in numbers):
            raise VtakitError(f"--ahead takes WORD=N,N,…, got {word!r}")
        found[name] = tuple(map(int, numbers))
    return found


def _size(text: str) -> Any:
    """Return the number or the size that stays open that a part of --shape names; None if it is neither."""
    from vtakit.runtime.stages.dims import dim

    if text.isascii() and text.isdigit():
        return int(text)
    name, colon, ends = text.partition(":")
    low, dots, high = ends.partition("..")
    if not name.isidentifier() or (colon and not (dots and low.isdigit() and (not high or high.isdigit()))):
        return None
    return dim(name, int(low or 0), int(high) if high else None)


def read_batch(text: str) -> Any:
    if ".." not in text:
        return number(text)
    found = _size(f"batch:{text}")
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither a number nor a range such as 1..64")
    return found
