"""Built models are kept in a folder of bounded size: those that nobody has used for longest go first."""

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

LIMIT_BYTES = 2 << 30  # of one kind of models; one takes 1 to 10 MB
GRACE_SECONDS = 3600.0  # in which a model that was looked up is surely loaded, or its test done
VARIABLE = "VTAKIT_CACHE"  # of the environment: a folder, or a word of `OFF`
OFF = ("off", "0")
_GONE = ".gone"  # ending of a folder that is being deleted


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """A model: when it was last looked up (seconds since 1970), its bytes, its folder."""

    used: float
    size_bytes: int
    folder: Path


def cache_folder(kind: str) -> Path:
    """Where built models of a kind are kept: in the user's folder for such, or in that which VTAKIT_CACHE names."""
    named = os.environ.get(VARIABLE, "")
    return (Path(named) if named and not is_off() else user_cache_path("vtakit")) / kind


def is_off() -> bool:
    """Whether VTAKIT_CACHE says that what can be made anew at every call is not to be kept."""
    return os.environ.get(VARIABLE, "") in OFF


def models(root: Path) -> list[Kept]:
    """What is kept in a folder, least recently used first; what vanishes meanwhile is left out."""
    found = []
    for folder in root.glob("*"):
        with suppress(OSError):
            if folder.is_dir() and not folder.suffix:
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                found.append(Kept(folder.stat().st_mtime, size, folder))
    return sorted(found)


def lately_used(folder: Path) -> bool:
    """Whether a model was looked up so lately that nobody deletes it now, nor before it is loaded."""
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime < GRACE_SECONDS / 2
    return False


def prune(root: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Delete the models that nobody has used for longest, until the others have at most so many bytes.

    One that was looked up in the last hour, or whose lock somebody holds, stays. A process that has loaded one keeps it.
    """
    for path in root.glob(f"*{_GONE}"):  # of a process that was killed
        shutil.rmtree(path, ignore_errors=True)
    found = models(root)
    total = sum(model.size_bytes for model in found)
    for model in found:
        if total <= limit_bytes:
            return
        with suppress(Timeout, OSError), FileLock(f"{model.folder}.lock", timeout=0):
            if time.time() - model.folder.stat().st_mtime >= GRACE_SECONDS:
                gone = model.folder.with_name(model.folder.name + _GONE)
                model.folder.rename(gone)  # at once, so that nobody finds half a model
                shutil.rmtree(gone, ignore_errors=True)
                total -= model.size_bytes
