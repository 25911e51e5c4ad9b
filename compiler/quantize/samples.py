"""The arrays that a model is calibrated on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import one_of
from vtakit.base.text import counted
from vtakit.compiler.frontend.npz import Header, read_npz
from vtakit.compiler.quantize.errors import QuantizeError

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Port:
    """An input of a model.

    shape : None for a size that is open
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Arrays for each input, whose first dimension counts samples; a run takes `batch` of them."""

    arrays: dict[str, Array]
    batch: int

    def __len__(self) -> int:
        """The number of runs."""
        return len(next(iter(self.arrays.values()))) // self.batch

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for at in range(len(self)):
            yield {name: array[at * self.batch:(at + 1) * self.batch] for name, array in self.arrays.items()}

    def first(self, runs: int) -> "Samples":
        """The samples of so many runs at most."""
        return Samples({name: array[:runs * self.batch] for name, array in self.arrays.items()}, self.batch)


def samples_of(
    given: "Mapping[str, Any] | npt.ArrayLike | str | Path", ports: Sequence[Port], what: str = "calibration",
) -> Samples:
    """Arrays by the names of the inputs, one array for a model of one input, or an .npz file of arrays.

    Raises QuantizeError for what does not fit the inputs, is empty, or has numbers that are not finite.
    """
    arrays = _arrays(given, ports, what)
    names = [port.name for port in ports]
    for name in arrays:
        if name not in names:
            raise QuantizeError(f"{what}: the model has no input {name!r}; {one_of(names, name)}")
    for port in ports:
        if port.name not in arrays:
            raise QuantizeError(f"{what} lacks the input {port.name!r}")
        _check(arrays[port.name], port, what)
    counts = {len(arrays[port.name]) for port in ports}
    if len(counts) > 1:
        listed = ", ".join(f"{port.name!r} {len(arrays[port.name])}" for port in ports)
        raise QuantizeError(f"{what}: the inputs have different numbers of samples: {listed}")
    batch = max([port.shape[0] or 1 for port in ports])
    count = counts.pop()
    if count % batch:
        raise QuantizeError(f"{what}: {count} samples are no whole number of the model's batches of {batch}")
    return Samples({port.name: arrays[port.name] for port in ports}, batch)


def _arrays(given: "Mapping[str, Any] | npt.ArrayLike | str | Path", ports: Sequence[Port], what: str) -> dict[str, Array]:
    if isinstance(given, str | Path):
        given = _read(Path(given), ports, what)
    if isinstance(given, Mapping):
        return {str(name): np.asarray(array) for name, array in given.items()}
    if len(ports) != 1:
        names = ", ".join(repr(port.name) for port in ports)
        raise QuantizeError(f"{what}: the model has {counted(len(ports), 'input')}; give a dict of arrays by their names: "
                            f"{names}")
    return {ports[0].name: np.asarray(given)}


def _read(path: Path, ports: Sequence[Port], what: str) -> dict[str, Array]:
    """Return the arrays of a file; one that fits no input has no data, and is refused for its name, shape or type."""
    known = {port.name: port for port in ports}

    def fits(name: str, header: Header) -> bool:
        port = known.get(name)
        return port is not None and header.dtype == np.dtype(port.dtype) and len(header.shape) == len(port.shape) and all(
            size in (None, have) for size, have in zip(port.shape[1:], header.shape[1:], strict=True))
    return read_npz(path, f"the {what}", fits, QuantizeError)


def _check(array: Array, port: Port, what: str) -> None:
    shown = ", ".join("samples" if not at else "?" if size is None else str(size) for at, size in enumerate(port.shape))
    head = f"{what}: input {port.name!r} is {port.dtype}[{shown}]"
    if array.dtype != np.dtype(port.dtype):
        raise QuantizeError(f"{head}, got {array.dtype}: convert it with .astype({port.dtype!r})")
    if array.ndim != len(port.shape) or any(
            size not in (None, have) for size, have in zip(port.shape[1:], array.shape[1:], strict=True)):
        raise QuantizeError(f"{head}, got the shape [{', '.join(map(str, array.shape))}]: the first dimension counts samples")
    if not array.size:
        raise QuantizeError(f"{head}, got the shape [{', '.join(map(str, array.shape))}], which is empty: give some samples")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        at = np.argwhere(~np.isfinite(array))[0].tolist()
        raise QuantizeError(f"{what}: input {port.name!r} has {array[tuple(at)]} at {at}: ranges need finite numbers")
