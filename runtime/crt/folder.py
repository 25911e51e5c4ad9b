"""Writing an export into a folder: all files or none, and none over what somebody else wrote or changed."""

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import vtakit
from vtakit.hw.isa.errors import VtakitError
from vtakit.hw.isa.file import make_folder, unwritable, written_whole
from vtakit.hw.isa.reading import read_bytes

MANIFEST = "vtakit.json"  # lists the files that an export wrote, with the SHA-256 of each


def write(folder: str | Path, files: Mapping[str, bytes], about: Mapping[str, object]) -> None:
    """Write files, and a manifest of them with `about`.

    Raises VtakitError if the folder cannot be made or written, or has a file of one of these names that no export wrote, or that
    was changed since.
    """
    to = Path(folder)
    manifest = {**about, "vtakit": vtakit.__version__, "files": {name: _digest(data) for name, data in files.items()}}
    everything = {**files, MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()}
    check(to, everything)
    make_folder(to)
    with ExitStack() as all_or_none:
        for name, data in everything.items():
            file = all_or_none.enter_context(written_whole(to / name, "the export's file"))
            with unwritable(to / name, "the export's file"):
                file.write_bytes(data)


def check(folder: Path, names: Mapping[str, object]) -> None:
    """Refuse a folder in which one of the files would replace what no export wrote, or what was changed since."""
    if folder.exists() and not folder.is_dir():
        raise VtakitError(f"cannot export to {str(folder)!r}: {os.strerror(errno.ENOTDIR)}; name a folder")
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        raise VtakitError(f"cannot export to {str(folder)!r}: {os.strerror(errno.EACCES)}")
    ours = _written(folder)
    for name in names:
        path = folder / name
        if name == MANIFEST and ours:
            continue
        if not os.path.lexists(path):
            continue
        if name not in ours:
            raise VtakitError(f"cannot export to {str(folder)!r}: it has a {name!r} that no export wrote; name another folder")
        if path.is_symlink() or not path.is_file() or _digest(read_bytes(path, "the export's file")) != ours[name]:
            raise VtakitError(f"cannot export to {str(folder)!r}: its {name!r} was changed since the last export; move it away, "
                              "or name another folder")


def _written(folder: Path) -> dict[str, str]:
    """Names and digests of the files that the last export to a folder wrote; none if its manifest is none."""
    try:
        found = json.loads((folder / MANIFEST).read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
