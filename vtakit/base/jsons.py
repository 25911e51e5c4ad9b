"""JSON of strangers: limits on size, number of values and nesting, and errors that are one sentence."""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.base.limits import MAX_CONFIG_BYTES, MAX_JSON_VALUES, MAX_NESTING, LimitError, check_limit
from vtakit.base.reading import read_bytes

_NO_MARKS = bytes(sorted(set(range(256)) - set(b'[]{},"')))
_STRING = re.compile(rb'"[^"]*"?')  # an open one reaches to the end, so that each byte is looked at once
_MOST_DIGITS = 4000  # of an integer: int() takes 4,300
_CHUNK_BYTES = 1 << 20  # in which strings are removed; each string of a chunk takes 100 bytes of memory meanwhile


def read_json(
    data: bytes | str, *, most_bytes: int, what: str = "it", pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Return the value of JSON text.

    most_bytes : limit on the text
    what       : the text in messages
    pairs      : makes an object of its keys and values; by default a dict, and a key that stands twice is refused

    Raises ValueError, of which LimitError is one, with the reason; never RecursionError.
    """
    text = data.encode() if isinstance(data, str) else data
    if len(text) > most_bytes:
        raise LimitError(f"{what} has {len(text):,} bytes; the limit is {most_bytes:,} (docs/files.md)")
    structure = _structure(text, what)
    check_limit(1 + sum(map(structure.count, (b",", b"[", b"{"))), MAX_JSON_VALUES, f"the number of values of {what}")
    if _is_deep(structure.translate(None, delete=b",")):
        raise LimitError(f"{what} is nested deeper than the limit, {MAX_NESTING} levels (docs/files.md)")
    return json.loads(text.decode("utf-8-sig"), object_pairs_hook=pairs or _once, parse_int=partial(_integer, what=what))


def read_object(path: str | Path, what: str, fields: Iterable[str], error: type[VtakitError]) -> dict[str, Any]:
    """Return the object that a small JSON file holds.

    what   : the file in messages
    fields : of such an object, for the message about a file that holds something else

    Raises `error` for a file that cannot be read, is no JSON, or holds no object.
    """
    where = f"{what} {str(path)!r}"
    data = read_bytes(path, what, MAX_CONFIG_BYTES, error=error)
    try:
        found = read_json(data, most_bytes=MAX_CONFIG_BYTES)
    except ValueError as reason:
        raise error(f"cannot read {where}: {reason}") from None
    if not isinstance(found, dict):
        raise error(f"{where} has no object of fields: {', '.join(fields)}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of some keys and values. Raises ValueError for a key that stands twice: one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r:.80} stands twice in an object")
    return found


def _integer(digits: str, what: str) -> int:
    check_limit(len(digits), _MOST_DIGITS, f"the number of digits of an integer of {what}")
    return int(digits)


def _structure(text: bytes, what: str) -> bytes:
    """Return the brackets and commas outside of strings. A text that is no JSON has the right ones up to its first mistake."""
    marks = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, delete=_NO_MARKS)
    check_limit(marks.count(b'"') // 4, MAX_JSON_VALUES, f"the number of values of {what}")  # one has a key and a text at most
    kept, begin = [], b""
    for at in range(0, len(marks), _CHUNK_BYTES):
        chunk = begin + marks[at:at + _CHUNK_BYTES]
        kept.append(_STRING.sub(b"", chunk))
        begin = b'"' * (chunk.count(b'"') % 2)
    return b"".join(kept)


def _is_deep(brackets: bytes) -> bool:
    """Return whether brackets are nested deeper than the limit.

    Each round removes the innermost pairs, so that no loop in Python runs over the text. Brackets that stay open count too.
    """
    for _ in range(MAX_NESTING):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return brackets.count(b"[") + brackets.count(b"{") > MAX_NESTING or (b"[]" in brackets or b"{}" in brackets)
