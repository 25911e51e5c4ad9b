"""Arguments of runs: arrays, numbers, and the error for those that do not fit."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError, one_of
from vtakit.base.text import counted
from vtakit.runtime.target import Array


class InputError(VtakitError, ValueError):
    """Inputs or outputs of a run that do not fit the model."""


def whole(given: object, otherwise: str) -> int:
    """A number as an int, of whatever integer type. Raises InputError, whose message is `otherwise` and the type, for others."""
    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given)
    raise InputError(f"{otherwise}, got {type(given).__name__}")


def check_threads(given: object) -> int | None:
    """A number of threads, or None. Raises InputError for anything else."""
    if given is None:
        return None
    count = whole(given, f"threads={given!r}: give a whole number, or None for OpenMP's own")
    if count < 1:
        raise InputError(f"threads={count}: a run uses at least 1")
    return count


def output_name(model: str, at: int | str, made: Sequence[str]) -> str:
    """Return the name of an output of a model's last run, given by number or name.

    made : names of the outputs, none before the first run

    Raises InputError if there was no run, or there is no such output.
    """
    if not made:
        raise InputError(f"model {model!r} has not run yet: call run first")
    if not isinstance(at, str):
        number = whole(at, f"get_output({at!r}): an output is a number or a name")
        if not 0 <= number < len(made):
            raise InputError(f"model {model!r} has {counted(len(made), 'output')}, numbered from 0; there is no output {number}")
        return made[number]
    if at not in made:
        raise InputError(f"model {model!r} has no output {at!r}; {one_of(made, at)}")
    return at


def as_array(name: str, what: str, kind: np.dtype[Any], given: Any) -> Array:
    """Return what offers an array by DLPack as one. Raises InputError, which says that the input is `what`."""
    if not hasattr(given, "__dlpack__"):
        raise InputError(f"input {name!r} is {what}, got {type(given).__name__}: use numpy.array(…, {kind.name!r})")
    try:
        return np.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # of a gradient's tensor, or of bfloat16
        raise InputError(f"input {name!r} is {what}, got a {type(given).__name__} that NumPy cannot read: "
                         f"{' '.join(str(error).split())}") from None


def some_array(shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Return random numbers from 0 to 1, the same ones for each call; zeros if they are integers."""
    if kind.kind in "biu":
        return np.zeros(shape, kind)
    return np.random.default_rng(0).random(shape).astype(kind)


def check_words(name: object, **flags: object) -> None:
    """Raise InputError for a name that is no string, and for what is neither true nor false."""
    if not isinstance(name, str | None):
        raise InputError(f"name={name!r}: give a string, or None for that of the file")
    for flag, given in flags.items():
        if not isinstance(given, bool):
            raise InputError(f"{flag}={given!r}: give True or False")
