"""Results that are the caller's own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def owned(results: Sequence[Any], given: Mapping[str, Any]) -> list[Any]:
    """Return results that share no memory with inputs, constants or each other."""
    return _apart(results, [x for value in given.values() for x in (value if isinstance(value, list) else [value])])


def _apart(results: Sequence[Any], taken: list[Any]) -> list[Any]:
    """Return results that share no memory with `taken`, to which they are added."""
    found = []
    for value in results:
        each = value
        if isinstance(value, list):
            each = _apart(value, taken)
        elif value is not None:
            array = np.asarray(value)
            shared = any(array is x or (isinstance(x, np.ndarray) and np.may_share_memory(array, x)) for x in taken)
            flags = array.flags
            each = array.copy() if shared or not flags.writeable or not flags.c_contiguous else array
            taken.append(each)
        found.append(each)
    return found
