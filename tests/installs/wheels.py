"""Build the wheel of a clone, and once more by way of the source distribution, and check that both are whole."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

LIMIT_SECONDS = 600
_MADE = (".git", ".venv", "build", "dist", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
_TOOLS = "tools/bin/python"  # in the folder of the wheels
_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


class IncompleteError(Exception):
    """A distribution that lacks files of the package, or has others."""


def build_wheels(root: Path, folder: Path, python: str) -> Path:
    """Return the wheel of the tracked files of `root`, built in `folder`, where the clone is not touched."""
    clone = copy(root, folder / "clone")
    own = str(folder / _TOOLS)  # the system's Python may have no pip
    _call([python, "-m", "venv", str(folder / "tools")], folder)
    _call([own, "-m", "pip", "install", "--quiet", "setuptools>=77"], folder)
    wheel = _wheel(clone, folder / "direct", own)
    _call([own, "-c", _SDIST, str(folder)], clone)
    (source,) = folder.glob("vtakit-*.tar.gz")
    shutil.unpack_archive(source, folder / "source")
    (unpacked,) = (folder / "source").iterdir()
    wanted = package_files(root)
    for built in (wheel, _wheel(unpacked, folder / "through", own)):
        found = {name for name in zipfile.ZipFile(built).namelist() if name.startswith("vtakit/")}
        if found != wanted:
            raise IncompleteError(f"{built} lacks {sorted(wanted - found)} and has {sorted(found - wanted)} that is not tracked")
    return wheel


def tools_of(wheel: Path) -> str:
    """Return the Python, with pip, of the environment in which `build_wheels` built a wheel."""
    return str(wheel.parents[1] / _TOOLS)


def copy(root: Path, to: Path) -> Path:
    """Copy the files that git knows, links as links, as they are in the working tree."""
    for name in tracked(root):
        source, target = root / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.exists():
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    return to


def tracked(root: Path) -> list[str]:
    """Return the files that git knows, and those that it does not ignore; without git, all that is not made by tools."""
    if shutil.which("git") is None or not (root / ".git").exists():
        return sorted(str(path.relative_to(root)) for path in _walk(root))
    words = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS)
    return [name for name in done.stdout.split("\0") if name]


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_file() or path.is_symlink():
            yield path
        elif path.name not in _MADE and not path.name.endswith(".egg-info"):
            yield from _walk(path)


def package_files(root: Path) -> set[str]:
    """Return the files that a wheel must have: those in vtakit/ and behind its links."""
    links = {path.name for path in (root / "vtakit").iterdir() if path.is_symlink()}
    names = {name for name in tracked(root) if (root / name).exists() and not (root / name).is_symlink()}
    return {name for name in names if name.startswith("vtakit/")} | {
        f"vtakit/{name}" for name in names if name.partition("/")[0] in links
    }


def _wheel(source: Path, folder: Path, python: str) -> Path:
    _call([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)], source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _call(command: list[str], work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise IncompleteError(f"{' '.join(command)}: status {done.returncode}")
