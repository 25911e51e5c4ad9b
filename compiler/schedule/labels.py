"""Names that a trace can use: dotted-free Python identifiers, no two alike."""

import keyword
import re
from collections.abc import Container


def distinct(name: str, taken: Container[str]) -> str:
    """An identifier like `name` that is not taken: ``i``, ``i_1``, ``i_2`` …"""
    base = name if name.isidentifier() and name.isascii() else "v" + re.sub(r"\W", "_", name, flags=re.ASCII)
    base = base.removeprefix("v") if base.removeprefix("v").isidentifier() else base
    if keyword.iskeyword(base):
        base += "_"
    found, count = base, 0
    while found in taken:
        count += 1
        found = f"{base}_{count}"
    return found
