"""A digest inside a network's machine code of what that code assumes about its callers.

A module file's JSON header has the shapes of arrays, the sizes of memory and the processor's features. Code that is called with
other sizes reads and writes beyond its arrays. So the compiler stores a hash of these as a constant in the code, and the loader
compares it. The digest detects damage and mix-ups; it does not show who made the code.
"""

import hashlib
import json
from collections.abc import Sequence

from vtakit.compiler.codegen.llvm.target import Target

MANIFEST_BYTES = hashlib.sha256().digest_size
_VERSION = 1


def manifest_symbol(name: str) -> str:
    """Return the name of the constant in the code of the network `name`."""
    return f"{name}_manifest"


def digest(
    target: Target, name: str, reads: Sequence[object], writes: Sequence[object], *, params_bytes: int, arena_bytes: int,
    steps: int, messages: Sequence[str], outside: Sequence[str],
) -> bytes:
    """Return the SHA-256 of what a network's code assumes.

    reads, writes : types of its arguments; their text has shape and element type
    steps         : steps of its second function
    messages      : of its statuses
    outside       : C functions that it calls
    """
    text = json.dumps([
        _VERSION, target.triple, target.cpu, list(target.features), target.contract, target.threads, name,
        [str(each) for each in reads], [str(each) for each in writes], params_bytes, arena_bytes, steps, list(messages),
        list(outside), *([] if target.machine is None else [target.machine.to_dict()]),
    ], separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
