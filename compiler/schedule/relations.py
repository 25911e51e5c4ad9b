"""Parts of a stage's loops: derivations of axes, the stage's place, marks of loops."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar

NO_PRAGMAS: Mapping[str, Any] = {}


class Split(NamedTuple):
    """``parent = outer * extent(inner) + inner``; one of `factor` (inner's extent) and `nparts` (outer's) is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None


class Fuse(NamedTuple):
    """``fused = outer * extent(inner) + inner``."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


class Singleton(NamedTuple):
    """An axis of extent 1 that comes from none."""

    iter: IterVar


Relation = Split | Fuse | Singleton


class AttachKind(Enum):
    """Place of a stage's loops."""

    ROOT = "root"  # on their own, where the stage's group stands
    INLINE = "inline"  # nowhere: readers compute the element
    SCOPE = "scope"  # within a loop of another stage
    SCAN = "scan"  # the update of a scan: within the scan's loop


class Attach(NamedTuple):
    """The place of a stage.

    stage : for SCOPE and SCAN the label of the stage within whose loop it stands; labels stay when a schedule is copied
    axis  : that loop
    """

    kind: AttachKind
    stage: str = ""
    axis: IterVar | None = None


AT_ROOT, INLINED = Attach(AttachKind.ROOT), Attach(AttachKind.INLINE)


class Mark(Enum):
    """Way in which a loop runs."""

    SERIAL = "serial"
    UNROLLED = "unrolled"
    VECTORIZED = "vectorized"
    PARALLEL = "parallel"
    TENSORIZED = "tensorized"


class Prefetch(NamedTuple):
    """``tensor`` of `offset` iterations ahead is fetched."""

    tensor: Any
    offset: Expr


class Notes(NamedTuple):
    """Marks of a leaf axis.

    thread : the thread axis that it is bound to
    intrin : for `Mark.TENSORIZED` the intrinsic
    """

    mark: Mark = Mark.SERIAL
    thread: IterVar | None = None
    pragmas: Mapping[str, Any] = NO_PRAGMAS
    prefetches: tuple[Prefetch, ...] = ()
    intrin: Any = None


PLAIN = Notes()


class Align(NamedTuple):
    """The stride of a dimension is ``factor * n + offset`` elements for some n."""

    factor: int
    offset: int
