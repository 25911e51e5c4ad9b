"""Limits of a device, to which the verifier holds programs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a device; None where there is none.

    threads       : of one block
    thread_extents: of one thread axis, by its tag: ``{"threadIdx.z": 64}``
    vector_bytes  : of one vectorised access
    scope_bytes   : of all memory of a scope that is in use at one time: ``{"shared": 48 << 10}``
    buffer_bytes  : of one buffer in a scope; for a target whose code generator lets several buffers share memory
    """

    threads: int | None = None
    thread_extents: Mapping[str, int] = field(default_factory=dict)
    vector_bytes: int | None = None
    scope_bytes: Mapping[str, int] = field(default_factory=dict)
    buffer_bytes: Mapping[str, int] = field(default_factory=dict)


NO_LIMITS = Limits()
