"""JSON of strangers: bounds on size and nesting, and errors that are one sentence."""

import json
import re
from collections.abc import Callable
from typing import Any

from vtakit.hw.isa.limits import MAX_NESTING, LimitError

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def read_json(
    data: bytes | str, *, most_bytes: int, what: str = "it", pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Return the value of JSON text.

    most_bytes : limit on the text
    what       : the text in messages
    pairs      : makes an object of its keys and values; a dict by default

    Raises ValueError, of which LimitError is one, with the reason; never RecursionError.
    """
    text = data.encode() if isinstance(data, str) else data
    if len(text) > most_bytes:
        raise LimitError(f"{what} has {len(text):,} bytes; the limit is {most_bytes:,} (docs/files.md)")
    if _is_deep(text):
        raise LimitError(f"{what} is nested deeper than the limit, {MAX_NESTING} levels (docs/files.md)")
    return json.loads(text.decode(), object_pairs_hook=pairs)


def _is_deep(text: bytes) -> bool:
    """Return whether brackets are nested deeper than the limit.

    Each round removes the innermost pairs, so that no loop in Python runs over the text. Brackets that stay open count too.
    """
    brackets = _STRING.sub(b"", text).translate(None, delete=_NOT_BRACKETS)
    for _ in range(MAX_NESTING):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return brackets.count(b"[") + brackets.count(b"{") > MAX_NESTING or (b"[]" in brackets or b"{}" in brackets)
