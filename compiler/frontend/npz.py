"""Arrays of .npz files, by name: sizes are checked from headers before data are read, and no object is unpickled."""

import math
import tokenize
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from vtakit.base.archive import Archive, ArchiveError
from vtakit.base.errors import VtakitError
from vtakit.base.limits import LimitError, check_shape
from vtakit.base.reading import opened

Array = npt.NDArray[Any]
_SUFFIX = ".npy"
_ANY_SIZE = 1 << 62  # of the file, of which only what fits is read
_ONE_ARRAY = b"\x93NUMPY"  # how a .npy file begins


@dataclass(frozen=True, slots=True)
class Header:
    """Shape and type of an array in a file."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"

    @property
    def bytes(self) -> int:
        """Size of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


Fits = Callable[[str, Header], bool]


def read_npz(
    path: str | Path, what: str, fits: Fits, error: Callable[[str], VtakitError] = VtakitError,
) -> dict[str, Array]:
    """Return the arrays of a file by their names.

    what  : the file in messages
    fits  : tells from name and header whether an array is wanted; another one is there with its shape and type, and with zeros
            that take no memory, so that who wants it otherwise can say so
    error : makes what is raised

    Every header is checked: an archive's declared sizes, an array's shape against the size of its data, no objects. Raises
    `error` for a file that is damaged, of another kind, or no regular file.
    """
    with opened(path, what, _ANY_SIZE, error=error) as (stream, _):
        if stream.read(len(_ONE_ARRAY)) == _ONE_ARRAY:
            raise error(f"{what} {str(path)!r} has one array without a name: write it with numpy.savez")
        try:
            archive = Archive(stream)
            headers = {name: _header(archive, name) for name in archive.sizes}
            found = {}
            for name, header in headers.items():
                word = name.removesuffix(_SUFFIX)
                if fits(word, header):
                    found[word] = _data(archive, name, header)
                else:
                    found[word] = np.broadcast_to(np.zeros((), header.dtype), header.shape)
            return found
        except (ArchiveError, LimitError) as why:
            told = f"is not an .npz file of numbers, or it is damaged ({why}): write it with numpy.savez"
            raise error(f"{what} {str(path)!r} {told}") from None


def _header(archive: Archive, name: str) -> Header:
    """Return an array's shape and type, once they agree with the size of its data."""
    if not name.endswith(_SUFFIX):
        raise ArchiveError(f"its file {name!r:.60} is no array: a file of numpy.savez has files in {_SUFFIX} only")
    with archive.opened(name) as stream:
        found = _parsed(stream)
        begin = stream.tell()
    if found.dtype.hasobject or found.dtype.fields is not None or found.dtype.subdtype is not None:
        raise ArchiveError(f"its array {name!r:.60} is of {found.dtype}: objects and records are not read")
    if min(found.shape, default=0) < 0:
        raise ArchiveError(f"its array {name!r:.60} has the shape {list(found.shape)}: a size is at least 0")
    check_shape(found.shape, f"its array {name!r:.60}")
    if begin + found.bytes != archive.sizes[name]:
        raise ArchiveError(f"its array {name!r:.60} is {found.dtype}{list(found.shape)}, which is {found.bytes:,} bytes, and has "
                           f"{archive.sizes[name] - begin:,}")
    return found


def _parsed(stream: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ArchiveError(f"an array has version {version} of its format; known: 1.0 and 2.0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy about headers that Python 2 wrote
        try:
            shape, _, dtype = readers[version](stream)
        except (tokenize.TokenError, MemoryError, ValueError) as error:  # NumPy reads the header as Python text
            why = str(error).partition(". ")[0].partition("\n")[0]  # without its advice on pickles
            raise ArchiveError(f"the header of an array cannot be read: {why:.100}") from None
    return Header(tuple(int(size) for size in shape), dtype)


def _data(archive: Archive, name: str, header: Header) -> Array:
    with archive.opened(name) as stream:
        found: Array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1) or found.shape != header.shape:
            raise ArchiveError(f"its array {name!r:.60} has more data than its header says")
    return found
