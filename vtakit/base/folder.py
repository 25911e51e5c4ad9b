"""The folder of an export: all files of one export or none, and none over what somebody else wrote or changed."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.base.reading import read_bytes
from vtakit.base.writing import make_folder, unwritable

MANIFEST = "vtakit.json"  # lists the files that an export wrote, with the SHA-256 of each


def write(folder: str | Path, files: Mapping[str, bytes], about: Mapping[str, object]) -> None:
    """Write files, and a manifest of them with `about`; delete the files of the last export that this one does not have.

    After an error or an interrupt the folder is as it was.

    Raises VtakitError if the folder cannot be made or written, has a file of one of these names that no export wrote, or one of
    the last export that was changed since.
    """
    to = Path(folder)
    manifest = {**about, "vtakit": vtakit.__version__, "files": {name: _digest(data) for name, data in files.items()}}
    everything = {**files, MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()}
    replaced = check(to, everything)
    with _made(to), ExitStack() as stack:
        with unwritable(to, "the export"):
            stage = stack.enter_context(tempfile.TemporaryDirectory(dir=to, prefix=".vtakit."))
            new, old = Path(stage, "new"), Path(stage, "old")
            new.mkdir()
            old.mkdir()
        for name, data in everything.items():
            with unwritable(to / name, "the export's file"):
                (new / name).write_bytes(data)
        with unwritable(to, "the export"):
            _swap(to, new, old, everything, replaced)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and those above it, for a block; remove those that were not there if the block fails."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        make_folder(folder)
        yield
    except BaseException:
        with suppress(OSError):  # one that was not made, or that somebody else put a file into
            for each in missing:
                each.rmdir()
        raise


def _swap(to: Path, new: Path, old: Path, names: Iterable[str], replaced: Iterable[str]) -> None:
    """Move the files `replaced` from `to` to `old` and `names` from `new` to `to`; move all back if that fails."""
    try:
        for name in replaced:
            (to / name).replace(old / name)
        for name in names:
            (new / name).replace(to / name)
    except BaseException:
        for name in names:
            if not (new / name).exists():
                (to / name).replace(new / name)
        for path in old.iterdir():
            path.replace(to / path.name)
        raise


def check(folder: Path, names: Collection[str]) -> list[str]:
    """Return the files of the last export to a folder that one with files of these names replaces or deletes.

    Raises VtakitError if one of the files would replace what no export wrote, or the last export's were changed since.
    """
    if folder.exists() and not folder.is_dir():
        raise VtakitError(f"cannot export to {str(folder)!r}: {os.strerror(errno.ENOTDIR)}; name a folder")
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        raise VtakitError(f"cannot export to {str(folder)!r}: {os.strerror(errno.EACCES)}")
    last = _written(folder)
    found = [name for name in dict.fromkeys((*names, *last)) if os.path.lexists(folder / name)]
    for name in found:
        path = folder / name
        if name == MANIFEST and last:
            continue
        if name not in last:
            raise VtakitError(f"cannot export to {str(folder)!r}: it has a {name!r} that no export wrote; name another folder")
        if path.is_symlink() or not path.is_file() or _digest(read_bytes(path, "the export's file")) != last[name]:
            raise VtakitError(f"cannot export to {str(folder)!r}: its {name!r} was changed since the last export; move it away, "
                              "or name another folder")
    return found


def _written(folder: Path) -> dict[str, str]:
    """Return names and SHA-256 of the files that the last export to a folder wrote; none if its manifest is none."""
    try:
        found = json.loads(read_bytes(folder / MANIFEST, "the export's file"))["files"]
    except (VtakitError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {name: str(digest) for name, digest in found.items() if Path(name).name == name} if isinstance(found, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
