"""Names that a trace can use: Python identifiers, no two alike."""

import keyword
import re
from collections.abc import Container


def distinct(name: str, taken: Container[str]) -> str:
    """An identifier like `name` that is not taken: ``i``, ``i_1``, ``i_2`` …"""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not base or base[0].isdigit():
        base = f"v{base}"
    if keyword.iskeyword(base):
        base += "_"
    found, count = base, 0
    while found in taken:
        count += 1
        found = f"{base}_{count}"
    return found
