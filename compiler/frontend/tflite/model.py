"""A TensorFlow Lite model as it is read: tensors and operators of its main subgraph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.ir import Array
from vtakit.compiler.ir.dtypes import DType


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a subgraph.

    shape  : its sizes; those that are open are 1, and in `open`
    kind   : its element type; None for one that vtakit does not have, which `type_name` says
    array  : the elements of a constant
    scales : float32, one, or one for each index of `axis`; empty for numbers that are not quantized
    zeros  : int64, as many
    """

    name: str
    shape: tuple[int, ...]
    open: tuple[int, ...]
    type_name: str
    kind: DType | None
    array: Array | None
    scales: npt.NDArray[np.float32]
    zeros: npt.NDArray[np.int64]
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator of a subgraph.

    op      : the name that the schema gives it, as "CONV_2D"; that of a custom operator behind "custom operator "
    inputs  : numbers of tensors; -1 for an optional one that is not given
    options : reads its options: the schema's class -> an object of it; that of an empty table where the file has none
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Callable[[str], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The main subgraph of a file.

    inputs, outputs : names and numbers of tensors
    """

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
