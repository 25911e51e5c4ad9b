"""Compiled models kept on disk, so that the same model is compiled once.

A module is kept under the hash of all that it is made of: the model with its external data, the options, the target with its
features, and the sources and libraries that compile. It is an entry of the cache (`vtakit.cache`): one that is damaged, or may be
somebody else's, is compiled anew. A folder that cannot be written keeps nothing.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import vtakit
from vtakit.base.limits import MAX_ONNX_BYTES
from vtakit.base.reading import opened
from vtakit.cache import bounds
from vtakit.cache.entry import read
from vtakit.cache.place import cache_folder, is_off, trouble, warn
from vtakit.runtime.module_file import PackageError, parse, pieces
from vtakit.runtime.target import Image

if TYPE_CHECKING:
    import onnx

WORTH_SECONDS = 1.0  # of compilation, from which on a module is kept
_FILE = "module.vtak"
_LIBRARIES = ("llvmlite", "numpy", "onnx")
_WORD = b"location"  # names the file of external data in a model
_PIECE_BYTES = 1 << 20  # that are read at a time
_TICK_SECONDS = 1.0  # within which two changes of a file may have one time
_MOST_DIGESTS = 64
_DIGESTS: dict[tuple[int, ...], tuple[bytes, bool]] = {}  # of files, by where they lie and when they were changed
_SOURCES = ("base", "cache", "compiler", "hw", "runtime", "sim")


def place_of(model: "str | Path | onnx.ModelProto", *options: object) -> Path | None:
    """Return the entry of the module that a model and options make; None if nothing is to be kept or found.

    options : what decides the module beside the model; of mappings of arrays their elements count, of everything else its text
    """
    if is_off():
        return None
    try:
        return place_of_contents(_contents(model), *options)
    except (OSError, ValueError):  # what is wrong with the model is told when it is read
        return None


def place_of_contents(contents: Iterable[bytes], *options: object) -> Path | None:
    """Return the entry of the module that bytes and options make; None if nothing is to be kept or found."""
    if is_off():
        return None
    digest = hashlib.sha256(_compiler().encode())
    for part in contents:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    for option in options:
        text = _text(option).encode()
        digest.update(b"%d:%b" % (len(text), text))
    folder = cache_folder("models")
    try:
        why = trouble(folder)
    except OSError:  # it cannot be made
        return None
    if why:
        warn(f"compiled models are not kept: {why}")
    return None if why else folder / digest.hexdigest()[:32]


def found(place: Path) -> Image | None:
    """Return the module of an entry; None if there is none, or it is not as it was written."""
    data = read(place, _FILE)
    if data is None:
        return None
    with suppress(OSError):
        os.utime(place)  # it is used
    with suppress(PackageError, OSError), open(place / _FILE, "rb") as file:  # the graph is read from it, and its digest compared
        return parse(data, str(place / _FILE), file.fileno())
    return None


def keep(place: Path, image: Image, seconds: float, again: Callable[[], Path | None]) -> None:
    """Write a module to its entry if it took long to compile; entries that nobody has used for long make room.

    again : looks for the entry once more; it is another one if the model's files were changed meanwhile, and nothing is kept
    """
    if seconds >= WORTH_SECONDS and again() == place:
        digest = hashlib.sha256()
        bounds.keep(place, _FILE, pieces(image, digest=digest), digest)


def _contents(model: "str | Path | onnx.ModelProto") -> list[bytes]:
    """Return the identity of a model: its name and digest, or its bytes, and the digest of each file that it refers to."""
    if isinstance(model, str | Path):
        path = Path(model)
        digest, refers = _digest(path, "the model", MAX_ONNX_BYTES)
        parts = [path.stem.encode(), digest]
    else:
        if not hasattr(model, "SerializeToString"):
            raise ValueError("no model")
        data = model.SerializeToString(deterministic=True)
        parts, refers = [data], _WORD in data
    if refers:
        from vtakit.compiler.frontend.onnx.reader import external_files

        for file in external_files(model):
            parts += [str(file).encode(), _digest(file, "the model's data", follow=False)[0]]
    return parts


def _digest(path: Path, what: str, most_bytes: int | None = None, *, follow: bool = True) -> tuple[bytes, bool]:
    """Return the SHA-256 of a file, and whether `_WORD` is in it. Of a file that has not changed since, the former are taken.

    Raises as `opened` does.
    """
    with opened(path, what, most_bytes, follow=follow) as (stream, _):
        state = os.fstat(stream.fileno())
        key = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        if (known := _DIGESTS.get(key)) is not None:
            return known
        settled = time.time() - state.st_ctime > _TICK_SECONDS
        digest, refers, kept = hashlib.sha256(), False, len(_WORD) - 1
        place = bytearray(kept + _PIECE_BYTES)  # the end of the piece before, and a piece
        while count := stream.readinto(memoryview(place)[kept:]):
            digest.update(memoryview(place)[kept:kept + count])
            refers = refers or place.find(_WORD, 0, kept + count) >= 0
            place[:kept] = place[count:kept + count]
    found = digest.digest(), refers
    if settled:
        if len(_DIGESTS) >= _MOST_DIGESTS:
            _DIGESTS.clear()
        _DIGESTS[key] = found
    return found


def _text(option: object) -> str:
    if isinstance(option, Mapping):
        parts = sorted([f"{key!r}: {_text(value)}" for key, value in option.items()])
        return f"{{{', '.join(parts)}}}"
    if isinstance(option, np.ndarray):
        return f"{option.dtype}{option.shape}{hashlib.sha256(np.ascontiguousarray(option).tobytes()).hexdigest()}"
    return repr(option)


@cache
def _compiler() -> str:
    """Return the identity of the compiler: the versions of libraries, and a hash of this package's sources."""
    digest = hashlib.sha256()
    root = Path(vtakit.__file__).parent
    for folder in _SOURCES:
        for file in sorted((root / folder).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return "\0".join([vtakit.__version__, digest.hexdigest(), *map(_version, _LIBRARIES)])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
