"""What machine code of a network assumes about its callers, as a digest inside the code itself.

A module file says the shapes of arrays, the sizes of memory and the processor's features in a header of JSON. Code that is called
with other sizes than it was made for reads and writes beyond its arrays. So the compiler hashes them into a constant of the
code, and who loads the code compares. The digest guards against damage and mix-ups; it does not say who made the code.
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
        list(outside),
    ], separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
