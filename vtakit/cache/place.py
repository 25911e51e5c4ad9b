"""Place of the cache: the folder of each kind of entry, and the fallback where that cannot be used."""

import atexit
import os
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path

from vtakit.cache.trust import distrust, make_private

VARIABLE = "VTAKIT_CACHE"  # of the environment: a folder, or a word of `OFF`
OFF = ("off", "0")
LOG = ".log"  # ending of what a failed build said


class CacheWarning(RuntimeWarning):
    """The cache is not used; the message says why and what would cure that."""


def cache_folder(kind: str) -> Path:
    """Return the folder of one kind of entry: in the user's cache folder, or in the one that VTAKIT_CACHE names."""
    named = os.environ.get(VARIABLE, "")
    return (Path(named) if named and not is_off() else user_cache_path("vtakit")) / kind


def is_off() -> bool:
    """Return whether VTAKIT_CACHE says that compiled models are not to be kept."""
    return os.environ.get(VARIABLE, "") in OFF


def trouble(folder: Path) -> str:
    """Make the folder of a kind unless it is there, and return why no entry may be taken from it.

    An empty string if it is trusted. Raises `OSError` if it cannot be made.
    """
    make_private(folder)
    why = distrust(folder)
    return f"{why}; or name a folder of your own in {VARIABLE}" if why else ""


def warn(text: str) -> None:
    """Show a warning; Python shows each text once."""
    warnings.warn(text, CacheWarning, stacklevel=2)


@cache
def temporary_root() -> Path:
    """Return the folder that takes the place of the cache for this process. It goes when the process ends; logs stay."""
    root = Path(tempfile.mkdtemp(prefix="vtakit."))
    atexit.register(_tidy, root, os.getpid())
    return root


def _tidy(root: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork of it
        return
    for path in sorted(root.rglob("*"), reverse=True):
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif path.suffix != LOG:
                path.unlink()
    with suppress(OSError):
        root.rmdir()
